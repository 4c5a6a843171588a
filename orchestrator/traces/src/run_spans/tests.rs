use super::RunSpans;
use crate::limits::SPANS_MAX;
use crate::run_ids as ids;
use escapement_codec::trace::{Sampling, Trace};
use escapement_model::RunId;
use escapement_otlp::Encoded;
use escapement_run::journal::{
    Empty, Entry, Event, Failure, InputRequest, Reason, RunCreated, RunFailed, StepRef, ToolCalled, UnitRef,
};
use escapement_run::spec::{Spec, TraceContext};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use std::collections::BTreeSet;

const SECRET: &str = "swordfish";

fn run_id() -> RunId {
    RunId::from_random([7; 16])
}

fn trace(spec: &Spec) -> Trace {
    ids::trace_of(run_id(), spec, Sampling::new(1.0, true))
}

/// Returns the spans of a run with these entries behind its first one, a millisecond apart.
fn spans(events: impl IntoIterator<Item = Event>) -> Vec<Span> {
    let trace = trace(&Spec::default());
    let mut spans = RunSpans::begin(run_id(), &trace, 0, &RunCreated::default());
    let mut at = 0;
    for event in events {
        at += 1;
        let event = Some(event);
        spans.take(&Entry {
            at,
            event,
            ..Entry::default()
        });
    }
    let spans = spans.finish(at);
    let read = |span: &Encoded| Span::decode(span.as_slice()).unwrap();
    spans.iter().map(read).collect()
}

fn started(step: u32) -> Event {
    Event::StepStarted(StepRef { step })
}

fn names(spans: &[Span]) -> Vec<&str> {
    spans.iter().map(|span| span.name.as_str()).collect()
}

#[test]
fn what_is_open_ends_with_the_run_and_each_span_has_its_parent() {
    let call = Event::ToolCalled(ToolCalled {
        unit: UnitRef::default(),
        attempt: 1,
        ..ToolCalled::default()
    });
    let end = Event::RunCancelled(Reason {
        reason: SECRET.to_owned(),
    });
    let spans = spans([Event::RunStarted(Empty {}), started(0), call, end]);
    assert_eq!(names(&spans), ["run", "queued", "step", "attempt"]);
    let [run, queued, step, attempt] = spans.as_slice() else {
        unreachable!("four names")
    };
    assert_eq!(queued.parent_span_id, run.span_id);
    assert_eq!(step.parent_span_id, run.span_id);
    assert_eq!(attempt.parent_span_id, step.span_id);
    assert_eq!(queued.end_time_unix_nano, 1_000_000);
    for span in [run, step, attempt] {
        assert_eq!(span.end_time_unix_nano, 4_000_000, "{span:?}");
    }
    assert_eq!(run.trace_id, run_id().as_bytes());
}

#[test]
fn no_text_of_people_or_of_errors_is_in_a_span() {
    let secret = || SECRET.to_owned();
    let error = Failure {
        code: "CODE".to_owned(),
        message: secret(),
        ..Failure::default()
    };
    let request = InputRequest {
        id: vec![1; 16].into(),
        question: secret(),
        options: vec![secret()],
        approved_by: vec![secret()],
        error: Some(error.clone()),
        ..InputRequest::default()
    };
    let rolled_back = Event::RunResumed(Reason { reason: secret() });
    let failed = Event::RunFailed(RunFailed {
        error,
        ..RunFailed::default()
    });
    let spans = spans([started(0), Event::InputRequested(request), rolled_back, failed]);
    assert_eq!(names(&spans), ["run", "queued", "step", "input"]);
    let shown = format!("{spans:?}");
    assert!(shown.contains("CODE") && !shown.contains(SECRET), "{shown}");
}

#[test]
fn of_too_many_spans_one_says_how_many_are_missing() {
    let n_steps = u32::try_from(SPANS_MAX).unwrap_or(u32::MAX);
    let spans = spans((0..n_steps).map(started));
    assert_eq!(spans.len(), SPANS_MAX);
    let ids: BTreeSet<_> = spans.iter().map(|span| &span.span_id).collect();
    assert_eq!(ids.len(), spans.len());
    let last = spans
        .last()
        .map(|span| (&*span.name, format!("{:?}", span.attributes)));
    assert!(last.is_some_and(|(name, said)| name == "missing" && said.contains("IntValue(3)")));
}

#[test]
fn a_child_is_in_the_trace_of_its_parent_whatever_callers_may_say() {
    let ignoring = Sampling::new(0.0, false);
    let named = TraceContext::of(
        Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        None,
    );
    let mut spec = Spec {
        trace: named,
        ..Spec::default()
    };
    let own = ids::trace_of(run_id(), &spec, ignoring);
    assert_eq!((own.trace_id, own.is_sampled), (*run_id().as_bytes(), false));
    assert!(own.ignored.is_some(), "it is linked");
    spec.parent_run_id = vec![8; 16].into();
    let of_child = ids::trace_of(run_id(), &spec, ignoring);
    assert!(of_child.is_sampled && of_child.trace_id != *run_id().as_bytes());
}
