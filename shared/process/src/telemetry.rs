//! Structured log lines on stderr, and for what exports them. Sends nothing to another machine itself.

use crate::log::{self, Controls, Lines};
use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt;
use std::panic::PanicHookInfo;
use tracing::{Subscriber, error, field};
use tracing_subscriber::filter::{Directive, FilterExt, LevelFilter, filter_fn};
use tracing_subscriber::layer::{Filter, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

/// A part of the subscriber of a process.
pub type Part = Box<dyn Layer<Registry> + Send + Sync>;

/// Exports in addition to the log on stderr.
#[derive(Default)]
pub struct Exported {
    /// Takes the spans, which are in no log.
    pub spans: Option<Part>,
    /// Takes what the log takes.
    pub logs: Option<Part>,
    /// Functions that [`end`](crate::end) calls first, in order.
    pub at_end: Vec<Box<dyn FnOnce() + Send>>,
}

impl fmt::Debug for Exported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exported").finish_non_exhaustive()
    }
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "settings", derive(clap::ValueEnum))]
pub enum Format {
    /// For people.
    #[default]
    Plain,
    /// Writes one JSON object per line, for collectors.
    Json,
}

/// Reason why telemetry did not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum InitError {
    /// The filter does not parse.
    InvalidFilter {
        /// The directive that does not.
        directive: String,
    },
    /// Neither `plain` nor `json`.
    UnknownFormat(String),
    /// The operating system gives no thread to write the log.
    NoThread(std::io::Error),
    /// Another subscriber was installed before.
    AlreadyInstalled,
}

impl fmt::Display for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InitError::InvalidFilter { directive } => write!(
                f,
                "{directive:?} in the log filter is neither a level (error, warn, info, debug, trace, off) nor \
                 TARGET=LEVEL; a valid filter is info,escapement_sdk=debug"
            ),
            InitError::UnknownFormat(format) => {
                write!(f, "the log format {format:?} is neither plain nor json")
            }
            InitError::NoThread(_) => f.write_str("the operating system gives no thread for the log"),
            InitError::AlreadyInstalled => f.write_str("telemetry was started before"),
        }
    }
}

impl std::error::Error for InitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            InitError::NoThread(error) => Some(error),
            InitError::InvalidFilter { .. } | InitError::UnknownFormat(_) | InitError::AlreadyInstalled => {
                None
            }
        }
    }
}

/// Sends every `tracing` event of this process, and every panic, to stderr. Call it once, first thing in `main`.
///
/// No caller ever waits for stderr: up to 1 MiB of lines wait in memory. Lines that stderr does not take are dropped,
/// counted and reported later. So the last call of a program is [`end`](crate::end).
///
/// # Errors
/// [`InitError`] if the filter is not valid, the thread does not start, or a subscriber exists; then nothing is installed.
pub fn init(filter: &str, format: Format) -> Result<(), InitError> {
    init_with(filter, format, Exported::default())
}

/// Starts as [`init`] does, and exports spans and the log.
///
/// # Errors
/// As [`init`].
pub fn init_with(filter: &str, format: Format, exported: Exported) -> Result<(), InitError> {
    let Exported { spans, logs, at_end } = exported;
    let filter = parse_filter(filter)?;
    let lines = log::start().map_err(InitError::NoThread)?;
    let filter: Box<dyn Filter<Registry> + Send + Sync> = match &spans {
        None => Box::new(filter.add_directive(NO_HANDLER_SPANS.parse().expect("a directive that is valid"))),
        Some(_) => {
            let level = filter.max_level_hint().unwrap_or(LevelFilter::TRACE);
            // Without a level of its own it would have all that the libraries say looked at.
            let events = filter_fn(|metadata| metadata.is_event()).with_max_level_hint(level);
            Box::new(filter.and(events))
        }
    };
    let logged: Vec<Part> = logs.into_iter().chain([layer(lines, format)]).collect();
    let logged = logged.with_filter(filter).boxed();
    let parts: Vec<Part> = spans.into_iter().chain([logged]).collect();
    let installed = tracing_subscriber::registry().with(parts).try_init();
    installed.map_err(|_| InitError::AlreadyInstalled)?;
    log::at_end(at_end);
    std::panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// Writes events as lines.
fn layer<S>(lines: Lines, format: Format) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let colours = format == Format::Plain && std::io::IsTerminal::is_terminal(&std::io::stderr());
    let controls = match format {
        Format::Plain if colours => Controls::Colours,
        Format::Plain => Controls::None,
        Format::Json => Controls::Json,
    };
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(lines.written_with(controls))
        // It would say on stderr, and panic there, what cannot be said on stderr.
        .log_internal_errors(false);
    match format {
        Format::Plain => layer.with_ansi(colours).boxed(),
        Format::Json => layer.json().flatten_event(true).boxed(),
    }
}

