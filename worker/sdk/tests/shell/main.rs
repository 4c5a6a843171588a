//! A real worker against a scripted orchestrator over TCP. Judges nothing that the pure session's stories
//! judge already.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "a test fails by panicking"
)]

mod blocking;
mod fake;
mod several;

use escapement_sdk::{Action, SessionEvent, StepContext, StepError, WorkerError};
use escapement_wire::worker::v1::session_request::Message as Request;
use fake::{Fake, Running, patient, token};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};

#[derive(serde::Deserialize)]
struct Greet {
    name: String,
}

async fn greet(input: Greet, context: StepContext) -> Result<Value, StepError> {
    context.warn(StepError::new("LATE", "it is late"));
    Ok(json!({"greeting": format!("hello {}", input.name), "attempt": context.attempt()}))
}

async fn answer(output: Value) -> Result<Value, StepError> {
    Ok(output)
}

#[tokio::test]
async fn a_handler_runs_and_its_outcome_arrives() {
    let mut fake = Fake::start().await;
    let (events, mut told) = mpsc::unbounded_channel();
    let worker = fake
        .worker()
        .label("zone", "a")
        .handler("greet", greet)
        .on_session(move |event| {
            let _ = events.send(matches!(event, SessionEvent::Connected { .. }));
        });
    let _running = Running::start(worker);
    let (mut stream, hello) = fake.accept().await;
    assert_eq!(
        (hello.worker_id.as_str(), hello.labels["zone"].as_str()),
        ("under-test", "a")
    );
    assert_eq!(hello.actions[0].name, "greet");
    stream.welcome().await;
    stream.assign(1, "greet", &json!({"name": "Ada"}), 60_000).await;
    assert_eq!(stream.hear_acks().await.started, [token(1)]);
    let (output, n_warnings) = stream.hear_success().await;
    assert_eq!(
        (output, n_warnings),
        (json!({"greeting": "hello Ada", "attempt": 1}), 1)
    );
    assert!(patient(told.recv()).await.unwrap());
}

#[tokio::test]
async fn what_a_handler_does_wrong_fails_its_own_step_only() {
    let mut fake = Fake::start().await;
    let worker = fake
        .worker()
        .handler("greet", greet)
        .handler("echo", |input: Value, _: StepContext| answer(input))
        .handler("list", |_: Value, _: StepContext| answer(json!([1])))
        .handler("large", |_: Value, _: StepContext| {
            answer(json!({ "text": "x".repeat(2 << 20) }))
        })
        .handler("panic", |_: Value, context: StepContext| async move {
            assert_eq!(context.attempt(), 99, "not this one");
            answer(json!({})).await
        })
        .blocking_handler(
            "blocking_panic",
            |_: Value, _: StepContext| -> Result<Value, StepError> { panic!("on a blocking thread") },
        );
    let _running = Running::start(worker);
    let mut stream = fake.welcome().await;

    stream.assign(1, "panic", &json!({}), 60_000).await;
    let (code, message, context) = stream.hear_failure().await;
    assert_eq!(
        (code.as_str(), message.contains("\"panic\"")),
        ("UNKNOWN_ERROR", true)
    );
    assert!(
        context["panic"].as_str().unwrap().contains("not this one"),
        "{context}"
    );

    stream.assign(2, "blocking_panic", &json!({}), 60_000).await;
    let (code, _, context) = stream.hear_failure().await;
    assert_eq!(
        (code.as_str(), &context["panic"]),
        ("UNKNOWN_ERROR", &json!("on a blocking thread"))
    );

    stream.assign(3, "greet", &json!({"name": 7}), 60_000).await;
    let (code, message, _) = stream.hear_failure().await;
    assert_eq!(
        (code.as_str(), message.contains("at name")),
        ("INVALID_PAYLOAD", true),
        "{message}"
    );

    stream.assign(4, "large", &json!({}), 60_000).await;
    assert_eq!(stream.hear_failure().await.0, "RESOURCE_EXHAUSTED");

    stream.assign(5, "list", &json!({}), 60_000).await;
    let (code, message, _) = stream.hear_failure().await;
    assert_eq!(
        (code.as_str(), message.contains("\"list\"")),
        ("UNKNOWN_ERROR", true),
        "{message}"
    );

    stream.assign(6, "echo", &json!({"still": "here"}), 60_000).await;
    assert_eq!(stream.hear_success().await.0, json!({"still": "here"}));
}

