//! A span of a record. Knows no execution and no run.

use crate::limits::EVENTS_MAX;
use escapement_codec::trace::{SpanId, Trace};
use escapement_otlp::Encoded;
use escapement_otlp::attributes::nanoseconds;
use escapement_otlp::span::{Head, SpanMessage};
use std::borrow::Cow;
use std::ops::Range;

pub(crate) use escapement_otlp::span::{Kind, Value};

/// A span that is not sent yet. What stands in it may be borrowed of the record.
#[derive(Clone, Debug)]
pub(crate) struct Span<'a> {
    pub(crate) id: SpanId,
    pub(crate) parent: Parent,
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Unix milliseconds.
    pub(crate) time: Range<i64>,
    pub(crate) attributes: Vec<Attribute<'a>>,
    pub(crate) events: Events<'a>,
    pub(crate) is_error: bool,
}

/// What a span is below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parent {
    /// What the trace says of the caller.
    Caller,
    /// Another span of this process.
    Span(SpanId),
}

/// A key and its value.
pub(crate) type Attribute<'a> = (&'static str, Value<'a>);

/// Returns an attribute whose value is a text.
pub(crate) fn text<'a>(key: &'static str, value: impl Into<Cow<'a, str>>) -> Attribute<'a> {
    (key, Value::Text(value.into()))
}

/// Returns an attribute whose value is a number; one that is too large is the largest.
pub(crate) fn number<'a>(key: &'static str, value: impl TryInto<i64>) -> Attribute<'a> {
    (key, Value::Number(value.try_into().unwrap_or(i64::MAX)))
}

/// The first things that happened to a span, and how many there are beyond.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events<'a> {
    kept: Vec<Event<'a>>,
    n_more: u32,
}

#[derive(Clone, Debug)]
struct Event<'a> {
    name: &'static str,
    /// Unix milliseconds.
    at: i64,
    attributes: Vec<Attribute<'a>>,
}

impl<'a> Events<'a> {
    /// Puts one behind the others, if there is room.
    pub(crate) fn push(&mut self, name: &'static str, at: i64, attributes: Vec<Attribute<'a>>) {
        if self.kept.len() < EVENTS_MAX {
            self.kept.push(Event { name, at, attributes });
        } else {
            self.n_more += 1;
        }
    }

    /// Puts these behind.
    pub(crate) fn append(&mut self, other: Self) {
        self.kept.extend(other.kept);
        self.n_more += other.n_more;
    }
}

impl<'a> Span<'a> {
    /// Creates a span of which nothing more is said.
    pub(crate) fn new(id: SpanId, parent: Parent, name: &'static str, kind: Kind, time: Range<i64>) -> Self {
        Self {
            id,
            parent,
            name,
            kind,
            time,
            attributes: Vec::new(),
            events: Events::default(),
            is_error: false,
        }
    }

    /// `opentelemetry.proto.trace.v1.Span`. The status has no text: it would be one of an error.
    pub(crate) fn encode(&self, trace: &Trace) -> Encoded {
        let caller = trace.parent.as_ref();
        let parent = match &self.parent {
            Parent::Caller => caller.map(|caller| &caller.span_id),
            Parent::Span(id) => Some(id),
        };
        let is_top = self.parent == Parent::Caller;
        let mut span = SpanMessage::new(&Head {
            trace_id: trace.trace_id,
            id: self.id,
            tracestate: caller.map_or("", |caller| &caller.tracestate),
            parent: parent.copied(),
            has_remote_parent: is_top && caller.is_some(),
            trace_flags: SAMPLED,
            name: self.name,
            kind: self.kind,
            time: nanoseconds(self.time.start)..nanoseconds(self.time.end),
        });
        for (key, value) in &self.attributes {
            span.attribute(key, value);
        }
        for event in &self.events.kept {
            let attributes = event.attributes.iter().map(|(key, value)| (*key, value));
            span.event(nanoseconds(event.at), event.name, attributes, 0);
        }
        span.dropped_events(self.events.n_more);
        for ignored in trace.ignored.iter().filter(|_| is_top) {
            let nothing = std::iter::empty::<(&str, Value<'_>)>();
            span.link(ignored.trace_id, ignored.span_id, &ignored.tracestate, nothing, 0);
        }
        if self.is_error {
            span.failed("");
        }
        span.finish()
    }
}

/// Flag of a trace that is recorded.
const SAMPLED: u8 = 1;

#[cfg(test)]
mod tests;
