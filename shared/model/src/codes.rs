//! The reserved error codes of the contract and the severities. Decides nothing about an execution.

use core::fmt;

/// How bad an error is. Ordered: `Warn < Error < Fatal`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Recorded; the execution goes on.
    Warn,
    /// The step's `on_failure` decides.
    Error,
    /// The execution stops.
    Fatal,
}

impl Severity {
    /// Returns the contract's spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Warn => "warn",
            Severity::Error => "error",
            Severity::Fatal => "fatal",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A required top-level key is missing in the environment.
pub const CONTEXT_MISSING: &str = "CONTEXT_MISSING";
/// A payload, or a plan as a whole, breaks a rule.
pub const INVALID_PAYLOAD: &str = "INVALID_PAYLOAD";
/// An attempt took longer than the step's `timeout_ms`.
pub const STEP_TIMEOUT: &str = "STEP_TIMEOUT";
/// The execution took longer than the plan's `timeout_ms`.
pub const PLAN_TIMEOUT: &str = "PLAN_TIMEOUT";
/// The caller's deadline came, or leaves too little time.
pub const DEADLINE_EXCEEDED: &str = "DEADLINE_EXCEEDED";
/// A step depends on what does not exist, on itself, or on a step that did not complete.
pub const DEPENDENCY_UNRESOLVED: &str = "DEPENDENCY_UNRESOLVED";
/// No worker has a handler for the action.
pub const ACTION_NOT_FOUND: &str = "ACTION_NOT_FOUND";
/// A size limit was exceeded.
pub const RESOURCE_EXHAUSTED: &str = "RESOURCE_EXHAUSTED";
/// The handler asks for a halt.
pub const EXECUTION_HALTED: &str = "EXECUTION_HALTED";
/// The step was skipped because of its `on_failure`.
pub const STEP_SKIPPED: &str = "STEP_SKIPPED";
/// Anything that has no better code.
pub const UNKNOWN_ERROR: &str = "UNKNOWN_ERROR";
/// The worker vanished while the attempt ran. Not reserved: a plan may list it as retryable.
pub const WORKER_LOST: &str = "WORKER_LOST";

/// The reserved codes with the severity that the registry gives them.
///
/// `STEP_TIMEOUT` stands here as `Fatal`; it is `Error` in a plan that lists it as retryable.
pub const RESERVED: [(&str, Severity); 11] = [
    (CONTEXT_MISSING, Severity::Fatal),
    (INVALID_PAYLOAD, Severity::Fatal),
    (STEP_TIMEOUT, Severity::Fatal),
    (PLAN_TIMEOUT, Severity::Fatal),
    (DEADLINE_EXCEEDED, Severity::Fatal),
    (DEPENDENCY_UNRESOLVED, Severity::Fatal),
    (ACTION_NOT_FOUND, Severity::Fatal),
    (RESOURCE_EXHAUSTED, Severity::Fatal),
    (EXECUTION_HALTED, Severity::Error),
    (STEP_SKIPPED, Severity::Warn),
    (UNKNOWN_ERROR, Severity::Fatal),
];

/// Returns the registry's severity of a reserved code; `None` for any other code.
pub fn reserved_severity(code: &str) -> Option<Severity> {
    RESERVED
        .iter()
        .find(|(reserved, _)| *reserved == code)
        .map(|(_, severity)| *severity)
}
