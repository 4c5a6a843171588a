//! Errors of a step, and of the worker as a whole.

use escapement_model::{Severity, codes};
use escapement_process::with_causes;
use serde_json::{Map, Value};
use std::error::Error;
use std::fmt;

/// Reason why a step failed, or what its handler warns of.
///
/// ```
/// use escapement_sdk::StepError;
/// use serde_json::json;
///
/// let error = StepError::new("UPSTREAM_BUSY", "the ledger does not answer").context(json!({"ledger":
/// "eu-1"}));
/// assert_eq!(error.code(), "UPSTREAM_BUSY");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct StepError {
    code: String,
    message: String,
    severity: Option<Severity>,
    context: Map<String, Value>,
    is_not_here: bool,
}

impl StepError {
    /// Creates an error with a code of at most 50 and a message of at most 1000 code points.
    ///
    /// A longer message is cut. An empty or longer code counts as `UNKNOWN_ERROR`.
    /// Without [`severity`](Self::severity) it counts as `error`; a reserved code has its own severity in
    /// any case.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            severity: None,
            context: Map::new(),
            is_not_here: false,
        }
    }

    /// Creates a fatal error `UNKNOWN_ERROR` with the text of an error and of its causes.
    pub fn unknown(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::from_error(codes::UNKNOWN_ERROR, error)
    }

    /// Creates an error with this code and the text of an error and of everything that caused it.
    pub fn from_error(code: impl Into<String>, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(code, with_causes(error.into().as_ref()))
    }

    /// Sets how bad it is.
    #[must_use]
    pub fn severity(mut self, severity: Severity) -> Self {
        self.severity = Some(severity);
        self
    }

    /// Makes it fatal: the execution stops.
    #[must_use]
    pub fn fatal(self) -> Self {
        self.severity(Severity::Fatal)
    }

    /// Makes it a warning: the execution continues.
    #[must_use]
    pub fn warn(self) -> Self {
        self.severity(Severity::Warn)
    }

    /// States that this worker may not do the step and that the handler did nothing. Another worker may do it.
    ///
    /// The step is assigned to a worker that has not answered so, without using up an attempt.
    /// Without such a worker, or after 16 such answers, the error counts as any other.
    /// A handler MUST NOT use this after anything that has an effect outside.
    #[must_use]
    pub fn not_here(mut self) -> Self {
        self.is_not_here = true;
        self
    }

    /// Adds diagnostic data: the entries of an object, or any other value under the key `value`.
    ///
    /// More than 16 KiB encoded is dropped, with a note in the message.
    #[must_use]
    pub fn context(mut self, context: Value) -> Self {
        match context {
            Value::Object(entries) => self.context.extend(entries),
            other => {
                self.context.insert("value".to_owned(), other);
            }
        }
        self
    }

    /// Returns the code.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// Returns the message, as given.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the severity, if the handler stated one.
    pub fn stated_severity(&self) -> Option<Severity> {
        self.severity
    }

    /// Returns true if another worker may do the step.
    pub fn is_not_here(&self) -> bool {
        self.is_not_here
    }

    /// Returns the diagnostic data.
    pub fn diagnostics(&self) -> &Map<String, Value> {
        &self.context
    }
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl Error for StepError {}

/// Reason why a worker did not start, or ended without having been asked to.
#[derive(Debug)]
#[non_exhaustive]
pub enum WorkerError {
    /// The builder was given something that cannot work. The text says what.
    InvalidConfiguration(String),
    /// The random source of the operating system does not answer.
    NoRandomness(getrandom::Error),
    /// The thread of the session did not start or ended early.
    SessionThread(std::io::Error),
    /// A newer session of the same instance took over.
    Superseded,
    /// The orchestrator refuses this worker for good. The text is its reason.
    Refused(String),
    /// The worker stopped, but the orchestrator does not know the end of this many attempts; it settles them
    /// as lost.
    DrainIncomplete {
        /// Attempts without an acknowledged end.
        unsettled: usize,
    },
}

impl fmt::Display for WorkerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorkerError::InvalidConfiguration(detail) => write!(f, "the worker cannot be built: {detail}"),
            WorkerError::NoRandomness(_) => f.write_str("no random bytes for the instance id"),
            WorkerError::SessionThread(_) => f.write_str("the session's thread failed"),
            WorkerError::Superseded => f.write_str("a newer session of the same instance took over"),
            WorkerError::Refused(detail) => write!(f, "the orchestrator refuses this worker: {detail}"),
            WorkerError::DrainIncomplete { unsettled } => {
                write!(
                    f,
                    "stopped with {unsettled} attempts that the orchestrator has not acknowledged"
                )
            }
        }
    }
}

impl Error for WorkerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            WorkerError::NoRandomness(error) => Some(error),
            WorkerError::SessionThread(error) => Some(error),
            WorkerError::InvalidConfiguration(_)
            | WorkerError::Superseded
            | WorkerError::Refused(_)
            | WorkerError::DrainIncomplete { .. } => None,
        }
    }
}
