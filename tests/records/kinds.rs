//! A run of each kind on a real orchestrator: both readers find its record whole.
//! With `ESCAPEMENT_NEW_RECORDS=1` the records that the corpus lacks are added to it. None is ever overwritten.

mod attempts;
mod provenance;

use crate::corpus;
use crate::readers;
use crate::stage::{Stage, WORK};
use bytes::Bytes;
use escapement_tests::plans::{object, unix_ms};
use escapement_tests::reference::retell_archive;
use escapement_tests::{PlanDocument, PrivateDirectory, ScriptedWorker};
use escapement_wire::v1::execution_error::Severity;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::worker::v1::attempt_outcome::Outcome;
use escapement_wire::worker::v1::{Assignment, Failure};
use serde_json::{Value, json};

/// A record and what it is called.
type Recorded = (&'static str, Bytes);

#[tokio::test]
async fn kinds_of_endings() {
    let stage = Stage::open(|settings| settings.flag("--registration-grace-ms", 0)).await;
    let recorded = vec![
        success(&stage).await,
        diamond(&stage).await,
        skipped_cascade(&stage).await,
        halted(&stage).await,
        fatal(&stage).await,
        dependency_unresolved(&stage).await,
        warned_without_output(&stage).await,
        plan_limit(&stage).await,
        deadline_too_near(&stage).await,
        context_missing(&stage).await,
        action_not_found(&stage).await,
    ];
    keep(&recorded);
}

#[tokio::test]
async fn kinds_of_attempts() {
    let stage = Stage::open(|settings| settings).await;
    let recorded = vec![
        attempts::retried_with_backoff(&stage).await,
        attempts::retries_exhausted(&stage).await,
        attempts::not_retryable(&stage).await,
        attempts::lost(&stage).await,
        attempts::returned(&stage).await,
        attempts::step_timeout_retried(&stage).await,
        attempts::step_timeout(&stage).await,
        attempts::warnings(&stage).await,
        attempts::output_that_cannot_be_read(&stage).await,
        attempts::every_field(&stage).await,
    ];
    keep(&recorded);
}

#[tokio::test]
async fn kinds_of_restarts_and_queues() {
    let mut stage = Stage::open(|settings| settings.flag("--max-running-executions", 1)).await;
    let recorded = vec![
        deadline_in_the_queue(&stage).await,
        interrupted(&mut stage).await,
        queued_over_a_restart(&mut stage).await,
    ];
    keep(&recorded);
}

#[tokio::test]
async fn kinds_of_provenance() {
    let directory = PrivateDirectory::new("provenance").unwrap();
    let (stage, token) = provenance::stage(&directory).await;
    let (name, record) = provenance::everything(&stage, &token).await;
    provenance::assert_said(&record);
    keep(&[(name, record)]);
    if let Some(kept) = corpus::all().get(name) {
        provenance::assert_said(kept);
    }
}

/// Too large to be kept: an output that is refused stands in the inputs, and a record in many pieces.
#[tokio::test]
async fn kinds_that_are_large() {
    let stage = Stage::open(|settings| settings).await;
    let mut worker = stage.worker(1).await;
    let id = stage.submit(&plan("refused").step(WORK, json!({}), &[])).await;
    let assignment = worker.started().await;
    worker
        .succeed(&assignment, json!({ "x": "x".repeat((1 << 20) + 1) }))
        .await;
    let refused = stage.record(&id).await;
    assert!(refused.len() > 1 << 20, "an output that the result lacks is kept");

    let mut long = plan("long");
    for n in 0..300 {
        long = long.step(WORK, json!({ "n": n }), &[]);
    }
    let id = stage.submit(&long).await;
    for _ in 0..300 {
        worker.complete_next(json!({ "text": "y".repeat(1000) })).await;
    }
    let long = stage.record(&id).await;
    assert!(long.len() > 5 * (64 << 10));
    for record in [refused, long] {
        assert_whole("large", &record);
    }
}

fn keep(recorded: &[Recorded]) {
    for (name, record) in recorded {
        assert_whole(name, record);
        corpus::add(name, record);
    }
}

fn assert_whole(name: &str, record: &Bytes) {
    for said in [readers::orchestrator(record), readers::second(record)] {
        assert!(said.is_good(), "{name}: {:#?}", said.findings);
    }
    assert_eq!(retell_archive(record, 1_000), Ok(()), "{name}");
}

fn plan(name: &str) -> PlanDocument {
    PlanDocument::new(name)
}

fn on_failure(value: &str) -> Value {
    json!({ "on_failure": value })
}

async fn fail(worker: &mut ScriptedWorker, code: &str, severity: Severity) -> Assignment {
    let assignment = worker.started().await;
    worker.fail(&assignment, code, severity).await;
    assignment
}

/// The record, once the run has come to what its name says.
async fn recorded(stage: &Stage, name: &'static str, id: &str, status: Status, code: &str) -> Recorded {
    let result = stage.result(id).await;
    let told = result
        .error
        .as_ref()
        .map_or("", |error| error.error_code.as_str());
    assert_eq!((result.status(), told), (status, code), "{name}");
    (name, stage.record(id).await)
}

async fn success(stage: &Stage) -> Recorded {
    let mut worker = stage.worker(1).await;
    let id = stage.submit(&plan("success").step(WORK, json!({}), &[])).await;
    worker.complete_next(json!({ "done": true })).await;
    worker.goodbye().await;
    recorded(stage, "success", &id, Status::Success, "").await
}

async fn diamond(stage: &Stage) -> Recorded {
    let mut worker = stage.worker(4).await;
    let plan = plan("diamond")
        .step(WORK, json!({ "n": 0 }), &[])
        .step(WORK, json!({ "n": 1 }), &[0])
        .step(WORK, json!({ "n": 2 }), &[0])
        .step(WORK, json!({ "n": 3 }), &[0])
        .step(WORK, json!({ "n": 4 }), &[1, 2, 3])
        .request_field("options", json!({ "max_concurrent_steps": 3 }));
    let id = stage.submit(&plan).await;
    worker.complete_next(json!({ "n": 0 })).await;
    let (one, two, three) = (
        worker.started().await,
        worker.started().await,
        worker.started().await,
    );
    for (n, assignment) in [(3, three), (1, one), (2, two)] {
        worker.succeed(&assignment, json!({ "n": n })).await;
    }
    worker.complete_next(json!({ "n": 4 })).await;
    worker.goodbye().await;
    recorded(stage, "success-of-concurrent-steps", &id, Status::Success, "").await
}

async fn skipped_cascade(stage: &Stage) -> Recorded {
    let mut worker = stage.worker(1).await;
    let plan = plan("cascade")
        .step_with(WORK, json!({}), &[], on_failure("skip"))
        .step_with(WORK, json!({}), &[0], on_failure("skip"))
        .step_with(WORK, json!({}), &[1], on_failure("skip"))
        .step(WORK, json!({}), &[]);
    let id = stage.submit(&plan).await;
    fail(&mut worker, "BROKEN", Severity::Error).await;
    worker.complete_next(json!({})).await;
    worker.goodbye().await;
    recorded(
        stage,
        "partial-with-skipped-cascade",
        &id,
        Status::Partial,
        "BROKEN",
    )
    .await
}

async fn halted(stage: &Stage) -> Recorded {
    let mut worker = stage.worker(2).await;
    let plan = plan("halt")
        .step(WORK, json!({}), &[])
        .step(WORK, json!({}), &[])
        .step(WORK, json!({}), &[])
        .request_field("options", json!({ "max_concurrent_steps": 2 }));
    let id = stage.submit(&plan).await;
    let first = worker.started().await;
    let second = worker.started().await;
    worker.fail(&second, "BROKEN", Severity::Error).await;
    worker.cancel_of(&first).await;
    worker.stop(&first).await;
    worker.goodbye().await;
    recorded(stage, "failure-by-halt", &id, Status::Failure, "BROKEN").await
}

async fn fatal(stage: &Stage) -> Recorded {
    let mut worker = stage.worker(1).await;
    let plan = plan("fatal")
        .step(WORK, json!({}), &[])
        .step_with(WORK, json!({}), &[], on_failure("skip"));
    let id = stage.submit(&plan).await;
    worker.complete_next(json!({ "kept": [1, 2, 3] })).await;
    let assignment = worker.started().await;
    let failure = Failure {
        code: "POISONED".to_owned(),
        message: "Nothing can be done.".to_owned(),
        severity: Severity::Fatal.into(),
        context: Some(object(
            json!({ "disk": { "free": 0, "of": 1e18 }, "since": null }),
        )),
        not_here: false,
    };
    worker.report(&assignment, Outcome::Failure(failure)).await;
    worker.goodbye().await;
    recorded(stage, "failure-by-fatal-error", &id, Status::Failure, "POISONED").await
}

async fn dependency_unresolved(stage: &Stage) -> Recorded {
    let mut worker = stage.worker(1).await;
    let plan = plan("unresolved")
        .step_with(WORK, json!({}), &[], on_failure("skip"))
        .step(WORK, json!({}), &[0]);
    let id = stage.submit(&plan).await;
    fail(&mut worker, "BROKEN", Severity::Error).await;
    worker.goodbye().await;
    let code = "DEPENDENCY_UNRESOLVED";
    recorded(stage, "failure-of-a-dependency", &id, Status::Failure, code).await
}

async fn warned_without_output(stage: &Stage) -> Recorded {
    let mut worker = stage.worker(1).await;
    let plan = plan("warned")
        .step(WORK, json!({}), &[])
        .step(WORK, json!({}), &[]);
    let id = stage.submit(&plan).await;
    fail(&mut worker, "ODD", Severity::Warn).await;
    worker.complete_next(json!({})).await;
    worker.goodbye().await;
    recorded(
        stage,
        "partial-with-a-warning-for-an-output",
        &id,
        Status::Partial,
        "ODD",
    )
    .await
}

async fn plan_limit(stage: &Stage) -> Recorded {
    let mut worker = stage.worker(2).await;
    let plan = plan("limit")
        .step(WORK, json!({}), &[])
        .step(WORK, json!({}), &[])
        .plan_field("timeout_ms", 250)
        .request_field("options", json!({ "max_concurrent_steps": 2 }));
    let id = stage.submit(&plan).await;
    let held = [worker.started().await, worker.assignment().await];
    for assignment in &held {
        worker.cancel_of(assignment).await;
        worker.stop(assignment).await;
    }
    worker.goodbye().await;
    recorded(
        stage,
        "failure-at-the-limit",
        &id,
        Status::Failure,
        "PLAN_TIMEOUT",
    )
    .await
}

async fn deadline_too_near(stage: &Stage) -> Recorded {
    let plan = plan("near")
        .step(WORK, json!({}), &[])
        .plan_field("timeout_ms", 3_600_000);
    let id = stage
        .submit(&plan.request_field("deadline_ms", unix_ms() + 60_000))
        .await;
    recorded(
        stage,
        "failure-before-a-near-deadline",
        &id,
        Status::Failure,
        "DEADLINE_EXCEEDED",
    )
    .await
}

async fn context_missing(stage: &Stage) -> Recorded {
    let plan = plan("missing").step(WORK, json!({}), &[]).plan_field(
        "context_requirements",
        json!(["project", "region", "r\u{e9}gion"]),
    );
    let id = stage.submit(&plan).await;
    recorded(
        stage,
        "failure-for-want-of-context",
        &id,
        Status::Failure,
        "CONTEXT_MISSING",
    )
    .await
}

async fn action_not_found(stage: &Stage) -> Recorded {
    let id = stage
        .submit(&plan("nobody").step("nobody_does_this", json!({}), &[]))
        .await;
    recorded(
        stage,
        "failure-for-want-of-a-worker",
        &id,
        Status::Failure,
        "ACTION_NOT_FOUND",
    )
    .await
}

async fn deadline_in_the_queue(stage: &Stage) -> Recorded {
    let mut worker = stage.worker(1).await;
    let first = stage.submit(&plan("first").step(WORK, json!({}), &[])).await;
    let held = worker.started().await;
    let second = plan("second")
        .step(WORK, json!({}), &[])
        .plan_field("timeout_ms", 100);
    let second = stage
        .submit(&second.request_field("deadline_ms", unix_ms() + 300))
        .await;
    let recorded = recorded(
        stage,
        "failure-in-the-queue",
        &second,
        Status::Failure,
        "DEADLINE_EXCEEDED",
    )
    .await;
    worker.succeed(&held, json!({})).await;
    worker.goodbye().await;
    stage.result(&first).await;
    recorded
}

async fn interrupted(stage: &mut Stage) -> Recorded {
    let mut worker = stage.worker(1).await;
    let plan = plan("interrupted")
        .step(WORK, json!({}), &[])
        .step(WORK, json!({}), &[]);
    let id = stage.submit(&plan).await;
    worker.complete_next(json!({ "lost": true })).await;
    worker.started().await;
    stage.crash_and_restart().await;
    recorded(
        stage,
        "failure-by-a-restart",
        &id,
        Status::Failure,
        "UNKNOWN_ERROR",
    )
    .await
}

async fn queued_over_a_restart(stage: &mut Stage) -> Recorded {
    let mut worker = stage.worker(1).await;
    stage.submit(&plan("first").step(WORK, json!({}), &[])).await;
    worker.started().await;
    let id = stage.submit(&plan("second").step(WORK, json!({}), &[])).await;
    stage.crash_and_restart().await;
    let mut worker = stage.worker(1).await;
    worker.complete_next(json!({ "ran": "after" })).await;
    worker.goodbye().await;
    recorded(
        stage,
        "success-after-a-restart-in-the-queue",
        &id,
        Status::Success,
        "",
    )
    .await
}
