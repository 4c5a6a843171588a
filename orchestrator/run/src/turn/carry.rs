//! What a revision takes over from those before it: results of calls that it would only repeat.

use super::Turn;
use super::contract::Rendered;
use crate::bounds::CARRIED_MAX;
use crate::journal::{CarriedResult, Event, Stored, UnitMemoized, UnitRef};
use crate::spec::EffectClass;
use crate::state::{UnitStage, Verdict};
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::encoder::Encoder;

impl Turn<'_> {
    // RUN-12.6
    /// SHA-256 of what a call does, whichever step of whichever revision makes it.
    pub(super) fn result_key(&self, rendered: &Rendered) -> [u8; 32] {
        let environment = self.given_environment();
        Encoder::named("escapement run result 1", |encoder| {
            encoder.text(&rendered.action);
            encoder.object(&rendered.payload);
            encoder.object(&environment);
        })
    }

    // RUN-12.6
    /// The oldest result of an earlier revision that the unit may take instead of calling its action.
    pub(super) fn carried(&self, unit: UnitRef, rendered: &Rendered) -> Option<CarriedResult> {
        if self.state.results.is_empty() {
            return None;
        }
        // What was set back is to be done again.
        let is_first = self.unit(unit).attempts == 0 && unit.epoch == self.state.epoch_floor;
        let may_be_old = match self.effect_of(&rendered.action) {
            EffectClass::Pure | EffectClass::Llm | EffectClass::SideEffect | EffectClass::External => true,
            EffectClass::World => self.step(unit.step).is_fresh_for_run,
        };
        if !is_first || !may_be_old {
            return None;
        }
        let key = self.result_key(rendered);
        self.state
            .results
            .iter()
            .find(|result| result.key[..] == key[..])
            .cloned()
    }

    /// The unit has that result.
    pub(super) fn take_result(&mut self, unit: UnitRef, action: String, result: CarriedResult) {
        let output = self.load(&result.output);
        let memo = UnitMemoized {
            unit,
            action: action.clone(),
            result,
        };
        self.emit(Event::UnitMemoized(memo));
        self.declare(unit, &action, &output);
        self.unit_ended(unit);
    }

    /// What the next revision may take of this one: what completed, but for the steps that it keeps as a whole.
    pub(super) fn results_to_carry(&mut self, kept: &BTreeSet<u32>) -> Vec<CarriedResult> {
        let results = self.completed_results(kept);
        self.made_small(results)
    }

    /// The same results, each kept by its hash if that is shorter.
    pub(crate) fn made_small(&mut self, mut results: Vec<CarriedResult>) -> Vec<CarriedResult> {
        for result in &mut results {
            result.output = self.small(core::mem::take(&mut result.output));
        }
        results
    }

    /// Returns the results of the units that completed, except those of some steps: the newest, as many as a
    /// run knows.
    pub(crate) fn completed_results(&self, kept: &BTreeSet<u32>) -> Vec<CarriedResult> {
        let mut results = Vec::new();
        // The newest come first here: no more are read, for any number of completed units.
        for step in (0..self.n_steps()).rev().filter(|step| !kept.contains(step)) {
            let indices: Vec<u32> = self
                .step_state(step)
                .all_units()
                .map(|(index, _)| index)
                .collect();
            for index in indices.into_iter().rev() {
                if results.len() >= CARRIED_MAX {
                    break;
                }
                let unit = self.unit_ref(step, index);
                let state = self.unit(unit).clone();
                let Some(output) = state
                    .output
                    .or(state.late_output)
                    .filter(|_| state.stage == i32::from(UnitStage::Completed))
                else {
                    continue;
                };
                if state.result_key.is_empty() || self.made_what_is_wrong(unit) {
                    continue;
                }
                let execution_id = match state.memo_of.is_empty() {
                    true => self.execution_of(unit, state.attempts),
                    false => state.memo_of,
                };
                results.push(CarriedResult {
                    key: state.result_key,
                    output,
                    execution_id,
                });
            }
        }
        results.reverse();
        results
    }

    /// True if an artifact of the unit is not what it is said to be: what made it is called again.
    fn made_what_is_wrong(&self, unit: UnitRef) -> bool {
        let mut artifacts = self.state.artifacts.iter();
        artifacts.any(|artifact| artifact.created.unit == Some(unit) && artifact.verdict() == Verdict::Wrong)
    }

    /// The id of the execution of an attempt, 16 bytes.
    pub(super) fn execution_of(&self, unit: UnitRef, attempt: u32) -> Bytes {
        Bytes::copy_from_slice(self.attempt_name(unit, attempt).execution_id().as_bytes())
    }

    /// The same, kept by its hash if that is shorter.
    pub(crate) fn small(&mut self, output: Stored) -> Stored {
        match output.inline.len() > DIGEST_BYTES {
            true => self.put_away(output.inline),
            false => output,
        }
    }
}

/// Bytes of a hash.
const DIGEST_BYTES: usize = 32;
