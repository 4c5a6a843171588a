#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::{LOG_TEXT_BYTES_MAX, layer};
use crate::export::Export;
use crate::signal::Signal;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, SeverityNumber};
use prost::Message;
use std::collections::BTreeMap;
use tracing_subscriber::layer::SubscriberExt;

/// Returns the records that were handed in.
fn records(logged: impl FnOnce()) -> Vec<LogRecord> {
    let (export, mut queue) = Export::unattended(Signal::Logs);
    let subscriber = tracing_subscriber::registry().with(layer(&export));
    tracing::subscriber::with_default(subscriber, logged);
    let mut records = Vec::new();
    while let Ok(waiting) = queue.try_recv() {
        for encoded in (waiting.make)().unwrap() {
            records.push(LogRecord::decode(encoded.as_slice()).unwrap());
        }
    }
    records
}

fn attributes(record: &LogRecord) -> BTreeMap<&str, &Value> {
    record
        .attributes
        .iter()
        .map(|said| {
            (
                said.key.as_str(),
                said.value.as_ref().unwrap().value.as_ref().unwrap(),
            )
        })
        .collect()
}

#[test]
fn a_record_says_what_the_line_says() {
    let trace_id = Some("0af7651916cd43dd8448eb211c80319c");
    let span_id: Option<&str> = Some("b7ad6b7169203331");
    let no_trace: Option<&str> = None;
    let records = records(|| {
        tracing::warn!(
            trace_id,
            span_id,
            name = "a",
            n = 3,
            least = -1,
            share = 0.5,
            is = true,
            "{} went",
            "it"
        );
        tracing::debug!(trace_id = no_trace, shown = ?["x"], largest = u64::MAX, "second");
    });
    let [first, second] = records.as_slice() else {
        panic!("{records:?}")
    };
    let body = |record: &LogRecord| record.body.clone().unwrap().value.unwrap();
    assert_eq!(body(first), Value::StringValue("it went".to_owned()));
    assert_eq!(first.severity_number, SeverityNumber::Warn as i32);
    assert_eq!(first.severity_text, "WARN");
    assert!(first.time_unix_nano > 1_700_000_000_000_000_000);
    assert_eq!(first.trace_id[..3], [0x0a, 0xf7, 0x65]);
    assert_eq!((first.trace_id.len(), first.span_id.len()), (16, 8));
    assert_eq!(first.span_id[..2], [0xb7, 0xad]);
    let target = Value::StringValue("escapement_otlp::logs::tests".to_owned());
    let expected = [
        ("is", &Value::BoolValue(true)),
        ("least", &Value::IntValue(-1)),
        ("n", &Value::IntValue(3)),
        ("name", &Value::StringValue("a".to_owned())),
        ("share", &Value::DoubleValue(0.5)),
        ("target", &target),
    ];
    assert_eq!(attributes(first), BTreeMap::from(expected));

    assert_eq!(body(second), Value::StringValue("second".to_owned()));
    assert_eq!((second.trace_id.len(), second.span_id.len()), (0, 0));
    assert_eq!(
        attributes(second)["shown"],
        &Value::StringValue("[\"x\"]".to_owned())
    );
    let largest = Value::StringValue(u64::MAX.to_string());
    assert_eq!(attributes(second)["largest"], &largest);
}

#[test]
fn what_carries_the_export_is_left_out_and_long_texts_are_cut() {
    let long = "é".repeat(LOG_TEXT_BYTES_MAX);
    let records = records(|| {
        tracing::info!(target: "h2::codec", "a frame");
        tracing::info!(target: "tonic", "a call");
        tracing::info!(long, trace_id = "no id", "own");
    });
    let [own] = records.as_slice() else {
        panic!("{records:?}")
    };
    assert!(own.trace_id.is_empty());
    assert_eq!(
        attributes(own)["trace_id"],
        &Value::StringValue("no id".to_owned())
    );
    let cut = "é".repeat(LOG_TEXT_BYTES_MAX / 2);
    assert_eq!(attributes(own)["long"], &Value::StringValue(cut));
}
