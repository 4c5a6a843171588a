//! References between steps that cannot be: to nothing, to the step itself, around in circles.
//!
//! A reference closes a cycle when it leads back to a step that is still being walked.
//! Steps are walked in list order and each step's references in list order, every path to its end.

use super::{Case, Found, invalid, plan_case, unresolved};
use crate::documents::{step, step_after, step_id};
use escapement_contract::{StepDraft, validate_request};
use escapement_model::limits::STEPS_MAX;

/// Row, dependencies of each step by list index, and the references at fault.
type Shape = (
    &'static str,
    &'static [&'static [usize]],
    &'static [(usize, usize)],
);

/// An index at or above this names no step.
const NOWHERE: usize = 0xdead_0000;

const SHAPES: &[Shape] = &[
    ("the first step refers to itself", &[&[0]], &[(0, 0)]),
    ("the last step refers to itself", &[&[], &[], &[2]], &[(2, 0)]),
    ("a step refers to another and itself", &[&[], &[0, 1]], &[(1, 1)]),
    (
        "every step refers to itself",
        &[&[0], &[1], &[2]],
        &[(0, 0), (1, 0), (2, 0)],
    ),
    ("a step refers to nothing", &[&[], &[NOWHERE]], &[(1, 0)]),
    (
        "a step refers to two that are none",
        &[&[NOWHERE, NOWHERE + 1]],
        &[(0, 0), (0, 1)],
    ),
    (
        "a step refers to one and to none",
        &[&[], &[0, NOWHERE]],
        &[(1, 1)],
    ),
    (
        "all steps refer to the same that is none",
        &[&[NOWHERE], &[NOWHERE], &[NOWHERE]],
        &[(0, 0), (1, 0), (2, 0)],
    ),
    ("a cycle of two", &[&[1], &[0]], &[(1, 0)]),
    ("a cycle of two behind a step", &[&[], &[0, 2], &[1]], &[(2, 0)]),
    ("a cycle of two before a step", &[&[1], &[2], &[1]], &[(2, 0)]),
    ("a cycle of three", &[&[1], &[2], &[0]], &[(2, 0)]),
    ("a cycle of three the other way", &[&[2], &[0], &[1]], &[(1, 0)]),
    (
        "a cycle of four with a step beside it",
        &[&[3], &[0], &[1], &[2], &[]],
        &[(1, 0)],
    ),
    ("two cycles", &[&[1], &[0], &[3], &[2]], &[(1, 0), (3, 0)]),
    (
        "two cycles, one entered from the other",
        &[&[1], &[0, 2], &[3], &[2]],
        &[(1, 0), (3, 0)],
    ),
    (
        "two cycles through one step",
        &[&[1, 2], &[0], &[0]],
        &[(1, 0), (2, 0)],
    ),
    (
        "a cycle and a reference to itself",
        &[&[1], &[0], &[2]],
        &[(1, 0), (2, 0)],
    ),
    (
        "a cycle and a reference to nothing",
        &[&[1], &[0], &[NOWHERE]],
        &[(1, 0), (2, 0)],
    ),
    (
        "a cycle whose step refers to nothing too",
        &[&[1, NOWHERE], &[0]],
        &[(0, 1), (1, 0)],
    ),
    (
        "a cycle whose step refers to itself too",
        &[&[1, 0], &[0]],
        &[(0, 1), (1, 0)],
    ),
    (
        "a diamond that is closed",
        &[&[3], &[0], &[0], &[1, 2]],
        &[(1, 0), (2, 0)],
    ),
    (
        "an id that closes a cycle named twice",
        &[&[1], &[0, 0]],
        &[(1, 0)],
    ),
    ("itself named twice", &[&[0, 0]], &[(0, 0)]),
    ("nothing named twice", &[&[NOWHERE, NOWHERE]], &[(0, 0)]),
];

pub(super) fn cases() -> Vec<Case> {
    //
    let mut cases: Vec<Case> = SHAPES
        .iter()
        .map(|(name, dependencies, faults)| {
            plan_case(
                *name,
                |plan| plan.steps = steps(dependencies),
                faults.iter().copied().map(reference),
            )
        })
        .collect();
    cases.extend(texts());
    cases.extend(long_cycles());
    cases
}

/// References that are no ids, and ids in other letters.
fn texts() -> Vec<Case> {
    let mut cases = Vec::new();
    for text in [
        "",
        " ",
        "first",
        "00000000-0000-0000-0000-000000000000",
        "{00000000-aaaa-4bbb-8ccc-0123456789ab}",
    ] {
        cases.push(plan_case(
            format!("a reference to {text:?}"),
            |plan| plan.steps[3].depends_on = vec![text.into()],
            [reference((3, 0))],
        ));
    }
    cases.push(plan_case(
        "a reference to itself in upper case",
        |plan| plan.steps[3].depends_on = vec![plan.steps[3].id.to_uppercase()],
        [reference((3, 0))],
    ));
    cases.push(plan_case(
        "a cycle of two, one in upper case",
        |plan| {
            plan.steps[3].depends_on = vec![plan.steps[2].id.to_uppercase()];
            plan.steps[2].depends_on = vec![plan.steps[3].id.to_uppercase()];
        },
        [reference((3, 0))],
    ));
    cases.push(plan_case(
        "a reference with a space behind it",
        |plan| plan.steps[3].depends_on = vec![plan.steps[2].id.clone() + " "],
        [reference((3, 0))],
    ));
    cases.push(plan_case(
        "a reference to a step whose id is none",
        |plan| {
            plan.steps[2].id = "second".into();
            plan.steps[3].depends_on = vec!["second".into()];
        },
        [invalid("plan.steps[2].id")],
    ));
    cases
}

