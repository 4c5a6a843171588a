//! What holds in every state and of every result, whatever the second interpreter thinks. Changes no state.

use super::Lockstep;
use escapement_contract::{AbstractState, AbstractStep, Execution, Phase, Request, StepIndex, StepState};

/// and what else can be seen of any state.
///
/// # Panics
/// It does not hold.
pub fn check_state(both: &Lockstep, state: &AbstractState) {
    let stuck = is_stuck(
        state,
        both.core.next_due_ms().is_some(),
        both.settlement.is_some(),
    );
    assert!(!stuck, "nothing would ever happen: {state:?}");
    let n_slots = both.core.request().max_concurrent_steps() as usize;
    let under_way = state.steps.iter().filter(|step| holds_slot(step.state));
    assert!(under_way.count() <= n_slots, "R-2.4");
    assert_eq!(
        both.core.result().is_some(),
        state.phase == Phase::Settled,
        "R-9.2"
    );
    assert_eq!(both.core.settlement().is_some(), both.core.result().is_some());
    let progress = both.core.progress();
    let under_way = progress.steps_waiting + progress.steps_running + progress.steps_backing_off;
    let ended = progress.steps_completed + progress.steps_not_completed;
    assert_eq!(progress.steps_pending + under_way + ended, progress.steps_total);
    assert_eq!(progress.steps_total as usize, both.reference.states.len());
    // Every plan ends
    let is_bounded = both.core.next_due_ms().is_some();
    assert_eq!(is_bounded, state.phase < Phase::Settling, "bounded until it ends");
}

/// Returns true if no timer is armed, or nothing beside it is under way: no write, no attempt, no sleep.
fn is_stuck(state: &AbstractState, is_armed: bool, has_result: bool) -> bool {
    let waits = |state| holds_slot(state) && !matches!(state, StepState::BackingOff { .. });
    let sleeps = |step: &AbstractStep| {
        matches!(step.state, StepState::BackingOff { .. }) && step.timer_left_ms.is_some()
    };
    match state.phase {
        Phase::Queued => !is_armed,
        Phase::Starting => !is_armed || !state.start_is_being_written,
        Phase::Running => !is_armed || !state.steps.iter().any(|step| waits(step.state) || sleeps(step)),
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

/// a step is dispatched between start and end, once its dependencies have completed.
pub(super) fn check_dispatch(core: &Execution, step: StepIndex, has_ended: bool) {
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
pub(super) fn check_derived(state: &AbstractState, request: &Request) {
    let plan = request.plan();
    let state_of = |step: StepIndex| state.steps[step.as_usize()].state;
    let has_ended =
        |step: StepIndex| matches!(state_of(step), StepState::Completed | StepState::NotCompleted);
    let mut ready = Vec::new();
    let mut timers = Vec::new();
    for (position, step) in (0_u16..).zip(plan.canonical_order()) {
        let kept = &state.steps[step.as_usize()];
        let depends_on = plan.step(*step).depends_on();
        let n_open = depends_on.iter().filter(|other| !has_ended(**other)).count();
        let failed = depends_on
            .iter()
            .filter(|other| state_of(**other) == StepState::NotCompleted);
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
    let count = |of: fn(StepState) -> bool| state.steps.iter().filter(|step| of(step.state)).count();
    let n_completed = count(|state| state == StepState::Completed);
    let n_not_completed = count(|state| state == StepState::NotCompleted);
    assert_eq!(state.ready, ready, "who may be taken up");
    assert_eq!(state.timers, timers, "R-3.6");
    assert_eq!(state.n_completed as usize, n_completed);
    assert_eq!(state.n_ended as usize, n_completed + n_not_completed);
    let n_slots_free = request.max_concurrent_steps() as usize - count(holds_slot);
    assert_eq!(state.n_slots_free as usize, n_slots_free, "R-2.4");
    // who is ready waits for a slot only.
    assert!(
        ready.is_empty() || n_slots_free == 0,
        "a slot is free and a step is ready"
    );
}

#[test]
fn who_waits_for_nothing_is_stuck() {
    //
    let step = |state, timer_left_ms| AbstractStep {
        state,
        n_dependencies_open: 0,
        failed_dependency: None,
        timer_left_ms,
        has_output: false,
        severity: None,
    };
    let running = |steps: Vec<AbstractStep>| AbstractState {
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
