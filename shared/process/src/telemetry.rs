//! Structured log lines on stderr. Exports no metrics and no traces.

use std::fmt;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

/// What to log and how. Flatten it into the arguments of a binary with `#[command(flatten)]`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// What to log: a level, or directives such as `info,escapement_sdk=debug`.
    #[arg(
        long = "log",
        env = "ESCAPEMENT_LOG",
        value_name = "FILTER",
        default_value = "info"
    )]
    pub filter: String,
    /// How to write a log line.
    #[arg(
        long = "log-format",
        env = "ESCAPEMENT_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "plain"
    )]
    pub format: Format,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            filter: "info".to_owned(),
            format: Format::Plain,
        }
    }
}

impl Options {
    /// Reads `ESCAPEMENT_LOG` and `ESCAPEMENT_LOG_FORMAT`, for programs without arguments of their own.
    ///
    /// # Errors
    /// [`InitError::UnknownFormat`] where the format is neither `plain` nor `json`.
    pub fn from_env() -> Result<Self, InitError> {
        let mut options = Self::default();
        if let Ok(filter) = std::env::var("ESCAPEMENT_LOG") {
            options.filter = filter;
        }
        if let Ok(format) = std::env::var("ESCAPEMENT_LOG_FORMAT") {
            options.format = match format.as_str() {
                "plain" => Format::Plain,
                "json" => Format::Json,
                _ => return Err(InitError::UnknownFormat(format)),
            };
        }
        Ok(options)
    }
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Plain,
    /// One JSON object a line, for collectors.
    Json,
}

/// Why telemetry did not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum InitError {
    /// The filter does not parse.
    InvalidFilter(ParseError),
    /// Neither `plain` nor `json`.
    UnknownFormat(String),
    /// Another subscriber was installed before.
    AlreadyInstalled,
}

impl fmt::Display for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InitError::InvalidFilter(_) => f.write_str("the log filter is not valid"),
            InitError::UnknownFormat(format) => {
                write!(f, "the log format {format:?} is neither plain nor json")
            }
            InitError::AlreadyInstalled => f.write_str("telemetry was started before"),
        }
    }
}

impl std::error::Error for InitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            InitError::InvalidFilter(error) => Some(error),
            InitError::UnknownFormat(_) | InitError::AlreadyInstalled => None,
        }
    }
}

/// Sends every `tracing` event of this process to stderr. Call it once, first thing in `main`.
///
/// # Errors
/// [`InitError`] where the filter is not valid or a subscriber is there already; nothing is installed then.
pub fn init(options: &Options) -> Result<(), InitError> {
    let filter = EnvFilter::try_new(&options.filter).map_err(InitError::InvalidFilter)?;
    let builder = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(filter);
    let installed = match options.format {
        Format::Plain => {
            let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
            builder.with_ansi(colours).try_init()
        }
        Format::Json => builder.json().flatten_event(true).try_init(),
    };
    installed.map_err(|_| InitError::AlreadyInstalled)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn a_broken_filter_is_refused_and_installs_nothing() {
        let options = Options {
            filter: "info,=".to_owned(),
            format: Format::Plain,
        };
        assert!(matches!(init(&options), Err(InitError::InvalidFilter(_))));
    }

    #[test]
    fn a_second_start_is_refused() {
        let options = Options {
            filter: "off".to_owned(),
            format: Format::Json,
        };
        init(&options).unwrap();
        assert!(matches!(init(&options), Err(InitError::AlreadyInstalled)));
    }
}
