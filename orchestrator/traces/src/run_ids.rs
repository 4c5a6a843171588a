//! The ids of the spans of a run, and what a call names so that it is made below one of them. Makes no span.
//!
//! They follow from ids that the journal has, so that a restart comes to the same ones.

use escapement_codec::trace::{Sampling, SpanContext, SpanId, Trace, span_of};
use escapement_model::{ExecutionId, RunId};
use escapement_run::spec::{Spec, TraceContext};

/// Returns the trace of a run. A run that another one started is in the trace of that one, whatever is said about callers.
pub(crate) fn trace_of(run_id: RunId, spec: &Spec, sampling: Sampling) -> Trace {
    let sampling = match spec.parent_run_id.is_empty() {
        true => sampling,
        false => sampling.with_parents(),
    };
    let named = spec.trace.as_ref();
    let caller = named.and_then(|named| SpanContext::parse(&named.traceparent, Some(&named.tracestate)));
    Trace::below(caller, run_id.as_bytes(), sampling)
}

/// What a call says that is made below that span of the trace.
pub(crate) fn context(trace: &Trace, span_id: SpanId) -> Option<Box<TraceContext>> {
    let tracestate = trace.parent.as_ref().map(|parent| parent.tracestate.as_str());
    TraceContext::of(Some(&trace.traceparent(span_id)), tracestate)
}

/// Returns the span of a run.
pub(crate) fn run(run_id: RunId) -> SpanId {
    span_of(run_id.as_bytes(), &NO_PART, 0)
}

/// Returns the span of the time in the queue.
pub(crate) fn queued(run_id: RunId) -> SpanId {
    span_of(run_id.as_bytes(), &NO_PART, 1)
}

/// Returns the span that stands for those that are left out.
pub(crate) fn missing(run_id: RunId) -> SpanId {
    span_of(run_id.as_bytes(), &NO_PART, 2)
}

/// Returns the span of an attempt, which the execution is below that carries it out.
pub(crate) fn attempt(execution_id: ExecutionId) -> SpanId {
    span_of(execution_id.as_bytes(), &NO_PART, 3)
}

/// Returns the span that a run is below in that of the run that started it.
pub(crate) fn child(run_id: RunId) -> SpanId {
    span_of(run_id.as_bytes(), &NO_PART, 4)
}

/// Returns the nth span of a run that no call is below.
pub(crate) fn nth(run_id: RunId, n: u32) -> SpanId {
    span_of(run_id.as_bytes(), &OTHER_PART, n)
}

/// No step has this id.
const NO_PART: [u8; 16] = [0; 16];
/// Nor this one.
const OTHER_PART: [u8; 16] = [1; 16];
