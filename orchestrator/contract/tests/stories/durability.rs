//! Sections 9 and 10: what is shown when, restarts, refusals, and that the same inputs give the same bytes.

use crate::story::{Story, T0, assigned, execution_id, moment, steps, text};
use escapement_contract::{AuditKind, Execution, Input, Interruption, Phase};
use std::sync::Arc;

/// The same execution after a crash, 5 s after the beginning and on another monotonic clock.
pub fn recovered(story: &Story) -> Story {
    let before = &story.execution;
    let now = moment(77, T0 + 5000);
    let started_at = before.started_at().unwrap();
    let request = Arc::clone(before.request());
    let execution = Execution::recover(
        request,
        execution_id(),
        before.accepted_at(),
        before.deadline(),
        Interruption::Restarted { started_at },
        now,
    );
    let mut recovered = Story {
        execution,
        now,
        ..story.clone()
    };
    recovered.tick();
    recovered
}

//
#[test]
fn nothing_of_the_result_shows_before_it_is_durable() {
    let mut story = steps("a").running();
    story
        .complete("a")
        .says("dispatch a#1, persist_result success 1/1");
    assert_eq!(story.execution.phase(), Phase::Settling);
    assert!(story.execution.result().is_none() && story.execution.settlement().is_none());
    let last = &story.execution.audit().last().unwrap().kind;
    assert!(matches!(last, AuditKind::StepCompleted { .. }), "{last:?}");
    story.settle();
    assert_eq!(story.execution.audit(), story.persisted.as_ref().unwrap().audit);
}

//
#[test]
fn no_step_is_dispatched_before_the_start_is_durable() {
    let mut story = steps("a").queued();
    story.refused(Input::StartPersisted);
    story.ok(Input::Start).says("persist_start 1000000");
    story.at(10).tick().says("");
    story.ok(Input::StartPersisted).says("dispatch a#1");
}

//
#[test]
fn an_execution_that_had_started_fails_after_a_restart() {
    let mut story = steps("a; b").running();
    story.complete("a").says("dispatch a#1, dispatch b#1");
    let mut recovered = recovered(&story);
    recovered.says("persist_result failure 0/2 fatal UNKNOWN_ERROR");
    assert_eq!(
        text(&recovered.error().context, "reason"),
        "orchestrator_restarted"
    );
    let result = recovered.settle();
    assert_eq!((result.completed_at, result.duration_ms), (T0 + 5000, 5000));
    assert_eq!(recovered.execution.started_at(), Some(T0));
}

//
#[test]
fn an_execution_that_was_queued_is_queued_again_with_its_first_times() {
    let before = steps("a").queued();
    let request = Arc::clone(before.execution.request());
    let now = moment(3, T0 + 400);
    let deadline = before.execution.deadline();
    let mut execution = Execution::accept(request, execution_id(), T0, deadline, now);
    assert_eq!((execution.accepted_at(), execution.phase()), (T0, Phase::Queued));
    // The deadline lies 1500 ms after the acceptance, so 1100 ms from here.
    assert_eq!(execution.next_due_ms(), Some(1103));
    execution.handle(now, Input::Start).unwrap();
    assert_eq!(execution.started_at(), Some(T0 + 400));
}

//
#[test]
fn an_execution_is_settled_once() {
    let mut story = steps("a").running();
    let result = story.complete("a").settle();
    story.refused(Input::SettlePersisted);
    story.at(9999).tick().says(
        "dispatch a#1, persist_result success 1/1, emit plan_execution_success, \
         update_registry, release, return success",
    );
    assert_eq!(story.execution.result(), Some(&result));
}

//
#[test]
fn what_a_phase_does_not_take_is_refused_without_a_trace() {
    let mut queued = steps("a").queued();
    let step = queued.index("a");
    queued.refused(Input::SettlePersisted);
    queued.refused(assigned(step, 1));
    queued.refused(Input::ActionNotFound { step, attempt: 1 });
    let mut starting = steps("a").queued();
    starting.ok(Input::Start);
    starting.refused(Input::Start);
    starting.refused(assigned(step, 1));
    let mut running = steps("a").running();
    let refused = running.refused(Input::Start);
    assert_eq!(refused.to_string(), "start is refused: the execution is Running");
}
