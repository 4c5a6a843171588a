//! Which trace an execution belongs to, and the ids of its spans. Makes no span and sends nothing.
//!
//! All of it is derived of the request and the execution id. So a worker is told the span that its attempt will have before
//! there is one, nobody keeps it in memory, and a restart comes to the same ids.

use escapement_contract::Request;
use escapement_model::{ExecutionId, StepId, Traceparent, hex};
use escapement_wire::v1;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

use crate::provenance::Provenance;

/// 8 bytes, not all zero.
pub type SpanId = [u8; 8];

/// Which executions are traced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Traces whose last 56 bits are a smaller number are not sampled.
    sampled_from: u64,
    respects_parents: bool,
}

impl Sampling {
    /// `ratio` of the executions that name no parent are traced, 0 to 1. A parent that is respected decides for its children,
    /// and its trace goes on; any other is only linked.
    ///
    /// # Panics
    /// If the ratio is out of range.
    pub fn new(ratio: f64, respects_parents: bool) -> Self {
        assert!((0.0..=1.0).contains(&ratio), "a ratio of {ratio}");
        let n_sampled = (ratio * TRACES as f64) as u64;
        Self {
            sampled_from: TRACES - n_sampled,
            respects_parents,
        }
    }

    /// The same for what no caller decides about: a parent is respected.
    #[must_use]
    pub fn with_parents(self) -> Self {
        Self {
            respects_parents: true,
            ..self
        }
    }

    /// Returns the last 56 bits decide, as level 2 of the specification has it. They are random in a UUID v4, too: its version and its
    /// variant stand before them.
    fn samples(self, trace_id: &[u8; 16]) -> bool {
        let (_, last) = trace_id.split_at(8);
        let last = u64::from_be_bytes(last.try_into().expect("8 of 16 bytes are left"));
        last % TRACES >= self.sampled_from
    }
}

/// A span that somebody else made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanContext {
    /// Trace.
    pub trace_id: [u8; 16],
    /// The span.
    pub span_id: SpanId,
    /// As it came; empty if there is none.
    pub tracestate: String,
    is_sampled: bool,
}

impl SpanContext {
    /// Reads a [`Traceparent`]; `None` if it names no span.
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let named = Traceparent::parse(traceparent)?;
        Some(Self {
            trace_id: named.trace_id,
            span_id: named.span_id,
            tracestate: tracestate.unwrap_or_default().to_owned(),
            is_sampled: named.is_sampled,
        })
    }

    /// What the call said counts before what the request carries.
    fn of_caller(request: &Request) -> Option<Self> {
        let of_call = said_by_call(request);
        let of_call = of_call.and_then(|call| Self::parse(&call.traceparent, Some(&call.tracestate)));
        of_call.or_else(|| {
            let context = request.correlation_context();
            let text = |key| context.get(key).map(String::as_str);
            Self::parse(text(TRACEPARENT)?, text(TRACESTATE))
        })
    }
}

/// The trace of one execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The caller's, else the bytes of the execution id, so that a trace is found by that.
    pub trace_id: [u8; 16],
    /// The span that the execution is part of.
    pub parent: Option<SpanContext>,
    /// A caller's span whose trace does not go on.
    pub ignored: Option<SpanContext>,
    /// True if its spans are exported.
    pub is_sampled: bool,
}

impl Trace {
    /// Returns the trace of an execution.
    pub fn of(execution_id: ExecutionId, request: &Request, sampling: Sampling) -> Self {
        Self::below(SpanContext::of_caller(request), execution_id.as_bytes(), sampling)
    }

    /// The trace of what has that id and was begun by a caller below that span, if it named one.
    pub fn below(caller: Option<SpanContext>, id: &[u8; 16], sampling: Sampling) -> Self {
        match caller {
            Some(parent) if sampling.respects_parents => Self {
                trace_id: parent.trace_id,
                is_sampled: parent.is_sampled,
                parent: Some(parent),
                ignored: None,
            },
            ignored => Self {
                trace_id: *id,
                is_sampled: sampling.samples(id),
                parent: None,
                ignored,
            },
        }
    }

    /// Returns the `traceparent` that names a span of this trace.
    pub fn traceparent(&self, span_id: SpanId) -> String {
        let named = Traceparent {
            trace_id: self.trace_id,
            span_id,
            is_sampled: self.is_sampled,
        };
        named.header()
    }

