//! Exports the spans of handlers to a collector over OTLP. They continue the trace that a caller of the orchestrator lets be exported.
//!
//! Each attempt that is traced runs its handler in the span `handler`; the spans of level `info` that the handler makes by `tracing`
//! hang below it, with the fields that it gives them. So never give a span a secret. What one handler made is exported together,
//! or not at all. A collector that is down delays no handler.
//!
//! [`layer`] is a part of the subscriber of the program; with the feature `log`, `log_to_stderr` has one.

pub use escapement_otlp::live::layer;
pub use escapement_otlp::{CannotStart, Collector, Export, Flush, Service};

/// Logs as [`crate::log_to_stderr`] does, and exports the spans of handlers.
///
/// # Errors
/// The same.
#[cfg(feature = "log")]
pub fn log_to_stderr(export: &Export) -> Result<(), crate::LogError> {
    use escapement_process::telemetry::{Exported, init_from_env_with};
    init_from_env_with(Exported {
        spans: Some(Box::new(layer(export))),
        ..Exported::default()
    })
}
