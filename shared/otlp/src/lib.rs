//! Traces and figures to a collector over OTLP, for orchestrator and worker. Decides nothing about what is traced, counts
//! nothing, and delays nobody.
//!
//! [`Export`] takes whole traces, or what a process has of one, and hands them to a thread of its own. What it has no room for,
//! and what the collector does not take, is dropped as a whole, counted and logged. `Push` sends figures at an interval.

pub mod attributes;
mod collector;
mod export;
mod exporter;
#[cfg(feature = "flags")]
mod flags;
mod limits;
#[cfg(feature = "live")]
pub mod live;
mod losses;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "metrics")]
mod push;
mod service;
mod waiting;

pub use self::collector::Collector;
pub use self::export::{CannotStart, Export, Flush};
#[cfg(feature = "flags")]
pub use self::flags::{OtlpFlags, Signal};
#[cfg(feature = "metrics")]
pub use self::push::Push;
pub use self::service::Service;
pub use opentelemetry_proto::tonic::trace::v1::Span;
