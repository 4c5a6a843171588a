//! Attacks on worker sessions: real processes, real sockets, broken on purpose, judged by an independent checker.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test fails by panicking and its name is its documentation"
)]

mod arena;
mod clocks;
mod connections;
mod duplicates;
mod frames;
mod identity;
mod intruder;
mod links;
mod mass_loss;
mod partitions;
mod processes;
mod record;
mod recorder;
mod sizes;
mod traffic;
