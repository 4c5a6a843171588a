//! What steps came to, as templates and expressions see it.

use super::Turn;
use super::looked_up::LookedUp;
use crate::journal::{Stored, UnitRef};
use crate::outcome::encoded;
use crate::plan::{StepIndex, StepKind};
use crate::state::{StepStage, StepState, UnitState};
use crate::template::{
    Found, Pointer, RenderError, Sources, list_index, render_object, render_text, render_value,
};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::opaque::{BudgetSpent, ListBuilder, StructBuilder, ValueView, WalkBudget, value};
use escapement_model::{Opaque, limits::OUTPUT_BYTES_MAX};

/// A code and a sentence.
pub(super) type RenderFailure = (&'static str, String);

/// What a template of one unit can refer to.
struct UnitSources<'t, 'a> {
    turn: &'t Turn<'a>,
    /// Absent for the output of the run.
    unit: Option<UnitRef>,
    synthetic: bool,
}

// RUN-1.6
impl Sources for UnitSources<'_, '_> {
    fn value(
        &self,
        source: &str,
        pointer: &Pointer,
        budget: &mut WalkBudget,
    ) -> Result<Found<'_>, BudgetSpent> {
        let turn = self.turn;
        match source {
            "input" => {
                let input = turn.looked_up.object(turn, &turn.state.input, budget)?;
                input.follow(pointer, budget)
            }
            "session" => match &turn.state.session {
                Some(session) => {
                    let state = turn.looked_up.object(turn, &session.state, budget)?;
                    state.follow(pointer, budget)
                }
                None => LookedUp::small(ValueView::Struct(&[])).follow(pointer, budget),
            },
            "run" => {
                let facts = turn.run_facts();
                LookedUp::small(ValueView::Struct(facts.as_encoded())).follow(pointer, budget)
            }
            "iteration" | "item" => match self.unit {
                Some(unit) => {
                    let number = ValueView::Number(f64::from(unit.index));
                    LookedUp::small(number).follow(pointer, budget)
                }
                None => Ok(Found::Missing),
            },
            key => self.of_step(key, pointer, budget),
        }
    }
}

impl UnitSources<'_, '_> {
    // RUN-1.7
    fn of_step(
        &self,
        key: &str,
        pointer: &Pointer,
        budget: &mut WalkBudget,
    ) -> Result<Found<'_>, BudgetSpent> {
        let steps = &self.turn.plan.steps;
        budget.spend(steps.len() / KEYS_PER_UNIT)?;
        let Some(step) = steps.iter().position(|step| step.key == key) else {
            return Ok(Found::Missing);
        };
        let state = &self.turn.state.steps[step];
        match state.stage() {
            StepStage::Completed => self.turn.found_in(step, pointer, budget),
            _ if self.synthetic => {
                let (code, message) = match &state.error {
                    Some(error) => (error.code.as_str(), error.message.as_str()),
                    None => ("STEP_SKIPPED", "the step did not run"),
                };
                Ok(Found::Text(format!("(FAILED: {code}: {message})")))
            }
            _ => Ok(Found::Value(ValueView::Null)),
        }
    }
}

impl<'a> Turn<'a> {
    pub(super) fn render_object(&self, unit: UnitRef, template: &Opaque) -> Result<Opaque, RenderFailure> {
        self.paid(|budget| render_object(template, &self.sources(unit), budget))
    }

    pub(super) fn render_text(&self, unit: UnitRef, template: &str) -> Result<String, RenderFailure> {
        self.paid(|budget| render_text(template, &self.sources(unit), budget))
    }

    // RUN-1.9
    /// Renders with what is left of the budget of the turn.
    fn paid<T>(
        &self,
        render: impl FnOnce(&mut WalkBudget) -> Result<T, RenderError>,
    ) -> Result<T, RenderFailure> {
        let mut budget = self.budget.take();
        let rendered = render(&mut budget);
        self.budget.set(budget);
        rendered.map_err(failure)
    }

    fn sources(&self, unit: UnitRef) -> UnitSources<'_, 'a> {
        let synthetic = self.renders_synthetic(self.step(unit.step));
        UnitSources {
            turn: self,
            unit: Some(unit),
            synthetic,
        }
    }

    // RUN-10.2
    /// The output of the run: what the plan says, else that of the last step that completed, else the narrative.
    pub(super) fn run_output(&self) -> Result<Option<Bytes>, RenderFailure> {
        if let Some(template) = &self.plan.output {
            let sources = UnitSources {
                turn: self,
                unit: None,
                synthetic: false,
            };
            return self
                .paid(|budget| render_value(template, &sources, budget))
                .map(Some);
        }
        let last = self
            .state
            .steps
            .iter()
            .rposition(|step| step.stage() == StepStage::Completed);
        Ok(match last {
            Some(step) => self.output_of(step),
            None => self
                .plan
                .narrative
                .as_deref()
                .map(|text| encoded(ValueView::Text(text))),
        })
    }

    /// What a completed step came to, an encoded `google.protobuf.Value`; `None` if that is more than 1 MiB together.
    pub(super) fn output_of(&self, step: StepIndex) -> Option<Bytes> {
        let state = &self.state.steps[step];
        if let Some(output) = &state.output {
            return Some(self.load(output));
        }
        match &self.plan.steps[step].kind {
            StepKind::Parallel(_) | StepKind::Loop(_) => self.list_of(state),
            _ => state.units.last().and_then(|unit| self.unit_output(unit)),
        }
    }

