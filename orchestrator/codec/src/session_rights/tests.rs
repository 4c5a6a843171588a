//! What is taken out of a worker's messages.

use super::restrict;
use escapement_access::{Denial, Grant, NamespaceScope, Pattern, Principal, Role};
use escapement_wire::worker::v1;
use escapement_wire::worker::v1::session_request::Message;

fn principal() -> Principal {
    let grant = Grant {
        actions: vec![Pattern::new("billing.*").unwrap()],
        worker_ids: vec![Pattern::new("billing-*").unwrap()],
        max_in_flight: Some(8),
        ..Grant::new([Role::Worker].into_iter().collect(), NamespaceScope::All)
    };
    Principal::anonymous(vec![grant])
}

fn actions(names: &[&str]) -> Vec<v1::ActionSpec> {
    let spec = |name: &&str| v1::ActionSpec {
        name: (*name).to_owned(),
        ..Default::default()
    };
    names.iter().map(spec).collect()
}

fn hello(worker_id: &str, names: &[&str]) -> v1::SessionRequest {
    let hello = v1::Hello {
        worker_id: worker_id.to_owned(),
        actions: actions(names),
        max_in_flight: 100,
        ..Default::default()
    };
    v1::SessionRequest {
        seq: 1,
        message: Some(Message::Hello(hello)),
    }
}

#[test]
fn a_hello_keeps_what_is_permitted_and_hears_of_the_rest() {
    let mut request = hello("billing-1", &["billing.charge", "echo", "billing.refund"]);
    let refused = restrict(&mut request, &principal()).unwrap();
    let names: Vec<&str> = refused.iter().map(|refusal| refusal.name.as_str()).collect();
    assert_eq!(names, ["echo"]);
    assert!(refused[0].reason.starts_with("ACTION_NOT_PERMITTED"));
    let Some(Message::Hello(hello)) = request.message else {
        panic!("it is one still");
    };
    assert_eq!(hello.actions, actions(&["billing.charge", "billing.refund"]));
    assert_eq!(hello.max_in_flight, 8);
}

#[test]
fn a_worker_id_outside_of_the_patterns_ends_the_session() {
    let refused = restrict(&mut hello("other", &[]), &principal());
    let worker_id = "other".to_owned();
    assert_eq!(refused, Err(Denial::WorkerIdNotPermitted { worker_id }));
}

#[test]
fn later_registrations_and_levels_are_held_to_the_same() {
    let mut request = v1::SessionRequest {
        seq: 2,
        message: Some(Message::RegisterActions(v1::RegisterActions {
            revision: 1,
            actions: actions(&["echo", "billing.charge"]),
        })),
    };
    restrict(&mut request, &principal()).unwrap();
    let Some(Message::RegisterActions(message)) = request.message else {
        panic!("it is one still");
    };
    assert_eq!(message.actions, actions(&["billing.charge"]));
    let mut request = v1::SessionRequest {
        seq: 3,
        message: Some(Message::Capacity(v1::Capacity {
            max_in_flight: 9,
            ..Default::default()
        })),
    };
    restrict(&mut request, &principal()).unwrap();
    let Some(Message::Capacity(message)) = request.message else {
        panic!("it is one still");
    };
    assert_eq!(message.max_in_flight, 8);
}

#[test]
fn without_a_policy_nothing_is_taken_out() {
    let before = hello("any", &["echo", ""]);
    let mut request = before.clone();
    assert_eq!(restrict(&mut request, &Principal::without_policy()), Ok(vec![]));
    assert_eq!(request, before);
}
