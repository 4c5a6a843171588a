//! References between steps that cannot be: to nothing, to the step itself, around in circles. And some that look odd and are fine.
//!
//! A reference closes a cycle when it leads back to a step that is still being walked.
//! Steps are walked in list order and each step's references in list order, every path to its end.

use super::{Case, case, plan_of, rows};
use crate::documents::{CONCURRENCY_LIMIT, request, step_after, step_id};
use escapement_contract::{RequestDraft, StepDraft, validate_request};
use escapement_model::limits::STEPS_MAX;

/// What the steps refer to, a step before each `;`, by index or to nothing (`x`, `y`); and the references at fault.
const SHAPES: [(&str, &[(usize, usize)]); 27] = [
    // References to themselves and to nothing.
    ("0;", &[(0, 0)]),
    (";;2;", &[(2, 0)]),
    (";0 1;", &[(1, 1)]),
    ("0;1;2;", &[(0, 0), (1, 0), (2, 0)]),
    ("0 0;", &[(0, 0)]),
    (";x;", &[(1, 0)]),
    ("x y;", &[(0, 0), (0, 1)]),
    (";0 x;", &[(1, 1)]),
    ("x;x;x;", &[(0, 0), (1, 0), (2, 0)]),
    ("x x;", &[(0, 0)]),
    // A cycle: alone, behind a step, before one, beside one, and entered with another id named twice.
    ("1;0;", &[(1, 0)]),
    (";0 2;1;", &[(2, 0)]),
    ("1;2;1;", &[(2, 0)]),
    ("1;2;0;", &[(2, 0)]),
    ("2;0;1;", &[(1, 0)]),
    ("3;0;1;2;;", &[(1, 0)]),
    ("1;0 0;", &[(1, 0)]),
    // Two cycles: apart, one entered from the other, through one step, and a diamond that is closed.
    ("1;0;3;2;", &[(1, 0), (3, 0)]),
    ("1;0 2;3;2;", &[(1, 0), (3, 0)]),
    ("1 2;0;0;", &[(1, 0), (2, 0)]),
    ("3;0;0;1 2;", &[(1, 0), (2, 0)]),
    // A cycle and another fault.
    ("1;0;2;", &[(1, 0), (2, 0)]),
    ("1;0;x;", &[(1, 0), (2, 0)]),
    ("1 x;0;", &[(0, 1), (1, 0)]),
    ("1 0;0;", &[(0, 1), (1, 0)]),
    // Nothing is wrong: forward references, a diamond.
    ("2;0;;", &[]),
    (";0;0;1 2;", &[]),
];

fn steps(shape: &str) -> Vec<StepDraft> {
    let index = |name: &str| match name {
        "x" => 0xdead_0000,
        "y" => 0xdead_0001,
        index => index.parse().unwrap(),
    };
    let references = shape.split_terminator(';');
    let references = references.map(|step| step.split_whitespace().map(index).collect::<Vec<_>>());
    references
        .enumerate()
        .map(|(n, others)| step_after(n, &others))
        .collect()
}

fn of_shapes(is_at_fault: bool) -> impl Iterator<Item = Case> {
    let wanted = SHAPES
        .iter()
        .filter(move |(_, faults)| faults.is_empty() != is_at_fault);
    wanted.map(|(shape, faults)| {
        let faults = faults.iter().map(|(step, item)| reference(*step, *item));
        case(*shape, |draft| plan_of(draft).steps = steps(shape), faults)
    })
}

fn reference(step: usize, item: usize) -> String {
    format!("plan.steps[{step}].depends_on[{item}]")
}

/// As many steps as there may be, each after the one that it names.
fn all(next: impl Fn(usize) -> usize) -> impl FnOnce(&mut RequestDraft) {
    move |draft| plan_of(draft).steps = (0..STEPS_MAX).map(|n| step_after(n, &[next(n)])).collect()
}

