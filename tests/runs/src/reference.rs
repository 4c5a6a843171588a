//! The law of runs a second time, as plainly as it can be written: slow scans, whole copies, virtual time. Knows nothing of
//! bytes, and shares no code with what it judges.

mod fallback;
pub mod misreading;
mod operators;
mod people;
pub mod plan;
pub mod run;
mod time;
mod turns;
mod units;
pub mod view;
pub mod words;
