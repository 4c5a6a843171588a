//! A step of a run as a message.

use super::run::error_view;
use super::words::{count, signed, skip_text, skip_word, small, time};
use bytes::Bytes;
use escapement_model::hex;
use escapement_model::opaque::{StructBuilder, ValueView};
use escapement_model::{Opaque, OpaqueValue, RunId};
use escapement_run::Run;
use escapement_run::ids::AttemptName;
use escapement_run::journal::Stored;
use escapement_run::plan::{Step, StepKind};
use escapement_run::state::{RunState, StepStage, StepState, UnitStage, UnitState};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::run_step::State;

/// The step at this position in canonical order. `spec`: as the document has it. Without attempts.
pub(crate) fn step_view(run: &Run, index: usize, spec: Option<Opaque>) -> v1::RunStep {
    let (state, plan) = (&run.state().steps[index], &run.plan().steps[index]);
    let retries = state.units.iter().map(|unit| unit.retries).max().unwrap_or(0);
    let limits = &run.state().spec.limits;
    let backs_off = |unit: &&UnitState| unit.stage() == UnitStage::BackingOff;
    let retry_at = state
        .units
        .iter()
        .filter(backs_off)
        .map(|unit| unit.retry_at)
        .min();
    let (started_at, completed_at) = (time(state.started_at), time(state.ended_at));
    v1::RunStep {
        spec,
        step_key: plan.key.clone(),
        index: count(index),
        state: step_state(run.state(), index).into(),
        reason: match state.stage() {
            StepStage::Skipped => skip_word(state.skip_reason()).to_owned(),
            _ => String::new(),
        },
        reason_text: match state.stage() {
            StepStage::Skipped => skip_text(state.skip_reason()).to_owned(),
            _ => String::new(),
        },
        error: step_error(run, state),
        output: step_output(state, plan),
        retry_count: small(retries),
        max_retries: small(plan.retry.max_retries.unwrap_or(limits.max_retries)),
        epoch: small(state.epoch),
        retry_at: retry_at.filter(|_| state.stage() == StepStage::Running),
        started_at,
        completed_at,
        duration_ms: started_at
            .zip(completed_at)
            .map(|(started, completed)| completed.saturating_sub(started)),
        attempts: Vec::new(),
        child_run_id: child_run_id(run, state, plan),
        result_view: None,
        units: count(state.units.len()),
        completed_units: count(completed(state).count()),
    }
}

// RUN-4.3
/// The child run that the step has started last, ended or not; empty if it has started none.
fn child_run_id(run: &Run, state: &StepState, plan: &Step) -> String {
    let unit = state.units.first().filter(|unit| unit.attempts > 0);
    let run_id = <[u8; 16]>::try_from(&run.state().run_id[..]).ok();
    match (&plan.kind, unit, run_id.and_then(RunId::from_bytes)) {
        (StepKind::SubPlan(_), Some(unit), Some(run_id)) => {
            let name = AttemptName {
                run_id,
                seed: run.state().spec.seed(),
                step: &plan.key,
                index: 0,
                epoch: state.epoch,
                attempt: unit.attempts,
            };
            name.child_run_id().to_string()
        }
        _ => String::new(),
    }
}

fn completed(state: &StepState) -> impl Iterator<Item = &UnitState> {
    state.units.iter().filter(|unit| unit.output.is_some())
}

fn step_error(run: &Run, state: &StepState) -> Option<v1::RunError> {
    let of_units = || state.units.iter().find_map(|unit| unit.error.as_ref());
    let error = match state.stage() {
        StepStage::Failed => state.error.as_ref().or_else(of_units),
        StepStage::Pending | StepStage::Running => of_units(),
        StepStage::Completed | StepStage::Skipped | StepStage::Blocked => None,
    };
    error.map(|error| error_view(error, run.plan()))
}

// RUN-3.1
/// The state of a step in one word.
pub(crate) fn step_state(run: &RunState, index: usize) -> State {
    let step = &run.steps[index];
    match step.stage() {
        StepStage::Pending => State::Pending,
        StepStage::Running => running(run, index),
        StepStage::Completed => State::Completed,
        StepStage::Failed => State::Failed,
        StepStage::Skipped => State::Skipped,
        StepStage::Blocked => State::Blocked,
    }
}

fn running(run: &RunState, index: usize) -> State {
    let units = &run.steps[index].units;
    let has = |stage: UnitStage| units.iter().any(|unit| unit.stage() == stage);
    let evaluates = run
        .evaluations
        .iter()
        .any(|pending| pending.step as usize == index);
    if has(UnitStage::Live) || evaluates {
        State::Running
    } else if has(UnitStage::Waiting) {
        State::Waiting
    } else if has(UnitStage::BackingOff) {
        State::Pending
    } else {
        State::Running
    }
}

