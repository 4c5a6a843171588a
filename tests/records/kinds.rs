//! One run of each kind on a real orchestrator: both readers find its record whole.
//! With `ESCAPEMENT_NEW_RECORDS=1` the records that the corpus lacks are added to it. None is ever overwritten.

use crate::corpus;
use crate::readers;
use crate::stage::{Stage, WORK};
use bytes::Bytes;
use escapement_model::Opaque;
use escapement_tests::{PlanDocument, ScriptedWorker};
use escapement_wire::v1::execution_error::Severity;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::worker::v1::attempt_outcome::Outcome;
use escapement_wire::worker::v1::{Assignment, Failure, Success};
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
        retried_with_backoff(&stage).await,
        retries_exhausted(&stage).await,
        not_retryable(&stage).await,
        lost(&stage).await,
        returned(&stage).await,
        step_timeout_retried(&stage).await,
        step_timeout(&stage).await,
        warnings(&stage).await,
        output_that_cannot_be_read(&stage).await,
        every_field(&stage).await,
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
    assert!(long.len() > 5 * 64 << 10);
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
}

fn plan(name: &str) -> PlanDocument {
    PlanDocument::new(name)
}

fn on_failure(value: &str) -> Value {
    json!({ "on_failure": value })
}

fn retries(max_attempts: u32, backoff_ms: u32, codes: &[&str]) -> Value {
    json!({
        "max_attempts": max_attempts,
        "backoff_ms": backoff_ms,
        "backoff_multiplier": 2.0,
        "retryable_error_codes": codes,
    })
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
            &json!({ "disk": { "free": 0, "of": 1e18 }, "since": null }),
        )),
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
        .submit(&plan.request_field("deadline_ms", now_ms() + 60_000))
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

async fn retried_with_backoff(stage: &Stage) -> Recorded {
    let mut worker = stage.worker(1).await;
    let plan = plan("retried")
        .step_with(WORK, json!({}), &[], on_failure("retry"))
        .plan_field("retry_policy", retries(4, 3, &["BUSY"]));
    let id = stage.submit(&plan).await;
    for _ in 0..3 {
        fail(&mut worker, "BUSY", Severity::Error).await;
    }
    worker.complete_next(json!({ "at": "last" })).await;
    worker.goodbye().await;
    recorded(stage, "success-after-retries", &id, Status::Success, "").await
}

async fn retries_exhausted(stage: &Stage) -> Recorded {
    let mut worker = stage.worker(1).await;
    let plan = plan("exhausted")
        .step_with(WORK, json!({}), &[], on_failure("retry"))
        .step(WORK, json!({}), &[])
        .plan_field("retry_policy", retries(2, 0, &["*"]));
    let id = stage.submit(&plan).await;
    for _ in 0..2 {
        fail(&mut worker, "BUSY", Severity::Error).await;
    }
    worker.complete_next(json!({})).await;
    worker.goodbye().await;
    recorded(stage, "partial-after-retries", &id, Status::Partial, "BUSY").await
}

async fn not_retryable(stage: &Stage) -> Recorded {
    let mut worker = stage.worker(1).await;
    let plan = plan("not listed")
        .step_with(WORK, json!({}), &[], on_failure("retry"))
        .plan_field("retry_policy", retries(3, 0, &["BUSY"]));
    let id = stage.submit(&plan).await;
    fail(&mut worker, "OTHER", Severity::Error).await;
    worker.goodbye().await;
    recorded(
        stage,
        "failure-that-is-not-retried",
        &id,
        Status::Failure,
        "OTHER",
    )
    .await
}

async fn lost(stage: &Stage) -> Recorded {
    let mut first = stage.worker(1).await;
    let plan = plan("lost")
        .step_with(WORK, json!({}), &[], on_failure("retry"))
        .plan_field("retry_policy", retries(2, 0, &["WORKER_LOST"]));
    let id = stage.submit(&plan).await;
    first.started().await;
    let mut second = stage.worker(1).await;
    first.goodbye().await;
    second.complete_next(json!({})).await;
    second.goodbye().await;
    recorded(stage, "success-after-a-lost-attempt", &id, Status::Success, "").await
}

async fn returned(stage: &Stage) -> Recorded {
    let mut first = stage.worker(1).await;
    let id = stage.submit(&plan("returned").step(WORK, json!({}), &[])).await;
    let rejected = first.assignment().await;
    let mut second = stage.worker(1).await;
    first.reject(&rejected).await;
    second.assignment().await;
    let mut third = stage.worker(1).await;
    second.goodbye().await;
    third.complete_next(json!({})).await;
    third.goodbye().await;
    first.goodbye().await;
    recorded(stage, "success-after-returned-attempts", &id, Status::Success, "").await
}

async fn step_timeout_retried(stage: &Stage) -> Recorded {
    let mut worker = stage.worker(2).await;
    let fields = json!({ "on_failure": "retry", "timeout_ms": 60 });
    let plan = plan("slow")
        .step_with(WORK, json!({}), &[], fields)
        .plan_field("retry_policy", retries(9, 5, &["STEP_TIMEOUT"]));
    let id = stage.submit(&plan).await;
    let slow = worker.started().await;
    worker.cancel_of(&slow).await;
    worker.stop(&slow).await;
    worker.complete_next(json!({})).await;
    worker.goodbye().await;
    recorded(stage, "success-after-a-step-timeout", &id, Status::Success, "").await
}

