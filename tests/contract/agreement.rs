//! Random plans with random scripts: the contract crate and the second interpreter come to the same.

use crate::cases::check_cases;
use crate::driver::{Driver, accept, step_indices};
use crate::generate::{Scenario, scenarios};
use crate::reference::border;
use escapement_codec::audit;
use escapement_contract::{
    AuditEntry, AuditKind, Effect, ExecutionError, PlanResult, Settlement, Status, StepIndex, WithdrawReason,
};
use escapement_model::Severity;
use escapement_model::opaque::{ValueView, entries, items};
use escapement_tests::reference::errors::Classified;
use escapement_tests::reference::interpret::Interpreter;
use escapement_tests::reference::retell;
use escapement_tests::reference::words::{NotCompleted, StepState};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Code, step id, severity.
type Shown = (String, Option<String>, Severity);

#[test]
fn both_interpreters_come_to_the_same() {
    //
    let indices = step_indices();
    let seen = RefCell::new(BTreeMap::new());
    check_cases(
        "agreement::both_interpreters_come_to_the_same",
        3_000,
        &scenarios(),
        |scenario| {
            let mut driver = Driver::new(&scenario, &indices);
            driver.play(&scenario);
            count_what_happened(&driver, &mut seen.borrow_mut());
            let settlement = driver.core.settlement().unwrap().clone();
            check_result(&settlement, &driver.reference, &indices, &driver);
            check_record(&settlement, &driver.reference, &driver);
            check_retold(&settlement, &scenario);
            check_replay(&scenario, &driver);
            Ok(())
        },
    );
    // A comparison proves nothing about what never happens.
    let seen = seen.into_inner();
    let seldom: Vec<_> = WHAT_HAPPENS
        .iter()
        .filter(|what| seen.get(**what).copied().unwrap_or(0) < 5)
        .collect();
    assert!(seldom.is_empty(), "hardly ever seen: {seldom:?} in {seen:?}");
}

/// What the random scripts must reach.
const WHAT_HAPPENS: &[&str] = &[
    "success",
    "partial",
    "failure",
    "nothing completed and nothing fatal",
    "halted",
    "refused",
    "returned",
    "a timer at the instant of an input",
    "delayed retry",
    "retry without delay",
    "step timeout",
    "stopped with attempts in flight",
    "skipped because of another",
    "DEPENDENCY_UNRESOLVED",
    "PLAN_TIMEOUT",
    "DEADLINE_EXCEEDED",
    "CONTEXT_MISSING",
    "ACTION_NOT_FOUND",
    "WORKER_LOST",
    "RESOURCE_EXHAUSTED",
    "UNKNOWN_ERROR",
    "RetriesExhausted",
    "NotRetryable",
    "WarnedWithoutOutput",
    "a chain of four errors",
    "three steps at a time",
];

fn count_what_happened(driver: &Driver, seen: &mut BTreeMap<String, u32>) {
    let mut saw =
        |what: &str, happened: bool| *seen.entry(what.to_owned()).or_default() += u32::from(happened);
    let reference = &driver.reference;
    let ended = reference.ended.as_ref().unwrap();
    saw(&format!("{:?}", ended.status).to_lowercase(), true);
    let is_promoted = ended
        .error
        .as_ref()
        .and_then(|error| error.cause.as_ref())
        .is_some_and(|cause| ended.error.as_ref().unwrap().code == cause.code);
    let withdrawn = |wanted| {
        driver
            .effects
            .iter()
            .any(|e| matches!(e, Effect::Withdraw { reason, .. } if *reason == wanted))
    };
    let was_stopped = reference.states.contains(&StepState::Stopped);
    saw("halted", is_promoted && was_stopped);
    saw(
        "nothing completed and nothing fatal",
        is_promoted && !was_stopped && reference.not_completed.len() > 1,
    );
    saw("refused", driver.n_refused > 0);
    saw("a timer at the instant of an input", driver.n_ties > 0);
    saw("three steps at a time", driver.under_way_max >= 3);
    saw(
        "returned",
        driver
            .core
            .audit()
            .iter()
            .any(|entry| matches!(entry.kind, AuditKind::AttemptReturned { .. })),
    );
    saw(
        "delayed retry",
        reference.retries.iter().any(|(_, _, delay)| *delay > 0),
    );
    saw(
        "retry without delay",
        reference.retries.iter().any(|(_, _, delay)| *delay == 0),
    );
    saw("step timeout", withdrawn(WithdrawReason::StepTimeout));
    saw(
        "stopped with attempts in flight",
        withdrawn(WithdrawReason::ExecutionEnded),
    );
    for (error, attempt) in &reference.trace {
        saw(&error.code, true);
        saw(
            "skipped because of another",
            error.code == "STEP_SKIPPED" && attempt.is_none(),
        );
        saw("a chain of four errors", error.chain().len() == 4);
    }
    for (reason, _) in reference.not_completed.values() {
        saw(&format!("{reason:?}"), true);
    }
}

