//! Reason why a step is in its state, and what it waits for. Decides nothing.

use crate::explain::{asks, attempts, bare, is_open, key};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_run::Run;
use escapement_run::journal::{InputRequest, RequestKind, SkipReason};
use escapement_run::plan::{Expression, OnDependencyFailure, OnFailure, Step, StepIndex, StepKind};
use escapement_run::spec::DependencyDefault;
use escapement_run::state::{Stage, StepStage, UnitStage, UnitState};

/// Reason why a step is in its state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepExplanation {
    /// Ids of the rules that say so, the deciding one first.
    pub rules: Vec<&'static str>,
    /// A sentence or two.
    pub text: String,
    /// Steps that it waits for, from 0, in canonical order, at most 32.
    pub waits_for_steps: Vec<u32>,
    /// Requests that it waits for, 16 bytes each.
    pub waits_for_requests: Vec<Bytes>,
    /// Unix milliseconds at which it goes on at the latest, if a time is set for that.
    pub due_at: Option<i64>,
}

/// Explains a step, from 0, of a run as it is.
///
/// # Panics
/// If the plan has no such step.
pub fn explain_step(run: &Run, step: u32) -> StepExplanation {
    let state = &run.state().steps[step as usize];
    match state.stage() {
        StepStage::Pending => pending(run, step),
        StepStage::Running => running(run, step),
        StepStage::Completed => said(&["RUN-3.1"], "It completed.".to_string()),
        StepStage::Failed => {
            let error = state.error.clone().unwrap_or_default();
            said(
                &["RUN-5.5"],
                format!("It failed for good: {}: {}.", error.code, bare(&error.message)),
            )
        }
        StepStage::Skipped => match state.skip_reason() {
            SkipReason::Branch => said(&["RUN-3.8", "RUN-3.6"], "A branch went past it.".to_string()),
            SkipReason::DependencyFailed => said(&["RUN-3.5"], "What it depends on failed.".to_string()),
            SkipReason::RunEnded => said(&["RUN-10.3"], "The run ended before it.".to_string()),
            SkipReason::Override => said(
                &["RUN-8.6"],
                "An operator said that it shall not run.".to_string(),
            ),
        },
        StepStage::Blocked => said(
            &["RUN-3.9", "RUN-3.5"],
            "It can never run: what it depends on failed, and it runs only if that completed.".to_string(),
        ),
    }
}