/// Starts as [`init`] does, by the variables `ESCAPEMENT_LOG` and `ESCAPEMENT_LOG_FORMAT`: for programs without arguments
/// of their own. An empty variable is not set.
///
/// # Errors
/// As [`init`], and [`InitError::UnknownFormat`] if the format is neither `plain` nor `json`.
pub fn init_from_env() -> Result<(), InitError> {
    init_from_env_with(Exported::default())
}

/// Starts as [`init_from_env`] does, and exports spans and the log.
///
/// # Errors
/// The same.
pub fn init_from_env_with(exported: Exported) -> Result<(), InitError> {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let filter = variable("ESCAPEMENT_LOG");
    let format = match variable("ESCAPEMENT_LOG_FORMAT").as_deref() {
        None | Some("plain") => Format::Plain,
        Some("json") => Format::Json,
        Some(other) => return Err(InitError::UnknownFormat(other.to_owned())),
    };
    init_with(filter.as_deref().unwrap_or(DEFAULT_FILTER), format, exported)
}

/// Returns the filter that the text asks for. A level that it gives to everything spares the crates of others:
/// what they say at `debug`, each frame of HTTP/2, would bury what this process says.
fn parse_filter(text: &str) -> Result<EnvFilter, InitError> {
    let plain = text
        .split(',')
        .map(str::trim)
        .filter(|directive| !directive.is_empty());
    let mut wordy = false;
    for directive in plain {
        let level = directive.parse::<LevelFilter>();
        // A word alone would be a target with everything that it says; nearly always it is a mistyped level.
        let is_word = directive.bytes().all(|byte| byte.is_ascii_alphabetic());
        if is_word && level.is_err() {
            return Err(InitError::InvalidFilter {
                directive: directive.to_owned(),
            });
        }
        wordy |= level.is_ok_and(|level| level > LevelFilter::INFO);
    }
    let spared = FOREIGN
        .iter()
        .filter(|_| wordy)
        .map(|target| format!("{target}=info,"));
    let whole = spared.collect::<String>() + text;
    EnvFilter::try_new(whole).map_err(|_| InitError::InvalidFilter {
        directive: text
            .split(',')
            .find(|directive| directive.parse::<Directive>().is_err())
            .unwrap_or(text)
            .to_owned(),
    })
}

/// Logs a panic instead of the hook of the standard library, which waits for stderr.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let location = panic.location().map(ToString::to_string);
    let backtrace = Backtrace::capture();
    let is_captured = backtrace.status() == BacktraceStatus::Captured;
    error!(
        thread = thread.name(),
        location,
        backtrace = is_captured.then(|| field::display(&backtrace)),
        "panicked: {}",
        panic.payload_as_str().unwrap_or("the panic carries no text")
    );
}

/// Default of the filter.
const DEFAULT_FILTER: &str = "info";

/// The spans of handlers are for a collector: without one, each traced attempt would make a span that is never exported.
const NO_HANDLER_SPANS: &str = "escapement_sdk::handler_span=off";

/// Beginnings of the targets of crates that others wrote.
const FOREIGN: [&str; 6] = ["h2", "hyper", "rustls", "tokio", "tonic", "tower"];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn a_broken_filter_is_refused_with_the_directive_that_is_broken() {
        for (text, broken) in [
            ("info,a=b=c", "a=b=c"),
            ("debg", "debg"),
            ("info, waring", "waring"),
            ("info,=", "="),
        ] {
            let said = parse_filter(text).unwrap_err().to_string();
            assert!(
                said.starts_with(&format!("{broken:?} in the log filter")),
                "{text}: {said}"
            );
        }
    }

    #[test]
    fn a_level_for_everything_spares_the_crates_of_others_and_a_directive_does_not() {
        for (text, expected) in [
            ("debug", ["h2=info", "tonic=info", "debug"].as_slice()),
            ("debug,h2=trace", &["h2=trace", "tonic=info", "debug"]),
            ("warn", &["warn"]),
            ("info,escapement_sdk=debug", &["escapement_sdk=debug", "info"]),
        ] {
            let shown = parse_filter(text).unwrap().to_string();
            let directives: Vec<&str> = shown.split(',').collect();
            for directive in expected {
                assert!(directives.contains(directive), "{text}: {shown}");
            }
            assert_eq!(
                directives.contains(&"h2=info"),
                text == "debug",
                "{text}: {shown}"
            );
        }
    }
}
