//! The fields of a step: missing, empty, too long, out of range.

use super::{Case, invalid, plan_case, step_case};
use crate::documents::{broken_object, nested_lists, nested_object, object_of, object_with_broken_text};
use bytes::Bytes;
use escapement_contract::StepDraft;
use escapement_model::Opaque;
use escapement_model::limits::{ACTION_CHARS_MAX, OBJECT_NESTING_MAX, PAYLOAD_BYTES_MAX};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![
        step_case(
            "a step without anything",
            |step| *step = StepDraft::default(),
            ["id", "action", "payload"].map(|field| invalid(format!("plan.steps[3].{field}"))),
        ),
        step_case(
            "action empty",
            |step| step.action.clear(),
            [invalid("plan.steps[3].action")],
        ),
        step_case(
            "action one too long",
            |step| step.action = "a".repeat(ACTION_CHARS_MAX + 1),
            [invalid("plan.steps[3].action")],
        ),
        step_case(
            "action one wide letter too long",
            |step| step.action = "\u{1f600}".repeat(ACTION_CHARS_MAX + 1),
            [invalid("plan.steps[3].action")],
        ),
        step_case(
            "no payload",
            |step| step.payload = None,
            [invalid("plan.steps[3].payload")],
        ),
        step_case(
            "payload one byte too large",
            |step| step.payload = Some(object_of(PAYLOAD_BYTES_MAX + 1)),
            [invalid("plan.steps[3].payload")],
        ),
        step_case(
            "payload one message too deep",
            |step| step.payload = Some(nested_object(OBJECT_NESTING_MAX + 1)),
            [invalid("plan.steps[3].payload")],
        ),
        step_case(
            "payload two messages too deep in lists",
            |step| step.payload = Some(nested_lists(OBJECT_NESTING_MAX + 2)),
            [invalid("plan.steps[3].payload")],
        ),
        step_case(
            "payload far too deep",
            |step| step.payload = Some(nested_object(20 * OBJECT_NESTING_MAX)),
            [invalid("plan.steps[3].payload")],
        ),
        plan_case(
            "every step without a payload",
            |plan| plan.steps.iter_mut().for_each(|step| step.payload = None),
            (0..4).map(|index| invalid(format!("plan.steps[{index}].payload"))),
        ),
        plan_case(
            "every step without an action",
            |plan| plan.steps.iter_mut().for_each(|step| step.action.clear()),
            (0..4).map(|index| invalid(format!("plan.steps[{index}].action"))),
        ),
    ];
    for (wrong, payload) in malformed_objects() {
        cases.push(step_case(
            format!("payload {wrong}"),
            |step| step.payload = Some(payload),
            [invalid("plan.steps[3].payload")],
        ));
    }
    for on_failure in [3, 4, -1, i32::MIN, i32::MAX] {
        //
        cases.push(step_case(
            format!("on_failure {on_failure}"),
            |step| step.on_failure = on_failure,
            [invalid("plan.steps[3].on_failure")],
        ));
    }
    for timeout in [0, -1, i64::MIN] {
        cases.push(step_case(
            format!("step timeout {timeout}"),
            |step| step.timeout_ms = Some(timeout),
            [invalid("plan.steps[3].timeout_ms")],
        ));
    }
    cases
}

/// What is wrong, and the bytes. None of them is an encoded `google.protobuf.Struct`.
fn malformed_objects() -> Vec<(&'static str, Opaque)> {
    let bytes = |bytes: &'static [u8]| Opaque::from_encoded(Bytes::from_static(bytes));
    vec![
        ("broken", broken_object()),
        ("not UTF-8", object_with_broken_text()),
        ("that ends in a length", bytes(&[0x0a])),
        ("that ends in a number of many bytes", bytes(&[0x0a, 0x80])),
        ("with an entry that is a number", bytes(&[0x08, 0x01])),
        ("with field number 0", bytes(&[0x02, 0x00])),
        ("with an open group", bytes(&[0x0b])),
        ("with wire type 6", bytes(&[0x0e])),
        ("with wire type 7", bytes(&[0x0f])),
        (
            "with a varint of eleven bytes",
            bytes(&[
                0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
            ]),
        ),
        ("with a key that is a number", bytes(&[0x0a, 0x02, 0x08, 0x01])),
        ("with a value that is a number", bytes(&[0x0a, 0x02, 0x10, 0x01])),
        (
            "with a text value that is not UTF-8",
            bytes(&[0x0a, 0x07, 0x0a, 0x00, 0x12, 0x03, 0x1a, 0x01, 0xff]),
        ),
        (
            "with a number of four bytes",
            bytes(&[0x0a, 0x09, 0x0a, 0x00, 0x12, 0x05, 0x11, 0, 0, 0, 0]),
        ),
        (
            "with a list that is broken",
            bytes(&[0x0a, 0x07, 0x0a, 0x00, 0x12, 0x03, 0x32, 0x01, 0x0a]),
        ),
        (
            "with an inner object that is broken",
            bytes(&[0x0a, 0x07, 0x0a, 0x00, 0x12, 0x03, 0x2a, 0x01, 0x0a]),
        ),
    ]
}
