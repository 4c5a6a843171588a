//! A machine that sleeps: by the clocks of its worker the time is over, and no timer has run.
//! A process of its own, since all of its workers sleep.
#![allow(
    clippy::unwrap_used,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "a test fails by panicking, and uses a part of the stand-in"
)]

#[path = "shell/fake.rs"]
mod fake;

use escapement_sdk::{StepContext, StepError, testing};
use fake::{Fake, PATIENCE, Running, patient};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

#[tokio::test]
async fn a_worker_whose_machine_slept_for_longer_than_its_lease_ends_at_once_what_runs() {
    let mut fake = Fake::start().await;
    let (events, mut told) = mpsc::unbounded_channel();
    let worker = fake
        .worker()
        .handler("wait", move |_: Value, context: StepContext| {
            let events = events.clone();
            async move {
                events.send("runs").unwrap();
                context.cancelled().await;
                events.send("ends").unwrap();
                Ok::<_, StepError>(json!({}))
            }
        });
    let _running = Running::start(worker);
    let mut stream = fake.welcome().await;
    stream.assign(1, "wait", &json!({}), 600_000).await;
    assert_eq!(patient(told.recv()).await.unwrap(), "runs");
    let woken = Instant::now();
    // The limit of the step is far away; the lease of 10 s is over.
    testing::sleep_machine(Duration::from_secs(60));
    assert_eq!(patient(told.recv()).await.unwrap(), "ends");
    assert!(woken.elapsed() < PATIENCE / 10, "{:?}", woken.elapsed());
}
