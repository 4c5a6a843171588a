//! Attacks on worker sessions: real processes, real sockets, broken on purpose, judged by an independent checker.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test fails by panicking and its name is its documentation"
)]

mod arena;
mod intruder;
mod load;
mod record;
mod recorder;
mod traffic;

mod clocks;
mod connections;
mod crowd;
mod deploys;
mod frames;
mod identity;
mod kills;
mod leaks;
mod links;
mod partitions;
mod processes;
mod sizes;
