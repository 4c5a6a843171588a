#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::limits::{EVENT_DATA_BYTES_MAX, SINK_CALM, WEBHOOK_QUEUE_BYTES_MAX, WEBHOOK_QUEUE_MAX};
use escapement_codec::event_json::SOURCE;
use escapement_contract::Status;
use escapement_model::opaque::StructBuilder;
use escapement_model::{ExecutionId, Opaque, PlanId};
use std::cell::Cell;
use std::sync::Weak;
use tokio::sync::broadcast::error::TryRecvError;

fn result(bytes: usize) -> PlanResult {
    PlanResult {
        plan_id: PlanId::from_random([1; 16]),
        execution_id: ExecutionId::from_random([2; 16]),
        status: Status::Success,
        completed_at: 7,
        duration_ms: 1,
        steps_executed: 1,
        steps_total: 1,
        result_payload: payload(bytes),
        error: None,
    }
}

fn payload(bytes: usize) -> Opaque {
    StructBuilder::new().text("fill", &"x".repeat(bytes)).build()
}

fn sinks() -> Sinks {
    Sinks::without_sinks()
}

#[test]
fn what_waits_for_subscribers_is_bounded_in_bytes_and_what_gave_way_is_missed() {
    let mut sinks = sinks();
    let mut stalled = sinks.subscribers().events.subscribe();
    let n_events = 100;
    for _ in 0..n_events {
        sinks.emit_result(&result(EVENT_DATA_BYTES_MAX / 2), Provenance::default);
    }
    assert!(sinks.recent.bytes <= SUBSCRIBER_QUEUE_BYTES_MAX);
    let (mut n_there, mut n_gone) = (0, 0);
    while let Ok(event) = stalled.try_recv() {
        match event.upgrade() {
            Some(_) => n_there += 1,
            None => n_gone += 1,
        }
    }
    assert_eq!((n_there, n_there + n_gone), (sinks.recent.events.len(), n_events));
    assert!(n_there * (EVENT_DATA_BYTES_MAX / 2 + 1_000) > SUBSCRIBER_QUEUE_BYTES_MAX - EVENT_DATA_BYTES_MAX);
    drop(stalled);
    sinks.emit_result(&result(1), Provenance::default);
    assert!(sinks.recent.events.is_empty(), "nobody wants them");
}

#[test]
fn what_waits_for_subscribers_is_bounded_in_number() {
    let mut sinks = sinks();
    let mut stalled = sinks.subscribers().events.subscribe();
    for _ in 0..=SUBSCRIBER_QUEUE_MAX {
        sinks.emit_result(&result(1), Provenance::default);
    }
    assert_eq!(sinks.recent.events.len(), SUBSCRIBER_QUEUE_MAX);
    assert!(matches!(stalled.try_recv(), Err(TryRecvError::Lagged(1))));
}

//
#[tokio::test]
async fn a_webhook_that_never_answers_holds_no_more_than_its_room() {
    // Bound and never accepted from.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let webhook = Webhook::start(url.parse().unwrap());
    let mut waiting = Vec::new();
    for _ in 0..100 {
        let event = TerminalEvent::of(&result(EVENT_DATA_BYTES_MAX / 2), Provenance::default(), SOURCE);
        let event = Arc::new(event);
        webhook.take(&event);
        waiting.push(Arc::downgrade(&event));
    }
    let held: usize = waiting
        .iter()
        .filter_map(Weak::upgrade)
        .map(|event| event.bytes())
        .sum();
    assert!(
        (1..=WEBHOOK_QUEUE_BYTES_MAX).contains(&held),
        "{held} bytes are held"
    );
}

#[tokio::test]
async fn an_event_that_a_dead_webhook_has_no_place_for_is_not_made() {
    let mut sinks = Sinks {
        webhook: Some(Webhook::start("http://127.0.0.1:9/".parse().unwrap())),
        ..sinks()
    };
    let n_made = Cell::new(0);
    for _ in 0..2 * WEBHOOK_QUEUE_MAX {
        sinks.emit_result(&result(1), || {
            n_made.set(n_made.get() + 1);
            Provenance::default()
        });
    }
    // Its task has had no turn yet.
    assert_eq!(n_made.get(), WEBHOOK_QUEUE_MAX);
    assert!(
        !sinks.webhook_losses.lost(Instant::now()),
        "those before are counted"
    );
}

//
#[test]
fn a_result_that_is_too_large_for_an_event_is_referred_to() {
    let small = TerminalEvent::of(&result(10), Provenance::default(), SOURCE).to_json();
    assert_eq!(small["datacontenttype"], "application/json");
    assert!(small["data"].is_object() && small.get("dataref").is_none());
    let large = TerminalEvent::of(&result(EVENT_DATA_BYTES_MAX), Provenance::default(), SOURCE);
    assert!(large.bytes() < 1_000, "nothing of the result is held");
    let wire = large.to_wire();
    let dataref = format!(
        "/escapement.v1.PlanExecutionService/GetExecution?execution_id={}",
        wire.id
    );
    assert_eq!((wire.data, wire.dataref.as_str()), (None, dataref.as_str()));
    let json = large.to_json();
    assert_eq!(json["dataref"], dataref);
    assert!(json.get("data").is_none() && json.get("datacontenttype").is_none());
}

#[test]
fn losses_are_told_when_they_begin_and_when_they_end() {
    let mut losses = Losses::new("webhook");
    let start = Instant::now();
    assert_eq!(losses.taken(start), None);
    assert!(losses.lost(start));
    assert!(!losses.lost(start + SINK_CALM / 2));
    assert_eq!(losses.taken(start + SINK_CALM), None, "one was lost a moment ago");
    assert_eq!(losses.taken(start + 2 * SINK_CALM), Some(2));
    assert_eq!(losses.taken(start + 2 * SINK_CALM), None);
    assert!(losses.lost(start + 3 * SINK_CALM));
}
