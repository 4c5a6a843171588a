//! What traces runs, as far as the thread of runs knows it. Makes no span.

use escapement_model::{ExecutionId, RunId};
use escapement_run::spec::{Spec, TraceContext};

/// Traces runs. It must not wait: the thread of runs calls it.
pub trait TraceRuns: Send + Sync {
    /// What the submission of an attempt says of its trace; `None` for nothing.
    fn attempt(&self, run_id: RunId, spec: &Spec, execution_id: ExecutionId) -> Option<Box<TraceContext>>;

    /// What a run that this one starts has for its trace; `None` for nothing.
    fn child(&self, run_id: RunId, spec: &Spec, child: RunId) -> Option<Box<TraceContext>>;

    /// A run has ended, durably.
    fn ended(&self, run_id: RunId, spec: &Spec);
}
