//! Metrics and probes of both programs. Has the text of metrics, metrics of the process, the listener of scrapes and probes,
//! and the export to a collector.

#![warn(clippy::too_many_lines)]

mod endpoint;
mod listener;
mod process;
mod text;

pub use endpoint::Endpoint;
pub use escapement_otlp::Push;
pub use listener::{Answers, serve};
pub use process::Process;
pub use text::open_metrics;
