//! The fields of a plan and of its retry policy: missing, empty, too long, out of range.

use super::{Case, case, invalid, plan_case, policy_case};
use crate::documents::{broken_object, nested_object, object_of, object_with_broken_text, step};
use escapement_contract::PlanDraft;
use escapement_model::limits::{
    CONTEXT_REQUIREMENTS_MAX, ERROR_CODE_CHARS_MAX, LABEL_CHARS_MAX, NAME_CHARS_MAX, OBJECT_NESTING_MAX,
    PLAN_BYTES_MAX, RETRYABLE_CODES_MAX, STEPS_MAX, TAGS_MAX,
};

pub(super) fn cases() -> Vec<Case> {
    [texts_and_lists(), numbers(), objects(), retry_policy()]
        .into_iter()
        .flatten()
        .collect()
}

fn texts_and_lists() -> Vec<Case> {
    // R-1.8 R-1.9 R-1.10
    let four_bytes = |n: usize| "\u{1f600}".repeat(n);
    vec![
        case("no plan", |draft| draft.plan = None, [invalid("plan")]),
        case(
            "a plan without anything",
            |draft| draft.plan = Some(PlanDraft::default()),
            [
                "id",
                "version",
                "created_at",
                "steps",
                "name",
                "context_requirements",
            ]
            .map(|field| invalid(format!("plan.{field}"))),
        ),
        plan_case("name empty", |plan| plan.name.clear(), [invalid("plan.name")]),
        plan_case(
            "name one too long",
            |plan| plan.name = "n".repeat(NAME_CHARS_MAX + 1),
            [invalid("plan.name")],
        ),
        plan_case(
            "name one wide letter too long",
            |plan| plan.name = four_bytes(NAME_CHARS_MAX + 1),
            [invalid("plan.name")],
        ),
        plan_case(
            "name far too long",
            |plan| plan.name = "n".repeat(100_000),
            [invalid("plan.name")],
        ),
        plan_case("no steps", |plan| plan.steps.clear(), [invalid("plan.steps")]),
        plan_case(
            "1025 steps",
            |plan| plan.steps = (0..=STEPS_MAX).map(step).collect(),
            [invalid("plan.steps")],
        ),
        plan_case(
            "no context requirements",
            |plan| plan.context_requirements.clear(),
            [invalid("plan.context_requirements")],
        ),
        plan_case(
            "a context requirement empty",
            |plan| plan.context_requirements = vec!["region".into(), String::new()],
            [invalid("plan.context_requirements[1]")],
        ),
        plan_case(
            "all context requirements empty",
            |plan| plan.context_requirements = vec![String::new(); 3],
            (0..3).map(|index| invalid(format!("plan.context_requirements[{index}]"))),
        ),
        plan_case(
            "a context requirement one too long",
            |plan| plan.context_requirements = vec!["r".repeat(LABEL_CHARS_MAX + 1)],
            [invalid("plan.context_requirements[0]")],
        ),
        plan_case(
            "one context requirement too many",
            |plan| plan.context_requirements = vec!["region".into(); CONTEXT_REQUIREMENTS_MAX + 1],
            [invalid("plan.context_requirements")],
        ),
        plan_case(
            "a tag empty",
            |plan| plan.tags = vec!["a".into(), String::new()],
            [invalid("plan.tags[1]")],
        ),
        plan_case(
            "a tag one too long",
            |plan| plan.tags = vec!["t".repeat(LABEL_CHARS_MAX + 1)],
            [invalid("plan.tags[0]")],
        ),
        plan_case(
            "a tag one wide letter too long",
            |plan| plan.tags = vec![four_bytes(LABEL_CHARS_MAX + 1)],
            [invalid("plan.tags[0]")],
        ),
        plan_case(
            "one tag too many",
            |plan| plan.tags = vec!["t".into(); TAGS_MAX + 1],
            [invalid("plan.tags")],
        ),
    ]
}