fn check_result(settlement: &Settlement, reference: &Interpreter, indices: &[StepIndex], driver: &Driver) {
    let result = &settlement.result;
    let ended = reference.ended.as_ref().unwrap();
    let plan = driver.request.plan();
    let id = |step: usize| plan.step(indices[step]).id().to_string();
    assert_eq!(result.plan_id, plan.id());
    assert_eq!(result.execution_id, driver.core.execution_id());
    assert_eq!(border::status(result.status), ended.status);
    assert_eq!(result.steps_executed as usize, reference.outputs.len());
    assert_eq!(result.steps_total as usize, reference.states.len());
    assert_eq!(settlement.started_at_unix_ms, ended.started_at);
    assert_eq!(result.completed_at, ended.completed_at);
    assert_eq!(result.duration_ms, ended.completed_at - ended.started_at);
    // in canonical order, byte for byte.
    let expected: Vec<(String, Vec<u8>)> = reference
        .order
        .iter()
        .filter_map(|step| {
            reference
                .outputs
                .get(step)
                .map(|output| (id(*step), output.as_encoded().to_vec()))
        })
        .collect();
    assert_eq!(payload(result), expected);
    let shown = |error: &Classified| (error.code.clone(), error.step.map(id), error.severity);
    let expected: Vec<Shown> = ended
        .error
        .iter()
        .flat_map(|error| error.chain())
        .map(shown)
        .collect();
    assert_eq!(chain(result), expected, "the error and its causes");
    if let Some(error) = &result.error {
        //
        let expected: Vec<_> = reference
            .trace
            .iter()
            .map(|(error, attempt)| (shown(error), *attempt))
            .collect();
        assert_eq!(trace(error), expected, "context.errors");
    }
    check_invariants(result);
}

/// The invariants that hold for every result, whatever happened.
fn check_invariants(result: &PlanResult) {
    assert_eq!(result.error.is_none(), result.status == Status::Success);
    assert!(result.duration_ms >= 0);
    let severity = result.error.as_ref().map(|error| error.severity);
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
    let mut error = result.error.as_ref();
    let mut n_errors = 0;
    while let Some(current) = error {
        n_errors += 1;
        assert!((1..=50).contains(&current.code.chars().count()));
        assert!(current.message.chars().count() <= 1_000);
        assert_eq!(current.recoverable(), current.severity != Severity::Fatal);
        error = current.cause.as_deref();
    }
    assert!(n_errors <= 4, "a chain of {n_errors} errors");
}

fn payload(result: &PlanResult) -> Vec<(String, Vec<u8>)> {
    let entry = |entry: Result<(&str, ValueView<'_>), _>| match entry {
        Ok((key, ValueView::Struct(bytes))) => (key.to_owned(), bytes.to_vec()),
        other => panic!("an output is an object, not {other:?}"),
    };
    result.result_payload.entries().map(entry).collect()
}

fn chain(result: &PlanResult) -> Vec<Shown> {
    let mut shown = Vec::new();
    let mut error = result.error.as_ref();
    while let Some(current) = error {
        shown.push((
            current.code.clone(),
            current.step_id.map(|id| id.to_string()),
            current.severity,
        ));
        error = current.cause.as_deref();
    }
    shown
}

fn trace(error: &ExecutionError) -> Vec<(Shown, Option<u32>)> {
    let errors = error
        .context
        .entries()
        .map(Result::unwrap)
        .find(|(key, _)| *key == "errors");
    let Some((_, ValueView::List(list))) = errors else {
        panic!("context.errors is no list")
    };
    items(list)
        .map(|item| {
            let ValueView::Struct(bytes) = item.unwrap() else {
                panic!("an error is an object")
            };
            let fields: BTreeMap<&str, ValueView<'_>> = entries(bytes).map(Result::unwrap).collect();
            let text = |key: &str| match fields.get(key) {
                Some(ValueView::Text(text)) => Some((*text).to_owned()),
                _ => None,
            };
            let severity = match text("severity").as_deref() {
                Some("warn") => Severity::Warn,
                Some("error") => Severity::Error,
                Some("fatal") => Severity::Fatal,
                other => panic!("no severity: {other:?}"),
            };
            assert_eq!(
                fields.get("recoverable"),
                Some(&ValueView::Bool(severity != Severity::Fatal))
            );
            let attempt = match fields.get("attempt") {
                Some(ValueView::Number(n)) => Some(*n as u32),
                _ => None,
            };
            ((text("error_code").unwrap(), text("step_id"), severity), attempt)
        })
        .collect()
}

