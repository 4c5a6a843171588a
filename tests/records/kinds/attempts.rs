//! Runs whose attempts fare in different ways, and one that says everything that a request can say.

use super::{Recorded, fail, on_failure, plan, recorded};
use crate::stage::{Stage, WORK};
use escapement_model::Opaque;
use escapement_tests::fresh_id;
use escapement_tests::plans::{object, unix_ms};
use escapement_wire::v1::execution_error::Severity;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::worker::v1::attempt_outcome::Outcome;
use escapement_wire::worker::v1::{Failure, Success};
use serde_json::{Value, json};

pub(super) async fn retried_with_backoff(stage: &Stage) -> Recorded {
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

pub(super) async fn retries_exhausted(stage: &Stage) -> Recorded {
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

pub(super) async fn not_retryable(stage: &Stage) -> Recorded {
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

pub(super) async fn lost(stage: &Stage) -> Recorded {
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

pub(super) async fn returned(stage: &Stage) -> Recorded {
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

pub(super) async fn step_timeout_retried(stage: &Stage) -> Recorded {
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

pub(super) async fn step_timeout(stage: &Stage) -> Recorded {
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

pub(super) async fn warnings(stage: &Stage) -> Recorded {
    let mut worker = stage.worker(1).await;
    let id = stage.submit(&plan("warnings").step(WORK, json!({}), &[])).await;
    let assignment = worker.started().await;
    let warning = |code: &str, severity: Severity, context: Option<Opaque>| Failure {
        code: code.to_owned(),
        message: "\u{26a0} attention \u{1f9ed}".to_owned(),
        severity: severity.into(),
        context,
        not_here: false,
    };
    let success = Success {
        output: Some(object(json!({ "rows": 12 }))),
        warnings: vec![
            warning("SLOW", Severity::Warn, None),
            warning(
                "",
                Severity::Fatal,
                Some(object(json!({ "why": ["a", {}, [], null] }))),
            ),
            warning(
                &"\u{e9}".repeat(51),
                Severity::Unspecified,
                Some(Opaque::from_encoded(vec![0x0a, 0x03, 0x0a, 0x01, 0xff].into())),
            ),
            warning(
                "LARGE",
                Severity::Error,
                Some(object(json!({ "dump": "z".repeat(17 << 10) }))),
            ),
        ],
    };
    worker.report(&assignment, Outcome::Success(success)).await;
    worker.goodbye().await;
    recorded(stage, "success-with-warnings", &id, Status::Success, "").await
}

pub(super) async fn output_that_cannot_be_read(stage: &Stage) -> Recorded {
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
pub(super) async fn every_field(stage: &Stage) -> Recorded {
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
        // Upper case where nothing refers to it.
        .plan_field("id", fresh_id().to_uppercase())
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
        .request_field("deadline_ms", unix_ms() + 3_600_000)
        .request_field("user_id", "\u{fc}ser")
        .request_field("request_id", "r-1")
        .request_field("parent_execution_id", fresh_id())
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

fn retries(max_attempts: u32, backoff_ms: u32, codes: &[&str]) -> Value {
    json!({
        "max_attempts": max_attempts,
        "backoff_ms": backoff_ms,
        "backoff_multiplier": 2.0,
        "retryable_error_codes": codes,
    })
}
