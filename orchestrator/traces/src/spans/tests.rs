#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod properties;
mod record;

use crate::limits::{EVENTS_MAX, SPANS_MAX};
use escapement_codec::trace::{Sampling, Trace};
use escapement_contract::{AuditKind, Evidence, NotCompleted, Request, Settlement, Status};
use escapement_model::Severity;
use escapement_otlp::Encoded;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message;
use record::{ACCEPTED, Record, error, execution_id, step_id};

fn attribute(attribute: &KeyValue) -> String {
    match attribute.value.as_ref().unwrap().value.as_ref().unwrap() {
        Value::StringValue(text) => format!("{}={text}", attribute.key),
        Value::IntValue(number) => format!("{}={number}", attribute.key),
        other => panic!("{other:?}"),
    }
}

/// Returns the tree as text: a line for each span, times in milliseconds since the acceptance, ids left out.
fn drawn(spans: &[Span]) -> String {
    let mut lines = String::new();
    for span in spans {
        let parent = spans.iter().find(|parent| parent.span_id == span.parent_span_id);
        let depth = match parent {
            None => 0,
            Some(parent) if parent.parent_span_id.is_empty() => 1,
            Some(_) => 2,
        };
        let ms = |nanos: u64| i64::try_from(nanos / 1_000_000).unwrap() - ACCEPTED;
        let kind = SpanKind::try_from(span.kind).unwrap().as_str_name();
        let attributes = span.attributes.iter().map(attribute);
        let said: Vec<String> = attributes.filter(|text| !text.contains(".id=0")).collect();
        let events = span.events.iter();
        let events: Vec<String> = events
            .map(|event| {
                let attributes: Vec<String> = event.attributes.iter().map(attribute).collect();
                format!(
                    " [{} {} {}]",
                    ms(event.time_unix_nano),
                    event.name,
                    attributes.join(" ")
                )
            })
            .collect();
        lines += &format!(
            "{}{} {} {}..{}{} {}{}\n",
            "  ".repeat(depth),
            span.name,
            kind.trim_start_matches("SPAN_KIND_"),
            ms(span.start_time_unix_nano),
            ms(span.end_time_unix_nano),
            if span.status.is_some() { " ERROR" } else { "" },
            said.join(" ").replace("escapement.", ""),
            events.concat().replace("escapement.", ""),
        );
    }
    lines
}

fn of(record: &Record) -> Vec<Span> {
    let (settlement, request) = record.settlement();
    let trace = Trace::of(execution_id(), &request, Sampling::new(1.0, true));
    spans(&settlement, &request, &trace)
}

/// Returns the spans of an execution, as a collector reads them.
fn spans(settlement: &Settlement, request: &Request, trace: &Trace) -> Vec<Span> {
    let spans = super::spans(settlement, request, trace);
    let read = |span: &Encoded| Span::decode(span.as_slice()).unwrap();
    spans.iter().map(read).collect()
}

#[test]
fn a_step_with_one_attempt_is_one_span() {
    let mut record = Record::new(2);
    record.at(
        3,
        AuditKind::Started {
            started_at: ACCEPTED + 3,
        },
    );
    record
        .waiting(4, 0, 1)
        .assigned(5, 0, 1, "w1")
        .started(6, 0, 1)
        .completed(9, 0, 1);
    record
        .waiting(9, 1, 1)
        .assigned(10, 1, 1, "w2")
        .completed(11, 1, 1);
    assert_eq!(
        drawn(&of(record.settled(12, Status::Success, None))),
        "execution SERVER 0..12 execution.id=6f1d3c52-8a4e-4b7f-9c21-5e0d7a9b4c10 plan.name=a plan namespace=default \
         execution.status=success queue.wait_ms=3\n\
         \x20 queued INTERNAL 0..3 \n\
         \x20 step CLIENT 4..9 step.action=act attempt=1 worker.id=w1 [6 started ]\n\
         \x20 step CLIENT 9..11 step.action=act attempt=1 worker.id=w2\n"
    );
}

