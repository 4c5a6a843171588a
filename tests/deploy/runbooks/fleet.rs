//! Alerts of the workers.

use super::machine::Machine;
use super::page::blocks;
use crate::stage::LIMIT;
use escapement_tests::plans::{StepWords, WORK, step};
use escapement_tests::{ScriptedWorker, wait_for};
use escapement_wire::v1::audit_entry::Event;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::{AuditEntry, ListAuditEntriesRequest};
use serde_json::json;
use std::time::Duration;

const SUSPECT: &str = r#"escapement_worker_sessions{state="suspect"}"#;
const ACTIVE: &str = r#"escapement_worker_sessions{state="active"}"#;
const LOST: &str = "escapement_workers_lost_total";

/// Starts the worker of the unit and kills it with a step in its hands, of whose start it has told: one without work is gone at once,
/// and a step of which nothing is known is another one's.
async fn kill_a_worker(machine: &mut Machine) {
    machine.set("worker", "ESCAPEMENT_WORKER_ID=of-the-unit\n");
    machine.systemctl("start escapement-worker").await;
    let execution_id = machine
        .submit(step(0, "delay").payload(json!({ "ms": 60_000 })))
        .await;
    let has_started = async || {
        let ask = ListAuditEntriesRequest {
            execution_id: execution_id.clone(),
            ..ListAuditEntriesRequest::default()
        };
        let listed = machine.orchestrator().plans().list_audit_entries(ask).await;
        let entries = listed.unwrap().into_inner().entries;
        let is_start = |entry: AuditEntry| matches!(entry.event, Some(Event::AttemptStarted(_)));
        entries.into_iter().any(is_start).then_some(())
    };
    wait_for("the worker to tell of the start", LIMIT, has_started)
        .await
        .unwrap();
    machine.worker.take().unwrap().kill().unwrap();
}

#[tokio::test]
async fn a_worker_that_is_lost_is_named_and_started_again() {
    let Some(mut machine) = Machine::with("ESCAPEMENT_LEASE_MS=1000\n").await else {
        return;
    };
    kill_a_worker(&mut machine).await;
    machine.until(LOST, |count| count == 1.0).await;
    let said = machine.follow_page("WorkersLost").await;
    let named = said.lines().find(|line| line.contains("worker is gone")).unwrap();
    let had = ["\"n_lost\":1", "\"n_returned\":0"];
    assert!(
        named.contains("of-the-unit") && had.iter().all(|had| named.contains(had)),
        "{said}"
    );
    machine.until(ACTIVE, |count| count == 1.0).await;
    let id = machine.submit(step(0, "delay").payload(json!({ "ms": 1 }))).await;
    assert_eq!(machine.result_of(&id).await.status(), Status::Success);
}

#[tokio::test]
async fn a_worker_that_does_not_answer_is_named_and_started_again() {
    let Some(mut machine) = Machine::with("ESCAPEMENT_LEASE_MS=3000\n").await else {
        return;
    };
    kill_a_worker(&mut machine).await;
    machine.until(SUSPECT, |count| count == 1.0).await;
    let said = machine.follow_page("WorkersSuspect").await;
    assert!(
        said.contains(r#""worker_id": "of-the-unit""#) && said.contains(r#""state": "suspect""#),
        "{said}"
    );
    assert_eq!(machine.figure(SUSPECT).await, 0.0);
    machine.until(ACTIVE, |count| count == 1.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_does_not_stop_is_found_and_its_worker_drained() {
    let Some(mut machine) = Machine::with("").await else {
        return;
    };
    let hello = ScriptedWorker::hello_for(ScriptedWorker::specs(&[WORK]), 1);
    let label = hello.worker_id.clone();
    let (mut worker, _) = ScriptedWorker::open(&machine.orchestrator().url(), hello).await;
    worker.keep_alive(Duration::from_secs(1));
    machine.submit(step(0, WORK).timeout_ms(100)).await;
    let stuck = worker.started().await;
    worker.cancel_of(&stuck).await;
    let handlers = "escapement_stuck_handlers";
    machine.until(handlers, |count| count == 1.0).await;
    let [block] = &blocks("StuckHandlers")[..] else {
        panic!("it has one part");
    };
    let said = machine
        .follow_block(&block.replace("WORKER\"", &format!("{label}\"")))
        .await;
    assert!(said.contains(r#""stopping": 1"#), "{said}");
    let draining = r#"escapement_worker_sessions{state="draining"}"#;
    machine.until(draining, |count| count == 1.0).await;
    // Its process is started anew.
    worker.goodbye().await;
    machine.until(handlers, |count| count == 0.0).await;
}
