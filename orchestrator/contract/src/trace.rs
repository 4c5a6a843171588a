//! All errors of a run in the order in which they were settled. Repeats them in the result; decides nothing.

use crate::error::ExecutionError;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use escapement_model::Opaque;
use escapement_model::limits::ERROR_TRACE_CONTEXT_BYTES_MAX;
use escapement_model::opaque::{ListBuilder, StructBuilder};

/// The errors so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    entries: Vec<TraceEntry>,
    n_omitted: u64,
    context_bytes: usize,
    warning_bytes: usize,
}

#[derive(Clone, Debug)]
struct TraceEntry {
    error: Arc<ExecutionError>,
    attempt: Option<u32>,
    at_unix_ms: i64,
}

impl Trace {
    /// Takes an error in. `attempt` is `None` if no attempt was made.
    pub(crate) fn note(&mut self, error: Arc<ExecutionError>, attempt: Option<u32>, at_unix_ms: i64) {
        if self.entries.len() >= TRACE_ERRORS_MAX {
            self.n_omitted += 1;
            return;
        }
        self.context_bytes = self.context_bytes.saturating_add(error.context.len());
        self.entries.push(TraceEntry {
            error,
            attempt,
            at_unix_ms,
        });
    }

    /// Returns true while the contexts of repeated attempts fit.
    pub(crate) fn keeps_context_of(&self, error: &ExecutionError) -> bool {
        self.context_bytes.saturating_add(error.context.len()) <= ERROR_TRACE_CONTEXT_BYTES_MAX
    }

    /// Returns true while the warnings of completed attempts fit into the record; counts one that does.
    pub(crate) fn admits_warning(&mut self, warning: &ExecutionError) -> bool {
        let bytes =
            WARNING_OVERHEAD_BYTES + warning.code.len() + warning.message.len() + warning.context.len();
        let fits = self.warning_bytes.saturating_add(bytes) <= WARNINGS_BYTES_MAX;
        self.warning_bytes += if fits { bytes } else { 0 };
        fits
    }

    /// Returns the error's own context with all errors of the run beside it.
    pub(crate) fn aggregate(&self, own: &Opaque) -> Opaque {
        //
        let mut errors = ListBuilder::new();
        let mut n_omitted = self.n_omitted;
        let mut bytes_left = TRACE_BYTES_MAX;
        let mut context_bytes_left = Some(ERROR_TRACE_CONTEXT_BYTES_MAX);
        for entry in &self.entries {
            // once one context no longer fits, none is repeated.
            context_bytes_left =
                context_bytes_left.and_then(|left| left.checked_sub(entry.error.context.len()));
            let object = entry.to_object(context_bytes_left.is_some());
            match bytes_left.checked_sub(object.len() + ITEM_OVERHEAD_BYTES) {
                Some(left) => {
                    bytes_left = left;
                    errors = errors.object(object.as_encoded());
                }
                None => n_omitted += 1,
            }
        }
        let context = StructBuilder::from_opaque(own).list("errors", errors);
        if n_omitted == 0 {
            context.build()
        } else {
            context.number("errors_omitted", n_omitted as f64).build()
        }
    }
}

impl TraceEntry {
    /// What is added here is added to the bound in `certificate::result_bytes`.
    fn to_object(&self, with_context: bool) -> Opaque {
        let TraceEntry {
            error,
            attempt,
            at_unix_ms,
        } = self;
        let ExecutionError {
            code,
            message,
            step_id,
            severity,
            cause,
            context,
        } = error.as_ref();
        let mut object = StructBuilder::new()
            .text("error_code", code)
            .text("message", message);
        if let Some(step_id) = step_id {
            object = object.text("step_id", &step_id.to_string());
        }
        object = object
            .text("severity", severity.as_str())
            .boolean("recoverable", error.recoverable());
        if let Some(attempt) = attempt {
            object = object.number("attempt", f64::from(*attempt));
        }
        object = object.number("timestamp", *at_unix_ms as f64);
        if let Some(cause) = cause {
            let cause = StructBuilder::new()
                .text("error_code", &cause.code)
                .text("message", &cause.message)
                .build();
            object = object.object("cause", cause.as_encoded());
        }
        if with_context && !context.is_empty() {
            object = object.object("context", context.as_encoded());
        }
        object.build()
    }
}

/// The same error with a note in place of its diagnostic data.
pub(crate) fn without_context(error: ExecutionError) -> ExecutionError {
    let why = "the contexts of this execution's errors exceed the limit";
    error.with_context(StructBuilder::new().text("context_dropped", why).build())
}

/// Bytes of all errors that a result repeats; later ones are counted only.
pub(crate) const TRACE_BYTES_MAX: usize = 3 << 20;

/// Errors that are kept; later ones are counted only.
const TRACE_ERRORS_MAX: usize = 16_384;

/// Bytes of all warnings in a record; later ones are dropped.
const WARNINGS_BYTES_MAX: usize = 4 << 20;
/// More than what stands around a warning's texts and context.
const WARNING_OVERHEAD_BYTES: usize = 128;

/// At most this many bytes stand around an object in a list.
pub(crate) const ITEM_OVERHEAD_BYTES: usize = 12;
