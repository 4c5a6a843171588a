//! What the operator may set about traces. Opens no file.

use clap::{Args, ValueEnum};
use escapement_codec::trace::Sampling;
use escapement_otlp::OtlpFlags;

/// What is exported, and which traces. The help takes the texts of the fields.
#[derive(Args, Clone, Debug)]
// Its name is that of other groups of flags, too.
#[group(skip)]
pub struct TraceFlags {
    /// The collector.
    #[command(flatten)]
    pub otlp: OtlpFlags,

    /// Executions that are traced, of those whose callers name no trace; 0 to 1. The id decides, so that every process and
    /// every restart decides alike.
    #[arg(long, env = "OTEL_TRACES_SAMPLER_ARG", value_name = "RATIO", default_value = "0.1", value_parser = parse_ratio)]
    pub trace_ratio: f64,

    /// What a caller's `traceparent` means: respect (its trace goes on, and it decides whether it is exported) or ignore
    /// (it is linked alone).
    #[arg(
        long,
        env = "ESCAPEMENT_TRACE_PARENT",
        value_name = "RULE",
        value_enum,
        default_value = "respect"
    )]
    pub trace_parent: ParentRule,
}

/// What a caller's span means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ParentRule {
    /// It is the parent of the execution, and decides whether that is traced.
    Respect,
    /// It decides nothing, so that no caller makes the orchestrator trace.
    Ignore,
}

impl TraceFlags {
    /// Which executions are traced; `None` if no traces are exported.
    pub fn sampling(&self) -> Option<Sampling> {
        let respects_parents = self.trace_parent == ParentRule::Respect;
        let sampling = || Sampling::new(self.trace_ratio, respects_parents);
        self.otlp.exports_traces().then(sampling)
    }
}

fn parse_ratio(text: &str) -> Result<f64, &'static str> {
    let ratio = text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or("give a number from 0 to 1, such as 0.1")
}

#[cfg(test)]
mod tests;