async fn step_timeout(stage: &Stage) -> Recorded {
    let mut worker = stage.worker(1).await;
    let plan = plan("too slow").step_with(WORK, json!({}), &[], json!({ "timeout_ms": 40 }));
    let id = stage.submit(&plan).await;
    let slow = worker.started().await;
    worker.cancel_of(&slow).await;
    worker.stop(&slow).await;
    worker.goodbye().await;
    recorded(
        stage,
        "failure-by-a-step-timeout",
        &id,
        Status::Failure,
        "STEP_TIMEOUT",
    )
    .await
}

async fn warnings(stage: &Stage) -> Recorded {
    let mut worker = stage.worker(1).await;
    let id = stage.submit(&plan("warnings").step(WORK, json!({}), &[])).await;
    let assignment = worker.started().await;
    let warning = |code: &str, severity: Severity, context: Option<Opaque>| Failure {
        code: code.to_owned(),
        message: "\u{26a0} attention \u{1f9ed}".to_owned(),
        severity: severity.into(),
        context,
    };
    let success = Success {
        output: Some(object(&json!({ "rows": 12 }))),
        warnings: vec![
            warning("SLOW", Severity::Warn, None),
            warning(
                "",
                Severity::Fatal,
                Some(object(&json!({ "why": ["a", {}, [], null] }))),
            ),
            warning(
                &"\u{e9}".repeat(51),
                Severity::Unspecified,
                Some(Opaque::from_encoded(vec![0x0a, 0x03, 0x0a, 0x01, 0xff].into())),
            ),
            warning(
                "LARGE",
                Severity::Error,
                Some(object(&json!({ "dump": "z".repeat(17 << 10) }))),
            ),
        ],
    };
    worker.report(&assignment, Outcome::Success(success)).await;
    worker.goodbye().await;
    recorded(stage, "success-with-warnings", &id, Status::Success, "").await
}

async fn output_that_cannot_be_read(stage: &Stage) -> Recorded {
    let mut worker = stage.worker(1).await;
    let id = stage.submit(&plan("unreadable").step(WORK, json!({}), &[])).await;
    let assignment = worker.started().await;
    worker
        .succeed_encoded(
            &assignment,
            Opaque::from_encoded(vec![0x0a, 0x03, 0x0a, 0x01, 0xff].into()),
        )
        .await;
    worker.goodbye().await;
    recorded(
        stage,
        "failure-by-an-unreadable-output",
        &id,
        Status::Failure,
        "UNKNOWN_ERROR",
    )
    .await
}

/// Everything that a request can say, spelt in odd ways.
async fn every_field(stage: &Stage) -> Recorded {
    let mut worker = stage.worker(1).await;
    let deep = (0..15).fold(
        json!({ "\u{1f9ed}": "\u{0}\u{ffff}" }),
        |inner, n| json!({ "n": n, "in": [inner, null] }),
    );
    let mut plan = plan("Pr\u{fc}fung \u{4e2d}\u{6587} \u{1f9ed}")
        .step(
            WORK,
            json!({ "z": 1, "a": -0.0, "e\u{301}": 1e-310, "\u{e9}": 1e308, "": false }),
            &[],
        )
        .step_with(
            WORK,
            deep,
            &[0, 0],
            json!({ "timeout_ms": 600_000, "on_failure": "retry" }),
        )
        .plan_field("priority", -3)
        .plan_field("timeout_ms", 900_000)
        .plan_field("tags", json!(["b", "a", "b\u{308}"]))
        .plan_field("metadata", json!({ "owner": { "team": ["x", 1.5, true] } }))
        .plan_field("estimated_duration_ms", 5)
        .plan_field("context_requirements", json!(["project", "project"]))
        .plan_field(
            "retry_policy",
            json!({
                "max_attempts": 3, "backoff_ms": 1, "backoff_multiplier": 1.1, "max_backoff_ms": 7,
                "retryable_error_codes": ["\u{1f9ed}", "*"],
            }),
        )
        .request_field("deadline_ms", now_ms() + 3_600_000)
        .request_field("user_id", "\u{fc}ser")
        .request_field("request_id", "r-1")
        .request_field(
            "correlation_context",
            json!({ "z": "1", "a": "\u{4e2d}", "\u{e9}": "" }),
        )
        .request_field("options", json!({ "max_concurrent_steps": 7 }));
    plan = plan.environment(json!({ "project": null, "list": [[], {}, [1, [2, [3]]]] }));
    let id = stage.submit(&plan).await;
    worker
        .complete_next(json!({ "\u{1f9ed}": [0.1, "\u{10ffff}", {}] }))
        .await;
    fail(&mut worker, "\u{1f9ed}", Severity::Error).await;
    worker.complete_next(json!({})).await;
    worker.goodbye().await;
    recorded(stage, "success-with-every-field", &id, Status::Success, "").await
}

async fn deadline_in_the_queue(stage: &Stage) -> Recorded {
    let mut worker = stage.worker(1).await;
    let first = stage.submit(&plan("first").step(WORK, json!({}), &[])).await;
    let held = worker.started().await;
    let second = plan("second")
        .step(WORK, json!({}), &[])
        .plan_field("timeout_ms", 100);
    let second = stage
        .submit(&second.request_field("deadline_ms", now_ms() + 300))
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

fn object(value: &Value) -> Opaque {
    escapement_wire::json::to_opaque(value.as_object().expect("it is an object"))
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    i64::try_from(since.as_millis()).unwrap()
}