fn said(rules: &[&'static str], text: String) -> StepExplanation {
    StepExplanation {
        rules: rules.to_vec(),
        text,
        ..StepExplanation::default()
    }
}

fn pending(run: &Run, step: u32) -> StepExplanation {
    let state = run.state();
    if state.stage() == Stage::Queued {
        return said(&["RUN-2.4"], "The run waits in the queue.".to_string());
    }
    if let Some(request) = state.open_requests().find(|request| request.unit.is_none()) {
        let rule = match request.kind() {
            RequestKind::BudgetExtension => "RUN-13.9",
            _ => "RUN-6.1",
        };
        return asked(run, request, rule);
    }
    if state.pause_wanted {
        return said(&["RUN-8.1"], "Nothing starts while the run pauses.".to_string());
    }
    if let Some(cause) = state.cause.as_ref().filter(|_| !state.drains) {
        let failed = cause.step.map_or("the run", |step| key(run, step));
        return said(
            &["RUN-5.6"],
            format!("Nothing further starts: {failed} failed with {}.", cause.code),
        );
    }
    let spec = &run.plan().steps[step as usize];
    let settled = |on: &StepIndex| state.steps[*on].stage().is_settled();
    let waits = |rule: &'static str, on: Vec<StepIndex>, why: &str| waits_for(run, rule, &on, why);
    let before = 0..step as usize;
    let barrier = before
        .clone()
        .find(|at| is_barrier(&run.plan().steps[*at]) && !settled(at));
    if let Some(barrier) = barrier {
        return waits(
            "RUN-3.3",
            [barrier].into(),
            "It starts only once it is decided which way the plan goes",
        );
    }
    let unsettled: Vec<_> = spec
        .depends_on
        .iter()
        .filter(|on| !settled(on))
        .copied()
        .collect();
    if !unsettled.is_empty() {
        return waits("RUN-3.4", unsettled, "It waits for what it depends on");
    }
    if let Some(on) = asks_result(spec).filter(|on| !settled(on)) {
        return waits("RUN-4.10", [on].into(), "It asks for the result of another step");
    }
    let lost: Vec<_> = spec
        .depends_on
        .iter()
        .filter(|on| is_lost(run, **on))
        .copied()
        .collect();
    if !lost.is_empty() && blocks(run, spec) {
        return waits(
            "RUN-3.5",
            lost,
            "It never starts, since what it depends on failed",
        );
    }
    let running = (0..state.steps.len()).filter(|at| state.steps[*at].stage() == StepStage::Running);
    waits(
        "RUN-3.7",
        running.collect(),
        "It would start, but for the steps that run",
    )
}

fn waits_for(run: &Run, rule: &'static str, on: &[StepIndex], why: &str) -> StepExplanation {
    let on: Vec<u32> = on
        .iter()
        .take(STEPS_MAX)
        .filter_map(|on| u32::try_from(*on).ok())
        .collect();
    let keys: Vec<&str> = on.iter().map(|on| key(run, *on)).collect();
    StepExplanation {
        rules: [rule].into(),
        text: format!("{why}: {}.", keys.join(", ")),
        waits_for_steps: on,
        ..StepExplanation::default()
    }
}

fn asked(run: &Run, request: &InputRequest, rule: &'static str) -> StepExplanation {
    StepExplanation {
        rules: [rule].into(),
        text: asks(run, request),
        waits_for_requests: [request.id.clone()].into(),
        due_at: Some(request.expires_at),
        ..StepExplanation::default()
    }
}

fn running(run: &Run, step: u32) -> StepExplanation {
    let state = run.state();
    let is_its =
        |request: &&InputRequest| request.unit.is_some_and(|unit| unit.step == step) && is_open(request);
    let requests: Vec<&InputRequest> = state.requests.iter().filter(is_its).collect();
    if let Some(first) = requests.first() {
        let mut explained = asked(run, first, "RUN-6.5");
        explained.waits_for_requests = requests.iter().map(|request| request.id.clone()).collect();
        explained.due_at = requests.iter().map(|request| request.expires_at).min();
        return explained;
    }
    if state.evaluations.iter().any(|evaluation| evaluation.step == step) {
        return said(&["RUN-4.10"], "Its expression is evaluated.".to_string());
    }
    let units = || state.steps[step as usize].all_units().map(|(_, unit)| unit);
    let live: Vec<&UnitState> = units().filter(|unit| unit.stage() == UnitStage::Live).collect();
    if let Some(unit) = live.first() {
        return match &unit.live {
            Some(check) if check.unit.is_safety_check() => said(
                &["RUN-6.11"],
                format!("{} is asked whether what it would do is safe.", check.action),
            ),
            Some(attempt) if attempt.unit.as_tool_call().is_some() => said(
                &["RUN-13.2"],
                format!("Its model asked for {}, which is under way.", attempt.action),
            ),
            Some(attempt) if is_model(run, step) => {
                let turn = attempt.unit.index + 1;
                said(
                    &["RUN-13.1"],
                    format!("{} is asked for turn {turn} of its model.", attempt.action),
                )
            }
            Some(attempt) => said(
                &["RUN-4.4"],
                format!(
                    "It has {} of {}.",
                    attempts(live.len(), "in flight"),
                    attempt.action
                ),
            ),
            None => said(&["RUN-4.12"], "Its child run is under way.".to_string()),
        };
    }
    let later = units().filter(|unit| unit.stage() == UnitStage::BackingOff);
    if let Some(unit) = later.min_by_key(|unit| unit.retry_at) {
        let error = unit.error.clone().unwrap_or_default();
        let mut explained = said(
            &["RUN-5.3"],
            format!(
                "It is tried again, because it failed with {}: {}.",
                error.code,
                bare(&error.message)
            ),
        );
        explained.due_at = Some(unit.retry_at);
        return explained;
    }
    if units().any(|unit| unit.awaits_budget) {
        let why =
            "It waits until others give back what they reserved of the budget, or until somebody extends it.";
        return said(&["RUN-13.7"], why.to_string());
    }
    said(&["RUN-3.2"], "It goes on as soon as the run does.".to_string())
}

fn is_model(run: &Run, step: u32) -> bool {
    matches!(run.plan().steps[step as usize].kind, StepKind::LlmDecision(_))
}

/// Returns true for a step that decides which later ones run.
fn is_barrier(spec: &Step) -> bool {
    let jumps = spec.on_success.is_some() || matches!(spec.on_failure, Some(OnFailure::Jump(_)));
    jumps || matches!(spec.kind, StepKind::Condition(_))
}

fn asks_result(spec: &Step) -> Option<StepIndex> {
    let expression = match &spec.kind {
        StepKind::Condition(condition) => Some(&condition.condition),
        StepKind::Loop(repeated) => repeated.loop_condition.as_ref(),
        _ => None,
    };
    match expression {
        Some(Expression::ResultOf(on)) => Some(*on),
        Some(Expression::Literal(_) | Expression::Text(_)) | None => None,
    }
}

fn is_lost(run: &Run, step: StepIndex) -> bool {
    let state = &run.state().steps[step];
    match state.stage() {
        StepStage::Failed | StepStage::Blocked => true,
        StepStage::Skipped => state.skip_reason() == SkipReason::DependencyFailed,
        StepStage::Pending | StepStage::Running | StepStage::Completed => false,
    }
}

fn blocks(run: &Run, spec: &Step) -> bool {
    match spec.on_dependency_failure {
        Some(word) => word == OnDependencyFailure::Block,
        None => run.state().spec.policy.on_dependency_failure() == DependencyDefault::Block,
    }
}

/// Steps that an explanation names.
const STEPS_MAX: usize = 32;