fn numbers() -> Vec<Case> {
    let mut cases = Vec::new();
    for version in [0, -1, 2, 3, i32::MIN, i32::MAX] {
        // R-1.6
        cases.push(plan_case(
            format!("version {version}"),
            |plan| plan.version = version,
            [invalid("plan.version")],
        ));
    }
    // R-1.7 R-1.14
    for at in [0, -1, i64::MIN] {
        cases.push(plan_case(
            format!("created at {at}"),
            |plan| plan.created_at = at,
            [invalid("plan.created_at")],
        ));
        cases.push(plan_case(
            format!("plan timeout {at}"),
            |plan| plan.timeout_ms = Some(at),
            [invalid("plan.timeout_ms")],
        ));
    }
    for duration in [-1, i64::MIN] {
        cases.push(plan_case(
            format!("estimated duration {duration}"),
            |plan| plan.estimated_duration_ms = Some(duration),
            [invalid("plan.estimated_duration_ms")],
        ));
    }
    cases
}

fn objects() -> Vec<Case> {
    // R-1.11 R-1.20
    vec![
        plan_case(
            "metadata broken",
            |plan| plan.metadata = Some(broken_object()),
            [invalid("plan.metadata")],
        ),
        plan_case(
            "metadata not UTF-8",
            |plan| plan.metadata = Some(object_with_broken_text()),
            [invalid("plan.metadata")],
        ),
        plan_case(
            "metadata one message too deep",
            |plan| plan.metadata = Some(nested_object(OBJECT_NESTING_MAX + 1)),
            [invalid("plan.metadata")],
        ),
        plan_case(
            "plan too large",
            |plan| plan.metadata = Some(object_of(PLAN_BYTES_MAX)),
            [invalid("plan")],
        ),
        plan_case(
            "plan too large by its steps",
            |plan| {
                plan.steps = (0..5).map(step).collect();
                for step in &mut plan.steps {
                    step.payload = Some(object_of(1 << 20));
                }
            },
            [invalid("plan")],
        ),
    ]
}

fn retry_policy() -> Vec<Case> {
    // R-1.14
    let mut cases = Vec::new();
    for attempts in [0, -1, i32::MIN] {
        cases.push(policy_case(
            format!("{attempts} attempts"),
            |policy| policy.max_attempts = Some(attempts),
            [invalid("plan.retry_policy.max_attempts")],
        ));
    }
    for backoff in [-1, i64::MIN] {
        cases.push(policy_case(
            format!("backoff {backoff}"),
            |policy| policy.backoff_ms = Some(backoff),
            [invalid("plan.retry_policy.backoff_ms")],
        ));
        cases.push(policy_case(
            format!("longest backoff {backoff}"),
            |policy| policy.max_backoff_ms = Some(backoff),
            [invalid("plan.retry_policy.max_backoff_ms")],
        ));
    }
    let multipliers = [
        0.0,
        -1.0,
        0.999_999,
        f64::NAN,
        -f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MIN_POSITIVE,
        -0.0,
    ];
    for multiplier in multipliers {
        cases.push(policy_case(
            format!("multiplier {multiplier:?} of bits {:x}", multiplier.to_bits()),
            |policy| policy.backoff_multiplier = Some(multiplier),
            [invalid("plan.retry_policy.backoff_multiplier")],
        ));
    }
    let first_code = [invalid("plan.retry_policy.retryable_error_codes[0]")];
    cases.extend([
        policy_case(
            "a retryable code empty",
            |policy| policy.retryable_error_codes = vec![String::new()],
            first_code.clone(),
        ),
        policy_case(
            "a retryable code one too long",
            |policy| policy.retryable_error_codes = vec!["C".repeat(ERROR_CODE_CHARS_MAX + 1)],
            first_code,
        ),
        policy_case(
            "one retryable code too many",
            |policy| policy.retryable_error_codes = vec!["BUSY".into(); RETRYABLE_CODES_MAX + 1],
            [invalid("plan.retry_policy.retryable_error_codes")],
        ),
        policy_case(
            "everything in the retry policy wrong",
            |policy| {
                policy.max_attempts = Some(0);
                policy.backoff_ms = Some(-1);
                policy.backoff_multiplier = Some(f64::NAN);
                policy.max_backoff_ms = Some(-1);
                policy.retryable_error_codes = vec!["BUSY".into(), String::new()];
            },
            [
                "max_attempts",
                "backoff_ms",
                "backoff_multiplier",
                "max_backoff_ms",
                "retryable_error_codes[1]",
            ]
            .map(|field| invalid(format!("plan.retry_policy.{field}"))),
        ),
    ]);
    cases
}
