//! A span in the bytes of OTLP, written field after field. Knows nothing that is traced.
//!
//! The messages that are generated of OTLP take about thirty allocations for a span, and measure each part of it once for every
//! message around it: five times what this takes.

use crate::protobuf::Message;
use crate::waiting::Encoded;
use std::borrow::{Borrow, Cow};
use std::ops::Range;

/// What every span has.
#[derive(Clone, Debug)]
pub struct Head<'a> {
    /// Trace.
    pub trace_id: [u8; 16],
    /// Id.
    pub id: [u8; 8],
    /// What the caller's `tracestate` says; may be empty.
    pub tracestate: &'a str,
    /// The span that it is below; `None` if it is the first of its trace.
    pub parent: Option<[u8; 8]>,
    /// Whether that one is of another process.
    pub has_remote_parent: bool,
    /// The flags of its trace; 1 for one that is recorded.
    pub trace_flags: u8,
    /// Name.
    pub name: &'a str,
    /// What it stands for.
    pub kind: Kind,
    /// Time at which it began and ended, in Unix nanoseconds.
    pub time: Range<u64>,
}

/// What a span stands for, as OTLP numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Something within the process.
    Internal = 1,
    /// A call that was answered.
    Server = 2,
    /// A call that was made.
    Client = 3,
    /// A message that was sent.
    Producer = 4,
    /// A message that was received.
    Consumer = 5,
}

/// What an attribute says.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// A text.
    Text(Cow<'a, str>),
    /// A whole number.
    Number(i64),
    /// True or false.
    Flag(bool),
    /// A number with a fraction.
    Fraction(f64),
    /// Several of one kind.
    List(Vec<Self>),
}

/// `opentelemetry.proto.trace.v1.Span`. Its fields are written in the order of these functions.
#[derive(Debug)]
pub struct SpanMessage {
    message: Message,
    flags: u32,
}

impl SpanMessage {
    /// Creates a span of which nothing more is said.
    pub fn new(head: &Head<'_>) -> Self {
        let mut message = Message::with_capacity(SPAN_BYTES);
        message.bytes(1, &head.trace_id);
        message.bytes(2, &head.id);
        message.bytes(3, head.tracestate.as_bytes());
        message.bytes(4, head.parent.as_ref().map_or(&[], |id| id));
        message.bytes(5, head.name.as_bytes());
        message.varint(6, head.kind as u64);
        message.fixed64(7, head.time.start);
        message.fixed64(8, head.time.end);
        let remote = if head.has_remote_parent {
            PARENT_IS_REMOTE
        } else {
            0
        };
        Self {
            message,
            flags: u32::from(head.trace_flags) | SAYS_IF_PARENT_IS_REMOTE | remote,
        }
    }

    /// Puts an attribute behind the others.
    pub fn attribute(&mut self, key: &str, value: &Value<'_>) {
        put_attribute(&mut self.message, ATTRIBUTES, key, value);
    }

    /// Returns the number of attributes that are left out.
    pub fn dropped_attributes(&mut self, n: u32) {
        self.message.varint(10, u64::from(n));
    }

    /// Puts something that happened, at Unix nanoseconds, behind the others. So many of its attributes are left out.
    pub fn event<'a, V: Borrow<Value<'a>>>(
        &mut self,
        at: u64,
        name: &str,
        attributes: impl Iterator<Item = (&'a str, V)>,
        n_dropped: u32,
    ) {
        self.message.message(11, |event| {
            event.fixed64(1, at);
            event.bytes(2, name.as_bytes());
            attributes.for_each(|(key, value)| put_attribute(event, 3, key, value.borrow()));
            event.varint(4, u64::from(n_dropped));
        });
    }

    /// Returns the number of events that are left out.
    pub fn dropped_events(&mut self, n: u32) {
        self.message.varint(12, u64::from(n));
    }

    /// Names a span that has to do with this one, and is not its parent. So many of its attributes are left out.
    pub fn link<'a, V: Borrow<Value<'a>>>(
        &mut self,
        trace_id: [u8; 16],
        id: [u8; 8],
        tracestate: &str,
        attributes: impl Iterator<Item = (&'a str, V)>,
        n_dropped: u32,
    ) {
        self.message.message(13, |link| {
            link.bytes(1, &trace_id);
            link.bytes(2, &id);
            link.bytes(3, tracestate.as_bytes());
            attributes.for_each(|(key, value)| put_attribute(link, 4, key, value.borrow()));
            link.varint(5, u64::from(n_dropped));
        });
    }

    /// Returns the number of links that are left out.
    pub fn dropped_links(&mut self, n: u32) {
        self.message.varint(14, u64::from(n));
    }

    /// Says that it did not go well, and perhaps why.
    pub fn failed(&mut self, why: &str) {
        self.message.message(15, |status| {
            status.bytes(2, why.as_bytes());
            status.varint(3, STATUS_ERROR);
        });
    }

    /// Says that somebody found that it went well.
    pub fn succeeded(&mut self) {
        self.message.message(15, |status| status.varint(3, STATUS_OK));
    }

    /// Returns the bytes.
    pub fn finish(mut self) -> Encoded {
        self.message.fixed32(16, self.flags);
        self.message.finish()
    }
}

/// Puts an attribute behind all that a span has.
#[cfg(feature = "live")]
pub(crate) fn add_attribute(span: &mut Encoded, key: &str, value: &Value<'_>) {
    let mut message = Message::of(std::mem::take(span));
    put_attribute(&mut message, ATTRIBUTES, key, value);
    *span = message.finish();
}

fn put_attribute(message: &mut Message, field: u32, key: &str, value: &Value<'_>) {
    message.message(field, |attribute| {
        attribute.bytes(1, key.as_bytes());
        attribute.message(2, |said| put_value(said, value));
    });
}

/// `opentelemetry.proto.common.v1.AnyValue`.
fn put_value(said: &mut Message, value: &Value<'_>) {
    match value {
        Value::Text(text) => said.member_bytes(1, text.as_bytes()),
        Value::Flag(flag) => said.member_varint(2, u64::from(*flag)),
        Value::Number(number) => said.member_varint(3, *number as u64),
        Value::Fraction(number) => said.member_fixed64(4, number.to_bits()),
        Value::List(values) => said.message(5, |list| {
            for value in values {
                list.message(1, |said| put_value(said, value));
            }
        }),
    }
}

/// More than most spans take.
const SPAN_BYTES: usize = 512;
/// The field of a span's attributes.
const ATTRIBUTES: u32 = 9;
/// `STATUS_CODE_OK`.
const STATUS_OK: u64 = 1;
/// `STATUS_CODE_ERROR`.
const STATUS_ERROR: u64 = 2;
/// Flag of a span that says of its parent whether it is of another process.
const SAYS_IF_PARENT_IS_REMOTE: u32 = 0x100;
/// Flag of a span whose parent is.
const PARENT_IS_REMOTE: u32 = 0x200;
