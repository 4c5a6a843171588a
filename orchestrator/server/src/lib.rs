//! The orchestrator's shell: configuration, gRPC edge, store writer, event sinks, start and stop.
//! Decides nothing about an execution: the contract and the engine do, and this crate carries it out.
//!
//! The library target exists for tests; the binary `orchestrator` only reads its arguments and calls it.

pub mod commands;
pub mod config;
pub mod failure;
pub mod limits;

mod journal;
pub mod status;

mod append_file;
mod clock;
mod desk;
mod drain;
mod edge;
mod engine_link;
mod engine_thread;
mod execution_log;
mod loader;
mod maintenance;
mod readers;
pub mod recovery;
mod run;
mod scrub;
mod sinks;
pub mod writer;

pub use config::Config;
pub use run::run;
