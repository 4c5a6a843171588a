//! States and other words, as the API spells them.

use escapement_model::RunId;
use escapement_model::hex;
use escapement_run::ShownState;
use escapement_run::journal::SkipReason;
use escapement_run::spec::EffectClass;
use escapement_runs_host::state_byte;
use escapement_wire::runs::v1::run::{ErrorType, Outcome, State};

/// The state of a run.
pub(crate) fn state_of(state: ShownState) -> State {
    match state {
        ShownState::Queued => State::Queued,
        ShownState::Planning => State::Planning,
        ShownState::Running => State::Running,
        ShownState::Verifying => State::Verifying,
        ShownState::Waiting => State::Waiting,
        ShownState::Pausing => State::Pausing,
        ShownState::Paused => State::Paused,
        ShownState::Completed => State::Completed,
        ShownState::Failed => State::Failed,
        ShownState::Timeout => State::Timeout,
        ShownState::Cancelled => State::Cancelled,
    }
}

/// The state of a run, as the store has it; `None` for a byte that stands for none.
pub(crate) fn state_of_byte(byte: u8) -> Option<State> {
    STATES
        .into_iter()
        .find(|state| state_byte(*state) == byte)
        .map(state_of)
}

/// The state in the words of stored plans: `plan_status`.
pub(crate) fn status_word(state: State) -> &'static str {
    match state {
        State::Unspecified => "",
        State::Queued => "pending",
        State::Planning | State::Running | State::Verifying => "running",
        State::Waiting | State::Pausing | State::Paused => "paused",
        State::Completed => "completed",
        State::Failed | State::Timeout => "failed",
        State::Cancelled => "cancelled",
    }
}

/// What kind of end it was; `code` is that of its error.
pub(super) fn error_type(state: State, code: &str) -> ErrorType {
    match state {
        State::Failed if code == "PLANNING_ERROR" => ErrorType::PlanningError,
        State::Failed => ErrorType::ExecutionError,
        State::Timeout => ErrorType::TimeoutError,
        State::Cancelled => ErrorType::Cancelled,
        State::Unspecified
        | State::Queued
        | State::Planning
        | State::Waiting
        | State::Running
        | State::Pausing
        | State::Paused
        | State::Verifying
        | State::Completed => ErrorType::NoError,
    }
}

pub(super) fn outcome(state: State, is_partial: bool, has_fallback: bool) -> Outcome {
    match (state, is_partial) {
        (State::Failed, _) if has_fallback => Outcome::Fallback,
        (State::Completed, false) => Outcome::Success,
        (State::Completed, true) => Outcome::Partial,
        _ => Outcome::None,
    }
}

pub(super) fn skip_word(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::Branch => "branch",
        SkipReason::DependencyFailed => "dependency_failed",
        SkipReason::RunEnded => "run_ended",
        SkipReason::Override => "override",
    }
}

/// Returns the reason as a sentence.
pub(super) fn skip_text(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::Branch => "Skipped due to condition branch",
        SkipReason::DependencyFailed => "Skipped since a dependency failed",
        SkipReason::RunEnded => "Skipped since the run ended",
        SkipReason::Override => "Skipped by an operator",
    }
}

pub(super) fn effect_word(effect: EffectClass) -> &'static str {
    match effect {
        EffectClass::SideEffect => "side_effect",
        EffectClass::Pure => "pure",
        EffectClass::World => "world",
        EffectClass::Llm => "llm",
        EffectClass::External => "external",
    }
}

/// The digest of a revision; empty for none.
pub(super) fn digest_text(digest: &[u8]) -> String {
    match digest {
        [] => String::new(),
        digest => format!("sha256:{}", hex::text(digest)),
    }
}

/// An id of 16 bytes as it is written; empty for none.
pub(crate) fn uuid_text(bytes: &[u8]) -> String {
    let id = <[u8; 16]>::try_from(bytes).ok().and_then(RunId::from_bytes);
    id.map_or_else(String::new, |id| id.to_string())
}

/// A count as the API has it.
pub(super) fn count(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

/// A number of the journal as the API has it.
pub(crate) fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// A small number of the journal as the API has it.
pub(super) fn small(n: u32) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

/// A time that is 0 if there is none.
pub(super) fn time(at: i64) -> Option<i64> {
    (at != 0).then_some(at)
}

/// All states.
pub(crate) const STATES: [ShownState; 11] = [
    ShownState::Verifying,
    ShownState::Queued,
    ShownState::Planning,
    ShownState::Running,
    ShownState::Waiting,
    ShownState::Pausing,
    ShownState::Paused,
    ShownState::Completed,
    ShownState::Failed,
    ShownState::Timeout,
    ShownState::Cancelled,
];