fn long_cycles() -> Vec<Case> {
    let circle = |forwards: bool| -> Vec<StepDraft> {
        let next = |n: usize| {
            if forwards {
                (n + 1) % STEPS_MAX
            } else {
                (n + STEPS_MAX - 1) % STEPS_MAX
            }
        };
        (0..STEPS_MAX).map(|n| step_after(n, &[next(n)])).collect()
    };
    vec![
        plan_case(
            "a cycle of 1024",
            |plan| plan.steps = circle(true),
            [reference((STEPS_MAX - 1, 0))],
        ),
        plan_case(
            "a cycle of 1024 the other way",
            |plan| plan.steps = circle(false),
            [reference((1, 0))],
        ),
        plan_case(
            "512 cycles of two",
            |plan| plan.steps = (0..STEPS_MAX).map(|n| step_after(n, &[n ^ 1])).collect(),
            (0..STEPS_MAX / 2).map(|pair| reference((2 * pair + 1, 0))),
        ),
        //
        plan_case(
            "1024 steps that refer to nothing",
            |plan| plan.steps = (0..STEPS_MAX).map(|n| step_after(n, &[NOWHERE])).collect(),
            (0..1000).map(|n| reference((n, 0))),
        ),
    ]
}

fn steps(dependencies: &[&[usize]]) -> Vec<StepDraft> {
    dependencies
        .iter()
        .enumerate()
        .map(|(n, others)| step_after(n, others))
        .collect()
}

fn reference((step, item): (usize, usize)) -> Found {
    unresolved(format!("plan.steps[{step}].depends_on[{item}]"))
}

/// Graphs that look odd and are fine.
pub(super) fn accepted() -> Vec<Case> {
    vec![
        plan_case(
            "forward references",
            |plan| plan.steps = steps(&[&[2], &[0], &[]]),
            [],
        ),
        plan_case(
            "an id named twice",
            |plan| plan.steps = steps(&[&[], &[0, 0]]),
            [],
        ),
        plan_case(
            "an id named twice in both cases",
            |plan| plan.steps[3].depends_on = vec![step_id(0), step_id(0).to_uppercase()],
            [],
        ),
        plan_case(
            "a step id in upper case",
            |plan| plan.steps[0].id = plan.steps[0].id.to_uppercase(),
            [],
        ),
        plan_case(
            "a diamond",
            |plan| plan.steps = steps(&[&[], &[0], &[0], &[1, 2]]),
            [],
        ),
        plan_case("a chain of 1024", |plan| plan.steps = chain(), []),
        plan_case(
            "a chain of 1024 written backwards",
            |plan| plan.steps = chain().into_iter().rev().collect(),
            [],
        ),
        plan_case(
            "1023 steps behind one",
            |plan| {
                plan.steps = (0..STEPS_MAX)
                    .map(|n| if n == 0 { step(0) } else { step_after(n, &[0]) })
                    .collect();
            },
            [],
        ),
        plan_case(
            "one step behind 1023",
            |plan| {
                plan.steps = (1..STEPS_MAX).map(step).collect();
                plan.steps
                    .push(step_after(0, &(1..STEPS_MAX).collect::<Vec<_>>()));
            },
            [],
        ),
    ]
}

fn chain() -> Vec<StepDraft> {
    (0..STEPS_MAX)
        .map(|n| if n == 0 { step(0) } else { step_after(n, &[n - 1]) })
        .collect()
}

#[test]
fn the_message_of_a_cycle_names_its_steps() {
    //
    let case = plan_case("", |plan| plan.steps = steps(&[&[1], &[2], &[0]]), []);
    let violations = validate_request(case.draft, 1024).unwrap_err();
    let message = &violations.first().message;
    for n in 0..3 {
        let named = message.contains(&step_id(n)) || message.contains(&format!("steps[{n}]"));
        assert!(named, "step {n} is not named in {message:?}");
    }
}

#[test]
fn the_message_of_a_long_cycle_is_shortened() {
    //
    for case in long_cycles().into_iter().take(2) {
        let violations = validate_request(case.draft, 1024).unwrap_err();
        let message = &violations.first().message;
        assert!(
            message.contains(&step_id(0)) || message.contains("steps[0]"),
            "{message:?}"
        );
        assert!(
            message.chars().count() <= 2_000,
            "{} code points",
            message.chars().count()
        );
    }
}
