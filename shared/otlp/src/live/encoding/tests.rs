//! The bytes against the messages that `opentelemetry-proto` makes of the same spans.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::{TEXT_BYTES_MAX, encode};
use opentelemetry::trace::{
    Event, Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue, StringValue, Value as Said};
use opentelemetry_proto::tonic::trace::v1::{Span, status::StatusCode};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use prost::Message;
use std::time::{Duration, UNIX_EPOCH};

fn context(id: u64) -> SpanContext {
    let state = TraceState::from_key_value([("vendor", "1"), ("other", "2")]).unwrap();
    SpanContext::new(
        TraceId::from(7_u128),
        SpanId::from(id),
        TraceFlags::new(3),
        false,
        state,
    )
}

/// Returns a span with something in every field.
fn full() -> SpanData {
    let attributes = vec![
        KeyValue::new("text", "é"),
        KeyValue::new("empty", ""),
        KeyValue::new("number", -1),
        KeyValue::new("zero", 0),
        KeyValue::new("flag", true),
        KeyValue::new("no flag", false),
        KeyValue::new("fraction", 0.5),
        KeyValue::new("nothing", 0.0),
        KeyValue::new(
            "texts",
            Said::Array(vec![StringValue::from("one"), StringValue::from("")].into()),
        ),
        KeyValue::new("numbers", Said::Array(vec![0_i64, -1].into())),
        KeyValue::new("fractions", Said::Array(vec![0.0, 0.5].into())),
        KeyValue::new("flags", Said::Array(vec![true, false].into())),
        KeyValue::new("none", Said::Array(Vec::<i64>::new().into())),
    ];
    let at = UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_456_789);
    let mut events = SpanEvents::default();
    events
        .events
        .push(Event::new("happened", at, attributes.clone(), 5));
    events.dropped_count = 3;
    let mut links = SpanLinks::default();
    links.links.push(Link::new(context(9), attributes.clone(), 6));
    links.dropped_count = 200;
    SpanData {
        span_context: context(8),
        parent_span_id: SpanId::from(5),
        parent_span_is_remote: true,
        span_kind: SpanKind::Internal,
        name: "full".into(),
        start_time: at,
        end_time: at + Duration::from_nanos(1),
        attributes,
        dropped_attributes_count: 4,
        events,
        links,
        status: Status::Unset,
        instrumentation_scope: InstrumentationScope::default(),
    }
}

/// What the library makes of a span, without what this does not tell: flags of links, and a status that nobody set.
fn expected(data: SpanData) -> Span {
    let mut span = Span::from(data);
    span.links.iter_mut().for_each(|link| link.flags = 0);
    span.status = span
        .status
        .filter(|status| status.code != StatusCode::Unset as i32);
    span
}

#[test]
fn the_bytes_say_what_the_messages_of_the_library_say() {
    let kinds = [
        SpanKind::Internal,
        SpanKind::Server,
        SpanKind::Client,
        SpanKind::Producer,
        SpanKind::Consumer,
    ];
    let statuses = [
        Status::Unset,
        Status::Ok,
        Status::error("broke"),
        Status::error(""),
    ];
    for span_kind in kinds {
        for status in &statuses {
            for parent_span_id in [SpanId::from(5), SpanId::INVALID] {
                let data = SpanData {
                    span_kind: span_kind.clone(),
                    status: status.clone(),
                    parent_span_id,
                    parent_span_is_remote: parent_span_id != SpanId::INVALID,
                    ..full()
                };
                let bytes = encode(&data);
                let read = Span::decode(bytes.as_slice()).unwrap();
                assert_eq!(read.encode_to_vec(), bytes, "in the order of the fields");
                assert_eq!(read, expected(data));
            }
        }
    }
}

#[test]
fn a_text_is_cut_between_characters_wherever_it_stands() {
    let long = format!("-{}", "ä".repeat(TEXT_BYTES_MAX));
    let list = || Said::Array(vec![StringValue::from(long.clone())].into());
    let text = || vec![KeyValue::new("text", long.clone()), KeyValue::new("list", list())];
    let mut data = SpanData {
        name: long.clone().into(),
        attributes: text(),
        status: Status::error(long.clone()),
        ..full()
    };
    data.events.events[0].name = long.clone().into();
    data.events.events[0].attributes = text();
    data.links.links[0].attributes = text();
    let said = format!("{:?}", Span::decode(encode(&data).as_slice()).unwrap());
    // Half of a character would not be a text.
    let kept = &long[..TEXT_BYTES_MAX - 1];
    assert_eq!(said.matches(kept).count(), 9);
    assert!(!said.contains(&format!("{kept}ä")), "{said}");
}
