//! The bytes against the messages that are generated of OTLP.

use super::{Events, Kind, Parent, Span, number, text};
use escapement_codec::trace::{Sampling, SpanContext, Trace};
use opentelemetry_proto::tonic::trace::v1 as otlp;
use prost::Message;

const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn caller() -> Option<SpanContext> {
    SpanContext::parse(TRACEPARENT, Some("vendor=1"))
}

/// Returns a span with something in every field, and one with nothing that can be left out.
fn spans() -> [Span<'static>; 2] {
    let mut events = Events::default();
    for at in 0..=32 {
        events.push(
            "happened",
            at,
            vec![number("n", at), text("long", "x".repeat(200))],
        );
    }
    let time = 1_700_000_000_000..1_700_000_000_001;
    let full = Span {
        attributes: vec![
            text("empty", ""),
            text("long", "é".repeat(20_000)),
            number("zero", 0),
            number("negative", -1),
            number("largest", u64::MAX),
        ],
        events,
        is_error: true,
        ..Span::new([1; 8], Parent::Caller, "full", Kind::Server, time)
    };
    let empty = Span::new([2; 8], Parent::Caller, "", Kind::Internal, 0..0);
    [full, empty]
}

#[test]
fn the_bytes_are_those_of_the_generated_messages() {
    for respects_parents in [true, false] {
        for caller in [caller(), None] {
            let trace = Trace::below(caller, &[7; 16], Sampling::new(1.0, respects_parents));
            for span in spans() {
                for parent in [Parent::Caller, Parent::Span([3; 8])] {
                    let bytes = Span {
                        parent,
                        ..span.clone()
                    }
                    .encode(&trace);
                    let read = otlp::Span::decode(bytes.as_slice()).unwrap();
                    assert_eq!(read.encode_to_vec(), bytes);
                    assert_eq!(read.name, span.name);
                    assert_eq!(read.attributes.len(), span.attributes.len());
                }
            }
        }
    }
}

#[test]
fn what_a_span_says_is_read_again() {
    let [full, _] = spans();
    let read = |trace: &Trace| otlp::Span::decode(full.encode(trace).as_slice()).unwrap();
    let span = read(&Trace::below(caller(), &[7; 16], Sampling::new(1.0, true)));
    let caller = caller().unwrap();
    assert_eq!(span.trace_id, caller.trace_id);
    assert_eq!(span.span_id, [1; 8]);
    assert_eq!(span.parent_span_id, caller.span_id);
    assert_eq!(span.trace_state, "vendor=1");
    assert_eq!(span.flags, 0x301);
    assert_eq!(span.kind, otlp::span::SpanKind::Server as i32);
    assert_eq!(span.start_time_unix_nano, 1_700_000_000_000_000_000);
    assert_eq!(span.end_time_unix_nano, 1_700_000_000_001_000_000);
    assert_eq!((span.events.len(), span.dropped_events_count), (32, 1));
    assert_eq!(span.events[3].time_unix_nano, 3_000_000);
    assert_eq!(span.events[3].name, "happened");
    assert_eq!(span.status.unwrap().code, otlp::status::StatusCode::Error as i32);
    assert_eq!(span.links, []);
    let said: Vec<String> = span
        .attributes
        .iter()
        .map(|attribute| format!("{:?}", attribute.value.as_ref().unwrap().value.as_ref().unwrap()))
        .collect();
    assert_eq!(said[0], "StringValue(\"\")");
    assert_eq!(
        said[2..],
        ["IntValue(0)", "IntValue(-1)", "IntValue(9223372036854775807)"]
    );

    let span = read(&Trace::below(
        Some(caller.clone()),
        &[7; 16],
        Sampling::new(1.0, false),
    ));
    assert_eq!(
        (span.trace_id.as_slice(), span.flags),
        ([7; 16].as_slice(), 0x101)
    );
    assert_eq!(
        (span.parent_span_id.as_slice(), span.trace_state.as_str()),
        ([].as_slice(), "")
    );
    let [link] = span.links.as_slice() else {
        panic!("{:?}", span.links)
    };
    assert_eq!(
        (&link.trace_id[..], &link.span_id[..]),
        (&caller.trace_id[..], &caller.span_id[..])
    );
    assert_eq!(link.trace_state, "vendor=1");
}
