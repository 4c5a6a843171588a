#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::{Provenance, trace_context};
use escapement_model::Namespace;
use escapement_wire::v1;

fn named(name: &str) -> Provenance {
    Provenance {
        namespace: Namespace::parse(name).unwrap(),
        accepted_by: Some(v1::AcceptedBy {
            name: "billing-planner".to_owned(),
            kind: v1::accepted_by::Kind::Token as i32,
            issuer: String::new(),
            origin: 0,
        }),
        trace_context: trace_context(Some("00-1-2-01"), Some("a=b")),
        actions: vec!["billing.*".to_owned()],
    }
}

#[test]
fn what_came_from_nowhere_in_particular_takes_no_byte() {
    assert!(Provenance::default().encode().is_empty());
    assert_eq!(Provenance::decode(&[]), Some(Provenance::default()));
}

#[test]
fn what_is_recorded_comes_back() {
    let provenance = named("billing");
    assert_eq!(Provenance::decode(&provenance.encode()), Some(provenance));
}

#[test]
fn a_name_that_is_none_is_told() {
    let stored = v1::StoredAcceptance {
        namespace: "Billing!".to_owned(),
        ..v1::StoredAcceptance::default()
    };
    assert_eq!(Provenance::of_stored(stored), None);
}

#[test]
fn a_trace_is_bounded() {
    assert_eq!(trace_context(None, Some("a=b")), None);
    assert_eq!(trace_context(Some(&"0".repeat(257)), None), None);
    let long = trace_context(Some("00-1-2-01"), Some(&"s".repeat(513))).unwrap();
    assert_eq!(
        (long.traceparent.as_str(), long.tracestate.as_str()),
        ("00-1-2-01", "")
    );
}