    /// Replaces what the headers of an attempt say of a trace by the span of the attempt.
    pub fn write_headers(&self, span_id: SpanId, headers: &mut BTreeMap<String, String>) {
        headers.insert(TRACEPARENT.to_owned(), self.traceparent(span_id));
        let tracestate = self.parent.as_ref().map(|parent| parent.tracestate.as_str());
        write_tracestate(tracestate.unwrap_or_default(), headers);
    }
}

/// What a log names of an execution: the id of its trace, and that of its span if it is exported. `sampling`: as executions are
/// traced, `None` if none are; then the trace is that which the caller names, if it names one.
pub fn logged_ids(
    execution_id: ExecutionId,
    request: &Request,
    sampling: Option<Sampling>,
) -> (Option<String>, Option<String>) {
    let Some(sampling) = sampling else {
        let caller = SpanContext::of_caller(request);
        return (caller.map(|caller| hex::text(&caller.trace_id)), None);
    };
    let trace = Trace::of(execution_id, request, sampling);
    let span_id = trace.is_sampled.then(|| hex::text(&execution_span(execution_id)));
    (Some(hex::text(&trace.trace_id)), span_id)
}

/// Replaces what the headers of an attempt say of a trace by what the call said, if that names a span: for a process that makes
/// no spans of its own.
pub fn write_callers_headers(request: &Request, headers: &mut BTreeMap<String, String>) {
    let said = said_by_call(request);
    if let Some(call) = said.filter(|call| Traceparent::parse(&call.traceparent).is_some()) {
        headers.insert(TRACEPARENT.to_owned(), call.traceparent);
        write_tracestate(&call.tracestate, headers);
    }
}

fn said_by_call(request: &Request) -> Option<v1::StoredTraceContext> {
    Provenance::decode(request.provenance())?.trace_context
}

fn write_tracestate(tracestate: &str, headers: &mut BTreeMap<String, String>) {
    match tracestate.len() {
        1..=TRACESTATE_BYTES_MAX => headers.insert(TRACESTATE.to_owned(), tracestate.to_owned()),
        _ => headers.remove(TRACESTATE),
    };
}

/// Returns the span of an execution.
pub fn execution_span(execution_id: ExecutionId) -> SpanId {
    span_id(execution_id, &NO_STEP, 0)
}

/// Returns the span of the time in the queue.
pub fn queued_span(execution_id: ExecutionId) -> SpanId {
    span_id(execution_id, &NO_STEP, 1)
}

/// Returns the span that stands for those that are left out.
pub fn missing_span(execution_id: ExecutionId) -> SpanId {
    span_id(execution_id, &NO_STEP, 2)
}

/// Returns the span of a step that has none of an attempt.
pub fn step_span(execution_id: ExecutionId, step_id: StepId) -> SpanId {
    span_id(execution_id, step_id.as_bytes(), 0)
}

/// Returns the span of an attempt, 1 for the first.
pub fn attempt_span(execution_id: ExecutionId, step_id: StepId, attempt: u32) -> SpanId {
    span_id(execution_id, step_id.as_bytes(), attempt)
}

fn span_id(execution_id: ExecutionId, step_id: &[u8; 16], number: u32) -> SpanId {
    span_of(execution_id.as_bytes(), step_id, number)
}

/// The span of a numbered part of what has that id.
pub fn span_of(id: &[u8; 16], part: &[u8; 16], number: u32) -> SpanId {
    let hash = Sha256::new()
        .chain_update(id)
        .chain_update(part)
        .chain_update(number.to_be_bytes())
        .finalize();
    let (first, _) = hash.split_at(8);
    first.try_into().expect("8 of 32 bytes")
}

/// Header of the trace and the span.
const TRACEPARENT: &str = "traceparent";
/// Header of what vendors add.
const TRACESTATE: &str = "tracestate";
/// What the random part of a trace id can be: 2^56.
const TRACES: u64 = 1 << 56;
/// No step has this id.
const NO_STEP: [u8; 16] = [0; 16];
/// Bytes of a `tracestate` that goes on; the specification asks for at least so many.
const TRACESTATE_BYTES_MAX: usize = 512;

#[cfg(test)]
mod tests;
