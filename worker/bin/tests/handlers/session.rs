//! The program in a session with a stand-in for the orchestrator: announced, given a step, asked to stop.

use super::fake::Fake;
use escapement_wire::worker::v1::session_request::Message as FromWorker;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

#[tokio::test]
async fn a_worker_announces_its_session_runs_a_step_and_stops_cleanly() {
    let mut fake = Fake::start().await;
    let mut worker = Command::new(env!("CARGO_BIN_EXE_worker"))
        .args(["--orchestrator", &fake.address, "--worker-id", "w1"])
        .env("ESCAPEMENT_TOKEN", "t0ken")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let (mut stream, _) = fake.accept().await;
    assert_eq!(stream.authorization.as_deref(), Some("Bearer t0ken"));
    stream.welcome().await;
    let mut lines = BufReader::new(worker.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap();
    let announced: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        announced,
        json!({ "event": "connected", "orchestrator": fake.address, "worker_id": "w1" })
    );
    let payload = json!({ "hello": [1, "two"] });
    stream.assign(1, "echo", &payload, 60_000).await;
    assert_eq!(stream.hear_success().await.0, payload);
    let id = Pid::from_raw(worker.id().unwrap().try_into().unwrap()).unwrap();
    kill_process(id, Signal::TERM).unwrap();
    assert!(matches!(stream.hear().await, Some(FromWorker::Drain(_))));
    stream.let_go().await;
    assert_eq!(worker.wait().await.unwrap().code(), Some(0));
}
