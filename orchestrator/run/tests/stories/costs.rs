//! Tests the cost of templates: one turn pays for all that they read, and what it cannot pay for fails.

use escapement_model::Opaque;
use escapement_model::opaque::StructBuilder;
use escapement_run::presets::Preset;
use serde_json::{Value, json};

use crate::world::{World, call, spec};

/// Returns an object of as many keys as an input may have, and one of them.
fn many_keys() -> StructBuilder {
    let keys = (0..60_000).fold(StructBuilder::new(), |keys, n| {
        keys.boolean(&format!("{n:05}"), true)
    });
    keys.text("k", "")
}

fn run_of(steps: Value, input: Opaque) -> World {
    let mut spec = spec(Preset::Standard);
    spec.input = input;
    World::with(steps, spec)
}

/// Returns a question with as many references as fit into it.
fn question_of(reference: &str) -> Value {
    let n_each = 990 / reference.len();
    let options: Vec<String> = (0..100)
        .map(|n| format!("{n}{}", reference.repeat(n_each)))
        .collect();
    let config = json!({"question": "Which?", "input_type": "choice", "options": options});
    json!({"key": "q", "type": "user_input", "config": config})
}

// RUN-1.9
#[test]
fn the_keys_of_a_source_are_put_in_order_once_for_a_turn() {
    let world = run_of(json!([question_of("${input:/k}")]), many_keys().build());
    assert_eq!(world.shows(), "waiting: q running");
    let expected: Vec<String> = (0..100).map(|n: u32| n.to_string()).collect();
    assert_eq!(world.asked().options, expected);
}

// RUN-1.9
#[test]
fn references_that_walk_further_than_a_turn_pays_for_fail_their_step() {
    let deep = StructBuilder::new().object("o", many_keys().build().as_encoded());
    let world = run_of(json!([question_of("${input:/o/k}")]), deep.build());
    assert_eq!(world.shows(), "failed: q failed INPUT_TOO_LARGE");
    let (_, message) = world.error();
    assert!(message.contains("more work than is allowed"), "{message}");
}

// RUN-1.9
#[test]
fn what_is_written_as_text_is_paid_for_although_little_of_it_comes_out() {
    let repeated = (0..60_000).fold(StructBuilder::new(), |keys, _| keys.boolean("k", true));
    let world = run_of(json!([question_of("${input}")]), repeated.build());
    assert_eq!(world.shows(), "failed: q failed INPUT_TOO_LARGE");
    let (_, message) = world.error();
    assert!(message.contains("more work than is allowed"), "{message}");
}

// RUN-1.9
#[test]
fn the_next_turn_has_a_budget_of_its_own() {
    let deep = StructBuilder::new().object("o", many_keys().build().as_encoded());
    let uses = |key: &str| {
        let args: Vec<&str> = vec!["${input:/o/k}"; 60];
        json!({"key": key, "type": "tool_call", "config": {"tool_name": "pure.work", "tool_args": {"x": args}}})
    };
    let mut world = run_of(json!([uses("a"), uses("b"), call("c")]), deep.build());
    world.complete("a", json!({}));
    world.complete("b", json!({}));
    assert_eq!(world.shows(), "running: a completed, b completed, c running");
}
