//! The law of one run: a plan that is executed step by step, each attempt of each unit as an execution of its own.
//! Does no I/O, reads no clock, draws no random number, waits for nothing, logs nothing, evaluates no expression of a user:
//! it is `no_std`, and the compiler checks it. Knows neither the contract's core nor the engine; it is a caller.
#![no_std]
#![warn(clippy::too_many_lines)]

extern crate alloc;

pub mod artifacts;
pub mod bounds;
mod branches;
pub mod budget;
pub mod catalogue;
mod contract_request;
mod fields;
mod fork;
pub mod ids;
mod input;
pub mod intents;
pub mod journal;
pub mod json;
pub mod outcome;
pub mod plan;
pub mod planner;
pub mod presets;
mod preview;
pub mod record;
mod responder;
mod run;
mod schema;
pub mod session;
pub mod spec;
pub mod state;
pub mod template;
mod turn;

pub use contract_request::ENVIRONMENT_KEY;
pub use fork::{ChangedStep, EditedPlan, Keep, Takes};
pub use input::{
    Answer, Blobs, CRASH_LOOP, Commit, DISCARDED, Effect, EncodedEntry, Input, OverrideWord, Refused,
    RefusedReason, RewindScope, Rollback, SessionNews, Upload,
};
pub use preview::{Preview, preview};
pub use run::{Run, ShownState};
pub use turn::{INLINE_BYTES_MAX, TEMPLATE_WORK_MAX, says_the_same};
