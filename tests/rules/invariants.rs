//! What holds in every state and of every result, whatever the second interpreter thinks. Changes no state.

use crate::pair::{Pair, chain_of};
use crate::plans::place_of;
use crate::said::links;
use escapement_contract::{
    Execution, ExecutionError, Phase, PlanResult, Request, Settlement, Standing, Status, StepIndex,
    StepStanding, StepState,
};
use escapement_model::Severity;
use escapement_model::opaque::{ValueView, items};
use escapement_tests::reference::interpret::Interpreter;

/// and what else can be seen of any state.
pub(crate) fn check_state(pair: &Pair, standing: &Standing) {
    let stuck = is_stuck(
        standing,
        pair.core.next_due_ms().is_some(),
        pair.settlement.is_some(),
    );
    assert!(!stuck, "nothing would ever happen: {standing:?}");
    let n_slots = pair.core.request().max_concurrent_steps() as usize;
    let under_way = standing.steps.iter().filter(|step| holds_slot(step.state));
    assert!(under_way.count() <= n_slots, "R-2.4");
    assert_eq!(
        pair.core.result().is_some(),
        standing.phase == Phase::Settled,
        "R-9.2"
    );
}

/// True where no timer is armed, or nothing beside it is under way: no write, no attempt, no sleep.
fn is_stuck(standing: &Standing, is_armed: bool, has_result: bool) -> bool {
    let waits = |state| holds_slot(state) && !matches!(state, StepState::BackingOff { .. });
    let sleeps = |step: &StepStanding| {
        matches!(step.state, StepState::BackingOff { .. }) && step.timer_left_ms.is_some()
    };
    match standing.phase {
        Phase::Queued => !is_armed,
        Phase::Starting => !is_armed || !standing.start_is_being_written,
        Phase::Running => {
            !is_armed
                || !standing
                    .steps
                    .iter()
                    .any(|step| waits(step.state) || sleeps(step))
        }
        Phase::Settling => !has_result,
        Phase::Settled => false,
    }
}

fn holds_slot(state: StepState) -> bool {
    matches!(
        state,
        StepState::Waiting { .. }
            | StepState::Assigned { .. }
            | StepState::Started { .. }
            | StepState::BackingOff { .. }
    )
}

/// How far an execution has come. It grows with everything that happens, except that an attempt is returned.
pub(crate) fn measure(standing: &Standing, now_ms: u64) -> (Phase, u64, bool, u64) {
    let of_step = |state: StepState| match state {
        StepState::Pending => 0,
        StepState::Waiting { attempt } => 4 * u64::from(attempt) - 3,
        StepState::Assigned { attempt } => 4 * u64::from(attempt) - 2,
        StepState::Started { attempt } => 4 * u64::from(attempt) - 1,
        StepState::BackingOff { next_attempt } => 4 * u64::from(next_attempt) - 4,
        StepState::Completed | StepState::NotCompleted | StepState::Stopped => 1_000,
    };
    let steps = standing.steps.iter().map(|step| of_step(step.state)).sum();
    (standing.phase, steps, !standing.start_is_being_written, now_ms)
}

/// a step is dispatched between start and end, once its dependencies have completed.
pub(crate) fn check_dispatch(core: &Execution, step: StepIndex, has_ended: bool) {
    assert!(!has_ended, "{step} is dispatched after the end");
    assert!(
        core.phase() >= Phase::Running,
        "{step} is dispatched before the start is durable"
    );
    for other in core.request().plan().step(step).depends_on() {
        assert_eq!(
            core.step_state(*other),
            StepState::Completed,
            "{step} needs {other}"
        );
    }
}

/// What the core keeps beside the states of the steps follows from them.
pub(crate) fn check_derived(standing: &Standing, request: &Request) {
    let plan = request.plan();
    let state = |step: StepIndex| standing.steps[step.as_usize()].state;
    let has_ended = |step: StepIndex| matches!(state(step), StepState::Completed | StepState::NotCompleted);
    let mut ready = Vec::new();
    let mut timers = Vec::new();
    for (position, step) in (0_u16..).zip(plan.canonical_order()) {
        let kept = &standing.steps[step.as_usize()];
        let depends_on = plan.step(*step).depends_on();
        let n_open = depends_on.iter().filter(|other| !has_ended(**other)).count();
        let failed = depends_on
            .iter()
            .filter(|other| state(**other) == StepState::NotCompleted);
        assert_eq!(usize::from(kept.n_dependencies_open), n_open, "{step}");
        assert_eq!(
            kept.failed_dependency,
            failed.map(|other| plan.position(*other)).min(),
            "{step}"
        );
        assert_eq!(kept.has_output, kept.state == StepState::Completed);
        assert_eq!(kept.severity.is_some(), kept.state == StepState::NotCompleted);
        if kept.state == StepState::Pending && n_open == 0 {
            ready.push(position);
        }
        timers.extend(kept.timer_left_ms.map(|left_ms| (left_ms, position)));
    }
    timers.sort_unstable();
    let count = |of: fn(StepState) -> bool| standing.steps.iter().filter(|step| of(step.state)).count();
    let n_completed = count(|state| state == StepState::Completed);
    let n_not_completed = count(|state| state == StepState::NotCompleted);
    assert_eq!(standing.ready, ready, "who may be taken up");
    assert_eq!(standing.timers, timers, "R-3.6");
    assert_eq!(standing.n_completed as usize, n_completed);
    assert_eq!(standing.n_ended as usize, n_completed + n_not_completed);
    let n_slots_free = request.max_concurrent_steps() as usize - count(holds_slot);
    assert_eq!(standing.n_slots_free as usize, n_slots_free, "R-2.4");
    // who is ready waits for a slot only.
    assert!(
        ready.is_empty() || n_slots_free == 0,
        "a slot is free and a step is ready"
    );
}

