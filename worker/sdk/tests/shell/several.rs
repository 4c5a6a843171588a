//! Tokens, levels, and more than one orchestrator, over TCP.

use crate::fake::{Fake, Running, patient, token};
use crate::greet;
use escapement_sdk::{Worker, WorkerBuilder, WorkerError};
use escapement_wire::worker::v1::HeartbeatAck;
use escapement_wire::worker::v1::session_request::Message as Request;
use escapement_wire::worker::v1::session_response::Message as Response;
use serde_json::json;

#[tokio::test]
async fn a_token_goes_with_every_call_and_stands_in_no_text() {
    let mut fake = Fake::start().await;
    let builder = fake.worker().handler("greet", greet).token("s3cret");
    assert!(!format!("{builder:?}").contains("s3cret"));
    let worker = builder.build().unwrap();
    assert!(!format!("{worker:?}").contains("s3cret"));
    let running = tokio::spawn(worker.run_until(std::future::pending()));
    for _ in 0..2 {
        let (stream, _) = fake.accept().await;
        assert_eq!(stream.authorization.as_deref(), Some("Bearer s3cret"));
    }
    running.abort();

    let mut fake = Fake::start().await;
    let _running = Running::start(fake.worker().handler("greet", greet));
    assert_eq!(fake.accept().await.0.authorization, None);
}

#[test]
fn a_token_that_no_header_can_carry_is_refused() {
    for token in ["", "two words", "line\nbreak", "schlüssel"] {
        let built = Worker::builder("http://127.0.0.1:1")
            .handler("greet", greet)
            .token(token)
            .build();
        assert!(
            matches!(built, Err(WorkerError::InvalidConfiguration(_))),
            "{token:?}"
        );
    }
}

#[tokio::test]
async fn a_worker_serves_two_orchestrators_and_leaves_the_one_that_is_no_peer_any_more() {
    let (mut a, mut b) = (Fake::start().await, Fake::start().await);
    let running = Running::start(a.worker().token("t").handler("greet", greet));
    let (mut at_a, hello_a) = a.accept().await;
    at_a.welcome_with_peers(&[&b.address, &a.address]).await;
    let (mut at_b, hello_b) = b.accept().await;
    assert_eq!(at_b.authorization.as_deref(), Some("Bearer t"));
    assert_eq!(
        (hello_a.instance_id, hello_a.hello_number + 1),
        (hello_b.instance_id, hello_b.hello_number)
    );
    at_b.welcome().await;
    for (stream, name) in [(&mut at_a, 1), (&mut at_b, 2)] {
        stream
            .assign(name, "greet", &json!({"name": "Ada"}), 60_000)
            .await;
        assert_eq!(stream.hear_acks().await.started, [token(name)]);
        assert_eq!(stream.hear_success().await.0["greeting"], "hello Ada");
    }

    // One link breaks; the other does not notice.
    drop(at_b);
    let (mut at_b, hello) = b.accept().await;
    at_b.welcome().await;
    for _ in hello.in_flight {
        // Its acknowledgement was lost with the link.
        at_b.hear_success().await;
    }
    at_b.assign(5, "greet", &json!({"name": "Di"}), 60_000).await;
    assert_eq!(at_b.hear_success().await.0["greeting"], "hello Di");
    at_a.assign(3, "greet", &json!({"name": "Bea"}), 60_000).await;
    assert_eq!(at_a.hear_success().await.0["greeting"], "hello Bea");

    let peers = HeartbeatAck {
        n: 0,
        peers: vec![a.address.clone()],
    };
    at_a.say(Response::HeartbeatAck(peers)).await;
    assert!(matches!(at_b.hear().await, Some(Request::Drain(_))));
    at_b.let_go().await;

    at_a.assign(4, "greet", &json!({"name": "Cy"}), 60_000).await;
    assert_eq!(at_a.hear_success().await.0["greeting"], "hello Cy");
    let end = running.stop();
    assert!(matches!(at_a.hear().await, Some(Request::Drain(_))));
    at_a.let_go().await;
    patient(end).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_handle_changes_levels_and_actions_before_and_while_the_worker_runs() {
    let mut fake = Fake::start().await;
    let builder: WorkerBuilder = fake.worker().handler("greet", greet).handler("other", greet);
    let worker = builder.build().unwrap();
    let handle = worker.handle();
    handle.set_capacity(3).unwrap();
    let _running = tokio::spawn(worker.run_until(std::future::pending()));
    let (mut stream, hello) = fake.accept().await;
    stream.welcome().await;
    let Some(Request::Capacity(first)) = stream.hear().await else {
        panic!("a changed level is told after Welcome")
    };
    assert_eq!(
        (hello.max_in_flight.max(3), first.max_in_flight),
        (hello.max_in_flight, 3)
    );

    handle.set_action_capacity("greet", 0).unwrap();
    let Some(Request::Capacity(second)) = stream.hear().await else {
        panic!("a level was changed")
    };
    assert!(second.revision > first.revision && second.per_action["greet"] == 0);
    stream.assign(1, "greet", &json!({"name": "Ada"}), 60_000).await;
    assert_eq!(stream.hear_acks().await.rejected.len(), 1);

    handle.set_actions_enabled(&["other"], false).unwrap();
    let Some(Request::RegisterActions(actions)) = stream.hear().await else {
        panic!("the actions were changed")
    };
    assert_eq!((actions.revision, actions.actions.len()), (1, 1));

    let refused = [
        handle.set_capacity(4_097),
        handle.set_action_capacity("missing", 1),
        handle.set_actions_enabled(&["greet", "missing"], false),
    ];
    assert!(
        refused
            .iter()
            .all(|refused| matches!(refused, Err(WorkerError::InvalidConfiguration(_))))
    );
}
