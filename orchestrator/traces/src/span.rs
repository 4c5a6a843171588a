//! A span of a record, and the bytes that OTLP has for it. Knows no execution and no run.
//!
//! The messages that are generated of OTLP take about thirty allocations for a span, and measure each part of it once for every
//! message around it: five times what this takes, at each execution that is traced.

mod protobuf;

use crate::limits::EVENTS_MAX;
use escapement_codec::trace::{SpanContext, SpanId, Trace};
use escapement_otlp::Encoded;
use escapement_otlp::attributes::nanoseconds;
use std::borrow::Cow;
use std::ops::Range;

use self::protobuf::Message;

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

/// What a span stands for, as OTLP numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Something within the process.
    Internal = 1,
    /// A call that was answered.
    Server = 2,
    /// A call that was made.
    Client = 3,
}

/// A key and its value.
pub(crate) type Attribute<'a> = (&'static str, Value<'a>);

/// What an attribute says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Text(Cow<'a, str>),
    Number(i64),
}

/// An attribute whose value is a text.
pub(crate) fn text<'a>(key: &'static str, value: impl Into<Cow<'a, str>>) -> Attribute<'a> {
    (key, Value::Text(value.into()))
}

/// An attribute whose value is a number; one that is too large is the largest.
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
    /// A span of which nothing more is said.
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
        let has_remote_parent = is_top && caller.is_some();
        let mut span = Message::with_capacity(SPAN_BYTES);
        span.bytes(1, &trace.trace_id);
        span.bytes(2, &self.id);
        span.bytes(3, caller.map_or("", |caller| &caller.tracestate).as_bytes());
        span.bytes(4, parent.map_or(&[], |id| id));
        span.bytes(5, self.name.as_bytes());
        span.varint(6, self.kind as u64);
        span.fixed64(7, nanoseconds(self.time.start));
        span.fixed64(8, nanoseconds(self.time.end));
        put_attributes(&mut span, 9, &self.attributes);
        for event in &self.events.kept {
            span.message(11, |message| put_event(message, event));
        }
        span.varint(12, u64::from(self.events.n_more));
        for ignored in trace.ignored.iter().filter(|_| is_top) {
            span.message(13, |link| put_link(link, ignored));
        }
        if self.is_error {
            span.message(15, |status| status.varint(3, STATUS_ERROR));
        }
        let remote = if has_remote_parent { PARENT_IS_REMOTE } else { 0 };
        span.fixed32(16, SAMPLED | SAYS_IF_PARENT_IS_REMOTE | remote);
        span.finish()
    }
}

fn put_attributes(message: &mut Message, field: u32, attributes: &[Attribute<'_>]) {
    for (key, value) in attributes {
        message.message(field, |attribute| {
            attribute.bytes(1, key.as_bytes());
            attribute.message(2, |said| match value {
                Value::Text(text) => said.member_bytes(1, text.as_bytes()),
                Value::Number(number) => said.member_varint(3, *number as u64),
            });
        });
    }
}

fn put_event(message: &mut Message, event: &Event<'_>) {
    message.fixed64(1, nanoseconds(event.at));
    message.bytes(2, event.name.as_bytes());
    put_attributes(message, 3, &event.attributes);
}

fn put_link(link: &mut Message, context: &SpanContext) {
    link.bytes(1, &context.trace_id);
    link.bytes(2, &context.span_id);
    link.bytes(3, context.tracestate.as_bytes());
}

/// More than most spans take.
const SPAN_BYTES: usize = 512;
/// `STATUS_CODE_ERROR`.
const STATUS_ERROR: u64 = 2;
/// Flag of a span that is recorded.
const SAMPLED: u32 = 1;
/// Flag of a span that says of its parent whether it is of another process.
const SAYS_IF_PARENT_IS_REMOTE: u32 = 0x100;
/// Flag of a span whose parent is.
const PARENT_IS_REMOTE: u32 = 0x200;

#[cfg(test)]
mod tests;