fn check_record(settlement: &Settlement, reference: &Interpreter, driver: &Driver) {
    let plan = driver.request.plan();
    let place: BTreeMap<String, usize> = plan
        .steps()
        .iter()
        .enumerate()
        .map(|(n, step)| (step.id().to_string(), n))
        .collect();
    let place = |id: &escapement_model::StepId| place[&id.to_string()];
    assert_eq!(driver.core.audit(), settlement.audit);
    let mut retries = Vec::new();
    let mut completed = BTreeMap::new();
    let mut not_completed: BTreeMap<usize, (NotCompleted, u32)> = BTreeMap::new();
    let mut incomplete = None;
    for entry in &settlement.audit {
        match &entry.kind {
            AuditKind::RetryScheduled {
                step_id,
                next_attempt,
                delay_ms,
            } => {
                retries.push((place(step_id), *next_attempt, *delay_ms));
            }
            AuditKind::StepCompleted {
                step_id,
                attempts,
                warnings,
            } => {
                assert!(warnings.iter().all(|warning| warning.severity == Severity::Warn));
                assert_eq!(completed.insert(place(step_id), *attempts), None);
            }
            AuditKind::StepNotCompleted {
                step_id,
                attempts,
                reason,
                ..
            } => {
                assert_eq!(
                    not_completed.insert(place(step_id), (border::not_completed(*reason), *attempts)),
                    None
                );
            }
            AuditKind::StepsIncomplete { step_ids } => {
                incomplete = Some(step_ids.iter().map(place).collect::<Vec<_>>());
            }
            _ => {}
        }
    }
    assert_eq!(retries, reference.retries, "retries");
    assert_eq!(completed, reference.completed, "attempts of completed steps");
    assert_eq!(
        not_completed, reference.not_completed,
        "why steps did not complete"
    );
    //
    let expected: Vec<usize> = reference
        .order
        .iter()
        .copied()
        .filter(|step| !reference.outputs.contains_key(step))
        .collect();
    assert_eq!(
        incomplete,
        (settlement.result.status != Status::Success).then_some(expected),
        "incomplete steps"
    );
    //
    let last = settlement.audit.last().map(|entry| &entry.kind);
    assert_eq!(
        last,
        Some(&AuditKind::Settled {
            status: settlement.result.status
        })
    );
    assert_eq!(
        mandatory_actions(&settlement.audit),
        listed_actions(settlement.result.status)
    );
    check_times(settlement);
}

/// Whoever has the record alone comes to the result as well.
fn check_retold(settlement: &Settlement, scenario: &Scenario) {
    let record: Vec<_> = settlement.audit.iter().map(audit::entry).collect();
    let (plan, facts) = border::plan_and_facts(&scenario.request);
    let result = border::result(&settlement.result);
    if let Err(difference) = retell(&plan, &facts, &record, &result) {
        panic!("{difference}\nof {result:#?}\n{record:#?}");
    }
}

/// nothing after the start is dated before it.
fn check_times(settlement: &Settlement) {
    let after_start = settlement
        .audit
        .iter()
        .skip_while(|entry| !matches!(entry.kind, AuditKind::Started { .. }));
    for entry in after_start {
        assert!(entry.at_unix_ms >= settlement.started_at_unix_ms, "{entry:?}");
    }
}

fn mandatory_actions(audit: &[AuditEntry]) -> Vec<(&'static str, u32, &'static str)> {
    audit
        .iter()
        .filter_map(|entry| match &entry.kind {
            AuditKind::MandatoryAction {
                rule_set,
                number,
                action,
            } => Some((rule_set.as_str(), *number, action.as_str())),
            _ => None,
        })
        .collect()
}

/// The lists of section 5, with the additions of the rulings before the return.
fn listed_actions(status: Status) -> Vec<(&'static str, u32, &'static str)> {
    let (rule_set, numbered, added): (_, &[&str], &[&str]) = match status {
        Status::Success => (
            "5.1",
            &[
                "validate_completion",
                "capture_metadata",
                "set_success_status",
                "persist_result",
                "emit_completion_event",
                "update_plan_state",
                "release_resources",
                "return_result",
            ],
            &[],
        ),
        Status::Partial => (
            "5.2",
            &[
                "classify_failure",
                "aggregate_errors",
                "validate_partial_progress",
                "preserve_output",
                "capture_metadata",
                "set_partial_status",
                "persist_result",
                "emit_partial_event",
                "mark_incomplete",
                "return_result",
            ],
            &["update_plan_state", "release_resources"],
        ),
        Status::Failure => (
            "5.3",
            &[
                "identify_failure_cause",
                "classify_severity",
                "halt_execution",
                "capture_failure_context",
                "truncate_result",
                "validate_consistency",
                "set_error",
                "set_failure_status",
                "persist_result",
                "emit_failure_event",
                "release_resources",
                "notify_error_handler",
                "return_result",
            ],
            &["update_plan_state"],
        ),
    };
    let mut actions: Vec<_> = numbered
        .iter()
        .zip(1..)
        .map(|(action, number)| (rule_set, number, *action))
        .collect();
    let end = actions.len() - 1;
    actions.splice(end..end, added.iter().map(|action| (rule_set, 0, *action)));
    actions
}

/// the same inputs lead to the same bytes.
fn check_replay(scenario: &Scenario, driver: &Driver) {
    let mut again = accept(&driver.request, scenario.deadline_ms);
    let mut effects = Vec::new();
    for (now, input) in &driver.fed {
        let _ = again.handle(*now, input.clone());
        effects.extend(std::iter::from_fn(|| again.poll_effect()));
    }
    assert_eq!(again.settlement(), driver.core.settlement());
    assert_eq!(effects, driver.effects);
    assert_eq!(format!("{again:?}"), format!("{:?}", driver.core));
}
