//! Ids in every form that is not a canonical UUID v4, in every field that takes one.

use super::{Case, Found, case, invalid, plan_case};
use crate::documents::PLAN_ID;

/// What is wrong, and the text.
const NOT_UUID_V4: &[(&str, &str)] = &[
    ("empty", ""),
    ("blank", " "),
    ("a word", "first-step"),
    ("in braces", "{3f2504e0-4f89-41d3-9a0c-0305e82c3301}"),
    ("in urn form", "urn:uuid:3f2504e0-4f89-41d3-9a0c-0305e82c3301"),
    ("bare hex", "3f2504e04f8941d39a0c0305e82c3301"),
    ("nil", "00000000-0000-0000-0000-000000000000"),
    ("max", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
    ("version 1", "3f2504e0-4f89-11d3-9a0c-0305e82c3301"),
    ("version 3", "3f2504e0-4f89-31d3-9a0c-0305e82c3301"),
    ("version 5", "3f2504e0-4f89-51d3-9a0c-0305e82c3301"),
    ("version 6", "3f2504e0-4f89-61d3-9a0c-0305e82c3301"),
    ("version 7", "018f3c1e-4f89-71d3-9a0c-0305e82c3301"),
    ("version 8", "3f2504e0-4f89-81d3-9a0c-0305e82c3301"),
    ("version 0", "3f2504e0-4f89-01d3-9a0c-0305e82c3301"),
    ("variant 7", "3f2504e0-4f89-41d3-7a0c-0305e82c3301"),
    ("variant 0", "3f2504e0-4f89-41d3-0a0c-0305e82c3301"),
    ("variant c", "3f2504e0-4f89-41d3-ca0c-0305e82c3301"),
    ("variant f", "3f2504e0-4f89-41d3-fa0c-0305e82c3301"),
    ("space before", " 3f2504e0-4f89-41d3-9a0c-0305e82c3301"),
    ("space after", "3f2504e0-4f89-41d3-9a0c-0305e82c3301 "),
    ("line end after", "3f2504e0-4f89-41d3-9a0c-0305e82c3301\n"),
    ("a digit short", "3f2504e0-4f89-41d3-9a0c-0305e82c330"),
    ("a digit long", "3f2504e0-4f89-41d3-9a0c-0305e82c33011"),
    (
        "a letter that is no digit",
        "3f2504e0-4f89-41d3-9a0c-0305e82c330g",
    ),
    ("a dash moved", "3f2504e-04f89-41d3-9a0c-0305e82c3301"),
    ("underscores", "3f2504e0_4f89_41d3_9a0c_0305e82c3301"),
    ("a NUL inside", "3f2504e0-4f89-41d3-9a0c-0305e82c330\0"),
    (
        "a digit of two bytes",
        "3f2504e0-4f89-41d3-9a0c-0305e82c33\u{0661}",
    ),
    (
        "digits of full width",
        "\u{ff13}f2504e0-4f89-41d3-9a0c-0305e82c3301",
    ),
];

pub(super) fn cases() -> Vec<Case> {
    //
    let mut cases = Vec::new();
    for (wrong, text) in NOT_UUID_V4 {
        let text = (*text).to_owned();
        let id = text.clone();
        cases.push(plan_case(
            format!("plan id {wrong}"),
            |plan| plan.id = id,
            [invalid("plan.id")],
        ));
        let id = text.clone();
        cases.push(plan_case(
            format!("step id {wrong}"),
            |plan| plan.steps[3].id = id,
            [invalid("plan.steps[3].id")],
        ));
        let id = text.clone();
        cases.push(case(
            format!("execution id {wrong}"),
            |draft| draft.execution_id = Some(id),
            [invalid("execution_id")],
        ));
        cases.push(case(
            format!("parent execution id {wrong}"),
            |draft| draft.parent_execution_id = Some(text),
            [invalid("parent_execution_id")],
        ));
    }
    cases.extend(repeated());
    cases
}

/// Step ids that stand twice. The one that comes later is the repetition.
fn repeated() -> Vec<Case> {
    let later: [Found; 1] = [invalid("plan.steps[3].id")];
    vec![
        plan_case(
            "step id repeated",
            |plan| plan.steps[3].id = plan.steps[2].id.clone(),
            later.clone(),
        ),
        plan_case(
            "step id repeated in upper case",
            |plan| plan.steps[3].id = plan.steps[2].id.to_uppercase(),
            later.clone(),
        ),
        plan_case(
            "step id repeated in mixed case",
            |plan| {
                plan.steps[2].id = plan.steps[2].id.to_uppercase();
                plan.steps[3].id = plan.steps[2].id.replace("AAAA", "aaaa");
            },
            later,
        ),
        plan_case(
            "step id three times",
            |plan| {
                plan.steps[2].id = plan.steps[1].id.clone();
                plan.steps[3].id = plan.steps[1].id.clone();
            },
            [invalid("plan.steps[2].id"), invalid("plan.steps[3].id")],
        ),
        plan_case(
            "two step ids repeated",
            |plan| {
                plan.steps[1].depends_on.clear();
                plan.steps[2].id = plan.steps[0].id.clone();
                plan.steps[2].depends_on.clear();
                plan.steps[3].id = plan.steps[1].id.clone();
            },
            [invalid("plan.steps[2].id"), invalid("plan.steps[3].id")],
        ),
        plan_case(
            "two empty step ids",
            |plan| {
                plan.steps[2].id.clear();
                plan.steps[3].id.clear();
            },
            [invalid("plan.steps[2].id"), invalid("plan.steps[3].id")],
        ),
    ]
}

/// Ids that look odd and are fine.
pub(super) fn accepted() -> Vec<Case> {
    let mut cases = vec![
        case(
            "plan id in upper case",
            |draft| draft.plan.as_mut().unwrap().id = "ABCDEF01-2345-4678-ABCD-EF0123456789".into(),
            [],
        ),
        case(
            "execution id in upper case",
            |draft| draft.execution_id = Some("ABCDEF01-2345-4678-9BCD-EF0123456789".into()),
            [],
        ),
        case(
            "parent id in mixed case",
            |draft| draft.parent_execution_id = Some("abCDEF01-2345-4678-bbcd-EF0123456789".into()),
            [],
        ),
        case("no execution id", |draft| draft.execution_id = None, []),
        // Only step ids are unique in a plan: nothing forbids one text in different roles.
        case(
            "step id equal to the plan id",
            |draft| draft.plan.as_mut().unwrap().steps[3].id = PLAN_ID.into(),
            [],
        ),
        case(
            "parent id equal to the plan id",
            |draft| draft.parent_execution_id = Some(PLAN_ID.into()),
            [],
        ),
    ];
    for variant in ["8", "9", "a", "b", "A", "B"] {
        let id = format!("3f2504e0-4f89-41d3-{variant}a0c-0305e82c3301");
        cases.push(case(
            format!("variant {variant}"),
            |draft| draft.plan.as_mut().unwrap().id = id,
            [],
        ));
    }
    cases
}
