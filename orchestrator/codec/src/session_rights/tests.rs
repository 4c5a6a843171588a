//! What is taken out of a worker's messages.

use super::SessionRights;
use escapement_access::{Denial, Grant, NamespaceScope, Pattern, Principal, Role};
use escapement_wire::worker::v1;
use escapement_wire::worker::v1::session_request::Message;
use std::sync::Arc;

fn rights() -> SessionRights {
    SessionRights::new(Arc::new(principal("billing.*", "billing-*")))
}

fn principal(actions: &str, worker_ids: &str) -> Principal {
    let grant = Grant {
        actions: vec![Pattern::new(actions).unwrap()],
        worker_ids: vec![Pattern::new(worker_ids).unwrap()],
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
    let refused = rights().restrict(&mut request).unwrap();
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
    let refused = rights().restrict(&mut hello("other", &[]));
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
    rights().restrict(&mut request).unwrap();
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
    rights().restrict(&mut request).unwrap();
    let Some(Message::Capacity(message)) = request.message else {
        panic!("it is one still");
    };
    assert_eq!(message.max_in_flight, 8);
}

#[test]
fn without_a_policy_nothing_is_taken_out() {
    let before = hello("any", &["echo", ""]);
    let mut request = before.clone();
    let mut rights = SessionRights::new(Arc::new(Principal::without_policy()));
    assert_eq!(rights.restrict(&mut request), Ok(vec![]));
    assert_eq!(request, before);
}

#[test]
fn a_session_that_has_what_other_rules_do_not_give_is_told_what() {
    let judge = |rights: &mut SessionRights, actions, worker_ids| {
        let judged = rights.judge_again(Arc::new(principal(actions, worker_ids)));
        judged.map_err(|denial| denial.reason())
    };
    let mut rights = rights();
    rights
        .restrict(&mut hello("billing-1", &["billing.charge"]))
        .unwrap();
    assert_eq!(judge(&mut rights, "*", "*"), Ok(()));
    assert_eq!(judge(&mut rights, "*", "other-*"), Err("WORKER_ID_NOT_PERMITTED"));
    assert_eq!(
        judge(&mut rights, "billing.refund", "*"),
        Err("ACTION_NOT_PERMITTED")
    );
    assert_eq!(judge(&mut rights, "billing.charge", "*"), Ok(()));
    // What it registers is held to what holds now.
    let mut request = v1::SessionRequest {
        seq: 2,
        message: Some(Message::RegisterActions(v1::RegisterActions {
            revision: 1,
            actions: actions(&["billing.refund"]),
        })),
    };
    rights.restrict(&mut request).unwrap();
    let Some(Message::RegisterActions(message)) = request.message else {
        panic!("it is one still");
    };
    assert!(message.actions.is_empty());
    assert_eq!(judge(&mut rights, "other", "*"), Ok(()), "it offers nothing");
}

/// Returns an action that waits, for so many at a time.
fn waiting(name: &str, max_in_flight: u32) -> v1::ActionSpec {
    v1::ActionSpec {
        name: name.to_owned(),
        max_in_flight,
        waits: true,
        ..Default::default()
    }
}

fn register(revision: u64, actions: Vec<v1::ActionSpec>) -> v1::SessionRequest {
    let message = v1::RegisterActions { revision, actions };
    v1::SessionRequest {
        seq: 2,
        message: Some(Message::RegisterActions(message)),
    }
}

/// Returns the levels of the actions of a registration, as they are let through.
fn levels(rights: &mut SessionRights, revision: u64, actions: Vec<v1::ActionSpec>) -> Vec<(String, u32)> {
    let mut request = register(revision, actions);
    rights.restrict(&mut request).unwrap();
    let Some(Message::RegisterActions(message)) = request.message else {
        panic!("it is one still");
    };
    let actions = message.actions.into_iter();
    actions
        .map(|action| (action.name, action.max_in_flight))
        .collect()
}

#[test]
fn actions_that_wait_have_together_what_the_credentials_give() {
    let mut rights = rights();
    let named = |levels: &[(&str, u32)]| -> Vec<(String, u32)> {
        levels
            .iter()
            .map(|(name, level)| ((*name).to_owned(), *level))
            .collect()
    };
    let offered = ["billing.a", "billing.b", "billing.c"].map(|name| waiting(name, 6));
    let mut request = hello("billing-1", &["billing.charge"]);
    let Some(Message::Hello(said)) = &mut request.message else {
        panic!("it is one");
    };
    said.actions.extend(offered.clone());
    let refused = rights.restrict(&mut request).unwrap();
    assert_eq!(refused.len(), 1);
    assert!(refused[0].reason.starts_with("LIMIT_EXCEEDED"), "{refused:?}");
    let Some(Message::Hello(said)) = request.message else {
        panic!("it is one still");
    };
    let levels_said: Vec<u32> = said.actions.iter().map(|action| action.max_in_flight).collect();
    assert_eq!(levels_said, [0, 6, 2]);

    let given = levels(&mut rights, 5, offered.to_vec());
    assert_eq!(given, named(&[("billing.a", 6), ("billing.b", 2)]));
    // One that is too old for the engine changes nothing here either.
    levels(&mut rights, 4, vec![waiting("billing.c", 8)]);
    let mut request = v1::SessionRequest {
        seq: 3,
        message: Some(Message::Capacity(v1::Capacity {
            revision: 1,
            max_in_flight: 1,
            per_action: ["billing.a", "billing.b", "billing.charge"]
                .map(|name| (name.to_owned(), 100))
                .into(),
        })),
    };
    rights.restrict(&mut request).unwrap();
    let Some(Message::Capacity(message)) = request.message else {
        panic!("it is one still");
    };
    let mut given: Vec<(String, u32)> = message.per_action.into_iter().collect();
    given.sort();
    assert_eq!(
        given,
        named(&[("billing.a", 6), ("billing.b", 2), ("billing.charge", 8)])
    );
    // An action that waits and names no level stays as it is: the engine refuses it.
    assert_eq!(
        levels(&mut rights, 6, vec![waiting("billing.a", 0)]),
        named(&[("billing.a", 0)])
    );
}
