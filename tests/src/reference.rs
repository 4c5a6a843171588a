//! The rules of sections 2 to 6 a second time, as plainly as they can be written: slow scans, no indexes, no queues.
//! Shares no code with what it judges, and has no types in common with it but ids, opaque objects and the wire's.
//!
//! `tests/fuzz/src/lockstep.rs` plays it against the contract crate input by input; [`retell`] plays it against the audit trail of
//! a real execution.

pub mod decided;
pub mod errors;
pub mod interpret;
pub mod lists;
pub mod objects;
mod retell;
pub mod rules;
pub mod timers;
pub mod words;

pub use self::retell::{Difference, retell, retell_archive};
pub use self::rules::Facts;
