//! How both programs show what they count, and whether they are well: the text of figures, the figures of the process, the
//! listener of scrapes and probes, and the same figures for a collector. Counts nothing, and knows neither program.

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
