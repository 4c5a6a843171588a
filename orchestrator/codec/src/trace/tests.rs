#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::write_callers_headers;
use super::{Sampling, Trace, attempt_span, execution_span, missing_span, queued_span, step_span};
use crate::provenance::{Provenance, trace_context};
use crate::request::request_draft;
use escapement_contract::{Request, validate_request};
use escapement_model::{ExecutionId, StepId, hex};
use escapement_wire::v1;
use std::collections::{BTreeMap, BTreeSet};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const UNSAMPLED: &str = "00-1af7651916cd43dd8448eb211c80319c-c7ad6b7169203331-00";

fn execution_id() -> ExecutionId {
    "6f1d3c52-8a4e-4b7f-9c21-5e0d7a9b4c10".parse().unwrap()
}

fn step_id() -> StepId {
    "0b9e7a34-51c2-4d8e-8f60-1a2b3c4d5e01".parse().unwrap()
}

/// Returns a request that carries one `traceparent`, in a call that says another.
fn request(carried: &str, said: Option<&str>) -> Request {
    let wire = v1::SubmitPlanRequest {
        plan: Some(v1::Plan {
            id: "00000000-0000-4000-8000-000000000001".to_owned(),
            version: 1,
            created_at: 1,
            steps: vec![v1::PlanStep {
                id: step_id().to_string(),
                action: "a".to_owned(),
                payload: Some(escapement_model::Opaque::default()),
                ..v1::PlanStep::default()
            }],
            name: "n".to_owned(),
            context_requirements: vec!["key".to_owned()],
            ..v1::Plan::default()
        }),
        correlation_context: [("traceparent".to_owned(), carried.to_owned())].into(),
        ..v1::SubmitPlanRequest::default()
    };
    let provenance = Provenance {
        trace_context: trace_context(said, Some("vendor=1")),
        ..Provenance::default()
    };
    let request = validate_request(request_draft(wire), 16).unwrap();
    request.with_provenance(provenance.encode())
}

fn of(carried: &str, said: Option<&str>, sampling: Sampling) -> Trace {
    Trace::of(execution_id(), &request(carried, said), sampling)
}

#[test]
fn the_call_counts_before_the_request_and_a_parent_decides() {
    let trace = of(UNSAMPLED, Some(SAMPLED), Sampling::new(0.0, true));
    assert_eq!(hex::text(&trace.trace_id), TRACE);
    assert!(trace.is_sampled);
    let parent = trace.parent.unwrap();
    assert_eq!(hex::text(&parent.span_id), "b7ad6b7169203331");
    assert_eq!(parent.tracestate, "vendor=1");

    let trace = of(UNSAMPLED, None, Sampling::new(1.0, true));
    assert!(!trace.is_sampled, "its parent says so");
    assert_eq!(hex::text(&trace.parent.unwrap().span_id), "c7ad6b7169203331");
}

#[test]
fn a_parent_that_is_ignored_is_linked_and_decides_nothing() {
    for (ratio, is_sampled) in [(0.0, false), (1.0, true)] {
        let trace = of("", Some(SAMPLED), Sampling::new(ratio, false));
        assert_eq!((trace.is_sampled, trace.parent), (is_sampled, None));
        assert_eq!(&trace.trace_id, execution_id().as_bytes());
        assert_eq!(hex::text(&trace.ignored.unwrap().trace_id), TRACE);
    }
}

#[test]
fn what_is_no_span_is_as_if_nothing_was_said() {
    for wrong in ["", "00", &SAMPLED.to_uppercase()] {
        let trace = of(wrong, None, Sampling::new(0.0, true));
        assert_eq!((trace.parent, trace.ignored), (None, None), "{wrong:?}");
    }
}

#[test]
fn about_the_ratio_of_ids_is_sampled_and_a_higher_ratio_samples_the_same_ones() {
    let ids = (0_u64..2_000).map(|n| {
        let hash = attempt_span(execution_id(), step_id(), u32::try_from(n).unwrap());
        let mut bytes = [0; 16];
        bytes[8..].copy_from_slice(&hash);
        ExecutionId::from_random(bytes)
    });
    let sampled = |ratio: f64| -> BTreeSet<[u8; 16]> {
        let sampling = Sampling::new(ratio, true);
        let sampled = ids.clone().filter(|id| sampling.samples(id.as_bytes()));
        sampled.map(|id| *id.as_bytes()).collect()
    };
    let (few, many) = (sampled(0.1), sampled(0.5));
    assert!((140..260).contains(&few.len()), "{} of 2000", few.len());
    assert!((900..1_100).contains(&many.len()), "{} of 2000", many.len());
    assert!(few.is_subset(&many));
    assert_eq!((sampled(0.0).len(), sampled(1.0).len()), (0, 2_000));
}

#[test]
fn spans_have_the_ids_that_they_always_had() {
    // SHA-256 of the bytes, by another program.
    let ids = [
        execution_span(execution_id()),
        queued_span(execution_id()),
        missing_span(execution_id()),
        step_span(execution_id(), step_id()),
        attempt_span(execution_id(), step_id(), 1),
    ];
    let expected = [
        "d6195adc9fdcd680",
        "00c7c27766e2305c",
        "14de188b170fc480",
        "491e894d1dd4516e",
        "59171b4b75c3231e",
    ];
    assert_eq!(ids.map(|id| hex::text(&id)), expected);
}

#[test]
fn an_attempt_is_told_its_own_span_in_place_of_the_callers() {
    let carried =
        || BTreeMap::from(["traceparent", "tracestate", "other"].map(|key| (key.to_owned(), "x".to_owned())));
    let span = attempt_span(execution_id(), step_id(), 1);
    let mut headers = carried();
    of("", Some(SAMPLED), Sampling::new(0.0, true)).write_headers(span, &mut headers);
    let told = format!("00-{TRACE}-{}-01", hex::text(&span));
    assert_eq!(headers["traceparent"], told);
    assert_eq!(
        (headers["tracestate"].as_str(), headers["other"].as_str()),
        ("vendor=1", "x")
    );

    let mut headers = carried();
    of("", Some(SAMPLED), Sampling::new(0.0, false)).write_headers(span, &mut headers);
    assert!(
        headers["traceparent"].ends_with("-00"),
        "nothing below is traced either"
    );
    assert_eq!(headers.get("tracestate"), None);
}

#[test]
fn without_spans_of_its_own_an_attempt_is_told_what_the_call_said_if_that_is_a_span() {
    let told = |said| {
        let request = request(UNSAMPLED, said);
        let mut headers = request.correlation_context().clone();
        headers.insert("tracestate".to_owned(), "other=2".to_owned());
        write_callers_headers(&request, &mut headers);
        ["traceparent", "tracestate"].map(|key| headers[key].clone())
    };
    assert_eq!(told(Some(SAMPLED)), [SAMPLED, "vendor=1"]);
    for nothing in [None, Some("nonsense")] {
        assert_eq!(told(nothing), [UNSAMPLED, "other=2"], "{nothing:?}");
    }
}
