//! The binary from outside: its arguments, its commands, its log, and what it answers to workers.

#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test fails by panicking and its name is its documentation"
)]

mod configuration;
mod journal;
mod logging;
mod process;
mod render_command;
mod runs_commands;
mod sessions;
mod stored_archives;
