//! Several things wrong at once. All of them must be found, in the order of the document.

use super::{Case, Found, case, found_in, invalid, plan_case, unresolved};
use crate::documents::{CONCURRENCY_LIMIT, broken_object, nested_object, step};
use escapement_contract::{PlanDraft, StepDraft};
use escapement_model::limits::{OBJECT_NESTING_MAX, STEPS_MAX};

pub(super) fn cases() -> Vec<Case> {
    // R-1.1 R-1.2
    vec![
        case(
            "both ids of the request and no plan",
            |draft| {
                draft.plan = None;
                draft.execution_id = Some("x".into());
                draft.parent_execution_id = Some(String::new());
            },
            [
                invalid("plan"),
                invalid("execution_id"),
                invalid("parent_execution_id"),
            ],
        ),
        case(
            "a plan without anything in a request with bad ids",
            |draft| {
                draft.plan = Some(PlanDraft::default());
                draft.execution_id = Some("x".into());
            },
            [
                "plan.id",
                "plan.version",
                "plan.created_at",
                "plan.steps",
                "plan.name",
                "plan.context_requirements",
                "execution_id",
            ]
            .map(invalid),
        ),
        plan_case(
            "one thing wrong in every step",
            |plan| {
                plan.steps[0].action.clear();
                plan.steps[1].timeout_ms = Some(0);
                plan.steps[2].on_failure = 9;
                plan.steps[3].payload = None;
            },
            ["[0].action", "[1].timeout_ms", "[2].on_failure", "[3].payload"]
                .map(|field| invalid(format!("plan.steps{field}"))),
        ),
        plan_case(
            "everything wrong in one step",
            |plan| {
                plan.steps[3] = StepDraft {
                    id: "x".into(),
                    action: "a".repeat(101),
                    payload: Some(broken_object()),
                    depends_on: vec!["y".into(), step(0).id, step(77).id],
                    on_failure: -1,
                    timeout_ms: Some(-5),
                };
            },
            ["id", "action", "payload", "on_failure", "timeout_ms"]
                .map(|field| invalid(format!("plan.steps[3].{field}")))
                .into_iter()
                .chain([0, 2].map(|item| unresolved(format!("plan.steps[3].depends_on[{item}]")))),
        ),
        plan_case(
            "a cycle among steps with faults of their own",
            |plan| {
                plan.steps[0].depends_on = vec![plan.steps[1].id.clone()];
                plan.steps[0].action.clear();
                plan.steps[1].payload = None;
                plan.version = 2;
                plan.name.clear();
            },
            [
                invalid("plan.version"),
                invalid("plan.name"),
                invalid("plan.steps[0].action"),
                invalid("plan.steps[1].payload"),
                unresolved("plan.steps[1].depends_on[0]"),
            ],
        ),
        plan_case(
            "too deep in four places",
            |plan| {
                plan.metadata = Some(nested_object(OBJECT_NESTING_MAX + 1));
                for step in &mut plan.steps[1..] {
                    step.payload = Some(nested_object(OBJECT_NESTING_MAX + 1));
                }
            },
            [
                "metadata",
                "steps[1].payload",
                "steps[2].payload",
                "steps[3].payload",
            ]
            .map(|field| invalid(format!("plan.{field}"))),
        ),
        case("everything wrong everywhere", all_wrong, all_that_is_wrong()),
        plan_case(
            "more than a thousand violations",
            |plan| {
                plan.steps = (0..STEPS_MAX).map(step).collect();
                plan.steps.iter_mut().for_each(|step| step.action.clear());
            },
            (0..1000).map(|n| invalid(format!("plan.steps[{n}].action"))),
        ),
        plan_case(
            "a thousand violations",
            |plan| {
                plan.steps = (0..1000).map(step).collect();
                plan.steps.iter_mut().for_each(|step| step.action.clear());
            },
            (0..1000).map(|n| invalid(format!("plan.steps[{n}].action"))),
        ),
        plan_case(
            "two violations in each of 400 steps",
            |plan| {
                plan.steps = (0..400).map(step).collect();
                for step in &mut plan.steps {
                    step.action.clear();
                    step.payload = None;
                }
            },
            (0..400).flat_map(|n| {
                [
                    invalid(format!("plan.steps[{n}].action")),
                    invalid(format!("plan.steps[{n}].payload")),
                ]
            }),
        ),
    ]
}

fn all_wrong(draft: &mut escapement_contract::RequestDraft) {
    let plan = draft.plan.as_mut().unwrap();
    plan.id = plan.id.replace('-', "");
    plan.version = 0;
    plan.created_at = 0;
    plan.steps[0].id.clear();
    plan.name = "n".repeat(256);
    plan.context_requirements = vec![String::new()];
    plan.timeout_ms = Some(0);
    plan.retry_policy.as_mut().unwrap().max_attempts = Some(0);
    plan.metadata = Some(broken_object());
    plan.tags = vec![String::new()];
    plan.estimated_duration_ms = Some(-1);
    draft.environment = Some(broken_object());
    draft.execution_id = Some("x".into());
    draft.parent_execution_id = Some("y".into());
    draft.user_id = Some("u".repeat(256));
    draft.request_id = Some("r".repeat(256));
    draft.max_concurrent_steps = Some(i32::try_from(CONCURRENCY_LIMIT).unwrap() + 1);
}

fn all_that_is_wrong() -> Vec<Found> {
    let mut found: Vec<Found> = [
        "plan.id",
        "plan.version",
        "plan.created_at",
        "plan.steps[0].id",
        "plan.name",
        "plan.context_requirements[0]",
        "plan.timeout_ms",
        "plan.retry_policy.max_attempts",
        "plan.metadata",
        "plan.tags[0]",
        "plan.estimated_duration_ms",
        "environment",
        "execution_id",
        "parent_execution_id",
        "user_id",
        "request_id",
        "options.max_concurrent_steps",
    ]
    .map(invalid)
    .into();
    // The second and third step refer to the first, whose id is none now.
    found.extend([1, 2].map(|n| unresolved(format!("plan.steps[{n}].depends_on[0]"))));
    found
}

#[test]
fn steps_are_reported_in_list_order() {
    // R-1.2
    let case = plan_case(
        "",
        |plan| {
            plan.steps[3].action.clear();
            plan.steps[0].payload = None;
            plan.steps[2].timeout_ms = Some(0);
            plan.steps[2].id = "x".into();
            plan.steps[1].depends_on = vec!["y".into()];
        },
        [],
    );
    let of_steps: Vec<usize> = found_in(case.draft)
        .iter()
        .map(|(field, _)| {
            field["plan.steps[".len()..]
                .split(']')
                .next()
                .unwrap()
                .parse()
                .unwrap()
        })
        .collect();
    assert_eq!(of_steps, [0, 1, 2, 2, 3]);
}
