//! The thread of runs and what leaves it, on a store in memory.

#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod actions;
mod deciding;
mod fake;
mod handle;
mod stalls;
mod submissions;
mod world;