#[tokio::test]
async fn a_cancel_reaches_the_handler_and_is_answered_stopped() {
    let mut fake = Fake::start().await;
    let (reached, mut told) = mpsc::unbounded_channel();
    let polite = move |_: Value, context: StepContext| {
        let reached = reached.clone();
        async move {
            context.cancelled().await;
            let _ = reached.send(context.is_cancelled());
            answer(json!({})).await
        }
    };
    let stubborn = |_: Value, _: StepContext| async {
        std::future::pending::<()>().await;
        answer(json!({})).await
    };
    let worker = fake
        .worker()
        .handler("polite", polite)
        .handler("stubborn", stubborn);
    let _running = Running::start(worker);
    let mut stream = fake.welcome().await;
    for (name, action) in [(1, "polite"), (2, "stubborn")] {
        stream.assign(name, action, &json!({}), 60_000).await;
        assert_eq!(stream.hear_acks().await.started, [token(name)]);
        stream.cancel(name, 100).await;
        assert_eq!(stream.hear_acks().await.stopped, [token(name)]);
    }
    assert!(patient(told.recv()).await.unwrap());
}

#[tokio::test]
async fn a_deadline_reaches_the_handler_without_the_orchestrator() {
    let mut fake = Fake::start().await;
    let (reached, mut told) = mpsc::unbounded_channel();
    let handler = move |_: Value, context: StepContext| {
        let reached = reached.clone();
        async move {
            assert!(context.time_left() <= Duration::from_millis(50));
            context.cancelled().await;
            let _ = reached.send(context.time_left());
            answer(json!({})).await
        }
    };
    let _running = Running::start(fake.worker().handler("wait", handler));
    let mut stream = fake.welcome().await;
    stream.assign(1, "wait", &json!({}), 50).await;
    stream.hear_acks().await;
    assert_eq!(patient(told.recv()).await.unwrap(), Duration::ZERO);
    // The orchestrator's own timer cancels it; its success is never heard.
    stream.cancel(1, 0).await;
    assert_eq!(stream.hear_acks().await.stopped, [token(1)]);
}

#[tokio::test]
async fn a_graceful_stop_finishes_what_runs_between_drain_and_goodbye() {
    let mut fake = Fake::start().await;
    let gate = Arc::new(Notify::new());
    let opener = gate.clone();
    let handler = move |_: Value, _: StepContext| {
        let gate = gate.clone();
        async move {
            gate.notified().await;
            answer(json!({"done": true})).await
        }
    };
    let running = Running::start(fake.worker().handler("gated", handler));
    let mut stream = fake.welcome().await;
    stream.assign(1, "gated", &json!({}), 60_000).await;
    stream.hear_acks().await;
    let end = running.stop();
    assert!(matches!(stream.hear().await, Some(Request::Drain(_))));
    stream.assign(2, "gated", &json!({}), 60_000).await;
    assert_eq!(stream.hear_acks().await.rejected[0].attempt_token, token(2));
    opener.notify_one();
    assert_eq!(stream.hear_success().await.0, json!({"done": true}));
    stream.let_go().await;
    patient(end).await.unwrap().unwrap();
}

#[tokio::test]
async fn heartbeats_go_on_while_the_handlers_runtime_is_blocked() {
    let mut fake = Fake::start().await;
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = std::sync::Mutex::new(blocked);
    let worker = fake.worker().handler("block", move |_: Value, _: StepContext| {
        // Blocks the only thread of the handlers' runtime.
        let _ = blocked.lock().unwrap().recv();
        answer(json!({}))
    });
    let handlers = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(worker.run_until(std::future::pending()))
    });
    let mut stream = fake.welcome().await;
    stream.assign(1, "block", &json!({}), 60_000).await;
    stream.hear_acks().await;
    let before = stream.heartbeats;
    while stream.heartbeats < before + 10 {
        assert!(
            tokio::time::timeout(Duration::from_millis(50), stream.hear())
                .await
                .is_err()
        );
    }
    release.send(()).unwrap();
    stream.hear_success().await;
    stream.supersede().await;
    // Joined on another thread: the scripted orchestrator needs this one.
    let end = patient(tokio::task::spawn_blocking(move || handlers.join().unwrap()))
        .await
        .unwrap();
    assert!(matches!(end, Err(WorkerError::Superseded)));
}

#[tokio::test]
async fn what_cannot_work_is_refused_before_anything_is_opened() {
    use escapement_sdk::Worker;
    let refusal = |builder: escapement_sdk::WorkerBuilder| match builder.build() {
        Err(WorkerError::InvalidConfiguration(detail)) => detail,
        other => panic!("{other:?}"),
    };
    let exposed = Worker::builder("http://orchestrator:7400")
        .token("secret")
        .handler("greet", greet);
    assert!(refusal(exposed).contains("a token is not sent unencrypted"));
    let none = Worker::builder("http://127.0.0.1:7400");
    assert!(refusal(none).contains("handlers"));
    let twice = Worker::builder("http://127.0.0.1:7400")
        .handler("greet", greet)
        .handler("greet", greet);
    assert!(refusal(twice).contains("two handlers"));
    let waits = Worker::builder("http://127.0.0.1:7400").handler_with(Action::new("greet").waits(), greet);
    assert!(refusal(waits).contains("max_in_flight of its own"));
}
