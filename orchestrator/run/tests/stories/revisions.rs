//! Another plan in the place of the one that a person was asked about.

use escapement_run::journal::Decision::{Approve, ApproveWithEdits};
use escapement_run::journal::{Decision, Event};
use escapement_run::presets::Preset;
use escapement_run::spec::{ActionProfile, EffectClass, Risk, Spec};
use escapement_run::{Answer, Input, OverrideWord, RefusedReason, Rollback};
use serde_json::{Value, json};

use crate::world::{World, call, opaque, rollback, spec, tool};

fn suggesting() -> Spec {
    Spec {
        autonomy_level: 1,
        ..spec(Preset::Standard)
    }
}

fn document(steps: &Value) -> Value {
    json!({"schema": "escapement.plan/1", "name": "Edited", "steps": steps})
}

fn answer(world: &World, decision: Decision, document: &Value) -> Answer {
    let value = opaque(document).as_encoded().clone();
    Answer {
        value,
        ..world.answer_of(&world.asked(), "bob", decision, Value::Null)
    }
}

fn edits(world: &World, document: &Value) -> Input {
    let profile = |action: &str| ActionProfile {
        action: action.to_owned(),
        effect: EffectClass::Pure.into(),
        risk: Risk::Safe.into(),
        seen: true,
        ..ActionProfile::default()
    };
    Input::ApproveEdited {
        answer: answer(world, ApproveWithEdits, document),
        profiles: vec![profile("pure.work"), profile("pure.other")],
    }
}

// RUN-6.10
#[test]
fn a_plan_is_approved_with_another_one_in_its_place() {
    let mut world = World::with(json!([call("a"), call("b")]), suggesting());
    let (before, asked) = (world.run.state().revision.clone(), world.asked());
    let other = document(&json!([tool("x", "pure.other", &[]), call("a"), call("y")]));
    world.input(edits(&world, &other));
    assert_eq!(
        world.last_events(),
        ["InputReceived", "PlanCreated", "StepStarted", "ToolCalled"]
    );
    let revision = world.journal.iter().rev().find_map(|entry| match &entry.event {
        Some(Event::PlanCreated(revision)) => Some(revision.clone()),
        _ => None,
    });
    let revision = revision.unwrap();
    assert_eq!(
        (revision.number, revision.cause.as_str(), revision.n_steps),
        (2, "edit", 3)
    );
    assert_eq!(revision.digest, world.run.state().revision);
    assert_ne!(revision.digest, before);
    let actions: Vec<_> = revision.profiles.iter().map(|profile| &profile.action).collect();
    assert_eq!(actions, ["pure.other", "pure.work"]);
    let said = world.run.state().request(&asked.id).answer.clone().unwrap();
    assert_ne!(
        said.subject_digest, asked.subject_digest,
        "what was approved is the other plan"
    );
    assert_eq!(world.shows(), "running: x running, a pending, y pending");
    world
        .complete("x", json!({}))
        .complete("a", json!({}))
        .complete("y", json!({"n": 1}));
    assert_eq!(world.output(), json!({"n": 1}));
}

// RUN-6.10
#[test]
fn the_same_answer_again_changes_nothing_and_another_one_is_refused() {
    let mut world = World::with(json!([call("a")]), suggesting());
    let again = edits(&world, &document(&json!([call("x")])));
    let other = edits(&world, &document(&json!([call("y")])));
    world.input(again.clone());
    world.input(again);
    assert_eq!((world.last, world.run.state().revision_number), (0, 2));
    assert_eq!(world.refusal(other), RefusedReason::AlreadyAnswered);
    world.complete("x", json!({}));
    assert_eq!(world.run.shown().as_str(), "completed");
}

// RUN-6.10
#[test]
fn a_plan_that_breaks_a_rule_leaves_the_request_open() {
    let mut world = World::with(json!([call("a")]), suggesting());
    let refused = world
        .try_input(edits(&world, &document(&json!([call("x"), call("x")]))))
        .unwrap_err();
    assert_eq!(refused.reason, RefusedReason::AnswerInvalid);
    assert!(refused.message.contains("steps[1].key"), "{refused}");
    let bare = Input::Answer(answer(&world, ApproveWithEdits, &document(&json!([call("x")]))));
    assert_eq!(world.refusal(bare), RefusedReason::AnswerInvalid);
    let plain = Input::ApproveEdited {
        answer: answer(&world, Approve, &document(&json!([call("x")]))),
        profiles: Vec::new(),
    };
    assert_eq!(world.refusal(plain), RefusedReason::AnswerInvalid);
    assert_eq!(world.shows(), "waiting: a pending");
    let mut many = suggesting();
    many.policy.quorum = 2;
    let mut world = World::with(json!([call("a")]), many);
    let edited = edits(&world, &document(&json!([call("x")])));
    assert_eq!(world.refusal(edited), RefusedReason::AnswerInvalid);
    let mut asking = spec(Preset::Standard);
    asking.autonomy_level = 0;
    let mut world = World::with(json!([call("a")]), asking);
    let edited = edits(&world, &document(&json!([call("x")])));
    assert_eq!(
        world.refusal(edited),
        RefusedReason::AnswerInvalid,
        "a step is no plan"
    );
    world.input(Input::Cancel {
        reason: "user".to_owned(),
    });
    let late = Input::ApproveEdited {
        answer: world.answer_of(
            &world.run.state().requests[0].clone(),
            "bob",
            Approve,
            Value::Null,
        ),
        profiles: Vec::new(),
    };
    assert_eq!(world.refusal(late), RefusedReason::RunEnded);
}

// RUN-6.10
#[test]
fn a_new_revision_begins_anew_and_older_checkpoints_are_not_restored() {
    let mut world = World::with(json!([call("a"), call("b")]), suggesting());
    world.input(Input::Override {
        step_key: "a".to_owned(),
        word: OverrideWord::Skip,
        reason: String::new(),
    });
    world.input(Input::Checkpoint {
        data: escapement_model::Opaque::default(),
    });
    world.input(edits(&world, &document(&json!([call("a"), call("b")]))));
    assert_eq!(world.shows(), "running: a running, b pending");
    world.input(Input::Pause {
        reason: String::new(),
    });
    world.complete("a", json!({}));
    let restore = rollback(Rollback::Restore(None));
    assert_eq!(world.refusal(restore), RefusedReason::NoCheckpoint);
    world.input(rollback(Rollback::Reset));
    assert_eq!(world.shows(), "paused: a pending, b pending");
}

// RUN-6.10, RUN-9.6
#[test]
fn a_large_plan_is_kept_by_its_hash() {
    let mut world = World::with(json!([call("a")]), suggesting());
    let mut large = call("x");
    large["description"] = json!("d".repeat(4000));
    let steps: Vec<Value> = (0..12)
        .map(|n| {
            let mut step = large.clone();
            step["key"] = json!(format!("x{n}"));
            step
        })
        .collect();
    world.input(edits(&world, &document(&json!(steps))));
    assert_eq!(world.run.state().document.digest.len(), 32);
    assert_eq!(world.run.plan().steps.len(), 12);
}
