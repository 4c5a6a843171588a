//! Which states were reached from which, and by what: the tables of `orchestrator/run/TRANSITIONS.md`.

use std::collections::{BTreeMap, BTreeSet};

use crate::reference::run::Run;
use crate::reference::words::{Answer, Input, Outcome, Shown, StepState, Value, Word};

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Transitions {
    /// By state and input: the states that were reached; none for a refusal.
    pub runs: BTreeMap<(&'static str, Shown), BTreeSet<Option<Shown>>>,
    /// By state and input: the states that a step was seen in after it.
    pub steps: BTreeMap<(&'static str, StepState), BTreeSet<StepState>>,
}

impl Transitions {
    /// Notes one input.
    pub fn note(&mut self, before: &Run, input: &Input, is_accepted: bool, after: &Run) {
        let reached = is_accepted.then(|| after.shown());
        let cause = cause_of(input);
        self.runs
            .entry((cause, before.shown()))
            .or_default()
            .insert(reached);
        // The steps of another revision are others.
        if !is_accepted || before.n_revisions != after.n_revisions {
            return;
        }
        for step in 0..before.steps.len() {
            let (was, is) = (before.shown_step(step), after.shown_step(step));
            if was != is {
                self.steps.entry((cause, was)).or_default().insert(is);
            }
        }
    }

    /// Adds others.
    pub fn add(&mut self, other: Self) {
        for (key, reached) in other.runs {
            self.runs.entry(key).or_default().extend(reached);
        }
        for (key, reached) in other.steps {
            self.steps.entry(key).or_default().extend(reached);
        }
    }
}

/// An input, in the words of the tables.
#[must_use]
pub fn cause_of(input: &Input) -> &'static str {
    match input {
        Input::Admit => "admitted",
        Input::Tick => "time passes",
        Input::Settled(_, outcome) => match outcome {
            Outcome::Completed(_) => "attempt completed",
            Outcome::NeverRan(_) => "attempt never ran",
            Outcome::Failed(_) => "attempt failed",
            Outcome::ForGood(_) => "attempt failed for good",
            Outcome::ApprovalRequired => "attempt asks for approval",
            Outcome::TimedOut => "attempt timed out",
            Outcome::Unknown { .. } => "attempt unknown",
        },
        Input::Listed(_) => "actions are known",
        Input::Planned(_, _, outcome) => match outcome {
            Outcome::Completed(Value::Number(_)) => "generation: plan",
            Outcome::NeverRan(_) | Outcome::Unknown { .. } => "generation: attempt lost",
            _ => "generation: no plan",
        },
        Input::ChildEnded(_, Some(_)) => "child completed",
        Input::ChildEnded(_, None) => "child ended otherwise",
        Input::Evaluated { value: Some(_), .. } => "expression has a value",
        Input::Evaluated { value: None, .. } => "expression has none",
        Input::Answered(_, answer, _) => match answer {
            Answer::Deny | Answer::Fail => "person says no",
            Answer::Revise => "person wants another plan",
            Answer::Invalid | Answer::ApproveAnother => "invalid answer",
            _ => "person answers",
        },
        Input::Pause => "pause",
        Input::Resume => "resume",
        Input::Cancel => "cancel",
        Input::Rewind { .. } => "rewind",
        Input::Rollback { .. } => "rollback",
        Input::Override(_, Word::Complete(_)) => "override: complete",
        Input::Override(_, Word::Fail) => "override: fail",
        Input::Override(_, Word::Skip) => "override: skip",
        Input::Checkpoint(_) => "checkpoint",
        Input::Recovered => "restart",
        Input::Restarted => "restart after a stop",
        Input::Known => "traits are known",
        Input::StoodStill(_) => "stood still",
    }
}

impl Transitions {
    /// As a page.
    #[must_use]
    pub fn page(&self) -> String {
        let mut page = String::from(HEAD);
        page += "## Runs\n\n| input | state | states that were reached |\n|---|---|---|\n";
        for ((cause, state), reached) in &self.runs {
            let word =
                |it: &Option<Shown>| it.map_or("refused".to_owned(), |it| format!("{it:?}").to_lowercase());
            let reached: Vec<String> = reached.iter().map(word).collect();
            let state = format!("{state:?}").to_lowercase();
            page += &format!("| {cause} | {state} | {} |\n", reached.join(", "));
        }
        page += "\n## Steps\n\n| input | step | became |\n|---|---|---|\n";
        for ((cause, state), reached) in &self.steps {
            let reached: Vec<String> = reached
                .iter()
                .map(|it| format!("{it:?}").to_lowercase())
                .collect();
            let state = format!("{state:?}").to_lowercase();
            page += &format!("| {cause} | {state} | {} |\n", reached.join(", "));
        }
        page
    }
}

const HEAD: &str = "# Transitions of runs and steps

Every state that was reached from a state by an input, in the exploration of small plans by `tests/runs`.
A pair that is not listed did not occur.
An input also lets everything happen that has its turn then.
`ESCAPEMENT_WRITE=1 cargo test -p escapement-run-tests --test exploration` writes this page.

";
