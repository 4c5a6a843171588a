//! The result of an execution, in itself and against the second interpreter's. Judges no step on the way there.

use super::Lockstep;
use super::border;
use super::said::{Link, chain_of, links};
use escapement_contract::{ExecutionError, PlanResult, Settlement, Status};
use escapement_model::Severity;
use escapement_model::opaque::{ValueView, entries, items};
use std::collections::BTreeMap;

/// Compares a result with what the second interpreter came to.
pub(super) fn check(settlement: &Settlement, both: &Lockstep) {
    let (result, reference) = (&settlement.result, &both.reference);
    check_alone(result);
    let ended = reference.ended.as_ref().expect("both have ended");
    let plan = both.core.request().plan();
    assert_eq!(result.plan_id, plan.id());
    assert_eq!(result.execution_id, both.core.execution_id());
    assert_eq!(border::status(result.status), ended.status, "R-5.6");
    assert_eq!(result.steps_executed as usize, ended.steps_executed, "R-6.2");
    assert_eq!(result.steps_total as usize, reference.states.len());
    assert_eq!(settlement.started_at_unix_ms, ended.started_at);
    assert_eq!(result.completed_at, ended.completed_at, "R-6.4");
    assert_eq!(result.duration_ms, ended.completed_at - ended.started_at, "R-6.4");
    // in canonical order, byte for byte.
    let mut shown = result.result_payload.entries();
    for step in &reference.order {
        if let Some(output) = reference.outputs.get(step) {
            let id = plan.steps()[*step].id().to_string();
            let expected = (id.as_str(), ValueView::Struct(output.as_encoded()));
            assert_eq!(shown.next(), Some(Ok(expected)), "R-6.3");
        }
    }
    assert_eq!(shown.next(), None, "R-6.3");
    let chain = result.error.as_ref().map(|error| chain_of(error, both));
    assert_eq!(chain, ended.error.as_ref().map(links), "the error and its causes");
    if let Some(error) = &result.error {
        let expected = reference
            .trace
            .iter()
            .map(|(error, attempt)| (links(error).swap_remove(0), *attempt));
        assert_eq!(trace(error, both), expected.collect::<Vec<_>>(), "R-6.6");
    }
    // nothing after the start is dated before it.
    let started = settlement
        .audit
        .iter()
        .skip_while(|entry| entry.kind.name() != "started");
    for entry in started {
        assert!(entry.at_unix_ms >= settlement.started_at_unix_ms, "{entry:?}");
    }
}

/// What holds for every result, whatever happened.
///
/// # Panics
/// It does not hold.
pub fn check_alone(result: &PlanResult) {
    //
    let severity = result.error.as_ref().map(|error| error.severity);
    assert_eq!(severity.is_none(), result.status == Status::Success);
    assert!(result.duration_ms >= 0);
    match result.status {
        Status::Success => assert_eq!(result.steps_executed, result.steps_total),
        Status::Partial => {
            assert!((1..result.steps_total).contains(&result.steps_executed));
            assert_ne!(severity, Some(Severity::Fatal));
        }
        Status::Failure => {
            assert!(result.steps_executed < result.steps_total);
            assert_eq!(severity, Some(Severity::Fatal));
        }
    }
    let chain = std::iter::successors(result.error.as_ref(), |error| error.cause.as_deref());
    let mut n_errors = 0;
    for error in chain {
        n_errors += 1;
        assert!((1..=50).contains(&error.code.chars().count()), "R-4.8");
        assert!(error.message.chars().count() <= 1_000, "R-4.9");
        assert_eq!(error.recoverable(), error.severity != Severity::Fatal, "R-4.10");
        assert!(error.context.check().is_ok(), "a context can be read");
    }
    assert!(n_errors <= 4, "R-4.16: a chain of {n_errors} errors");
}

/// `context.errors`, with the attempt of each.
fn trace(error: &ExecutionError, both: &Lockstep) -> Vec<(Link, Option<u32>)> {
    let errors = error
        .context
        .entries()
        .map(|entry| entry.expect("a context can be read"))
        .find(|(key, _)| *key == "errors");
    let Some((_, ValueView::List(list))) = errors else {
        panic!("R-6.6: context.errors is no list");
    };
    items(list)
        .map(|item| {
            let Ok(ValueView::Struct(bytes)) = item else {
                panic!("an error is an object");
            };
            let fields: BTreeMap<&str, ValueView<'_>> = entries(bytes)
                .map(|entry| entry.expect("an error can be read"))
                .collect();
            let text = |key: &str| match fields.get(key) {
                Some(ValueView::Text(text)) => Some(*text),
                _ => None,
            };
            let severity = match text("severity") {
                Some("warn") => Severity::Warn,
                Some("error") => Severity::Error,
                Some("fatal") => Severity::Fatal,
                other => panic!("no severity: {other:?}"),
            };
            let recoverable = ValueView::Bool(severity != Severity::Fatal);
            assert_eq!(fields.get("recoverable"), Some(&recoverable));
            let step = text("step_id").map(|id| both.place_of(id.parse().expect("an id")));
            let attempt = match fields.get("attempt") {
                Some(ValueView::Number(n)) => Some(*n as u32),
                _ => None,
            };
            let code = text("error_code").expect("an error has a code");
            ((code.to_owned(), step, severity), attempt)
        })
        .collect()
}
