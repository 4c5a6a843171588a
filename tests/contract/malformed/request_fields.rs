//! The fields of a request beside its plan.

use super::{Case, case, invalid};
use crate::documents::{CONCURRENCY_LIMIT, broken_object, nested_object, object_of, object_with_broken_text};
use escapement_model::limits::{
    CORRELATION_ENTRIES_MAX, CORRELATION_VALUE_CHARS_MAX, ENVIRONMENT_BYTES_MAX, LABEL_CHARS_MAX,
    OBJECT_NESTING_MAX,
};

pub(super) fn cases() -> Vec<Case> {
    // R-1.18 R-1.19
    let mut cases = vec![
        case(
            "user id one too long",
            |draft| draft.user_id = Some("u".repeat(LABEL_CHARS_MAX + 1)),
            [invalid("user_id")],
        ),
        case(
            "user id one wide letter too long",
            |draft| draft.user_id = Some("\u{1f600}".repeat(LABEL_CHARS_MAX + 1)),
            [invalid("user_id")],
        ),
        case(
            "request id one too long",
            |draft| draft.request_id = Some("r".repeat(LABEL_CHARS_MAX + 1)),
            [invalid("request_id")],
        ),
        case(
            "environment broken",
            |draft| draft.environment = Some(broken_object()),
            [invalid("environment")],
        ),
        case(
            "environment not UTF-8",
            |draft| draft.environment = Some(object_with_broken_text()),
            [invalid("environment")],
        ),
        case(
            "environment one message too deep",
            |draft| draft.environment = Some(nested_object(OBJECT_NESTING_MAX + 1)),
            [invalid("environment")],
        ),
        case(
            "environment one byte too large",
            |draft| draft.environment = Some(object_of(ENVIRONMENT_BYTES_MAX + 1)),
            [invalid("environment")],
        ),
        case(
            "one correlation entry too many",
            |draft| {
                draft.correlation_context = (0..=CORRELATION_ENTRIES_MAX)
                    .map(|n| (format!("key-{n}"), String::new()))
                    .collect();
            },
            [invalid("correlation_context")],
        ),
    ];
    for concurrency in [
        0,
        -1,
        i32::MIN,
        i32::try_from(CONCURRENCY_LIMIT).unwrap() + 1,
        i32::MAX,
    ] {
        cases.push(case(
            format!("{concurrency} concurrent steps"),
            |draft| draft.max_concurrent_steps = Some(concurrency),
            [invalid("options.max_concurrent_steps")],
        ));
    }
    let correlation = |key: String, value: String| [(key, value)].into();
    let long_key = "k".repeat(LABEL_CHARS_MAX + 1);
    // A path shows 64 code points of a key.
    let path = format!("correlation_context[\"{}\"]", &long_key[..64]);
    cases.extend([
        case(
            "correlation key one too long",
            |draft| draft.correlation_context = correlation(long_key, String::new()),
            [invalid(path)],
        ),
        case(
            "correlation key empty",
            |draft| draft.correlation_context = correlation(String::new(), String::new()),
            [invalid("correlation_context[\"\"]")],
        ),
        case(
            "correlation value one too long",
            |draft| {
                draft.correlation_context =
                    correlation("k".into(), "v".repeat(CORRELATION_VALUE_CHARS_MAX + 1))
            },
            [invalid("correlation_context[\"k\"]")],
        ),
    ]);
    cases
}
