//! Runs and what stands beside them, on a store in memory.

#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod asking;
mod looks;
mod saved;
mod sessions;
mod starts;
