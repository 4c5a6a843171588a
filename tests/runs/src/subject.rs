//! What the interpreter is held against: the core, or an interpreter that reads the law wrong.

use crate::reference::misreading::Misreading;
use crate::reference::plan::{Limits, Plan};
use crate::reference::run::{Refusal, Run};
use crate::reference::view::View;
use crate::reference::words::{Command, Input};

/// What can be held against the interpreter.
pub trait Subject: Clone {
    /// A run that was made at this time, in milliseconds.
    fn make(plan: &Plan, limits: &Limits, now: u64) -> Self;

    /// Gives it an input, time first.
    ///
    /// # Errors
    /// The refusal.
    fn feed(&mut self, now: u64, input: &Input) -> Result<Vec<Command>, Refusal>;

    /// How it stands.
    fn view(&self) -> View;

    /// Panics if something is wrong that cannot be seen from outside.
    fn check(&self) {}
}

/// An interpreter that reads one rule wrong.
#[derive(Clone)]
pub struct Misread(Run);

impl Misread {
    /// Reads a rule wrong from now on.
    #[must_use]
    pub fn reading(mut self, misreading: Misreading) -> Self {
        self.0.misreading = Some(misreading);
        self
    }
}

impl Subject for Misread {
    fn make(plan: &Plan, limits: &Limits, now: u64) -> Self {
        Self(Run::new(plan.clone(), limits.clone(), now))
    }

    fn feed(&mut self, now: u64, input: &Input) -> Result<Vec<Command>, Refusal> {
        self.0.feed(now, input)?;
        Ok(self.0.commands.clone())
    }

    fn view(&self) -> View {
        self.0.view()
    }
}
