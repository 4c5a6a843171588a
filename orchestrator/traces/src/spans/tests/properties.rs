//! What holds for the spans of every record, seen in random ones.

use super::spans;
use escapement_codec::trace::{Sampling, Trace, attempt_span};
use escapement_contract::{AuditKind, Settlement, validate_request};
use escapement_fuzz::{Mutator, execution};
use opentelemetry_proto::tonic::trace::v1::Span;
use std::collections::{BTreeMap, BTreeSet};

/// One root in front, ids that are there once, and children behind their parents and within their times.
pub(super) fn hold(spans: &[Span]) {
    let mut before: BTreeMap<&[u8], &Span> = BTreeMap::new();
    for (position, span) in spans.iter().enumerate() {
        assert_eq!((span.trace_id.len(), span.span_id.len()), (16, 8));
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano, "{span:?}");
        match before.get(span.parent_span_id.as_slice()) {
            None => assert_eq!(position, 0, "{span:?} has no parent"),
            Some(parent) => {
                let starts_within = parent.start_time_unix_nano <= span.start_time_unix_nano;
                let ends_within = span.end_time_unix_nano <= parent.end_time_unix_nano;
                assert!(starts_within && ends_within, "{span:?} in {parent:?}");
            }
        }
        assert!(
            before.insert(&span.span_id, span).is_none(),
            "{span:?} is there twice"
        );
    }
}

/// Returns the attempts that were handed to workers, by their spans.
fn attempts(settlement: &Settlement) -> BTreeSet<Vec<u8>> {
    let execution_id = settlement.result.execution_id;
    let ids = settlement.audit.iter().filter_map(|entry| match &entry.kind {
        AuditKind::AttemptAssigned { step_id, attempt, .. } => {
            Some(attempt_span(execution_id, *step_id, *attempt).to_vec())
        }
        _ => None,
    });
    ids.collect()
}

#[test]
fn every_record_makes_one_tree_with_each_attempt_once() {
    let mut n_attempts = 0;
    for seed in 0..300 {
        let input = Mutator::new(seed).any();
        let Some((settlement, _)) = execution::archived(&input) else {
            continue;
        };
        let request = validate_request(execution::draft(&input), 256).unwrap();
        let execution_id = settlement.result.execution_id;
        let trace = Trace::of(execution_id, &request, Sampling::new(1.0, false));
        let drawn = spans(&settlement, &request, &trace);
        hold(&drawn);
        let is_of_attempt = |span: &&Span| {
            let mut keys = span.attributes.iter().map(|attribute| attribute.key.as_str());
            keys.any(|key| key == "escapement.attempt")
        };
        let of_attempts = drawn.iter().filter(is_of_attempt);
        let of_attempts: BTreeSet<_> = of_attempts.map(|span| span.span_id.clone()).collect();
        n_attempts += of_attempts.len();
        assert_eq!(of_attempts, attempts(&settlement));
        let bytes = || crate::spans(&settlement, &request, &trace);
        assert_eq!(bytes(), bytes());
    }
    assert!(n_attempts > 100, "{n_attempts}");
}
