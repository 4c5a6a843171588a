//! What is missing, empty, too long, out of range, or not what it says it is; alone and together.

use super::{Case, case, itself, plan_of, policy_of, rows, step_of, steps};
use crate::documents::{
    CONCURRENCY_LIMIT, broken_object, nested_lists, nested_object, object_of, object_with_broken_text, step,
};
use bytes::Bytes;
use escapement_contract::{PlanDraft, RequestDraft, StepDraft};
use escapement_model::Opaque;
use escapement_model::limits::{
    ACTION_CHARS_MAX, CONTEXT_REQUIREMENTS_MAX, CORRELATION_ENTRIES_MAX, CORRELATION_VALUE_CHARS_MAX,
    ENVIRONMENT_BYTES_MAX, ERROR_CODE_CHARS_MAX, LABEL_CHARS_MAX, NAME_CHARS_MAX, OBJECT_NESTING_MAX,
    PAYLOAD_BYTES_MAX, PLAN_BYTES_MAX, RETRYABLE_CODES_MAX, STEPS_MAX, TAGS_MAX,
};

/// A letter of four bytes: lengths count code points.
const WIDE: &str = "\u{1f600}";
const NESTING: usize = OBJECT_NESTING_MAX + 1;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = ids();
    cases.extend(plans());
    cases.extend(policies());
    cases.extend(single_steps());
    cases.extend(requests());
    cases.extend(repeated_ids());
    cases.extend(combined());
    cases
}

/// What is no canonical UUID v4.
const NOT_UUID_V4: [&str; 30] = [
    "",
    " ",
    "first-step",
    "{3f2504e0-4f89-41d3-9a0c-0305e82c3301}",
    "urn:uuid:3f2504e0-4f89-41d3-9a0c-0305e82c3301",
    "3f2504e04f8941d39a0c0305e82c3301",
    "00000000-0000-0000-0000-000000000000",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
    // Other versions.
    "3f2504e0-4f89-01d3-9a0c-0305e82c3301",
    "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
    "3f2504e0-4f89-31d3-9a0c-0305e82c3301",
    "3f2504e0-4f89-51d3-9a0c-0305e82c3301",
    "3f2504e0-4f89-61d3-9a0c-0305e82c3301",
    "018f3c1e-4f89-71d3-9a0c-0305e82c3301",
    "3f2504e0-4f89-81d3-9a0c-0305e82c3301",
    // Other variants.
    "3f2504e0-4f89-41d3-0a0c-0305e82c3301",
    "3f2504e0-4f89-41d3-7a0c-0305e82c3301",
    "3f2504e0-4f89-41d3-ca0c-0305e82c3301",
    "3f2504e0-4f89-41d3-fa0c-0305e82c3301",
    // Other texts.
    " 3f2504e0-4f89-41d3-9a0c-0305e82c3301",
    "3f2504e0-4f89-41d3-9a0c-0305e82c3301 ",
    "3f2504e0-4f89-41d3-9a0c-0305e82c3301\n",
    "3f2504e0-4f89-41d3-9a0c-0305e82c330",
    "3f2504e0-4f89-41d3-9a0c-0305e82c33011",
    "3f2504e0-4f89-41d3-9a0c-0305e82c330g",
    "3f2504e-04f89-41d3-9a0c-0305e82c3301",
    "3f2504e0_4f89_41d3_9a0c_0305e82c3301",
    "3f2504e0-4f89-41d3-9a0c-0305e82c330\0",
    "3f2504e0-4f89-41d3-9a0c-0305e82c33\u{0661}",
    "\u{ff13}f2504e0-4f89-41d3-9a0c-0305e82c3301",
];

/// Gives a part of the request this id.
type SetId = fn(&mut RequestDraft, String);