/// The result in itself, and against the second interpreter's.
pub(crate) fn check_result(settlement: &Settlement, reference: &Interpreter) {
    let result = &settlement.result;
    check_alone(result);
    let ended = reference.ended.as_ref().expect("both have ended");
    assert_eq!(crate::border::status(result.status), ended.status, "R-5.6");
    assert_eq!(result.steps_executed as usize, reference.outputs.len(), "R-6.2");
    assert_eq!(result.steps_total as usize, reference.states.len());
    assert_eq!(settlement.started_at_unix_ms, ended.started_at);
    assert_eq!(result.completed_at, ended.completed_at, "R-6.4");
    assert_eq!(result.duration_ms, ended.completed_at - ended.started_at, "R-6.4");
    let keys = result
        .result_payload
        .entries()
        .map(|entry| entry.unwrap().0.to_owned());
    let places = keys.map(|key| place_of(&key.parse().unwrap()));
    let completed = reference
        .order
        .iter()
        .copied()
        .filter(|step| reference.outputs.contains_key(step));
    assert!(places.eq(completed), "R-6.3");
    let chain = result.error.as_ref().map(chain_of);
    assert_eq!(chain, ended.error.as_ref().map(links), "the error and its causes");
    if let Some(error) = &result.error {
        let expected = reference.trace.iter().map(|(error, _)| error.code.clone());
        assert_eq!(errors_of(error), expected.collect::<Vec<_>>(), "R-6.6");
    }
}

///
fn check_alone(result: &PlanResult) {
    let severity = result.error.as_ref().map(|error| error.severity);
    assert_eq!(severity.is_none(), result.status == Status::Success);
    assert!(result.duration_ms >= 0);
    match result.status {
        Status::Success => assert_eq!(result.steps_executed, result.steps_total),
        Status::Partial => {
            assert!((1..result.steps_total).contains(&result.steps_executed));
            assert_ne!(severity, Some(Severity::Fatal));
        }
        Status::Failure => {
            assert!(result.steps_executed < result.steps_total);
            assert_eq!(severity, Some(Severity::Fatal));
        }
    }
}

/// The codes of `context.errors`.
fn errors_of(error: &ExecutionError) -> Vec<String> {
    let errors = error
        .context
        .entries()
        .map(Result::unwrap)
        .find(|(key, _)| *key == "errors");
    let Some((_, ValueView::List(list))) = errors else {
        panic!("R-6.6: context.errors is no list");
    };
    let code = |item: Result<ValueView<'_>, _>| {
        let Ok(ValueView::Struct(bytes)) = item else {
            panic!("an error is an object");
        };
        let mut fields = escapement_model::opaque::entries(bytes).map(Result::unwrap);
        match fields.find(|(key, _)| *key == "error_code") {
            Some((_, ValueView::Text(text))) => text.to_owned(),
            _ => panic!("an error has a code"),
        }
    };
    items(list).map(code).collect()
}

#[test]
fn who_waits_for_nothing_is_stuck() {
    //
    let step = |state, timer_left_ms| StepStanding {
        state,
        n_dependencies_open: 0,
        failed_dependency: None,
        timer_left_ms,
        has_output: false,
        severity: None,
    };
    let running = |steps: Vec<StepStanding>| Standing {
        phase: Phase::Running,
        start_is_being_written: false,
        limit_left_ms: Some(9),
        steps,
        ready: vec![],
        timers: vec![],
        n_slots_free: 1,
        n_ended: 0,
        n_completed: 0,
    };
    let asleep = StepState::BackingOff { next_attempt: 2 };
    let waiting = StepState::Waiting { attempt: 1 };
    assert!(is_stuck(
        &running(vec![step(StepState::Pending, None)]),
        true,
        false
    ));
    assert!(is_stuck(&running(vec![step(asleep, None)]), true, false));
    assert!(is_stuck(&running(vec![step(waiting, None)]), false, false));
    assert!(!is_stuck(&running(vec![step(asleep, Some(1))]), true, false));
    assert!(!is_stuck(&running(vec![step(waiting, None)]), true, false));
}
