//! Requests from anybody: refused with reasons, or accepted and kept as they were. Agrees with the second validator.

use crate::second_validator::{findings, steps_on_cycles};
use crate::seeds;
use crate::source::Source;
use escapement_codec::request::{request_draft, submit_of_execute};
use escapement_codec::stored::{decode_accepted, encode_accepted};
use escapement_contract::{Plan, Request, RequestDraft, validate_plan, validate_request};
use escapement_model::codes::{DEPENDENCY_UNRESOLVED, INVALID_PAYLOAD};
use escapement_model::{ExecutionId, Opaque};
use escapement_wire::v1;
use prost::Message;
use std::collections::BTreeSet;

/// The server's limit on concurrent steps.
const CONCURRENCY_MAX: u32 = 256;

/// After an even byte the rest is an encoded request, after an odd one it tells how to make one.
pub(crate) fn run(input: &[u8]) {
    let mut source = Source::new(input);
    let encoded = if source.byte().is_multiple_of(2) {
        source.rest().to_vec()
    } else {
        request(&mut source).encode_to_vec()
    };
    // Whatever a request is made of, it comes over the wire.
    let Ok(request) = v1::SubmitPlanRequest::decode(encoded.as_slice()) else {
        return;
    };
    let draft = request_draft(request.clone());
    let expected = is_compared(&draft, input).then(|| findings(&draft, CONCURRENCY_MAX));
    let plan = expected.as_ref().and_then(|_| draft.plan.clone());
    match validate_request(draft, CONCURRENCY_MAX) {
        Ok(accepted) => {
            if let Some(expected) = &expected {
                assert!(expected.is_empty(), "accepted, although {expected:?}");
            }
            check_order(accepted.plan());
            check_record(&accepted);
            check_same_through_execute(&accepted, &request);
        }
        Err(violations) => {
            let mut found = BTreeSet::new();
            for violation in &violations {
                assert!(is_path(&violation.field), "{violation:?} says where");
                assert!(!violation.message.is_empty(), "{violation:?} says what");
                assert!(
                    [INVALID_PAYLOAD, DEPENDENCY_UNRESOLVED].contains(&violation.code),
                    "{violation:?}"
                );
                found.insert((violation.field.clone(), violation.code));
            }
            assert!(!found.is_empty(), "a refusal has a reason");
            if let Some(expected) = expected {
                assert_eq!(found, expected, "both validators find the same in {request:?}");
                // without the references that are reported no step is on a cycle.
                let plan = plan.unwrap_or_default();
                let reported = found.iter().filter_map(|(field, _)| step_and_item(field));
                assert!(
                    steps_on_cycles(&plan, &reported.collect()).is_empty(),
                    "{request:?}"
                );
            }
            if let Some(plan) = request.plan {
                let of_plan = violations.iter().any(|finding| finding.field.starts_with("plan"));
                assert_eq!(
                    validate_plan(escapement_codec::request::plan_draft(plan)).is_err(),
                    of_plan,
                    "a plan is judged by itself as in its request"
                );
            }
        }
    }
}

/// The second validator is as slow as it is plain: it reads every small plan, and some of the larger ones.
/// It names more than the first thousand, so it reads no huge one.
fn is_compared(draft: &RequestDraft, input: &[u8]) -> bool {
    let size = draft.plan.as_ref().map_or(0, |plan| {
        let n_references: usize = plan.steps.iter().map(|step| step.depends_on.len()).sum();
        plan.steps.len() + n_references + (plan.context_requirements.len() + plan.tags.len()) / 4
    });
    let is_drawn = input
        .iter()
        .fold(0u8, |sum, byte| sum.wrapping_add(*byte))
        .is_multiple_of(8);
    size <= 12 || (size <= 100 && is_drawn)
}

/// Returns the reference that a path names.
fn step_and_item(field: &str) -> Option<(usize, usize)> {
    let (step, item) = field.strip_prefix("plan.steps[")?.split_once("].depends_on[")?;
    Some((step.parse().ok()?, item.strip_suffix(']')?.parse().ok()?))
}