pub(super) fn cases() -> Vec<Case> {
    let texts = rows! { plan in plan_of, "plan.steps" {
        plan.steps[3].depends_on = vec![String::new()] => ["[3].depends_on[0]"];
        plan.steps[3].depends_on = vec![" ".into()] => ["[3].depends_on[0]"];
        plan.steps[3].depends_on = vec!["first".into()] => ["[3].depends_on[0]"];
        plan.steps[3].depends_on = vec!["00000000-0000-0000-0000-000000000000".into()] => ["[3].depends_on[0]"];
        plan.steps[3].depends_on = vec!["{00000000-aaaa-4bbb-8ccc-0123456789ab}".into()] => ["[3].depends_on[0]"];
        plan.steps[3].depends_on = vec![plan.steps[2].id.clone() + " "] => ["[3].depends_on[0]"];
        plan.steps[3].depends_on = vec![plan.steps[3].id.to_uppercase()] => ["[3].depends_on[0]"];
        {
            plan.steps[3].depends_on = vec![plan.steps[2].id.to_uppercase()];
            plan.steps[2].depends_on = vec![plan.steps[3].id.to_uppercase()];
        } => ["[3].depends_on[0]"];
        // A reference to a step whose id is none.
        {
            plan.steps[2].id = "second".into();
            plan.steps[3].depends_on = vec!["second".into()];
        } => ["[2].id"];
    } };
    let long = [
        case(
            "a cycle of 1024",
            all(|n| (n + 1) % STEPS_MAX),
            [reference(STEPS_MAX - 1, 0)],
        ),
        case(
            "the other way",
            all(|n| (n + STEPS_MAX - 1) % STEPS_MAX),
            [reference(1, 0)],
        ),
        case(
            "512 cycles",
            all(|n| n ^ 1),
            (0..STEPS_MAX / 2).map(|pair| reference(2 * pair + 1, 0)),
        ),
        case(
            "1024 that refer to nothing",
            all(|_| 0xdead_0000),
            (0..1000).map(|n| reference(n, 0)),
        ),
    ];
    of_shapes(true).chain(texts).chain(long).collect()
}

pub(super) fn accepted() -> Vec<Case> {
    let after_all = |n: usize| {
        if n == 0 {
            (1..STEPS_MAX).collect()
        } else {
            Vec::new()
        }
    };
    let chain = |n: usize| step_after(n, &n.checked_sub(1).into_iter().collect::<Vec<_>>());
    let odd = rows! { plan in plan_of, "plan.steps" {
        plan.steps[3].depends_on = vec![step_id(0), step_id(0)] => [];
        plan.steps[3].depends_on = vec![step_id(0), step_id(0).to_uppercase()] => [];
        plan.steps[0].id = plan.steps[0].id.to_uppercase() => [];
        plan.steps = (0..STEPS_MAX).map(chain).collect() => [];
        plan.steps = (0..STEPS_MAX).rev().map(chain).collect() => [];
        plan.steps = (0..STEPS_MAX).map(|n| step_after(n, &[0][..n.min(1)])).collect() => [];
        plan.steps = (0..STEPS_MAX).map(|n| step_after(n, &after_all(n))).collect() => [];
    } };
    of_shapes(false).chain(odd).collect()
}

//
#[test]
fn the_message_of_a_cycle_names_its_steps_and_that_of_a_long_one_is_shortened() {
    let message = |change: &dyn Fn(&mut RequestDraft)| {
        let mut draft = request();
        change(&mut draft);
        let violations = validate_request(draft, CONCURRENCY_LIMIT).unwrap_err();
        violations.first().message.clone()
    };
    let short = message(&|draft| plan_of(draft).steps = steps("1;2;0;"));
    for n in 0..3 {
        assert!(short.contains(&step_id(n)), "step {n} is not named in {short:?}");
    }
    let long = message(&|draft| all(|n| (n + 1) % STEPS_MAX)(draft));
    assert!(
        long.contains(&step_id(0)) && long.chars().count() <= 2_000,
        "{long:?}"
    );
}
