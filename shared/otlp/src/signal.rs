//! What can be exported, and what each is called.

/// What can be exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "flags", derive(clap::ValueEnum))]
pub enum Signal {
    /// Spans.
    Traces,
    /// Figures.
    Metrics,
    /// What stands in the log, too.
    Logs,
}

impl Signal {
    /// As flags, figures and lines of the log have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Signal::Traces => "traces",
            Signal::Metrics => "metrics",
            Signal::Logs => "logs",
        }
    }
}