#[test]
fn a_step_that_is_tried_again_has_a_span_for_each_attempt() {
    let busy = error("BUSY", Severity::Error);
    let late = error("STEP_TIMEOUT", Severity::Fatal);
    let mut record = Record::new(2);
    record.at(0, AuditKind::Started { started_at: ACCEPTED });
    record.waiting(1, 0, 1).assigned(2, 0, 1, "w1");
    record.at(
        3,
        AuditKind::AttemptReturned {
            step_id: step_id(0),
            attempt: 1,
            evidence: Evidence::Rejected,
        },
    );
    record
        .waiting(3, 0, 1)
        .assigned(4, 0, 1, "w2")
        .failed(6, 0, 1, &busy);
    record.at(
        6,
        AuditKind::RetryScheduled {
            step_id: step_id(0),
            next_attempt: 2,
            delay_ms: 10,
        },
    );
    record
        .waiting(16, 0, 2)
        .assigned(17, 0, 2, "w1")
        .failed(20, 0, 2, &late);
    record.not_completed(20, 0, 2, NotCompleted::Failed, &late);
    assert_eq!(
        drawn(&of(record.settled(21, Status::Failure, Some(&late)))),
        "execution SERVER 0..21 ERROR execution.id=6f1d3c52-8a4e-4b7f-9c21-5e0d7a9b4c10 plan.name=a plan namespace=default \
         execution.status=failure queue.wait_ms=0 error.type=STEP_TIMEOUT\n\
         \x20 queued INTERNAL 0..0 \n\
         \x20 step INTERNAL 1..20 ERROR step.action=act step.reason=failed error.type=STEP_TIMEOUT \
         [6 retry_scheduled attempt=2 delay_ms=10]\n\
         \x20   attempt CLIENT 2..6 step.action=act attempt=1 worker.id=w2 error.type=BUSY \
         [3 returned evidence=rejected] [4 assigned_again ]\n\
         \x20   attempt CLIENT 17..20 ERROR step.action=act attempt=2 worker.id=w1 error.type=STEP_TIMEOUT\n"
    );
}

#[test]
fn what_the_end_cut_short_ends_with_it_and_what_never_began_has_no_span() {
    let skipped = error("STEP_SKIPPED", Severity::Warn);
    let mut record = Record::new(4);
    record.at(0, AuditKind::Started { started_at: ACCEPTED });
    record.not_completed(1, 0, 0, NotCompleted::Skipped, &skipped);
    record.waiting(1, 1, 1).assigned(2, 1, 1, "w1");
    record.waiting(2, 2, 1);
    let limit = error("PLAN_TIMEOUT", Severity::Fatal);
    assert_eq!(
        drawn(&of(record.settled(30, Status::Failure, Some(&limit)))),
        "execution SERVER 0..30 ERROR execution.id=6f1d3c52-8a4e-4b7f-9c21-5e0d7a9b4c10 plan.name=a plan namespace=default \
         execution.status=failure queue.wait_ms=0 error.type=PLAN_TIMEOUT\n\
         \x20 queued INTERNAL 0..0 \n\
         \x20 step INTERNAL 1..1 step.action=act step.reason=skipped error.type=STEP_SKIPPED\n\
         \x20 step CLIENT 1..30 step.action=act attempt=1 worker.id=w1\n\
         \x20 step INTERNAL 2..30 step.action=act\n"
    );
}

#[test]
fn a_clock_that_was_set_back_makes_no_span_negative_or_stick_out() {
    let mut record = Record::new(1);
    record.at(
        5,
        AuditKind::Started {
            started_at: ACCEPTED + 5,
        },
    );
    record
        .waiting(-50, 0, 1)
        .assigned(40, 0, 1, "w1")
        .completed(20, 0, 1);
    let spans = of(record.settled(25, Status::Success, None));
    properties::hold(&spans);
}

#[test]
fn too_many_spans_and_too_many_events_are_told_by_their_number() {
    let busy = error("BUSY", Severity::Error);
    let mut record = Record::new(1);
    record.at(0, AuditKind::Started { started_at: ACCEPTED });
    for attempt in 1..=3_000 {
        record.assigned(1, 0, attempt, "w1").failed(1, 0, attempt, &busy);
        record.at(
            1,
            AuditKind::RetryScheduled {
                step_id: step_id(0),
                next_attempt: attempt + 1,
                delay_ms: 0,
            },
        );
    }
    let spans = of(record.settled(2, Status::Failure, Some(&busy)));
    properties::hold(&spans);
    assert_eq!(spans.len(), SPANS_MAX);
    let last = spans.last().unwrap();
    assert_eq!(last.name, "missing");
    // An execution, its queue, the step and 3,000 attempts are 3,003; 2,047 of them are there.
    assert_eq!(attribute(&last.attributes[0]), "escapement.spans.missing=956");
    let step = &spans[2];
    assert_eq!(step.events.len() + step.dropped_events_count as usize, 3_000);
    assert_eq!(step.events.len(), EVENTS_MAX);
}
