//! Handlers that block their threads.

use crate::fake::{Fake, Running, token};
use escapement_sdk::{AttemptEvent, StepContext, StepError};
use serde_json::{Value, json};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

#[test]
fn blocking_handlers_run_although_the_blocking_threads_of_the_runtime_are_all_taken() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let (release, blocked) = mpsc::channel::<()>();
    runtime.spawn_blocking(move || blocked.recv());
    runtime.block_on(async {
        let mut fake = Fake::start().await;
        let worker = fake
            .worker()
            .blocking_handler("block", |_: Value, _: StepContext| {
                // The runtime of the caller is at hand, as on its own threads.
                let inside = tokio::runtime::Handle::try_current().is_ok();
                let thread = std::thread::current();
                Ok(json!({ "thread": thread.name(), "inside": inside }))
            });
        let _running = Running::start(worker);
        let mut stream = fake.welcome().await;
        stream.assign(1, "block", &json!({}), 60_000).await;
        let (output, _) = stream.hear_success().await;
        assert!(
            output["thread"]
                .as_str()
                .unwrap()
                .starts_with("escapement-handler"),
            "{output}"
        );
        assert_eq!(output["inside"], true);
    });
    drop(release);
    runtime.shutdown_background();
}

#[tokio::test]
async fn a_blocking_handler_that_ignores_its_abortion_keeps_its_slot_until_it_ends() {
    let mut fake = Fake::start().await;
    let (release, blocked) = mpsc::channel::<()>();
    let blocked = Mutex::new(blocked);
    let handler = move |_: Value, _: StepContext| -> Result<Value, StepError> {
        let _ = blocked.lock().unwrap().recv();
        Ok(json!({}))
    };
    let worker = fake.worker().max_in_flight(1).blocking_handler("block", handler);
    let _running = Running::start(worker);
    let mut stream = fake.welcome().await;
    stream.assign(1, "block", &json!({}), 60_000).await;
    assert_eq!(stream.hear_acks().await.started, [token(1)]);
    stream.cancel(1, 1).await;
    // Five heartbeats later the abortion is long past, and nothing was answered.
    let before = stream.heartbeats;
    while stream.heartbeats < before + 5 {
        let heard = tokio::time::timeout(Duration::from_millis(50), stream.hear()).await;
        assert!(heard.is_err(), "{heard:?}");
    }
    stream.assign(2, "block", &json!({}), 60_000).await;
    assert_eq!(stream.hear_acks().await.rejected[0].attempt_token, token(2));
    release.send(()).unwrap();
    assert_eq!(stream.hear_acks().await.stopped, [token(1)]);
    release.send(()).unwrap();
    stream.assign(3, "block", &json!({}), 60_000).await;
    assert_eq!(stream.hear_acks().await.started, [token(3)]);
    stream.hear_success().await;
}

#[tokio::test]
async fn the_time_that_a_handler_took_begins_before_the_handler_does() {
    let mut fake = Fake::start().await;
    let ((ends, ended), (tells, told)) = (mpsc::channel(), mpsc::channel());
    let ended = Mutex::new(ended);
    let handler = move |_: Value, _: StepContext| -> Result<Value, StepError> {
        let began = Instant::now();
        std::thread::park_timeout(Duration::from_millis(20));
        let _ = ends.send(began.elapsed());
        Ok(json!({}))
    };
    let worker = fake.worker().blocking_handler("wait", handler);
    let worker = worker.on_attempt(move |event| match event {
        // The thread of the sessions continues once the handler has ended.
        AttemptEvent::Started { .. } => tells.send(ended.lock().unwrap().recv().unwrap()).unwrap(),
        AttemptEvent::Ended { took, .. } => tells.send(took).unwrap(),
        _ => {}
    });
    let _running = Running::start(worker);
    let mut stream = fake.welcome().await;
    stream.assign(1, "wait", &json!({}), 60_000).await;
    stream.hear_success().await;
    let (waited, took) = (told.recv().unwrap(), told.recv().unwrap());
    assert!(took >= waited, "{took:?} of {waited:?}");
}
