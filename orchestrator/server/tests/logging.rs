//! What stands in the log, and what a log that cannot be written does to the orchestrator: nothing.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test fails by panicking and its name is its documentation"
)]

mod process;

use escapement_wire::v1;
use process::{Orchestrator, PATIENCE, TestDirectory, Worker, execute, plan, request};
use std::fs::File;
use std::io::Write;
use std::process::Stdio;
use tokio::time::timeout;

#[tokio::test]
async fn what_executions_go_through_is_logged_and_no_frame_is() {
    let directory = TestDirectory::new("log-lines");
    let path = std::env::temp_dir().join(format!("escapement-log-lines-{}", std::process::id()));
    let log = File::create(&path).unwrap();
    let orchestrator = Orchestrator::start_logging(&directory, "debug", log.into(), &[]).await;
    let worker = Worker::start(&orchestrator, "copy").await;
    let mut plans = orchestrator.plans().await;
    let lacking = v1::SubmitPlanRequest {
        environment: None,
        ..request(plan(2, "copy"))
    };
    for asked in [request(plan(1, "copy")), lacking] {
        plans.execute_plan(execute(asked)).await.unwrap();
    }
    worker.stop().await;
    assert_eq!(orchestrator.stop().await, Some(0));
    let log = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    for expected in [
        concat!("starting version=\"", env!("CARGO_PKG_VERSION")),
        "--listen=127.0.0.1:0 ",
        "execution accepted",
        &process::uuid(1_000),
        "attempt_assigned",
        "worker_id=\"worker\"",
        "execution succeeded",
        "execution failed",
        "code=\"CONTEXT_MISSING\"",
    ] {
        assert!(log.contains(expected), "{expected}:\n{log}");
    }
    assert!(!log.contains(" h2::"), "{log}");
}

/// Serves workers and callers, and ends well, although all that it logs goes nowhere.
async fn goes_on(name: &str, log: Stdio) {
    let directory = TestDirectory::new(name);
    let work = async {
        let orchestrator = Orchestrator::start_logging(&directory, "trace", log, &[]).await;
        let worker = Worker::start(&orchestrator, "copy").await;
        let mut plans = orchestrator.plans().await;
        for number in 1..=3 {
            let answer = plans.execute_plan(execute(request(plan(number, "copy")))).await;
            assert!(answer.unwrap().into_inner().result.unwrap().error.is_none());
        }
        worker.stop().await;
        orchestrator.stop().await
    };
    assert_eq!(timeout(PATIENCE, work).await.expect(name), Some(0), "{name}");
}

#[tokio::test]
async fn a_log_whose_reader_is_gone_harms_nothing() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    goes_on("log-closed", writer.into()).await;
}

#[tokio::test]
async fn a_log_on_a_full_disk_harms_nothing() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    goes_on("log-full", full.into()).await;
}

#[tokio::test]
async fn a_log_that_nobody_reads_harms_nothing() {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut filler = writer.try_clone().unwrap();
    // Fills the pipe, and waits in the last write until the reader is gone.
    let filling = std::thread::spawn(move || while filler.write_all(&[b'x'; 4_096]).is_ok() {});
    goes_on("log-unread", writer.into()).await;
    drop(reader);
    filling.join().unwrap();
}
