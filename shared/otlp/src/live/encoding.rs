//! A span that was live, in the bytes of OTLP. Cuts long texts.

use crate::attributes::nanoseconds_of;
use crate::limits::TEXT_BYTES_MAX;
use crate::span::{Head, Kind, SpanMessage, Value};
use crate::waiting::Encoded;
use opentelemetry::trace::{SpanId, SpanKind, Status};
use opentelemetry::{Array, KeyValue, Value as Said};
use opentelemetry_sdk::trace::SpanData;

/// Returns the bytes of a span that has ended.
pub(super) fn encode(span: &SpanData) -> Encoded {
    let own = &span.span_context;
    let tracestate = own.trace_state().header();
    let parent = span.parent_span_id;
    let mut message = SpanMessage::new(&Head {
        trace_id: own.trace_id().to_bytes(),
        id: own.span_id().to_bytes(),
        tracestate: &tracestate,
        parent: (parent != SpanId::INVALID).then(|| parent.to_bytes()),
        has_remote_parent: span.parent_span_is_remote,
        trace_flags: own.trace_flags().to_u8(),
        name: cut(&span.name),
        kind: kind(&span.span_kind),
        time: nanoseconds_of(span.start_time)..nanoseconds_of(span.end_time),
    });
    for (key, value) in attributes(&span.attributes) {
        message.attribute(key, &value);
    }
    message.dropped_attributes(span.dropped_attributes_count);
    for event in &span.events.events {
        let attributes = attributes(&event.attributes);
        let (at, name) = (nanoseconds_of(event.timestamp), cut(&event.name));
        message.event(at, name, attributes, event.dropped_attributes_count);
    }
    message.dropped_events(span.events.dropped_count);
    for link in &span.links.links {
        let other = &link.span_context;
        let (trace_id, id) = (other.trace_id().to_bytes(), other.span_id().to_bytes());
        let tracestate = other.trace_state().header();
        let attributes = attributes(&link.attributes);
        message.link(
            trace_id,
            id,
            &tracestate,
            attributes,
            link.dropped_attributes_count,
        );
    }
    message.dropped_links(span.links.dropped_count);
    match &span.status {
        Status::Unset => {}
        Status::Ok => message.succeeded(),
        Status::Error { description } => message.failed(cut(description)),
    }
    message.finish()
}

fn kind(kind: &SpanKind) -> Kind {
    match kind {
        SpanKind::Client => Kind::Client,
        SpanKind::Server => Kind::Server,
        SpanKind::Producer => Kind::Producer,
        SpanKind::Consumer => Kind::Consumer,
        SpanKind::Internal => Kind::Internal,
    }
}

fn attributes(all: &[KeyValue]) -> impl Iterator<Item = (&str, Value<'_>)> {
    all.iter()
        .map(|attribute| (attribute.key.as_str(), value(&attribute.value)))
}

fn value(said: &Said) -> Value<'_> {
    match said {
        Said::Bool(flag) => Value::Flag(*flag),
        Said::I64(number) => Value::Number(*number),
        Said::F64(number) => Value::Fraction(*number),
        Said::String(said) => text(said.as_str()),
        Said::Array(list) => Value::List(match list {
            Array::Bool(flags) => flags.iter().copied().map(Value::Flag).collect(),
            Array::I64(numbers) => numbers.iter().copied().map(Value::Number).collect(),
            Array::F64(numbers) => numbers.iter().copied().map(Value::Fraction).collect(),
            Array::String(texts) => texts.iter().map(|said| text(said.as_str())).collect(),
            // The library may get more kinds.
            other => vec![Value::Text(cut(&other.to_string()).to_owned().into())],
        }),
        other => Value::Text(cut(&other.as_str()).to_owned().into()),
    }
}

fn text(said: &str) -> Value<'_> {
    Value::Text(cut(said).into())
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

#[cfg(test)]
mod tests;
