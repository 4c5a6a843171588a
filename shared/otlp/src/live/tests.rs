#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::{TREE_SPANS_MAX, continue_trace, layer};
use crate::export::Export;
use crate::signal::Signal;
use crate::waiting::{Encoded, Waiting};
use escapement_model::Traceparent;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::sync::mpsc::Receiver;
use tracing::{Subscriber, debug_span, dispatcher, info, info_span};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::SubscriberExt;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// What the code hands in, in order.
fn handed_in(code: impl FnOnce(&mut Receiver<Waiting>)) -> Vec<Vec<Span>> {
    let (export, mut queue) = Export::unattended(Signal::Traces);
    let subscriber = tracing_subscriber::registry()
        .with(layer(&export))
        .with(Everything);
    tracing::subscriber::with_default(subscriber, || code(&mut queue));
    let waiting = std::iter::from_fn(|| queue.try_recv().ok());
    let read = |encoded: Encoded| Span::decode(encoded.as_slice()).unwrap();
    waiting
        .map(|waiting| (waiting.make)().unwrap().into_iter().map(read).collect())
        .collect()
}

/// Wants all spans, so that some are there that are not exported.
struct Everything;

impl<S: Subscriber> Layer<S> for Everything {}

fn continued(flags: &str) -> (tracing::Span, Option<String>) {
    let span = info_span!(parent: None, "handler");
    let parent = Traceparent::parse(&format!("00-{TRACE}-{CALLER}-{flags}")).unwrap();
    let own = continue_trace(&span, parent, Some("vendor=1"));
    (span, own)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn names(spans: &[Span]) -> Vec<&str> {
    spans.iter().map(|span| span.name.as_str()).collect()
}

#[test]
fn spans_hang_below_the_span_of_another_process_and_are_handed_in_together() {
    let mut own = None;
    let trees = handed_in(|queue| {
        let (top, traceparent) = continued("01");
        own = traceparent;
        top.in_scope(|| {
            info_span!("outer", rows = 3).in_scope(|| info_span!("inner").in_scope(|| info!("is no span")));
            debug_span!("fine").in_scope(|| ());
            info_span!(target: "h2::client", "carries a call").in_scope(|| ());
        });
        assert!(queue.try_recv().is_err(), "the handler has not ended");
    });
    let [spans] = trees.as_slice() else {
        panic!("{trees:#?}")
    };
    assert_eq!(names(spans), ["inner", "outer", "handler"]);
    let [inner, outer, top] = spans.as_slice() else {
        unreachable!("three names")
    };
    assert_eq!(inner.parent_span_id, outer.span_id);
    assert_eq!(outer.parent_span_id, top.span_id);
    assert_eq!(hex(&top.parent_span_id), CALLER);
    assert!(
        spans
            .iter()
            .all(|span| hex(&span.trace_id) == TRACE && span.events.is_empty())
    );
    assert_eq!(top.trace_state, "vendor=1");
    assert_eq!(own.unwrap(), format!("00-{TRACE}-{}-01", hex(&top.span_id)));
    let fields: Vec<&str> = outer
        .attributes
        .iter()
        .map(|attribute| attribute.key.as_str())
        .collect();
    assert_eq!(fields, ["rows"]);
}

#[test]
fn a_span_hangs_below_the_one_that_it_is_made_in_or_for() {
    let trees = handed_in(|_| {
        let (top, _) = continued("01");
        top.in_scope(|| debug_span!("fine").in_scope(|| info_span!("within").in_scope(|| ())));
        info_span!(parent: &top, "named").in_scope(|| ());
        let dispatch = dispatcher::get_default(Clone::clone);
        let elsewhere = move || top.in_scope(|| info_span!("elsewhere").in_scope(|| ()));
        let thread = std::thread::spawn(move || dispatcher::with_default(&dispatch, elsewhere));
        thread.join().unwrap();
    });
    assert_eq!(trees.len(), 1);
    assert_eq!(names(&trees[0]), ["within", "named", "elsewhere", "handler"]);
    let (top, parts) = trees[0].split_last().unwrap();
    assert!(parts.iter().all(|part| part.parent_span_id == top.span_id));
}

#[test]
fn a_part_that_goes_on_behind_its_handler_is_handed_in_with_it() {
    let trees = handed_in(|queue| {
        let (top, _) = continued("01");
        let late = top.in_scope(|| info_span!("late"));
        drop(top);
        assert!(queue.try_recv().is_err(), "a part of it goes on");
        late.in_scope(|| ());
    });
    assert_eq!(trees.len(), 1);
    assert_eq!(names(&trees[0]), ["late", "handler"]);
}

#[test]
fn what_nobody_wants_traced_is_not() {
    let trees = handed_in(|_| {
        let (top, own) = continued("00");
        assert_eq!(own, None);
        top.in_scope(|| info_span!("inner").in_scope(|| ()));
        info_span!("of nobody").in_scope(|| ());
    });
    assert!(trees.is_empty(), "{trees:#?}");
}

#[test]
fn of_too_many_spans_the_one_at_the_top_alone_is_handed_in() {
    let trees = handed_in(|_| {
        let (top, _) = continued("01");
        top.in_scope(|| (0..=TREE_SPANS_MAX).for_each(|_| info_span!("one").in_scope(|| ())));
    });
    let [spans] = trees.as_slice() else {
        panic!("{}", trees.len())
    };
    assert_eq!(names(spans), ["handler"]);
    let missing = spans[0].attributes.last().unwrap();
    let n = missing.value.as_ref().unwrap().value.as_ref().unwrap();
    assert_eq!(missing.key, "escapement.spans.missing");
    assert_eq!(*n, Value::IntValue(i64::try_from(TREE_SPANS_MAX).unwrap() + 1));
}
