//! True records.

use escapement_wire::v1::audit_entry::Event;
use escapement_wire::v1::execution_error::Severity;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::plan_step::OnFailure;
use escapement_wire::v1::{self};
use serde_json::json;

use super::record::{
    Recorded, STARTED_AT, Writer, because, error, facts, id, listed, partial, plan, plan_error, result, step,
    with_errors, without_steps,
};

#[test]
fn a_partial_execution_with_retries_a_limit_and_a_skipped_step_is_true() {
    partial().is_true();
}

#[test]
fn a_success_of_steps_side_by_side_is_true() {
    let mut writer = Writer::new();
    writer.started();
    writer.waits(STARTED_AT, 0, 1);
    writer.waits(STARTED_AT, 1, 1);
    writer.begins(10_011, 1, 1);
    writer.begins(10_013, 0, 1);
    writer.completes(10_020, 1, 1);
    writer.completes(10_021, 0, 1);
    let mut facts = facts();
    facts.max_concurrent_steps = Some(2);
    let recorded = Recorded {
        plan: plan(vec![step(0, &[], OnFailure::Halt), step(1, &[], OnFailure::Halt)]),
        facts,
        entries: writer.ends(10_021, Status::Success, &[]),
        result: result(10_021, (STARTED_AT, 2), Status::Success, &[0, 1], None),
    };
    recorded.is_true();
    let one_at_a_time = Recorded {
        facts: super::record::facts(),
        ..recorded
    };
    assert_eq!(one_at_a_time.retell().unwrap_err().entry, Some(4));
}

//
#[test]
fn a_halt_after_a_return_and_a_loss_is_true() {
    let lost = error(0, "WORKER_LOST", Severity::Error);
    let mut writer = Writer::new();
    writer.started();
    writer.waits(10_011, 0, 1);
    let (step_id, attempt) = (id(0), 1);
    writer.say(
        10_012,
        Event::AttemptAssigned(v1::AttemptAssigned {
            step_id: step_id.clone(),
            attempt,
            worker_id: "one".into(),
        }),
    );
    let evidence = "rejected".into();
    writer.say(
        10_013,
        Event::AttemptReturned(v1::AttemptReturned {
            step_id,
            attempt,
            evidence,
        }),
    );
    writer.waits(10_013, 0, 1);
    writer.begins(10_014, 0, 1);
    writer.fails(10_020, 0, 1, &lost);
    writer.does_not_complete(10_020, 0, 1, "failed", &lost);
    let top = because(error(0, "WORKER_LOST", Severity::Fatal), lost.clone());
    Recorded {
        plan: plan(vec![step(0, &[], OnFailure::Halt), step(1, &[], OnFailure::Halt)]),
        facts: facts(),
        entries: writer.ends(10_020, Status::Failure, &[0, 1]),
        result: result(
            10_020,
            (STARTED_AT, 2),
            Status::Failure,
            &[],
            with_errors(top, json!({}), vec![listed(&lost, Some(1), 10_020)]),
        ),
    }
    .is_true();
}

//
#[test]
fn an_unknown_action_is_true() {
    let unknown = error(0, "ACTION_NOT_FOUND", Severity::Fatal);
    let mut writer = Writer::new();
    writer.started();
    writer.waits(10_011, 0, 1);
    writer.fails(10_011, 0, 1, &unknown);
    writer.does_not_complete(10_011, 0, 1, "failed", &unknown);
    Recorded {
        plan: plan(vec![step(0, &[], OnFailure::Skip)]),
        facts: facts(),
        entries: writer.ends(10_011, Status::Failure, &[0]),
        result: result(
            10_011,
            (STARTED_AT, 1),
            Status::Failure,
            &[],
            with_errors(
                unknown.clone(),
                json!({}),
                vec![listed(&unknown, Some(1), 10_011)],
            ),
        ),
    }
    .is_true();
}

//
#[test]
fn the_plans_limit_with_a_step_in_flight_is_true() {
    let error = plan_error("PLAN_TIMEOUT");
    let mut writer = Writer::new();
    writer.started();
    writer.waits(10_011, 0, 1);
    writer.begins(10_012, 0, 1);
    let at = STARTED_AT + 1000;
    Recorded {
        plan: plan(vec![step(0, &[], OnFailure::Skip)]),
        facts: facts(),
        entries: writer.ends(at, Status::Failure, &[0]),
        result: result(
            at,
            (STARTED_AT, 1),
            Status::Failure,
            &[],
            with_errors(error.clone(), json!({}), vec![listed(&error, None, at)]),
        ),
    }
    .is_true();
}

//
#[test]
fn what_ended_without_a_step_is_true() {
    let far = 1_000_000;
    let mut lacks_context = without_steps("CONTEXT_MISSING", true, STARTED_AT, far, json!({}));
    assert_eq!(
        lacks_context.retell().unwrap_err().part,
        "at, of the plan's limit"
    );
    lacks_context.facts.environment = None;
    lacks_context.is_true();
    // Too little time at the start; the deadline in the queue; the plan's limit before the start was durable; a restart; a restore.
    without_steps("DEADLINE_EXCEEDED", true, STARTED_AT, STARTED_AT + 999, json!({})).is_true();
    without_steps("DEADLINE_EXCEEDED", false, 10_500, 10_500, json!({})).is_true();
    without_steps("PLAN_TIMEOUT", true, STARTED_AT + 1000, far, json!({})).is_true();
    let restarted = json!({ "reason": "orchestrator_restarted" });
    without_steps("UNKNOWN_ERROR", true, 10_040, far, restarted).is_true();
    let restored = json!({ "reason": "restored_from_backup" });
    without_steps("UNKNOWN_ERROR", false, 10_500, far, restored).is_true();
}

#[test]
fn times_are_not_compared_where_the_clock_may_have_jumped() {
    let mut early = without_steps("PLAN_TIMEOUT", true, STARTED_AT + 900, 1_000_000, json!({}));
    assert_eq!(early.retell().unwrap_err().part, "at, of the plan's limit");
    early.facts.slack_ms = None;
    early.is_true();
}
