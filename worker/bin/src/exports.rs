//! What the worker exports over OTLP beside its figures: spans of handlers, and its log.

use crate::options::Options;
use escapement_otlp::{Export, Flush};
use escapement_process::telemetry::{Exported, Part};
use escapement_sdk::traces;

/// Begins to export what is wanted. Returns what exports it, and the parts for the subscriber.
///
/// # Errors
/// The flag that cannot be kept, and why.
pub fn start(options: &Options) -> Result<(Vec<Export>, Exported), String> {
    if let Some((flag, problem)) = options.otlp.problem() {
        return Err(format!("{flag} {problem}"));
    }
    let version = env!("CARGO_PKG_VERSION");
    let log = options.otlp.log(SERVICE_NAME, version);
    let (log, mut exported) = log.map_err(|fault| fault.to_string())?;
    let traces = options.otlp.export(SERVICE_NAME, version);
    let (traces, flush) = traces.map_err(|fault| fault.to_string())?.unzip();
    exported.spans = traces
        .as_ref()
        .map(|traces| Box::new(traces::layer(traces)) as Part);
    // Before the log, which says what becomes of the last ones.
    let before = flush.into_iter().map(Flush::at_end);
    exported.at_end.splice(..0, before);
    Ok((traces.into_iter().chain(log).collect(), exported))
}

/// `service.name` unless the operator says another one.
pub const SERVICE_NAME: &str = "escapement-worker";
