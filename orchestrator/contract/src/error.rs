//! What went wrong, as the orchestrator classified it. Does not decide what follows from it: see `outcome`.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use escapement_model::limits::MESSAGE_CHARS_MAX;
use escapement_model::{Opaque, Severity, StepId, codes};

/// Errors below one another in a chain of causes.
pub const CAUSE_DEPTH_MAX: usize = 3;

/// A classified error.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecutionError {
    /// 1 to 50 code points.
    pub code: String,
    /// At most 1000 code points.
    pub message: String,
    /// `None` for an error of the plan as a whole.
    pub step_id: Option<StepId>,
    /// Decides what happens.
    pub severity: Severity,
    /// The error that led to this one; at most [`CAUSE_DEPTH_MAX`] below one another.
    pub cause: Option<Arc<ExecutionError>>,
    /// Diagnostic data.
    pub context: Opaque,
}

impl ExecutionError {
    /// Returns true for `warn` and `error`. Never a licence to retry the plan.
    pub fn recoverable(&self) -> bool {
        //
        self.severity < Severity::Fatal
    }

    /// Returns true for the error of an execution that was interrupted by a restart or a restore.
    pub fn is_interruption(&self) -> bool {
        // every other error of the plan as a whole has a code of its own.
        self.step_id.is_none() && self.code == codes::UNKNOWN_ERROR
    }

    /// Creates an error that the orchestrator itself finds.
    pub(crate) fn new(code: &str, severity: Severity, message: &str) -> Self {
        Self {
            code: code.to_string(),
            message: cut(message, MESSAGE_CHARS_MAX).to_string(),
            step_id: None,
            severity,
            cause: None,
            context: Opaque::default(),
        }
    }

    pub(crate) fn at_step(mut self, step_id: StepId) -> Self {
        self.step_id = Some(step_id);
        self
    }

    pub(crate) fn with_context(mut self, context: Opaque) -> Self {
        self.context = context;
        self
    }

    /// Sets the cause; if the chain would grow too deep it points at the root instead.
    pub(crate) fn caused_by(mut self, cause: Arc<ExecutionError>) -> Self {
        //
        let chain = core::iter::successors(Some(&cause), |error| error.cause.as_ref());
        let depth = chain.clone().count();
        let root = chain.last().expect("a chain has at least its first error");
        self.cause = Some(if depth > CAUSE_DEPTH_MAX {
            Arc::clone(root)
        } else {
            Arc::clone(&cause)
        });
        self
    }

    /// Returns the fatal error that a failure shows for an error that was not fatal in itself.
    pub(crate) fn promoted(original: &Arc<ExecutionError>) -> Self {
        //
        Self {
            code: original.code.clone(),
            message: original.message.clone(),
            step_id: original.step_id,
            severity: Severity::Fatal,
            cause: None,
            context: original.context.clone(),
        }
        .caused_by(Arc::clone(original))
    }
}

/// Returns the first code points of a text, at most `chars_max`.
pub(crate) fn cut(text: &str, chars_max: usize) -> &str {
    // Bytes are at least as many as code points, so most texts need no count.
    if text.len() <= chars_max {
        return text;
    }
    text.char_indices()
        .nth(chars_max)
        .map_or(text, |(end, _)| &text[..end])
}
