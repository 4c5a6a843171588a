//! How the core stands, in the words of the interpreter.

use escapement_run::journal::{InputRequest, SkipReason};
use escapement_run::state::{StepStage, StepState as CoreStep, UnitStage, UnitState as CoreUnit};
use escapement_run::{Run, ShownState};

use super::{is_open, kind_with, values};
use crate::reference::view::{StepView, UnitView, UnitWord, View, trimmed};
use crate::reference::words::{Code, End, Limit, Reason, RequestKind, Shown, StepState, UnitId};

pub(super) fn of(run: &Run, limit: Option<Limit>) -> View {
    let state = run.state();
    let mut open: Vec<_> = state
        .requests
        .iter()
        .filter(|request| is_open(request))
        .map(|it| (kind_of(it), unit_of(it)))
        .collect();
    open.sort_unstable();
    View {
        shown: shown(run.shown()),
        steps: state.steps.iter().map(step).collect(),
        open,
        end: end(run, limit),
        due_at: run.due_at().map(|at| u64::try_from(at).expect("after 1970")),
    }
}

pub(super) fn kind_of(request: &InputRequest) -> RequestKind {
    kind_with(request.kind(), request.unit.is_some(), request.error.is_some())
}

pub(super) fn unit_of(request: &InputRequest) -> Option<UnitId> {
    request.unit.map(|unit| (unit.step as usize, unit.index as usize))
}

fn shown(shown: ShownState) -> Shown {
    match shown {
        ShownState::Queued => Shown::Queued,
        ShownState::Planning => Shown::Planning,
        ShownState::Running => Shown::Running,
        // No plan of the exploration has to produce an artifact.
        ShownState::Verifying => unreachable!("nothing is to be verified"),
        ShownState::Waiting => Shown::Waiting,
        ShownState::Pausing => Shown::Pausing,
        ShownState::Paused => Shown::Paused,
        ShownState::Completed => Shown::Completed,
        ShownState::Failed => Shown::Failed,
        ShownState::Timeout => Shown::Timeout,
        ShownState::Cancelled => Shown::Cancelled,
    }
}

fn end(run: &Run, limit: Option<Limit>) -> Option<End> {
    let end = run.state().end.as_ref()?;
    let error = || end.error.clone().unwrap_or_default();
    match run.shown() {
        ShownState::Completed => Some(End::Completed {
            is_partial: end.partial,
            output: end.output.as_ref().map(|output| values::decoded(&output.inline)),
        }),
        ShownState::Failed => Some(match &end.output {
            Some(output) => End::FellBack {
                code: interned(&error().code),
                output: values::decoded(&output.inline),
            },
            None => End::Failed(interned(&error().code)),
        }),
        ShownState::Timeout => limit.map(End::Timeout),
        ShownState::Cancelled => Some(End::Cancelled(interned(&error().message))),
        _ => None,
    }
}

fn step(step: &CoreStep) -> StepView {
    let state = match step.stage() {
        StepStage::Pending => StepState::Pending,
        StepStage::Running => shown_step(step),
        StepStage::Completed => StepState::Completed,
        StepStage::Failed => StepState::Failed,
        StepStage::Skipped => StepState::Skipped,
        StepStage::Blocked => StepState::Blocked,
    };
    let reason = (state == StepState::Skipped).then(|| match step.skip_reason() {
        SkipReason::Branch => Reason::Branch,
        SkipReason::DependencyFailed => Reason::DependencyFailed,
        SkipReason::RunEnded => Reason::RunEnded,
        SkipReason::Override => Reason::Operator,
    });
    let error = step.error.as_ref().filter(|_| state == StepState::Failed);
    let units = if step.stage().is_settled() {
        &[][..]
    } else {
        &step.units[..]
    };
    StepView {
        state,
        reason,
        code: error.map(|error| interned(&error.code)),
        epoch: step.epoch,
        units: trimmed(units.iter().map(unit).collect()),
    }
}

/// RUN-3.1
fn shown_step(step: &CoreStep) -> StepState {
    let has_ended = |unit: &&CoreUnit| matches!(unit.stage(), UnitStage::Completed | UnitStage::Failed);
    let mut live = step.units.iter().filter(|unit| !has_ended(unit)).peekable();
    if live.clone().any(|unit| unit.stage() == UnitStage::Waiting) {
        StepState::Waiting
    } else if live.peek().is_some() && live.all(|unit| unit.stage() == UnitStage::BackingOff) {
        StepState::Pending
    } else {
        StepState::Running
    }
}

fn unit(unit: &CoreUnit) -> UnitView {
    let state = match unit.stage() {
        UnitStage::Ready | UnitStage::BackingOff | UnitStage::Judged => UnitWord::Idle,
        UnitStage::Live => UnitWord::InFlight,
        UnitStage::Waiting => UnitWord::Asking,
        UnitStage::Completed => UnitWord::Completed,
        UnitStage::Failed => UnitWord::Failed,
    };
    UnitView {
        state,
        n_attempts: unit.attempts,
        n_retries: unit.retries,
    }
}

/// A code that lives for ever; there are few.
fn interned(code: &str) -> Code {
    let known = CODES.into_iter().find(|known| *known == code);
    known.unwrap_or_else(|| Box::leak(code.to_owned().into_boxed_str()))
}

const CODES: [&str; 16] = [
    "E_ONCE",
    "INVALID_PAYLOAD",
    "TOOL_TIMEOUT",
    "WORKER_LOST",
    "UNKNOWN_ERROR",
    "APPROVAL_REQUIRED",
    "APPROVAL_DENIED",
    "AMBIGUOUS_EFFECT",
    "INPUT_EXPIRED",
    "EXPRESSION_FAILED",
    "DECISION_INVALID",
    "PARALLEL_FAILED",
    "CHILD_FAILED",
    "DEADLOCK",
    "OPERATOR",
    "CRASH_LOOP",
];
