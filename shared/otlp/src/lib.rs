//! Traces to a collector over OTLP, for orchestrator and worker. Decides nothing about what is traced, and delays nobody.
//!
//! [`Export`] takes whole traces, or what a process has of one, and hands them to a thread of its own. What it has no room for,
//! and what the collector does not take, is dropped as a whole, counted and logged.

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
mod waiting;

pub use self::collector::Collector;
pub use self::export::{CannotStart, Export, Flush};
pub use self::exporter::Service;
#[cfg(feature = "flags")]
pub use self::flags::OtlpFlags;
pub use opentelemetry_proto::tonic::trace::v1::Span;
