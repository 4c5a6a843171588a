//! What can be told of runs: whether a journal replays, why a run stands where it does and what moves it, and what two
//! revisions of a plan differ in. Everything is a function of its arguments; nothing here decides about a run or changes it.
//! It is `no_std`, and the compiler checks it.

#![no_std]
#![warn(clippy::too_many_lines)]

extern crate alloc;

mod diff;
mod explain;
mod explain_step;
mod replay;
mod told;

pub use diff::{ChangedStep, Diff, diff};
pub use explain::{Explanation, explain};
pub use explain_step::{StepExplanation, explain_step};
pub use replay::{Difference, ReadPlan, Replayed, replay, replay_with};