fn is_path(field: &str) -> bool {
    let name = field.split(['.', '[']).next().unwrap_or_default();
    !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_')
}

/// Each step stands behind what it depends on, and none could have come earlier than a later one of the list.
fn check_order(plan: &Plan) {
    let mut placed = vec![false; plan.steps().len()];
    for step in plan.canonical_order() {
        let is_ready = |index: usize| {
            let depends_on = plan.steps()[index].depends_on();
            !placed[index] && depends_on.iter().all(|other| placed[other.as_usize()])
        };
        let first = (0..placed.len()).find(|index| is_ready(*index));
        assert_eq!(first, Some(step.as_usize()), "the first ready step comes next");
        placed[step.as_usize()] = true;
    }
    assert!(placed.iter().all(|placed| *placed), "each step has its place");
}

/// The record brings the same request back.
fn check_record(request: &Request) {
    let execution_id = request
        .execution_id()
        .unwrap_or_else(|| ExecutionId::from_random([5; 16]));
    let record = encode_accepted(request, execution_id);
    let again = decode_accepted(&record).expect("what was accepted stays valid");
    assert_eq!(
        again.digest(),
        request.digest(),
        "the record is of the same request"
    );
    assert_eq!(again.execution_id(), Some(execution_id));
    assert_eq!(again.plan().canonical_order(), request.plan().canonical_order());
    assert_eq!(
        encode_accepted(&again, execution_id),
        record,
        "the same record again"
    );
    assert_eq!(
        again.environment(),
        request.environment(),
        "the environment is carried"
    );
}

/// `ExecutePlan` takes the same bytes for the same request.
fn check_same_through_execute(accepted: &Request, request: &v1::SubmitPlanRequest) {
    let encoded = request.encode_to_vec();
    let execute = v1::ExecutePlanRequest::decode(encoded.as_slice()).expect("both have the same fields");
    let draft = request_draft(submit_of_execute(execute));
    let again = validate_request(draft, CONCURRENCY_MAX).expect("the same request is valid again");
    assert_eq!(again.digest(), accepted.digest());
}

/// Returns a request that is valid as long as no byte says otherwise.
fn request(source: &mut Source<'_>) -> v1::SubmitPlanRequest {
    let n_steps = source.below(12);
    let mut plan = v1::Plan {
        id: id(source, 1),
        version: if source.once_in(32) { source.number32() } else { 1 },
        created_at: if source.once_in(32) {
            source.number()
        } else {
            seeds::UNIX_MS
        },
        steps: (0..n_steps).map(|n| step(source, n, n_steps)).collect(),
        name: label(source, "plan"),
        context_requirements: vec!["region".to_owned()],
        priority: source.once_in(4).then(|| source.number32()),
        timeout_ms: source.once_in(4).then(|| source.number()),
        retry_policy: source.once_in(3).then(|| retry_policy(source)),
        metadata: source.once_in(8).then(|| object(source)),
        tags: Vec::new(),
        estimated_duration_ms: source.once_in(8).then(|| source.number()),
    };
    if source.once_in(8) {
        plan.context_requirements = (0..source.below(4)).map(|_| label(source, "key")).collect();
    }
    plan.tags = (0..source.below(3)).map(|_| label(source, "tag")).collect();
    v1::SubmitPlanRequest {
        plan: (!source.once_in(64)).then_some(plan),
        environment: source.once_in(2).then(|| object(source)),
        execution_id: source.once_in(2).then(|| id(source, 3)),
        deadline_ms: source.once_in(4).then(|| source.number()),
        parent_execution_id: source.once_in(8).then(|| id(source, 3)),
        user_id: source.once_in(8).then(|| label(source, "user")),
        request_id: source.once_in(8).then(|| label(source, "request")),
        correlation_context: (0..source.below(3))
            .map(|_| (label(source, "key"), source.text()))
            .collect(),
        options: source.once_in(2).then(|| v1::ExecutionOptions {
            max_concurrent_steps: source.once_in(2).then(|| source.number32()),
        }),
        namespace: String::new(),
    }
}

