//! Errors as the second interpreter keeps them, and how severity is settled. Knows nothing of steps' states.

use escapement_model::Severity;

use super::words::Reported;
use crate::planted::misreads;

/// A classified error. Without texts and contexts, which decide nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Classified {
    /// Reserved or not.
    pub code: String,
    /// List index; `None` for an error of the plan.
    pub step: Option<usize>,
    /// Settled.
    pub severity: Severity,
    /// The error that led to it.
    pub cause: Option<Box<Classified>>,
}

impl Classified {
    /// Without a cause.
    pub fn new(code: &str, step: Option<usize>, severity: Severity) -> Self {
        Self {
            code: code.into(),
            step,
            severity,
            cause: None,
        }
    }

    /// at most three errors below the top; a longer chain is cut to its root.
    pub fn because_of(self, cause: &Classified) -> Self {
        let chain = cause.chain();
        let cause = if chain.len() > 3 {
            chain[chain.len() - 1].clone()
        } else {
            cause.clone()
        };
        Self {
            cause: Some(Box::new(cause)),
            ..self
        }
    }

    /// the same error as fatal, above itself.
    pub fn promoted(&self) -> Self {
        Classified::new(&self.code, self.step, Severity::Fatal).because_of(self)
    }

    /// Returns the error and its causes, from the top down.
    pub fn chain(&self) -> Vec<&Classified> {
        let mut chain = vec![self];
        while let Some(cause) = &chain[chain.len() - 1].cause {
            chain.push(cause);
        }
        chain
    }
}

/// The registry of the contract, except `STEP_TIMEOUT`, which the plan decides on.
const REGISTRY: [(&str, Severity); 10] = [
    ("CONTEXT_MISSING", Severity::Fatal),
    ("INVALID_PAYLOAD", Severity::Fatal),
    ("PLAN_TIMEOUT", Severity::Fatal),
    ("DEADLINE_EXCEEDED", Severity::Fatal),
    ("DEPENDENCY_UNRESOLVED", Severity::Fatal),
    ("ACTION_NOT_FOUND", Severity::Fatal),
    ("RESOURCE_EXHAUSTED", Severity::Fatal),
    ("EXECUTION_HALTED", Severity::Error),
    ("STEP_SKIPPED", Severity::Warn),
    ("UNKNOWN_ERROR", Severity::Fatal),
];

/// Code and severity of what a worker reported.
pub fn settle_severity(reported: &Reported, retryable: &[String]) -> (String, Severity) {
    let n_letters = reported.code.chars().count();
    if n_letters == 0 || n_letters > 50 {
        return ("UNKNOWN_ERROR".into(), Severity::Fatal);
    }
    let severity = severity_of(&reported.code, reported.severity, retryable);
    (reported.code.clone(), severity)
}

/// Severity of a usable code.
pub fn severity_of(code: &str, said: Option<Severity>, retryable: &[String]) -> Severity {
    if code == "STEP_TIMEOUT" {
        return if is_listed(code, retryable) {
            Severity::Error
        } else {
            Severity::Fatal
        };
    }
    if let Some(severity) = said.filter(|_| misreads("worker-sets-severity")) {
        return severity;
    }
    for (reserved, severity) in REGISTRY {
        if reserved == code {
            return severity;
        }
    }
    said.unwrap_or(Severity::Error)
}

///
pub fn is_listed(code: &str, retryable: &[String]) -> bool {
    retryable.iter().any(|listed| listed == code || listed == "*")
}