fn ids() -> Vec<Case> {
    let fields: [(&str, SetId); 4] = [
        ("plan.id", |draft, id| plan_of(draft).id = id),
        ("plan.steps[3].id", |draft, id| step_of(draft).id = id),
        ("execution_id", |draft, id| draft.execution_id = Some(id)),
        ("parent_execution_id", |draft, id| {
            draft.parent_execution_id = Some(id)
        }),
    ];
    let of_text = |text: &'static str| {
        fields.map(|(field, set)| {
            let name = format!("{field} {text:?}");
            case(name, |draft| set(draft, text.into()), [field.to_owned()])
        })
    };
    NOT_UUID_V4.into_iter().flat_map(of_text).collect()
}

fn plans() -> impl IntoIterator<Item = Case> {
    rows! { plan in plan_of, "plan." {
        *plan = PlanDraft::default() => ["id", "version", "created_at", "steps", "name", "context_requirements"];
        plan.version = 0 => ["version"];
        plan.version = -1 => ["version"];
        plan.version = 2 => ["version"];
        plan.version = 3 => ["version"];
        plan.version = i32::MIN => ["version"];
        plan.version = i32::MAX => ["version"];
        plan.created_at = 0 => ["created_at"];
        plan.created_at = -1 => ["created_at"];
        plan.created_at = i64::MIN => ["created_at"];
        plan.name.clear() => ["name"];
        plan.name = "n".repeat(NAME_CHARS_MAX + 1) => ["name"];
        plan.name = WIDE.repeat(NAME_CHARS_MAX + 1) => ["name"];
        plan.name = "n".repeat(100_000) => ["name"];
        plan.steps.clear() => ["steps"];
        plan.steps = steps(STEPS_MAX + 1, |_| {}) => ["steps"];
        plan.context_requirements.clear() => ["context_requirements"];
        plan.context_requirements = vec!["region".into(), String::new()] => ["context_requirements[1]"];
        plan.context_requirements = vec![String::new(); 2] => ["context_requirements[0]", "context_requirements[1]"];
        plan.context_requirements = vec!["r".repeat(LABEL_CHARS_MAX + 1)] => ["context_requirements[0]"];
        plan.context_requirements = vec!["r".into(); CONTEXT_REQUIREMENTS_MAX + 1] => ["context_requirements"];
        plan.timeout_ms = Some(0) => ["timeout_ms"];
        plan.timeout_ms = Some(-1) => ["timeout_ms"];
        plan.timeout_ms = Some(i64::MIN) => ["timeout_ms"];
        plan.estimated_duration_ms = Some(-1) => ["estimated_duration_ms"];
        plan.estimated_duration_ms = Some(i64::MIN) => ["estimated_duration_ms"];
        plan.tags = vec!["a".into(), String::new()] => ["tags[1]"];
        plan.tags = vec!["t".repeat(LABEL_CHARS_MAX + 1)] => ["tags[0]"];
        plan.tags = vec![WIDE.repeat(LABEL_CHARS_MAX + 1)] => ["tags[0]"];
        plan.tags = vec!["t".into(); TAGS_MAX + 1] => ["tags"];
        plan.metadata = Some(broken_object()) => ["metadata"];
        plan.metadata = Some(object_with_broken_text()) => ["metadata"];
        plan.metadata = Some(nested_object(NESTING)) => ["metadata"];
        plan.steps.iter_mut().for_each(|step| step.payload = None) =>
            ["steps[0].payload", "steps[1].payload", "steps[2].payload", "steps[3].payload"];
        plan.steps.iter_mut().for_each(|step| step.action.clear()) =>
            ["steps[0].action", "steps[1].action", "steps[2].action", "steps[3].action"];
    } }
}

