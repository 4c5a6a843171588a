//! `RunService` as callers have it, over runs on a store in memory and a script in the place of workers.
//! Opens no socket and starts no process.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test fails by panicking and its name is its documentation"
)]

mod artifacts;
mod crowded;
#[path = "../../../runs_shell/tests/shell/fake.rs"]
mod fake;
mod forks;
mod making;
mod malformed;
mod parents;
mod reading;
mod revisions;
mod telling;
mod verbs;
mod watching;
mod world;
