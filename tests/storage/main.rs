//! The real store on a disk in memory that loses what was not synced, fails at the nth call, gets full and
//! flips bits. Knows nothing of the orchestrator.
//!
//! `ESCAPEMENT_LONG=1` takes every bit and more dice; `ESCAPEMENT_SEEDS` and `ESCAPEMENT_SEEDS_FROM` say which random
//! histories.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod dice;
mod double_faults;
mod failures;
mod flips;
mod histories;
mod log_tail;
mod moments;
mod opening;
mod place;
mod runs;
mod scrub;
mod truth;
mod workload;
