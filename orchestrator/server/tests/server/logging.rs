//! What stands in the log.

use crate::process::{self, Orchestrator, TestDirectory, Worker, execute, plan, request};
use escapement_wire::v1;
use std::fs::File;

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