fn policies() -> impl IntoIterator<Item = Case> {
    rows! { policy in policy_of, "plan.retry_policy." {
        policy.max_attempts = Some(0) => ["max_attempts"];
        policy.max_attempts = Some(-1) => ["max_attempts"];
        policy.max_attempts = Some(i32::MIN) => ["max_attempts"];
        policy.backoff_ms = Some(-1) => ["backoff_ms"];
        policy.backoff_ms = Some(i64::MIN) => ["backoff_ms"];
        policy.max_backoff_ms = Some(-1) => ["max_backoff_ms"];
        policy.max_backoff_ms = Some(i64::MIN) => ["max_backoff_ms"];
        policy.backoff_multiplier = Some(0.0) => ["backoff_multiplier"];
        policy.backoff_multiplier = Some(-0.0) => ["backoff_multiplier"];
        policy.backoff_multiplier = Some(-1.0) => ["backoff_multiplier"];
        policy.backoff_multiplier = Some(0.999_999) => ["backoff_multiplier"];
        policy.backoff_multiplier = Some(f64::MIN_POSITIVE) => ["backoff_multiplier"];
        policy.backoff_multiplier = Some(f64::NAN) => ["backoff_multiplier"];
        policy.backoff_multiplier = Some(-f64::NAN) => ["backoff_multiplier"];
        policy.backoff_multiplier = Some(f64::INFINITY) => ["backoff_multiplier"];
        policy.backoff_multiplier = Some(f64::NEG_INFINITY) => ["backoff_multiplier"];
        policy.retryable_error_codes = vec![String::new()] => ["retryable_error_codes[0]"];
        policy.retryable_error_codes = vec!["C".repeat(ERROR_CODE_CHARS_MAX + 1)] => ["retryable_error_codes[0]"];
        policy.retryable_error_codes = vec!["BUSY".into(); RETRYABLE_CODES_MAX + 1] => ["retryable_error_codes"];
        {
            policy.max_attempts = Some(0);
            policy.backoff_ms = Some(-1);
            policy.backoff_multiplier = Some(f64::NAN);
            policy.max_backoff_ms = Some(-1);
            policy.retryable_error_codes = vec!["BUSY".into(), String::new()];
        } => ["max_attempts", "backoff_ms", "backoff_multiplier", "max_backoff_ms", "retryable_error_codes[1]"];
    } }
}

/// What is no encoded `google.protobuf.Struct`.
fn bytes(bytes: &'static [u8]) -> Option<Opaque> {
    Some(Opaque::from_encoded(Bytes::from_static(bytes)))
}

