//! Planners and models that are right, wrong, slow to the point, repetitive, hostile, and that lie about what they used.
//! Decides nothing about a run.

use crate::dice::Dice;
use crate::plans;
use escapement_model::Opaque;
use escapement_model::opaque::{ValueView, value_of};
use serde_json::{Value, json};

/// What a planner answers.
pub(crate) fn plan(dice: &mut Dice) -> Value {
    let good = |dice: &mut Dice| plans::json_document(dice, true);
    match dice.roll(23) {
        0..9 => json!({"plan": good(dice)}),
        9 | 10 => json!({"content": format!("Here it is:\n{}\nDone.", good(dice))}),
        11 => json!({"content": format!("{} {}", good(dice), good(dice))}),
        12 => json!({"content": "{\"steps\": [{\"steps\": [{".repeat(500)}),
        13 => json!({"content": "x".repeat(40_000)}),
        // It says the same again and again.
        14 | 20..=22 => {
            json!({"plan": {"schema": "escapement.plan/1", "name": "Again", "steps": [call("s0", "mail.safe", &[])]}})
        }
        15 => {
            json!({"plan": {"schema": "escapement.plan/1", "name": "Ghost", "steps": [call("s0", "ghost.act", &[])]}})
        }
        // Each waits for the other.
        16 => {
            let steps = [call("s0", "pure.safe", &["s1"]), call("s1", "pure.safe", &["s0"])];
            json!({"plan": {"schema": "escapement.plan/1", "name": "Circle", "steps": steps}})
        }
        17 => json!({"plan": ["no", "object"], "content": "{}"}),
        18 => json!({"plan": plans::json_document(dice, false)}),
        _ => json!({}),
    }
}

fn call(key: &str, action: &str, before: &[&str]) -> Value {
    let config = json!({"tool_name": action, "tool_args": {}});
    json!({"key": key, "type": "tool_call", "depends_on": before, "config": config})
}

/// What a model answers to a conversation.
pub(crate) fn answer(conversation: &Opaque, dice: &mut Dice) -> Value {
    let mut answer = json!({"content": dice.pick(&["yes", "no", " YES ", "maybe"])});
    let offers = matches!(
        value_of(conversation.as_encoded(), "tools"),
        Some(ValueView::List(_))
    );
    if offers && dice.percent(65) {
        let n_calls = *dice.pick(&[1, 1, 2, 3, 20]);
        let calls: Vec<Value> = (0..n_calls).map(|_| tool_call(dice)).collect();
        answer["tool_calls"] = json!(calls);
        answer["content"] = json!("");
    }
    if dice.percent(60) {
        let tokens = *dice.pick(&[0_u64, 3, 40, 400, 1_000_000_000_000_000]);
        answer["usage"] = match dice.roll(3) {
            0 => json!({"total_tokens": tokens}),
            1 => json!({"prompt_tokens": 10, "completion_tokens": tokens}),
            _ => json!({"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": tokens}),
        };
    }
    answer
}

/// Tools that there are, that there are not, and that the step does not offer; arguments that are some, and that are none.
fn tool_call(dice: &mut Dice) -> Value {
    let name = *dice.pick(&[
        "pure.safe",
        "mail.safe",
        "mail.destructive",
        "ext.destructive",
        "ghost.act",
        "",
    ]);
    let arguments = match dice.roll(6) {
        0 => json!("{\"n\": 1}"),
        1 => json!("{\"n\": "),
        2 => json!([1, 2]),
        3 => json!(null),
        _ => json!({"n": dice.roll(9), "who": "${input:/name}"}),
    };
    json!({"id": "call-1", "name": name, "arguments": arguments})
}

/// What a safety check says: yes, no, and what is neither.
pub(crate) fn verdict(dice: &mut Dice) -> Value {
    match dice.roll(4) {
        0 => json!({"safe": false}),
        1 => json!({"safe": "true"}),
        _ => json!({"safe": true}),
    }
}
