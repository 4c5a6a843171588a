//! Valid requests to start from. Knows no rule: that they are valid is a test of its own.

use bytes::Bytes;
use escapement_contract::{PlanDraft, RequestDraft, RetryPolicyDraft, StepDraft};
use escapement_model::Opaque;
use escapement_model::opaque::{ListBuilder, StructBuilder};

/// When everything happens, in Unix milliseconds.
pub(crate) const UNIX_MS: i64 = 1_766_016_000_000;

/// The server's limit on `max_concurrent_steps` in these tests.
pub(crate) const CONCURRENCY_LIMIT: u32 = 256;

/// The id of the plan in [`request`].
pub(crate) const PLAN_ID: &str = "11111111-1111-4111-8111-111111111111";

/// The id of the execution in [`request`].
pub(crate) const EXECUTION_ID: &str = "22222222-2222-4222-8222-222222222222";

/// Returns a UUID v4 that counts: the same number, the same id.
pub(crate) fn step_id(number: usize) -> String {
    format!("{number:08x}-aaaa-4bbb-8ccc-0123456789ab")
}

/// Returns a step without dependencies that halts the plan.
pub(crate) fn step(number: usize) -> StepDraft {
    StepDraft {
        id: step_id(number),
        action: "work".into(),
        payload: Some(Opaque::default()),
        ..StepDraft::default()
    }
}

/// Returns a step that waits for others.
pub(crate) fn step_after(number: usize, others: &[usize]) -> StepDraft {
    StepDraft {
        depends_on: others.iter().map(|other| step_id(*other)).collect(),
        ..step(number)
    }
}

/// Returns a plan that uses the field of that name for everything it may say.
///
/// Four steps: the second and third wait for the first, nobody waits for the fourth.
pub(crate) fn request() -> RequestDraft {
    let plan = PlanDraft {
        id: PLAN_ID.into(),
        version: 1,
        created_at: UNIX_MS,
        steps: vec![step(0), step_after(1, &[0]), step_after(2, &[0]), step(3)],
        name: "nightly report".into(),
        context_requirements: vec!["region".into()],
        priority: Some(-3),
        timeout_ms: Some(60_000),
        retry_policy: Some(RetryPolicyDraft {
            max_attempts: Some(3),
            backoff_ms: Some(100),
            backoff_multiplier: Some(2.0),
            max_backoff_ms: Some(1_000),
            retryable_error_codes: vec!["BUSY".into()],
        }),
        metadata: Some(StructBuilder::new().text("owner", "research").build()),
        tags: vec!["nightly".into()],
        estimated_duration_ms: Some(5_000),
    };
    RequestDraft {
        plan: Some(plan),
        environment: Some(environment()),
        execution_id: Some(EXECUTION_ID.into()),
        deadline_ms: Some(UNIX_MS + 600_000),
        parent_execution_id: None,
        user_id: Some("desk-7".into()),
        request_id: Some("request-9".into()),
        correlation_context: [("trace".to_owned(), "abc".to_owned())].into(),
        max_concurrent_steps: Some(2),
    }
}

/// Returns an environment with the key that [`request`] requires.
pub(crate) fn environment() -> Opaque {
    StructBuilder::new().text("region", "eu").build()
}

/// Objects inside one another, with exactly `n_messages` protobuf messages inside of the outermost; 1 cannot be had.
pub(crate) fn nested_object(n_messages: usize) -> Opaque {
    let innermost = match n_messages % 3 {
        0 => Opaque::default(),
        1 => StructBuilder::new().list("in", ListBuilder::new().null()).build(),
        _ => StructBuilder::new().null("in").build(),
    };
    let n_around = match n_messages % 3 {
        1 => n_messages / 3 - 1,
        _ => n_messages / 3,
    };
    (0..n_around).fold(innermost, |inner, _| {
        StructBuilder::new().object("in", inner.as_encoded()).build()
    })
}

/// The same with lists inside one another; 0, 1 and odd numbers but 3 cannot be had.
pub(crate) fn nested_lists(n_messages: usize) -> Opaque {
    let list = (4..n_messages)
        .step_by(2)
        .fold(ListBuilder::new().null(), |inner, _| {
            ListBuilder::new().list(inner)
        });
    StructBuilder::new().list("in", list).build()
}

/// Returns the bytes that are no encoded object: the length points behind the end.
pub(crate) fn broken_object() -> Opaque {
    Opaque::from_encoded(Bytes::from_static(&[0x0a, 0x7f, 0x01]))
}

/// Returns an object with a key that is not UTF-8.
pub(crate) fn object_with_broken_text() -> Opaque {
    Opaque::from_encoded(Bytes::from_static(&[
        0x0a, 0x06, 0x0a, 0x02, 0xff, 0xfe, 0x12, 0x00,
    ]))
}

/// Returns an object of exactly `bytes` encoded bytes, with one entry whose key begins with `fill`.
///
/// Where a length prefix grows, some sizes cannot be had with one key; a longer key helps.
pub(crate) fn object_of(bytes: usize) -> Opaque {
    let text_around = |key: &str, length: usize| StructBuilder::new().text(key, &"x".repeat(length)).build();
    for key in ["fill", "fill-", "fill--", "fill---", "fill----"] {
        let guess = bytes - text_around(key, bytes).len().saturating_sub(bytes);
        let found = (guess..guess + 8)
            .map(|length| text_around(key, length))
            .find(|object| object.len() == bytes);
        if let Some(object) = found {
            return object;
        }
    }
    panic!("no object of {bytes} bytes was found");
}