fn single_steps() -> impl IntoIterator<Item = Case> {
    rows! { step in step_of, "plan.steps[3]." {
        *step = StepDraft::default() => ["id", "action", "payload"];
        step.action.clear() => ["action"];
        step.action = "a".repeat(ACTION_CHARS_MAX + 1) => ["action"];
        step.action = WIDE.repeat(ACTION_CHARS_MAX + 1) => ["action"];
        step.on_failure = 3 => ["on_failure"];
        step.on_failure = -1 => ["on_failure"];
        step.on_failure = i32::MIN => ["on_failure"];
        step.on_failure = i32::MAX => ["on_failure"];
        step.timeout_ms = Some(0) => ["timeout_ms"];
        step.timeout_ms = Some(-1) => ["timeout_ms"];
        step.timeout_ms = Some(i64::MIN) => ["timeout_ms"];
        step.payload = None => ["payload"];
        step.payload = Some(object_of(PAYLOAD_BYTES_MAX + 1)) => ["payload"];
        step.payload = Some(nested_object(NESTING)) => ["payload"];
        step.payload = Some(nested_lists(NESTING + 1)) => ["payload"];
        step.payload = Some(nested_object(20 * NESTING - 20)) => ["payload"];
        step.payload = Some(broken_object()) => ["payload"];
        step.payload = Some(object_with_broken_text()) => ["payload"];
        // It ends in a length, and in a number of many bytes.
        step.payload = bytes(&[0x0a]) => ["payload"];
        step.payload = bytes(&[0x0a, 0x80]) => ["payload"];
        // An entry that is a number, field number 0, an open group, wire types that there are not.
        step.payload = bytes(&[0x08, 0x01]) => ["payload"];
        step.payload = bytes(&[0x02, 0x00]) => ["payload"];
        step.payload = bytes(&[0x0b]) => ["payload"];
        step.payload = bytes(&[0x0e]) => ["payload"];
        step.payload = bytes(&[0x0f]) => ["payload"];
        // A varint of eleven bytes.
        step.payload = bytes(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01") => ["payload"];
        // A key and a value that are numbers, a text that is not UTF-8, a number of four bytes.
        step.payload = bytes(&[0x0a, 0x02, 0x08, 0x01]) => ["payload"];
        step.payload = bytes(&[0x0a, 0x02, 0x10, 0x01]) => ["payload"];
        step.payload = bytes(&[0x0a, 0x07, 0x0a, 0x00, 0x12, 0x03, 0x1a, 0x01, 0xff]) => ["payload"];
        step.payload = bytes(&[0x0a, 0x09, 0x0a, 0x00, 0x12, 0x05, 0x11, 0, 0, 0, 0]) => ["payload"];
        // A list and an inner object that are broken.
        step.payload = bytes(&[0x0a, 0x07, 0x0a, 0x00, 0x12, 0x03, 0x32, 0x01, 0x0a]) => ["payload"];
        step.payload = bytes(&[0x0a, 0x07, 0x0a, 0x00, 0x12, 0x03, 0x2a, 0x01, 0x0a]) => ["payload"];
    } }
}

fn requests() -> impl IntoIterator<Item = Case> {
    let concurrency_above = i32::try_from(CONCURRENCY_LIMIT).unwrap() + 1;
    let long_key = "k".repeat(LABEL_CHARS_MAX + 1);
    // A path shows 64 code points of a key.
    let path_of_it = format!("correlation_context[\"{}\"]", &long_key[..64]);
    let entries = (0..=CORRELATION_ENTRIES_MAX).map(|n| (format!("key-{n}"), String::new()));
    rows! { draft in itself, "" {
        draft.plan = None => ["plan"];
        plan_of(draft).metadata = Some(object_of(PLAN_BYTES_MAX)) => ["plan"];
        plan_of(draft).steps = steps(5, |step| step.payload = Some(object_of(1 << 20))) => ["plan"];
        draft.user_id = Some("u".repeat(LABEL_CHARS_MAX + 1)) => ["user_id"];
        draft.user_id = Some(WIDE.repeat(LABEL_CHARS_MAX + 1)) => ["user_id"];
        draft.request_id = Some("r".repeat(LABEL_CHARS_MAX + 1)) => ["request_id"];
        draft.environment = Some(broken_object()) => ["environment"];
        draft.environment = Some(object_with_broken_text()) => ["environment"];
        draft.environment = Some(nested_object(NESTING)) => ["environment"];
        draft.environment = Some(object_of(ENVIRONMENT_BYTES_MAX + 1)) => ["environment"];
        draft.max_concurrent_steps = Some(0) => ["options.max_concurrent_steps"];
        draft.max_concurrent_steps = Some(-1) => ["options.max_concurrent_steps"];
        draft.max_concurrent_steps = Some(i32::MIN) => ["options.max_concurrent_steps"];
        draft.max_concurrent_steps = Some(concurrency_above) => ["options.max_concurrent_steps"];
        draft.max_concurrent_steps = Some(i32::MAX) => ["options.max_concurrent_steps"];
        draft.correlation_context = entries.collect() => ["correlation_context"];
        draft.correlation_context = [(long_key, String::new())].into() => [path_of_it];
        draft.correlation_context = [(String::new(), String::new())].into() => ["correlation_context[\"\"]"];
        draft.correlation_context = [("k".into(), "v".repeat(CORRELATION_VALUE_CHARS_MAX + 1))].into() =>
            ["correlation_context[\"k\"]"];
    } }
}

/// The later step is the repetition.
fn repeated_ids() -> impl IntoIterator<Item = Case> {
    rows! { plan in plan_of, "plan." {
        plan.steps[3].id = plan.steps[2].id.clone() => ["steps[3].id"];
        plan.steps[3].id = plan.steps[2].id.to_uppercase() => ["steps[3].id"];
        {
            plan.steps[2].id = plan.steps[2].id.to_uppercase();
            plan.steps[3].id = plan.steps[2].id.replace("AAAA", "aaaa");
        } => ["steps[3].id"];
        {
            plan.steps[2].id = plan.steps[1].id.clone();
            plan.steps[3].id = plan.steps[1].id.clone();
        } => ["steps[2].id", "steps[3].id"];
        {
            plan.steps[2] = step(0);
            plan.steps[3] = StepDraft { id: plan.steps[1].id.clone(), ..step(3) };
            plan.steps[1].depends_on.clear();
        } => ["steps[2].id", "steps[3].id"];
        {
            plan.steps[2].id.clear();
            plan.steps[3].id.clear();
        } => ["steps[2].id", "steps[3].id"];
    } }
}

/// Several things wrong at once.
fn combined() -> Vec<Case> {
    let all_over = rows! { draft in itself, "" {
        {
            draft.plan = None;
            draft.execution_id = Some("x".into());
            draft.parent_execution_id = Some(String::new());
        } => ["plan", "execution_id", "parent_execution_id"];
        all_wrong(draft) => [
            "plan.id", "plan.version", "plan.created_at", "plan.steps[0].id", "plan.name", "plan.context_requirements[0]",
            "plan.timeout_ms", "plan.retry_policy.max_attempts", "plan.metadata", "plan.tags[0]",
            "plan.estimated_duration_ms", "environment", "execution_id", "parent_execution_id", "user_id", "request_id",
            "options.max_concurrent_steps",
            // These steps refer to the first, whose id is none now.
            "plan.steps[1].depends_on[0]", "plan.steps[2].depends_on[0]"
        ];
    } };
    let in_plans = rows! { plan in plan_of, "plan." {
        {
            plan.steps[0].action.clear();
            plan.steps[1].timeout_ms = Some(0);
            plan.steps[2].on_failure = 9;
            plan.steps[3].payload = None;
        } => ["steps[0].action", "steps[1].timeout_ms", "steps[2].on_failure", "steps[3].payload"];
        plan.steps[3] = StepDraft {
            id: "x".into(),
            action: "a".repeat(101),
            payload: Some(broken_object()),
            depends_on: vec!["y".into(), step(0).id, step(77).id],
            on_failure: -1,
            timeout_ms: Some(-5),
        } => [
            "steps[3].id", "steps[3].action", "steps[3].payload", "steps[3].depends_on[0]", "steps[3].depends_on[2]",
            "steps[3].on_failure", "steps[3].timeout_ms"
        ];
        {
            plan.steps[0].depends_on = vec![plan.steps[1].id.clone()];
            plan.steps[0].action.clear();
            plan.steps[1].payload = None;
            plan.version = 2;
            plan.name.clear();
        } => ["version", "name", "steps[0].action", "steps[1].payload", "steps[1].depends_on[0]"];
        {
            plan.metadata = Some(nested_object(NESTING));
            plan.steps[1..].iter_mut().for_each(|step| step.payload = Some(nested_object(NESTING)));
        } => ["metadata", "steps[1].payload", "steps[2].payload", "steps[3].payload"];
    } };
    let without_action = |count| {
        let change =
            move |draft: &mut RequestDraft| plan_of(draft).steps = steps(count, |step| step.action.clear());
        let named = (0..count.min(1_000)).map(|n| format!("plan.steps[{n}].action"));
        case(format!("{count} steps without an action"), change, named)
    };
    let two_in_each = case(
        "two things wrong in each of 400 steps",
        |draft| {
            plan_of(draft).steps = steps(400, |step| {
                step.action.clear();
                step.payload = None;
            });
        },
        (0..400).flat_map(|n| ["action", "payload"].map(|field| format!("plan.steps[{n}].{field}"))),
    );
    let mut cases = vec![without_action(1_000), without_action(STEPS_MAX), two_in_each];
    cases.extend(all_over);
    cases.extend(in_plans);
    cases
}

fn all_wrong(draft: &mut RequestDraft) {
    let plan = plan_of(draft);
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
