//! Random requests, mostly valid with random damage: both validators say the same.

use crate::cases::check_cases;
use crate::documents::{CONCURRENCY_LIMIT, broken_object, nested_object, request, step, step_id};
use crate::reference::validate::{Findings, findings, normal_id, steps_on_cycles};
use escapement_contract::{PlanDraft, RequestDraft, RetryPolicyDraft, validate_request};
use escapement_model::codes::DEPENDENCY_UNRESOLVED;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Where damage is done, and how; both are reduced to what the draft has.
type Damage = (u8, u16, u16);

/// References of each step by list index, and the damage.
fn drafts() -> impl Strategy<Value = RequestDraft> {
    let references = vec(vec(0usize..10, 0..4), 1..10);
    let damages = vec(any::<Damage>(), 0..4);
    (references, any::<bool>(), damages).prop_map(|(references, keep_acyclic, damages)| {
        let mut draft = request();
        let plan = draft.plan.as_mut().unwrap();
        let n_steps = references.len();
        plan.steps = (0..n_steps).map(step).collect();
        for (n, targets) in references.into_iter().enumerate() {
            let targets = targets.into_iter().filter(|target| {
                if keep_acyclic {
                    *target < n
                } else {
                    *target < n_steps
                }
            });
            plan.steps[n].depends_on = targets.map(step_id).collect();
        }
        for damage in damages {
            damage_draft(&mut draft, damage);
        }
        draft
    })
}

fn damage_draft(draft: &mut RequestDraft, (kind, place, form): Damage) {
    let form = usize::from(form);
    match kind % 8 {
        0 => draft.execution_id = Some(odd_id(form)),
        1 => draft.parent_execution_id = Some(odd_id(form)),
        2 => match form % 5 {
            0 => draft.user_id = Some(odd_text(form, 255)),
            1 => draft.request_id = Some(odd_text(form, 255)),
            2 => draft.environment = Some(odd_object(form)),
            3 => draft.max_concurrent_steps = Some([0, -1, 1, 256, 257][form / 5 % 5]),
            _ => draft.plan = if form % 4 == 0 { None } else { draft.plan.take() },
        },
        3 => draft.correlation_context = [(odd_text(form, 255), odd_text(form / 4, 4096))].into(),
        _ => {
            if let Some(plan) = draft.plan.as_mut() {
                match kind % 3 {
                    0 => damage_plan(plan, form),
                    _ => damage_step(plan, usize::from(place), form),
                }
            }
        }
    }
}

fn damage_plan(plan: &mut PlanDraft, form: usize) {
    let policy = plan.retry_policy.get_or_insert_with(RetryPolicyDraft::default);
    let number = [0, -1, 1, i64::MIN, i64::MAX][form / 16 % 5];
    match form % 16 {
        0 => plan.id = odd_id(form / 16),
        1 => plan.version = [0, 2, -1, 1][form / 16 % 4],
        2 => plan.created_at = number,
        3 => plan.name = odd_text(form / 16, 255),
        4 => plan.context_requirements = vec!["region".into(), odd_text(form / 16, 255)],
        5 => plan.context_requirements.clear(),
        6 => plan.tags = vec![odd_text(form / 16, 255); [1, 64, 65][form / 64 % 3]],
        7 => plan.timeout_ms = Some(number),
        8 => plan.estimated_duration_ms = Some(number),
        9 => plan.metadata = Some(odd_object(form / 16)),
        10 => policy.max_attempts = Some([0, -1, 1, i32::MAX][form / 16 % 4]),
        11 => policy.backoff_ms = Some(number),
        12 => policy.max_backoff_ms = Some(number),
        13 => {
            policy.backoff_multiplier =
                Some([f64::NAN, f64::INFINITY, 1.0, 0.5, -2.0, f64::MAX][form / 16 % 6])
        }
        14 => policy.retryable_error_codes = vec!["*".into(), odd_text(form / 16, 50)],
        _ => plan.steps.clear(),
    }
}

fn damage_step(plan: &mut PlanDraft, place: usize, form: usize) {
    let n_steps = plan.steps.len();
    if n_steps == 0 {
        return;
    }
    let other = plan.steps[form / 8 % n_steps].id.clone();
    let step = &mut plan.steps[place % n_steps];
    match form % 8 {
        0 => step.id = odd_id(form / 8),
        1 => step.action = odd_text(form / 8, 100),
        2 => {
            step.payload = if (form / 8).is_multiple_of(3) {
                None
            } else {
                Some(odd_object(form / 8))
            }
        }
        3 => step.on_failure = [3, -1, 0, 1, 2][form / 8 % 5],
        4 => step.timeout_ms = Some([0, -1, 1, i64::MIN, i64::MAX][form / 8 % 5]),
        5 => step.depends_on.push(odd_id(form / 8)),
        6 => step.depends_on.insert(0, other.to_uppercase()),
        _ => step.depends_on = vec![step.id.clone(), other.clone(), other],
    }
}

