//! What planners and models are told, to the letter: files that a reader can judge, and that a change has to renew.

use escapement_run::journal::OutcomeClass;
use escapement_run::presets::Preset;
use escapement_run::session::{Health, SkillHealth};
use escapement_run::spec::Constraints;
use escapement_run::{Input, SessionNews};
use serde_json::{Value, json};

use crate::planning::{of_goal, offer, planned, plans, told_planner};
use crate::world::{World, call, call_after, spec, tool};

/// Fails if the prompt is not that of `golden/<name>.json`; writes the file if `ESCAPEMENT_WRITE` is set.
pub(crate) fn is_golden(name: &str, prompt: &Value) {
    let path = format!("{}/tests/stories/golden/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = serde_json::to_string_pretty(prompt).unwrap() + "\n";
    if std::env::var_os("ESCAPEMENT_WRITE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert_eq!(
        text, golden,
        "ESCAPEMENT_WRITE=1 cargo test -p escapement-run --test stories renews {path}"
    );
}

/// The question without the schema of documents, which is a file of its own.
fn without_schema(mut question: Value) -> Value {
    let schema = question
        .as_object_mut()
        .unwrap()
        .remove("document_schema")
        .unwrap();
    let file: Value = serde_json::from_str(include_str!("../../src/planner/schema.json")).unwrap();
    assert_eq!(schema, file);
    question
}

/// A goal whose first plan failed, with a session that knows a degraded skill and one that is out.
fn second_generation(action: &str) -> World {
    let mut spec = planned(Preset::Standard);
    if let Some(planner) = &mut spec.planner {
        planner.action = action.to_owned();
        planner.model = "small".to_owned();
        planner.instructions = "Prefer few steps.".to_owned();
    }
    spec.constraints = Constraints {
        forbidden_actions: vec!["rm.all".to_owned()],
        ..Constraints::default()
    };
    let mut world = of_goal(spec);
    plans(&mut world, json!([call("a"), tool("b", "pure.other", &["a"])]));
    world.complete("a", json!({"kg": 3}));
    world.fail("b", OutcomeClass::FailedForGood);
    let skills = [
        ("pure.slow", Health::Degraded),
        ("pure.gone", Health::PermanentFailure),
    ];
    let skills = skills.map(|(skill, health)| SkillHealth {
        skill: skill.to_owned(),
        health: health.into(),
        failures: 0,
    });
    let mut skills = skills.to_vec();
    skills.sort_by(|one, other| one.skill.cmp(&other.skill));
    world.input(Input::Session(SessionNews {
        state: None,
        health: Some((7, skills)),
    }));
    offer(&mut world, &["pure.gone", "pure.other", "pure.slow", "pure.work"]);
    world
}

// RUN-11.4, RUN-14.6
#[test]
fn a_planner_is_told_this() {
    let world = second_generation("plan.make");
    is_golden("planner", &without_schema(told_planner(&world)));
}

// RUN-11.4
#[test]
fn a_model_that_plans_is_told_this() {
    let world = second_generation("llm.chat");
    let mut told = told_planner(&world);
    let content = told["messages"][1]["content"].as_str().unwrap().to_owned();
    told["messages"][1]["content"] = without_schema(serde_json::from_str(&content).unwrap());
    is_golden("planner_chat", &told);
}

// RUN-4.11, RUN-13.6
#[test]
fn a_model_that_decides_is_asked_this() {
    let decides = json!({"key": "d", "type": "llm_decision", "name": "Judge", "description": "Look at all of it.",
        "depends_on": ["a", "b"],
        "config": {"prompt": "Is ${a:/kg} kg too much?", "choices": ["yes", "no"], "context": "all"}});
    let document = json!({"schema": "escapement.plan/1", "name": "Weigh", "goal": "weigh it",
        "steps": [call("a"), call_after("b", &["a"]), decides]});
    let mut world = World::document(document, spec(Preset::Standard));
    world
        .complete("a", json!({"kg": 3}))
        .complete("b", json!({"note": "x".repeat(40_000)}));
    let mut told = world.payload("d");
    let content = told["messages"][1]["content"].as_str().unwrap();
    let shown = content.split(|c| c != 'x').map(str::len).max().unwrap();
    assert!(
        (30_000..=32_768).contains(&shown),
        "{shown}: a result has at most 32 KiB, with a mark where it is cut"
    );
    told["messages"][1]["content"] = json!(content.replace(&"x".repeat(shown), "x…x"));
    is_golden("decision", &told);
}
