//! Traces, figures and logs to a collector over OTLP, for orchestrator and worker. Decides nothing about what is traced or logged,
//! counts nothing, and delays nobody.
//!
//! [`Export`] takes whole traces, or what a process has of one, and records of the log, and hands them to a thread of its own. What
//! it has no room for, and what the collector does not take, is dropped as a whole, counted and logged. `Push` sends figures at an
//! interval.

pub mod attributes;
mod collector;
mod export;
mod exporter;
#[cfg(feature = "flags")]
mod flags;
mod limits;
#[cfg(feature = "live")]
pub mod live;
#[cfg(feature = "logs")]
pub mod logs;
mod losses;
mod message;
#[cfg(feature = "metrics")]
mod metrics;
mod protobuf;
#[cfg(feature = "metrics")]
mod push;
mod service;
mod signal;
pub mod span;
mod waiting;

pub use self::collector::Collector;
pub use self::export::{CannotStart, Export, Flush};
#[cfg(feature = "flags")]
pub use self::flags::OtlpFlags;
#[cfg(feature = "metrics")]
pub use self::push::Push;
pub use self::service::Service;
pub use self::signal::Signal;
pub use self::waiting::Encoded;

/// Whether a target of `tracing` is of a library that carries calls, the export itself among them.
#[cfg(any(feature = "live", feature = "logs"))]
fn is_foreign(target: &str) -> bool {
    FOREIGN.iter().any(|crate_| target.starts_with(crate_))
}

/// Beginnings of the targets of these libraries.
#[cfg(any(feature = "live", feature = "logs"))]
const FOREIGN: [&str; 7] = [
    "h2",
    "hyper",
    "opentelemetry",
    "rustls",
    "tokio",
    "tonic",
    "tower",
];