fn odd_id(form: usize) -> String {
    match form % 7 {
        0 => String::new(),
        1 => "x".into(),
        2 => "3f2504e0-4f89-11d3-9a0c-0305e82c3301".into(),
        3 => "3f2504e0-4f89-41d3-ca0c-0305e82c3301".into(),
        4 => "{3f2504e0-4f89-41d3-9a0c-0305e82c3301}".into(),
        5 => "3F2504E0-4F89-41D3-9A0C-0305E82C3301".into(),
        _ => format!("3f2504e0-4f89-41d3-9a0c-0305e8{form:06x}"),
    }
}

fn odd_text(form: usize, max: usize) -> String {
    let letter = ["t", "\u{e9}", "\u{1f600}"][form / 4 % 3];
    letter.repeat([0, 1, max, max + 1][form % 4])
}

fn odd_object(form: usize) -> escapement_model::Opaque {
    match form % 4 {
        0 => broken_object(),
        1 => nested_object(64),
        2 => nested_object(65),
        _ => nested_object(3),
    }
}

/// References that say again what stands before them in the list, and those that name a step by a text that
/// is no id.
/// What is found about these is a matter of the table in `malformed`.
fn set_aside(draft: &RequestDraft) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for (n, step) in draft.plan.iter().flat_map(|plan| &plan.steps).enumerate() {
        for (item, text) in step.depends_on.iter().enumerate() {
            let is_repeated = step.depends_on[..item]
                .iter()
                .any(|earlier| earlier.eq_ignore_ascii_case(text));
            let names_no_id = normal_id(text).is_none();
            if is_repeated || names_no_id {
                paths.insert(format!("plan.steps[{n}].depends_on[{item}]"));
            }
        }
    }
    paths
}

/// True where two steps have one id, or a text that is no id names a step: what a reference means is open.
fn references_are_ambiguous(draft: &RequestDraft) -> bool {
    let Some(plan) = &draft.plan else { return false };
    let ids: Vec<String> = plan.steps.iter().filter_map(|step| normal_id(&step.id)).collect();
    let is_repeated = ids.iter().collect::<BTreeSet<_>>().len() < ids.len();
    let names_no_id =
        |text: &String| normal_id(text).is_none() && plan.steps.iter().any(|step| step.id == *text);
    is_repeated
        || plan
            .steps
            .iter()
            .any(|step| step.depends_on.iter().any(names_no_id))
}

fn found_by_the_contract(draft: RequestDraft) -> Findings {
    match validate_request(draft, CONCURRENCY_LIMIT) {
        Ok(_) => Findings::new(),
        Err(violations) => violations
            .iter()
            .map(|finding| (finding.field.clone(), finding.code))
            .collect(),
    }
}

#[test]
fn both_validators_find_the_same_in_random_requests() {
    //
    check_cases(
        "validation_agreement::both_validators_find_the_same_in_random_requests",
        3_000,
        &drafts(),
        |draft| {
            let mut expected = findings(&draft, CONCURRENCY_LIMIT);
            let ambiguous = references_are_ambiguous(&draft);
            let set_aside = set_aside(&draft);
            let mut got = found_by_the_contract(draft);
            if ambiguous {
                expected.retain(|(_, code)| *code != DEPENDENCY_UNRESOLVED);
                got.retain(|(_, code)| *code != DEPENDENCY_UNRESOLVED);
            }
            expected.retain(|(path, _)| !set_aside.contains(path));
            got.retain(|(path, _)| !set_aside.contains(path));
            prop_assert_eq!(got, expected);
            Ok(())
        },
    );
}

#[test]
fn without_the_references_that_are_reported_no_step_is_on_a_cycle() {
    //
    check_cases(
        "validation_agreement::without_the_references_that_are_reported_no_step_is_on_a_cycle",
        1_000,
        &vec(vec(0usize..10, 0..4), 1..10),
        |references| {
            let mut draft = request();
            let plan = draft.plan.as_mut().unwrap();
            plan.steps = (0..references.len()).map(step).collect();
            for (n, targets) in references.iter().enumerate() {
                plan.steps[n].depends_on = targets
                    .iter()
                    .filter(|t| **t < references.len())
                    .map(|t| step_id(*t))
                    .collect();
            }
            let plan = plan.clone();
            let reported: BTreeSet<(usize, usize)> = found_by_the_contract(draft)
                .iter()
                .map(|(field, _)| step_and_item(field))
                .collect();
            let on_cycles = steps_on_cycles(&plan, &BTreeSet::new());
            prop_assert_eq!(reported.is_empty(), on_cycles.is_empty());
            for (step, _) in &reported {
                prop_assert!(on_cycles.contains(step), "steps[{}] is on no cycle", step);
            }
            prop_assert_eq!(steps_on_cycles(&plan, &reported), BTreeSet::new());
            Ok(())
        },
    );
}

fn step_and_item(field: &str) -> (usize, usize) {
    let mut numbers = field.split(['[', ']']).filter_map(|part| part.parse().ok());
    (numbers.next().unwrap(), numbers.next().unwrap())
}
