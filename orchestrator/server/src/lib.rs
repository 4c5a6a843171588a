//! The orchestrator's shell: the process and its settings, the engine's host, the threads around the store, the gRPC services,
//! the sinks of events. Decides nothing about an execution: the contract and the engine do, and this crate carries it out.
//!
//! In reading order; each folder may use those below it and the single files, and none of those above.
//! The library target exists for tests; the binary `orchestrator` only reads its arguments and calls it.

#![warn(clippy::too_many_lines)]

pub mod process;

mod grpc;

mod engine_port;

mod host;

mod storage;

pub mod config;
pub mod exit;

mod clock;
mod limits;
mod status;

pub use config::Config;
pub use process::run::run;
pub use process::security::check;
