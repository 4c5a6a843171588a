//! The spans of one run, put together one after another and bounded. Knows no run.

use escapement_codec::trace::{SpanContext, SpanId, Trace};
use escapement_otlp::attributes::{event, nanoseconds, number};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::span::{Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};

use crate::limits::{EVENTS_MAX, SPANS_MAX};

/// Spans below one that is the first.
pub(crate) struct Drawing<'a> {
    trace: &'a Trace,
    spans: Vec<Span>,
    n_missing: usize,
}

impl<'a> Drawing<'a> {
    /// Begins with the span that all others are below; it has the trace's parent.
    pub(crate) fn begin(
        trace: &'a Trace,
        at: i64,
        id: SpanId,
        name: &str,
        attributes: Vec<KeyValue>,
    ) -> Self {
        let mut drawing = Self {
            trace,
            spans: Vec::new(),
            n_missing: 0,
        };
        let mut root = drawing.span(id, name, SpanKind::Server, at);
        root.attributes = attributes;
        if let Some(parent) = &trace.parent {
            root.parent_span_id = parent.span_id.to_vec();
            root.flags |= PARENT_IS_REMOTE;
        }
        root.links = trace.ignored.iter().map(link).collect();
        drawing.spans.push(root);
        drawing
    }

    /// Puts a span below that one. Returns its place; `None` if there are too many.
    pub(crate) fn push(&mut self, parent: usize, span: Span) -> Option<usize> {
        // One is left for what says how many are missing.
        if self.spans.len() + 1 >= SPANS_MAX {
            self.n_missing += 1;
            return None;
        }
        let parent_span_id = self.spans[parent].span_id.clone();
        self.spans.push(Span {
            parent_span_id,
            ..span
        });
        Some(self.spans.len() - 1)
    }

    /// A span that begins, without a parent.
    pub(crate) fn span(&self, id: SpanId, name: &str, kind: SpanKind, at: i64) -> Span {
        let parent = self.trace.parent.as_ref();
        Span {
            trace_id: self.trace.trace_id.to_vec(),
            span_id: id.to_vec(),
            trace_state: parent.map_or_else(String::new, |parent| parent.tracestate.clone()),
            flags: SAMPLED | SAYS_IF_PARENT_IS_REMOTE,
            name: name.to_owned(),
            kind: kind as i32,
            start_time_unix_nano: nanoseconds(at),
            ..Span::default()
        }
    }

    /// The span at that place.
    pub(crate) fn at_mut(&mut self, place: usize) -> &mut Span {
        &mut self.spans[place]
    }

    /// Something that happened to the span at that place.
    pub(crate) fn event(&mut self, place: usize, name: &str, at: i64, attributes: Vec<KeyValue>) {
        let span = &mut self.spans[place];
        if span.events.len() < EVENTS_MAX {
            span.events.push(event(name, at, attributes));
        } else {
            span.dropped_events_count += 1;
        }
    }

    /// The spans; those that are open end now.
    pub(crate) fn finish(mut self, ended_at: i64, missing: SpanId) -> Vec<Span> {
        if self.n_missing > 0 {
            let mut span = self.span(missing, "missing", SpanKind::Internal, ended_at);
            span.parent_span_id = self.spans[0].span_id.clone();
            span.attributes = vec![number("escapement.spans.missing", self.n_missing)];
            self.spans.push(span);
        }
        for span in self.spans.iter_mut().filter(|span| span.end_time_unix_nano == 0) {
            span.end_time_unix_nano = nanoseconds(ended_at).max(span.start_time_unix_nano);
        }
        self.spans
    }
}

/// Without a text: it would be one of an error.
pub(crate) fn status(is_error: bool) -> Option<Status> {
    is_error.then(|| Status {
        message: String::new(),
        code: StatusCode::Error as i32,
    })
}

pub(crate) fn link(context: &SpanContext) -> Link {
    Link {
        trace_id: context.trace_id.to_vec(),
        span_id: context.span_id.to_vec(),
        trace_state: context.tracestate.clone(),
        ..Link::default()
    }
}

/// Flag of a span that is recorded.
pub(crate) const SAMPLED: u32 = 1;
/// Flag of a span that says of its parent whether it is of another process.
pub(crate) const SAYS_IF_PARENT_IS_REMOTE: u32 = 0x100;
/// Flag of a span whose parent is.
pub(crate) const PARENT_IS_REMOTE: u32 = 0x200;
