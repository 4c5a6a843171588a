//! What a simulated worker does with attempts. Decides nothing about an execution.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use escapement_contract::{Reported, Step};
use escapement_model::limits::MESSAGE_CHARS_MAX;
use escapement_model::{Opaque, StepId};

/// What happens to one attempt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AttemptStub {
    /// From the step's turn to the hand-out.
    pub waits_ms: u64,
    /// From the hand-out to the end; ignored if nothing comes after the hand-out.
    pub takes_ms: u64,
    /// How it ends.
    pub end: End,
}

/// How an attempt ends.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// With this output.
    Completed(Opaque),
    /// With a failure.
    Failed(Reported),
    /// The worker vanishes after it started the attempt.
    Lost,
    /// The worker gives it back unstarted. The next stub of the list is about the same attempt again.
    Returned,
    /// It starts, and nothing more is heard of it.
    Silent,
    /// No worker offers the action: it is never handed out.
    ActionNotFound,
}

impl Default for End {
    fn default() -> Self {
        End::Completed(Opaque::default())
    }
}

/// The stubs of a simulation.
///
/// Of those that fit a step the most particular ones count: by step, then by action, then the rest.
/// If none fits, attempts complete at once with an empty output.
#[derive(Clone, Debug)]
pub struct Stubs {
    of_steps: BTreeMap<StepId, Vec<AttemptStub>>,
    of_actions: BTreeMap<String, Vec<AttemptStub>>,
    of_the_rest: Option<Vec<AttemptStub>>,
    at_once: Vec<AttemptStub>,
}

impl Default for Stubs {
    fn default() -> Self {
        Self {
            of_steps: BTreeMap::new(),
            of_actions: BTreeMap::new(),
            of_the_rest: None,
            at_once: vec![AttemptStub::default()],
        }
    }
}

impl Stubs {
    /// Sets the attempts of a step, the last one for all that follow. Of several for one step the first counts.
    #[must_use]
    pub fn step(mut self, step_id: StepId, attempts: Vec<AttemptStub>) -> Self {
        self.of_steps.entry(step_id).or_insert_with(|| checked(attempts));
        self
    }

    /// The same for every step with this action.
    #[must_use]
    pub fn action(mut self, action: String, attempts: Vec<AttemptStub>) -> Self {
        self.of_actions.entry(action).or_insert_with(|| checked(attempts));
        self
    }

    /// The same for every other step.
    #[must_use]
    pub fn otherwise(mut self, attempts: Vec<AttemptStub>) -> Self {
        self.of_the_rest.get_or_insert_with(|| checked(attempts));
        self
    }

    /// What happens to the attempts of a step, at least one.
    pub(crate) fn of(&self, step: &Step) -> &[AttemptStub] {
        self.of_steps
            .get(&step.id())
            .or_else(|| self.of_actions.get(step.action()))
            .or(self.of_the_rest.as_ref())
            .unwrap_or(&self.at_once)
    }
}

/// Texts are cut to what classification keeps, since each attempt makes a copy of them.
fn checked(mut attempts: Vec<AttemptStub>) -> Vec<AttemptStub> {
    assert!(!attempts.is_empty(), "there is a stub for the first attempt");
    for attempt in &mut attempts {
        if let End::Failed(reported) = &mut attempt.end {
            cut(&mut reported.message);
            // One that is too long for a code stays too long for one.
            cut(&mut reported.code);
        }
    }
    attempts
}

fn cut(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(MESSAGE_CHARS_MAX) {
        text.truncate(end);
        text.shrink_to_fit();
    }
}