fn step(source: &mut Source<'_>, n: usize, n_steps: usize) -> v1::PlanStep {
    let own = u8::try_from(n).expect("steps are few");
    let mut depends_on = Vec::new();
    for _ in 0..source.below(4) {
        // Mostly earlier ones, sometimes any, so that some plans have cycles.
        let target = match source.byte() {
            byte @ 0..=191 if n > 0 => usize::from(byte) % n,
            byte => usize::from(byte) % n_steps,
        };
        let target = u8::try_from(target).expect("steps are few");
        let text = seeds::id(2, target);
        depends_on.push(if source.once_in(16) {
            text.to_uppercase()
        } else {
            text
        });
    }
    if source.once_in(32) {
        depends_on.push(source.text());
    }
    v1::PlanStep {
        id: if source.once_in(32) {
            id(source, 2)
        } else {
            seeds::id(2, own)
        },
        action: label(source, "work"),
        payload: (!source.once_in(32)).then(|| object(source)),
        depends_on,
        on_failure: if source.once_in(32) {
            source.number32()
        } else {
            i32::from(source.byte() % 3)
        },
        timeout_ms: source.once_in(4).then(|| source.number()),
    }
}

fn retry_policy(source: &mut Source<'_>) -> v1::RetryPolicy {
    v1::RetryPolicy {
        max_attempts: source.once_in(2).then(|| source.number32()),
        backoff_ms: source.once_in(2).then(|| source.number()),
        backoff_multiplier: source.once_in(2).then(|| match source.byte() {
            byte @ 0..=99 => 1.0 + f64::from(byte) / 8.0,
            100..=149 => 1.0,
            _ => f64::from_bits(source.long()),
        }),
        max_backoff_ms: source.once_in(2).then(|| source.number()),
        retryable_error_codes: (0..source.below(4)).map(|_| label(source, "*")).collect(),
    }
}

fn id(source: &mut Source<'_>, kind: u8) -> String {
    match source.byte() {
        n @ 0..=239 => seeds::id(kind, n % 16),
        n @ 240..=243 => seeds::id(kind, n % 16).to_uppercase(),
        244..=247 => String::new(),
        _ => source.text(),
    }
}

/// Returns the usual text, or any other, or one that is as long as may be or longer.
fn label(source: &mut Source<'_>, usual: &str) -> String {
    match source.byte() {
        0..=219 => usual.to_owned(),
        220..=229 => "ü".repeat(49 + source.below(3)),
        230..=235 => "x".repeat(99 + source.below(3)),
        236..=240 => "é".repeat(254 + source.below(3)),
        241 => String::new(),
        _ => source.text(),
    }
}

fn object(source: &mut Source<'_>) -> Opaque {
    match source.byte() {
        0..=99 => Opaque::default(),
        100..=219 => seeds::environment(),
        _ => Opaque::from_encoded(bytes::Bytes::copy_from_slice(source.chunk())),
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let encoded = seeds::requests().into_iter();
    let mut all: Vec<Vec<u8>> = encoded
        .map(|request| [vec![0], request.encode_to_vec()].concat())
        .collect();
    // Made ones: a few steps, then more and more of what may be left out.
    for fill in [0, 1, 2, 5, 8, 9, 17, 33, 65, 129, 200, 221, 231, 237, 245, 250] {
        for n_steps in [1, 3, 11] {
            all.push([vec![1, n_steps], vec![fill; 160]].concat());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_are_accepted_and_refused() {
        let mut n_accepted = 0;
        let all = seeds();
        for seed in &all {
            let mut source = Source::new(seed);
            let request = if source.byte() == 0 {
                v1::SubmitPlanRequest::decode(source.rest()).expect("the seed is encoded")
            } else {
                request(&mut source)
            };
            n_accepted += usize::from(validate_request(request_draft(request), CONCURRENCY_MAX).is_ok());
        }
        assert!(
            n_accepted > 5 && n_accepted < all.len() - 5,
            "{n_accepted} of {}",
            all.len()
        );
    }
}
