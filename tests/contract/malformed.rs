//! Malformed requests in one table, each with everything that must be found in it.
//! Their counterparts at the limit, in which nothing may be found.
//! Knows no rule beyond what the rows say.

mod at_the_limit;
mod combined;
mod graph;
mod ids;
mod plan_fields;
mod request_fields;
mod step_fields;

use crate::documents::{CONCURRENCY_LIMIT, request};
use escapement_contract::{
    PlanDraft, RequestDraft, RetryPolicyDraft, StepDraft, validate_plan, validate_request,
};
use escapement_model::codes::{DEPENDENCY_UNRESOLVED, INVALID_PAYLOAD};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::catch_unwind;

/// A field path and its code.
type Found = (String, &'static str);

/// One row of the table.
struct Case {
    name: String,
    draft: RequestDraft,
    /// What must be found, all of it. Empty: the request is accepted.
    expected: Vec<Found>,
}

/// A row: the valid request with one change, and what must be found.
fn case(
    name: impl Into<String>,
    change: impl FnOnce(&mut RequestDraft),
    expected: impl IntoIterator<Item = Found>,
) -> Case {
    let mut draft = request();
    change(&mut draft);
    Case {
        name: name.into(),
        draft,
        expected: expected.into_iter().collect(),
    }
}

/// A row about the plan.
fn plan_case(
    name: impl Into<String>,
    change: impl FnOnce(&mut PlanDraft),
    expected: impl IntoIterator<Item = Found>,
) -> Case {
    case(name, |draft| change(draft.plan.as_mut().unwrap()), expected)
}

/// A row about the last step, on which no other depends.
fn step_case(
    name: impl Into<String>,
    change: impl FnOnce(&mut StepDraft),
    expected: impl IntoIterator<Item = Found>,
) -> Case {
    plan_case(name, |plan| change(&mut plan.steps[3]), expected)
}

/// A row about the retry policy.
fn policy_case(
    name: impl Into<String>,
    change: impl FnOnce(&mut RetryPolicyDraft),
    expected: impl IntoIterator<Item = Found>,
) -> Case {
    plan_case(name, |plan| change(plan.retry_policy.as_mut().unwrap()), expected)
}

fn invalid(field: impl Into<String>) -> Found {
    (field.into(), INVALID_PAYLOAD)
}

fn unresolved(field: impl Into<String>) -> Found {
    (field.into(), DEPENDENCY_UNRESOLVED)
}

fn refused_cases() -> Vec<Case> {
    [
        ids::cases(),
        plan_fields::cases(),
        step_fields::cases(),
        request_fields::cases(),
        graph::cases(),
        combined::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn found_in(draft: RequestDraft) -> Vec<Found> {
    match validate_request(draft, CONCURRENCY_LIMIT) {
        Ok(_) => Vec::new(),
        Err(violations) => violations
            .iter()
            .map(|finding| (finding.field.clone(), finding.code))
            .collect(),
    }
}

/// How the rows differ from what was found: one line for each that does.
fn differences(cases: Vec<Case>) -> Vec<String> {
    let mut differing = Vec::new();
    for Case {
        name,
        draft,
        expected,
    } in cases
    {
        let Ok(got) = catch_unwind(|| found_in(draft)) else {
            differing.push(format!("{name}: the validator panics"));
            continue;
        };
        let got: BTreeSet<Found> = got.into_iter().collect();
        let expected: BTreeSet<Found> = expected.into_iter().collect();
        if got != expected {
            let missing: Vec<&Found> = expected.difference(&got).take(5).collect();
            let unexpected: Vec<&Found> = got.difference(&expected).take(5).collect();
            differing.push(format!("{name}: not found {missing:?}, found too {unexpected:?}"));
        }
    }
    differing
}

#[test]
fn the_request_that_all_rows_start_from_is_valid() {
    assert_eq!(found_in(request()), []);
}

#[test]
fn every_malformed_request_is_refused_with_everything_that_is_wrong_with_it() {
    //
    let cases = refused_cases();
    assert!(cases.len() >= 200, "the table has {} rows only", cases.len());
    for case in &cases {
        assert!(
            !case.expected.is_empty(),
            "{} expects nothing to be found",
            case.name
        );
    }
    let differing = differences(cases);
    assert!(
        differing.is_empty(),
        "{} rows differ:\n{}",
        differing.len(),
        differing.join("\n")
    );
}

#[test]
fn a_request_at_every_limit_is_accepted() {
    let differing = differences(at_the_limit::cases());
    assert!(
        differing.is_empty(),
        "{} rows differ:\n{}",
        differing.len(),
        differing.join("\n")
    );
}

#[test]
fn no_two_rows_have_the_same_name() {
    let mut rows: BTreeMap<String, usize> = BTreeMap::new();
    for case in refused_cases().into_iter().chain(at_the_limit::cases()) {
        *rows.entry(case.name).or_default() += 1;
    }
    rows.retain(|_, n| *n > 1);
    assert_eq!(rows, BTreeMap::new());
}

#[test]
fn no_field_is_found_twice_with_the_same_code() {
    for case in refused_cases() {
        let mut found = found_in(case.draft);
        let n_found = found.len();
        found.sort();
        found.dedup();
        assert_eq!(found.len(), n_found, "{}", case.name);
    }
}

#[test]
fn every_finding_has_a_message_of_one_sentence() {
    for case in refused_cases() {
        let violations = validate_request(case.draft, CONCURRENCY_LIMIT).unwrap_err();
        for finding in violations.iter() {
            assert!(
                !finding.message.trim().is_empty(),
                "{}: {} has no message",
                case.name,
                finding.field
            );
        }
        assert_eq!(violations.first(), violations.iter().next().unwrap());
        assert_eq!(violations.len(), violations.iter().count());
    }
}

#[test]
fn the_same_malformed_request_is_refused_in_the_same_words_twice() {
    for case in refused_cases() {
        let once = validate_request(case.draft.clone(), CONCURRENCY_LIMIT).unwrap_err();
        let twice = validate_request(case.draft, CONCURRENCY_LIMIT).unwrap_err();
        assert!(once.iter().eq(twice.iter()), "{}", case.name);
    }
}

#[test]
fn a_plan_is_refused_alone_for_what_it_is_refused_for_in_a_request() {
    for Case {
        name,
        draft,
        expected,
    } in refused_cases()
    {
        let Some(plan) = draft.plan else { continue };
        let expected: BTreeSet<Found> = expected
            .into_iter()
            .filter(|(field, _)| field.starts_with("plan"))
            .collect();
        let got: BTreeSet<Found> = match validate_plan(plan) {
            Ok(_) => BTreeSet::new(),
            Err(violations) => violations
                .iter()
                .map(|finding| (finding.field.clone(), finding.code))
                .collect(),
        };
        assert_eq!(got, expected, "{name}");
    }
}
