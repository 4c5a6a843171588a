//! Malformed requests in tables, each with everything that must be found in it, and their counterparts at the limit.
//! Knows no rule beyond what the rows say.

mod accepted;
mod graph;
mod refused;

use crate::documents::{CONCURRENCY_LIMIT, request, step};
use escapement_contract::{
    Finding, PlanDraft, RequestDraft, RetryPolicyDraft, StepDraft, Violations, validate_plan,
    validate_request,
};
use escapement_model::codes::{DEPENDENCY_UNRESOLVED, INVALID_PAYLOAD};

/// A row of a table.
pub(crate) struct Case {
    name: String,
    draft: RequestDraft,
    /// The fields in which something must be found, each once. Empty: the request is accepted.
    expected: Vec<String>,
}

/// Returns the valid request with one change.
fn case(
    name: impl Into<String>,
    change: impl FnOnce(&mut RequestDraft),
    expected: impl IntoIterator<Item = String>,
) -> Case {
    let mut draft = request();
    change(&mut draft);
    let expected = expected.into_iter().collect();
    Case {
        name: name.into(),
        draft,
        expected,
    }
}

/// Rows of a table: a change of one part of the valid request, and the fields below that part in which something must be found.
macro_rules! rows {
    ($part:ident in $part_of:ident, $path:literal { $($change:expr => [$($field:expr),*];)* }) => {
        [$(crate::malformed::case(
            stringify!($change),
            |draft| {
                let $part = $part_of(draft);
                $change;
            },
            [$(format!("{}{}", $path, $field)),*],
        )),*]
    };
}
use rows;

fn itself(draft: &mut RequestDraft) -> &mut RequestDraft {
    draft
}

fn plan_of(draft: &mut RequestDraft) -> &mut PlanDraft {
    draft.plan.as_mut().unwrap()
}

fn policy_of(draft: &mut RequestDraft) -> &mut RetryPolicyDraft {
    plan_of(draft).retry_policy.as_mut().unwrap()
}

/// Returns the last step, on which no other depends.
fn step_of(draft: &mut RequestDraft) -> &mut StepDraft {
    &mut plan_of(draft).steps[3]
}

/// So many steps with this change.
fn steps(count: usize, change: impl Fn(&mut StepDraft)) -> Vec<StepDraft> {
    let mut steps: Vec<StepDraft> = (0..count).map(step).collect();
    steps.iter_mut().for_each(change);
    steps
}

/// Returns the fields in which something was found; the codes must be those of the fields, and each finding has a message.
fn found<Accepted>(judged: Result<Accepted, Violations>) -> Vec<String> {
    let Err(violations) = judged else {
        return Vec::new();
    };
    assert_eq!(violations.len(), violations.iter().count());
    let field = |violation: &Finding| {
        let is_reference = violation.field.contains(".depends_on[");
        let code = if is_reference {
            DEPENDENCY_UNRESOLVED
        } else {
            INVALID_PAYLOAD
        };
        assert_eq!(violation.code, code, "{violation:?}");
        assert!(!violation.message.trim().is_empty(), "{violation:?}");
        violation.field.clone()
    };
    let mut found: Vec<String> = violations.iter().map(field).collect();
    found.sort();
    found
}

/// Returns the rows of which something else is found than they say, in the request or in its plan alone.
fn differing(cases: Vec<Case>) -> Vec<String> {
    let mut differing = Vec::new();
    for Case {
        name,
        draft,
        mut expected,
    } in cases
    {
        expected.sort();
        let plan = draft.plan.clone();
        let judgements = [
            (
                found(validate_request(draft, CONCURRENCY_LIMIT)),
                expected.clone(),
            ),
            (
                plan.map_or(vec!["plan".into()], |plan| found(validate_plan(plan))),
                {
                    expected.retain(|field| field.starts_with("plan"));
                    expected
                },
            ),
        ];
        for (got, expected) in judgements.into_iter().filter(|(got, expected)| got != expected) {
            let missing = expected.iter().filter(|field| !got.contains(field)).take(5);
            let unexpected = got.iter().filter(|field| !expected.contains(field)).take(5);
            let (missing, unexpected): (Vec<_>, Vec<_>) = (missing.collect(), unexpected.collect());
            differing.push(format!("{name}: not found {missing:?}, found too {unexpected:?}"));
        }
    }
    differing
}

//
#[test]
fn every_malformed_request_is_refused_with_everything_that_is_wrong_with_it() {
    let cases: Vec<Case> = refused::cases().into_iter().chain(graph::cases()).collect();
    assert!(cases.len() >= 200, "the tables have {} rows only", cases.len());
    for case in &cases {
        assert!(!case.expected.is_empty(), "{} expects nothing", case.name);
    }
    let differing = differing(cases);
    assert!(
        differing.is_empty(),
        "{} rows differ:\n{}",
        differing.len(),
        differing.join("\n")
    );
}

//
#[test]
fn a_request_at_every_limit_is_accepted() {
    let itself = case("the request that all rows start from", |_| {}, []);
    let cases = [itself]
        .into_iter()
        .chain(accepted::cases())
        .chain(graph::accepted());
    let differing = differing(cases.collect());
    assert!(
        differing.is_empty(),
        "{} rows differ:\n{}",
        differing.len(),
        differing.join("\n")
    );
}
