//! The API of runs: what callers ask, answered from runs and from what is stored of them.
//! Decides nothing about a run, and writes nothing but through the thread of runs.

#![warn(clippy::too_many_lines)]

mod errors;
mod fields;
mod header;
mod journal;
mod paging;
mod resolution;
mod run_service;
mod saved;
mod views;

pub use run_service::Runs;
pub use saved::Seen;
