//! Outputs that are not what their worker says that outputs are.

use escapement_run::Input;
use escapement_run::journal::Event;
use escapement_run::presets::Preset;
use escapement_run::spec::{ActionProfile, Risk};
use serde_json::json;

use crate::world::{World, spec, tool};

fn world(output_schema: &str) -> World {
    let document =
        json!({"schema": "escapement.plan/1", "name": "Story", "steps": [tool("a", "count", &[])]});
    let profile = ActionProfile {
        action: "count".to_owned(),
        risk: Risk::Safe.into(),
        seen: true,
        output_schema: output_schema.to_owned(),
        ..ActionProfile::default()
    };
    let mut world = World::knowing(document, spec(Preset::Standard), &[profile]);
    world.input(Input::Admit);
    world
}

fn fits(world: &World) -> Option<bool> {
    let mut outputs = world.journal.iter().rev().filter_map(|entry| match &entry.event {
        Some(Event::ToolOutput(output)) => Some(output.clone()),
        _ => None,
    });
    let last = outputs.next().unwrap();
    assert!(last.output.is_some(), "what came back is kept");
    last.fits_schema
}

const SCHEMA: &str = r#"{"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}"#;

// RUN-12.13
#[test]
fn an_output_is_held_against_the_schema_of_its_action() {
    let mut right = world(SCHEMA);
    right.complete("a", json!({"n": 3, "more": true}));
    assert_eq!(
        (right.run.shown().as_str(), fits(&right)),
        ("completed", Some(true))
    );
    let mut wrong = world(SCHEMA);
    wrong.complete("a", json!({"n": "three"}));
    assert_eq!(wrong.error().0, "OUTPUT_INVALID");
    assert_eq!(fits(&wrong), Some(false));
    for none in ["", "{", "true"] {
        let mut world = world(none);
        world.complete("a", json!({"n": "three"}));
        assert_eq!(world.run.shown().as_str(), "completed", "{none}");
        assert_eq!(fits(&world), (none == "true").then_some(true));
    }
}

// RUN-1.9
#[test]
fn an_output_that_costs_too_much_to_be_held_against_its_schema_does_not_fit_it() {
    let properties: Vec<String> = (0..1_000).map(|n| format!("\"p{n}\": {{}}")).collect();
    let schema = format!("{{\"properties\": {{{}}}}}", properties.join(", "));
    let output = |n_keys: usize| {
        let keys = (0..n_keys).map(|n| (format!("k{n}"), json!(null)));
        json!(keys.collect::<serde_json::Map<_, _>>())
    };
    let mut large = world(&schema);
    large.complete("a", output(5_000));
    assert_eq!(large.run.shown().as_str(), "completed");
    let mut too_large = world(&schema);
    too_large.complete("a", output(40_000));
    let (code, message) = too_large.error();
    assert_eq!(code, "OUTPUT_INVALID");
    assert!(message.contains("more work than is allowed"), "{message}");
    assert_eq!(fits(&too_large), Some(false));
}