    pub(super) fn unit_output(&self, unit: &UnitState) -> Option<Bytes> {
        unit.output.as_ref().map(|output| self.load(output))
    }

    /// The outputs of all units in order; null for one without.
    fn list_of(&self, state: &StepState) -> Option<Bytes> {
        if n_list_bytes(state) > OUTPUT_BYTES_MAX as u64 {
            return None;
        }
        let mut list = ListBuilder::new();
        for unit in &state.units {
            list = match self.unit_output(unit) {
                Some(output) => list.value(view(&output).expect("outputs are values")),
                None => list.null(),
            };
        }
        Some(encoded(ValueView::List(&list.into_encoded())))
    }

    /// Follows a pointer into what a step came to. Into a list of units it costs one of them only.
    fn found_in(
        &self,
        step: StepIndex,
        pointer: &Pointer,
        budget: &mut WalkBudget,
    ) -> Result<Found<'_>, BudgetSpent> {
        let state = &self.state.steps[step];
        let of_stored = |stored: Option<&Stored>, pointer: &Pointer, budget: &mut WalkBudget| match stored {
            Some(stored) => self
                .looked_up
                .value(self, stored, budget)?
                .follow(pointer, budget),
            None => Ok(Found::Missing),
        };
        let is_list = matches!(
            self.plan.steps[step].kind,
            StepKind::Parallel(_) | StepKind::Loop(_)
        );
        if state.output.is_some() {
            return of_stored(state.output.as_ref(), pointer, budget);
        }
        if !is_list {
            let last = state.units.last().and_then(|unit| unit.output.as_ref());
            return of_stored(last, pointer, budget);
        }
        let Some((first, rest)) = pointer.split_first() else {
            return self.list_in(state, budget);
        };
        let unit = list_index(first).and_then(|index| state.units.get(index));
        of_stored(unit.and_then(|unit| unit.output.as_ref()), &rest, budget)
    }

    /// Returns the outputs of all units, each apart.
    fn list_in(&self, state: &StepState, budget: &mut WalkBudget) -> Result<Found<'_>, BudgetSpent> {
        if n_list_bytes(state) > LIST_BYTES_MAX {
            return Ok(Found::TooLarge);
        }
        let mut items = Vec::new();
        for unit in &state.units {
            items.push(match &unit.output {
                Some(output) => self.looked_up.bytes(self, output, budget)?,
                None => encoded(ValueView::Null),
            });
        }
        Ok(Found::List(items))
    }

    // RUN-4.10
    /// True if the step completed with a value that counts as true.
    pub(super) fn is_truthy(&self, step: StepIndex) -> bool {
        if self.state.steps[step].stage() != StepStage::Completed {
            return false;
        }
        // A list that is too long to be put together is not empty.
        self.output_of(step).is_none_or(|output| match view(&output) {
            Some(ValueView::Null) | None => false,
            Some(ValueView::Bool(flag)) => flag,
            Some(ValueView::Number(number)) => number != 0.0 && !number.is_nan(),
            Some(ValueView::Text(text)) => !text.is_empty(),
            Some(ValueView::Struct(_) | ValueView::List(_)) => true,
        })
    }

    /// What is the same for all attempts.
    pub(super) fn run_facts(&self) -> Opaque {
        StructBuilder::new()
            .text("id", &self.run_id().to_string())
            .text("user_id", &self.state.spec.user_id)
            .text("request_id", &self.state.spec.request_id)
            .number("created_at", self.state.created_at as f64)
            .build()
    }

    /// Each completed step of those that are wanted, with its output, in canonical order. Reads an output once it is asked for.
    pub(super) fn completed_outputs(
        &self,
        is_wanted: impl Fn(StepIndex) -> bool,
    ) -> impl Iterator<Item = (StepIndex, Bytes)> {
        let steps = self.state.steps.iter().enumerate();
        let completed = steps.filter(|(_, step)| step.stage() == StepStage::Completed);
        completed
            .filter(move |(step, _)| is_wanted(*step))
            .filter_map(|(step, _)| Some((step, self.output_of(step)?)))
    }
}

/// Bytes of the outputs of all units together, none of which is read.
fn n_list_bytes(state: &StepState) -> u64 {
    let length = |unit: &UnitState| unit.output.as_ref().map_or(2, |output| output.length);
    state.units.iter().map(length).sum()
}

/// Views an encoded `google.protobuf.Value`; `None` if it is none.
pub(crate) fn view(bytes: &[u8]) -> Option<ValueView<'_>> {
    value(bytes).ok()
}

// RUN-1.6
fn failure(error: RenderError) -> RenderFailure {
    let code = match error {
        // RUN-1.9
        RenderError::TooLarge | RenderError::TooDeep | RenderError::TooMuchWork => "INPUT_TOO_LARGE",
        RenderError::Unresolved { .. } | RenderError::NotAnObject { .. } | RenderError::Malformed(_) => {
            "INPUT_UNRESOLVED"
        }
    };
    (code, error.to_string())
}

/// Bytes of a list of outputs that is read to be rendered: written as JSON, more of them would have more than 1 MiB, too.
const LIST_BYTES_MAX: u64 = 8 << 20;
/// Keys of steps that are compared at the price of one entry.
const KEYS_PER_UNIT: usize = 8;
