//! When triggers fire: instants of a cron expression in a time zone, what of them was missed, edges of conditions, filters of
//! events, and what a firing is known by.
//! Reads no clock, does no I/O, draws no random number, and evaluates no expression: time and what an expression came to are
//! arguments. The database of time zones is built in. It is `no_std`, and the compiler checks it.

#![no_std]
#![warn(clippy::too_many_lines)]

extern crate alloc;

mod cron;

mod zone;

mod schedule;

mod catch_up;

mod condition;

mod filter;

mod firing;

mod overlap;

mod signature;

pub use catch_up::{CatchUp, Due, Missed, due};
pub use condition::{Edge, Seen, look};
pub use cron::{Cron, InvalidCron};
pub use filter::{InvalidFilter, check, matches};
pub use firing::{Cause, DEPTH_MAX, FiringKey, probe_run_id};
pub use overlap::{Admission, Overlap, QUEUED_MAX, admit};
pub use schedule::Schedule;
pub use signature::{Secret, SignatureFault, sign, verify};
pub use zone::{UnknownZone, Zone};