/// What a step came to and where it is.
fn step_output(state: &StepState, plan: &Step) -> Option<v1::StepOutputRef> {
    if state.stage() != StepStage::Completed {
        return None;
    }
    if let Some(output) = &state.output {
        return Some(output_ref(output));
    }
    match &plan.kind {
        StepKind::Parallel(_) | StepKind::Loop(_) => Some(v1::StepOutputRef {
            size_bytes: signed(
                completed(state)
                    .filter_map(|unit| unit.output.as_ref())
                    .map(|output| output.length)
                    .sum(),
            ),
            items: Some(count(state.units.len())),
            ..v1::StepOutputRef::default()
        }),
        _ => state
            .units
            .last()
            .and_then(|unit| unit.output.as_ref())
            .map(output_ref),
    }
}

/// A value and where it is.
pub(crate) fn output_ref(stored: &Stored) -> v1::StepOutputRef {
    let is_here = stored.digest.is_empty();
    v1::StepOutputRef {
        size_bytes: signed(stored.length),
        value: is_here.then(|| OpaqueValue::from_encoded(stored.inline.clone())),
        sha256: hex::text(&stored.digest),
        items: None,
    }
}

/// The result in the words of stored plans.
pub(crate) fn result_view(plan: &Step, output: ValueView<'_>) -> Opaque {
    let view = StructBuilder::new();
    match &plan.kind {
        StepKind::ToolCall(call) => view
            .text("type", "tool_call")
            .text("tool_name", &call.tool_name)
            .value("result", output),
        StepKind::LlmDecision(_) => decision_view(view.text("type", "llm_decision"), output),
        StepKind::UserInput(_) => view.text("type", "user_input").value("answer", output),
        StepKind::Condition(_) => view.text("type", "condition").value("result", output),
        StepKind::Parallel(_) => view.text("type", "parallel").value("results", output),
        StepKind::Loop(repeated) => view
            .text("type", "loop")
            .text("tool_name", &repeated.call.tool_name)
            .value("results", output),
        StepKind::SubPlan(_) => view.text("type", "sub_plan").value("result", output),
    }
    .build()
}

/// What a model decided and which tools it called; of an operator's word the word.
fn decision_view(view: StructBuilder, output: ValueView<'_>) -> StructBuilder {
    let ValueView::Struct(object) = output else {
        return view.value("decision", output);
    };
    let object = Opaque::from_encoded(Bytes::copy_from_slice(object));
    let said = object.entries().filter_map(Result::ok);
    let said = said.filter(|(key, _)| ["decision", "tool_calls"].contains(key));
    said.fold(view, |view, (key, value)| view.value(key, value))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use escapement_run::state::PendingEvaluation;

    fn state(stage: StepStage, units: &[UnitStage]) -> RunState {
        let unit = |stage: &UnitStage| UnitState {
            stage: (*stage).into(),
            ..UnitState::default()
        };
        RunState {
            steps: vec![StepState {
                stage: stage.into(),
                units: units.iter().map(unit).collect(),
                ..StepState::default()
            }],
            ..RunState::default()
        }
    }

    #[test]
    fn a_step_is_in_one_of_seven_states() {
        for (stage, units, shown) in [
            (StepStage::Pending, &[][..], State::Pending),
            (StepStage::Running, &[UnitStage::Live], State::Running),
            (
                StepStage::Running,
                &[UnitStage::Waiting, UnitStage::Live],
                State::Running,
            ),
            (
                StepStage::Running,
                &[UnitStage::Waiting, UnitStage::BackingOff],
                State::Waiting,
            ),
            (
                StepStage::Running,
                &[UnitStage::Completed, UnitStage::BackingOff],
                State::Pending,
            ),
            (StepStage::Completed, &[UnitStage::Completed], State::Completed),
            (StepStage::Failed, &[UnitStage::Failed], State::Failed),
            (StepStage::Skipped, &[], State::Skipped),
            (StepStage::Blocked, &[], State::Blocked),
        ] {
            assert_eq!(step_state(&state(stage, units), 0), shown, "{stage:?} {units:?}");
        }
    }

    #[test]
    fn a_condition_that_is_evaluated_runs() {
        let mut run = state(StepStage::Running, &[UnitStage::Completed, UnitStage::BackingOff]);
        run.evaluations.push(PendingEvaluation::default());
        assert_eq!(step_state(&run, 0), State::Running);
    }
}
