//! Artifacts that outputs declare, and the look at them before a run completes.

use escapement_run::Input;
use escapement_run::budget::Budget;
use escapement_run::journal::{Event, OutcomeClass};
use escapement_run::presets::Preset;
use escapement_run::spec::{ActionProfile, Constraints, EffectClass, Risk, Spec};
use escapement_run::state::Verdict;
use escapement_run::{ENVIRONMENT_KEY, Effect, RefusedReason, Upload};
use serde_json::{Value, json};

use crate::planning::planned;
use crate::world::{World, completed, failed, spec, tool};

/// Ten bytes that begin as a PNG does, as base64.
const PNG: &str = "iVBORw0KGgoAAA==";
const PNG_HEX: &str = "89504e470d0a1a0a0000";

fn profile(action: &str, alternatives: &[&str]) -> ActionProfile {
    ActionProfile {
        action: action.to_owned(),
        effect: EffectClass::SideEffect.into(),
        risk: Risk::Safe.into(),
        seen: true,
        alternatives: alternatives.iter().map(|&one| one.to_owned()).collect(),
        produces: vec!["image".to_owned()],
        ..ActionProfile::default()
    }
}

fn wants(types: &[&str]) -> Spec {
    Spec {
        constraints: Constraints {
            must_produce: types.iter().map(|&one| one.to_owned()).collect(),
            ..Constraints::default()
        },
        ..spec(Preset::Protocol)
    }
}

fn world(spec: Spec) -> World {
    let document =
        json!({"schema": "escapement.plan/1", "name": "Story", "steps": [tool("a", "paint", &[])]});
    let known = [profile("draw", &[]), profile("paint", &["draw"])];
    let mut world = World::knowing(document, spec, &known);
    world.input(Input::Admit);
    world
}

fn image(more: Value) -> Value {
    let mut artifact = json!({"type": "image", "mime_type": "image/png"});
    artifact
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    json!({"$artifacts": [artifact]})
}

/// The execution that looks at the first artifact.
fn look(world: &World) -> escapement_model::ExecutionId {
    let submits = world.effects.iter().rev().filter_map(|effect| match effect {
        Effect::Submit { execution_id, .. } => Some(*execution_id),
        _ => None,
    });
    submits.into_iter().next().unwrap()
}

fn stat(more: Value) -> Value {
    let mut found = json!({"exists": true, "size_bytes": 10, "magic_hex": PNG_HEX,
        "sha256": "0".repeat(64)});
    found
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    found
}

// RUN-12.7, RUN-12.8, RUN-12.9
#[test]
fn an_artifact_that_is_given_is_verified_in_place() {
    let mut world = world(wants(&["image"]));
    world.complete("a", image(json!({"data": PNG, "name": "cat.png"})));
    assert_eq!(
        world.last_events(),
        [
            "ToolOutput",
            "ArtifactCreated",
            "StepCompleted",
            "RunVerifying",
            "ArtifactVerified",
            "RunCompleted"
        ]
    );
    let artifact = &world.run.state().artifacts[0];
    assert_eq!((artifact.size_bytes, artifact.verdict()), (10, Verdict::Right));
    assert_eq!(artifact.sha256, artifact.created.content.as_ref().unwrap().digest);
    assert_eq!(artifact.created.action, "paint");
}

// RUN-12.8, RUN-12.9
#[test]
fn a_file_is_looked_at_by_an_action() {
    let mut world = world(wants(&["image"]));
    world.complete("a", image(json!({"path": "out/cat.png", "size_bytes": 10})));
    assert_eq!(world.run.shown().as_str(), "verifying");
    assert_eq!(world.last_events().last().unwrap(), "ToolCalled");
    let called = world.journal.iter().rev().find_map(|entry| match &entry.event {
        Some(Event::ToolCalled(called)) => Some(called.clone()),
        _ => None,
    });
    let called = called.unwrap();
    assert_eq!(
        (called.action.as_str(), called.unit.index),
        ("file.stat", 3_000_001)
    );
    let outstanding = world.run.outstanding(&world.disk);
    assert_eq!(outstanding.len(), 1, "RUN-9.4: a restart looks again");
    world.settle(look(&world), completed(stat(json!({}))));
    assert_eq!(
        world.last_events(),
        ["ToolOutput", "ArtifactVerified", "RunCompleted"]
    );
    assert!(!ENVIRONMENT_KEY.is_empty());
}

// RUN-12.9
#[test]
fn an_artifact_that_is_not_right_fails_the_revision() {
    for (declared, found, problem) in [
        (json!({}), json!({"exists": false}), "it does not exist"),
        (
            json!({}),
            json!({"size_bytes": 9}),
            "it has 9 bytes, fewer than 10",
        ),
        (json!({"size_bytes": 11}), json!({}), "it has 10 bytes and not 11"),
        (
            json!({"sha256": "1".repeat(64)}),
            json!({}),
            "its SHA-256 is another one",
        ),
        (
            json!({}),
            json!({"magic_hex": "25504446"}),
            "it does not begin as image/png does",
        ),
        (
            json!({}),
            json!({"size_bytes": "many"}),
            "file.stat does not say what it found",
        ),
        (
            json!({}),
            json!({"magic_hex": null}),
            "file.stat does not say what it found",
        ),
    ] {
        let mut without = wants(&["image"]);
        without.limits.max_substitutions = 0;
        let mut world = world(without);
        let mut more = json!({"path": "cat.png"});
        more.as_object_mut()
            .unwrap()
            .extend(declared.as_object().unwrap().clone());
        world.complete("a", image(more));
        world.settle(look(&world), completed(stat(found)));
        let (code, message) = world.error();
        assert_eq!(code, "ARTIFACT_INVALID");
        assert!(message.ends_with(problem), "{message}");
    }
    let mut odd = world(wants(&["pdf"]));
    assert!(odd.run.shown().as_str() == "running");
    odd.complete(
        "a",
        json!({"$artifacts": [{"type": "pdf", "mime_type": "image/png", "data": PNG}]}),
    );
    assert_eq!(odd.error().0, "ARTIFACT_INVALID");
}

// RUN-12.2, RUN-12.8
#[test]
fn a_wrong_or_missing_artifact_leads_to_an_alternative() {
    let mut wrong = world(wants(&["image"]));
    wrong.complete("a", image(json!({"data": "dGV4dCB0ZXh0IHRleHQ="})));
    assert_eq!(wrong.shows(), "running: a running");
    wrong.complete("a", image(json!({"data": PNG})));
    assert_eq!(wrong.run.shown().as_str(), "completed");
    assert_eq!(
        wrong.run.state().artifacts.len(),
        1,
        "those of the revision before do not count"
    );
    let mut missing = world(wants(&["image"]));
    missing.complete("a", json!({}));
    assert_eq!(missing.shows(), "running: a running");
    missing.complete("a", json!({}));
    assert_eq!(missing.error().0, "ARTIFACT_MISSING");
}

// RUN-12.9
#[test]
fn a_look_that_fails_is_repeated_three_times() {
    let mut without = wants(&["image"]);
    without.limits.max_substitutions = 0;
    let mut world = world(without.clone());
    world.complete("a", image(json!({"path": "cat.png"})));
    for _ in 0..3 {
        world.settle(look(&world), failed(OutcomeClass::Unknown));
        assert_eq!(world.run.shown().as_str(), "verifying");
        world.pass(4_000);
    }
    world.settle(look(&world), failed(OutcomeClass::Unknown));
    assert_eq!(world.error().0, "ARTIFACT_INVALID");
    let mut world = self::world(without);
    world.complete("a", image(json!({"path": "cat.png"})));
    world.settle(look(&world), failed(OutcomeClass::FailedForGood));
    assert_eq!(world.error().0, "ARTIFACT_INVALID");
}

// RUN-12.9, RUN-13.8
#[test]
fn a_look_at_an_artifact_counts_in_no_budget() {
    let mut tight = wants(&["image"]);
    tight.budget = Some(Budget {
        max_tool_calls: Some(1),
        ..Budget::default()
    });
    let mut world = world(tight);
    world.complete("a", image(json!({"path": "cat.png"})));
    assert_eq!(world.run.shown().as_str(), "verifying");
    world.settle(look(&world), completed(stat(json!({}))));
    assert_eq!(world.run.shown().as_str(), "completed");
    assert_eq!(world.run.state().used().tool_calls, 1);
}

// RUN-12.8
#[test]
fn a_run_that_verifies_can_be_paused_cancelled_and_set_back() {
    let mut world = world(wants(&["image"]));
    world.complete("a", image(json!({"path": "cat.png"})));
    world.input(Input::Pause {
        reason: String::new(),
    });
    assert_eq!(world.run.shown().as_str(), "pausing");
    let first = look(&world);
    world.settle(first, completed(stat(json!({"size_bytes": 3}))));
    assert_eq!(world.run.shown().as_str(), "paused");
    world.input(Input::Rewind {
        step_key: "a".to_owned(),
        scope: escapement_run::RewindScope::Later,
        allow_repeat_effects: true,
    });
    assert!(world.run.state().artifacts.is_empty());
    world.input(Input::Resume {
        reason: String::new(),
    });
    world.complete("a", image(json!({"path": "cat.png"})));
    assert_ne!(look(&world), first, "RUN-4.3");
    world.input(Input::Cancel {
        reason: "user".to_owned(),
    });
    assert_eq!(world.run.shown().as_str(), "cancelled");
    world.settle(look(&world), completed(stat(json!({}))));
    assert_eq!(world.last, 0);
}

// RUN-2.5, RUN-12.8
#[test]
fn a_look_that_is_due_waits_while_a_step_runs_again() {
    let document = json!({"schema": "escapement.plan/1", "name": "Story",
        "steps": [tool("a", "paint", &[]), tool("b", "paint", &["a"])]});
    let mut world = World::knowing(document, wants(&["image"]), &[profile("paint", &[])]);
    world.input(Input::Admit);
    world.complete("a", image(json!({"path": "cat.png"})));
    world.complete("b", json!({}));
    world.settle(look(&world), failed(OutcomeClass::Unknown));
    world.input(Input::Rewind {
        step_key: "b".to_owned(),
        scope: escapement_run::RewindScope::Later,
        allow_repeat_effects: true,
    });
    assert_eq!(world.shows(), "running: a completed, b running");
    world.pass(10_000);
    world.complete("b", json!({}));
    assert_eq!(world.run.shown().as_str(), "verifying");
    world.settle(look(&world), completed(stat(json!({}))));
    assert_eq!(world.last_events().last().unwrap(), "RunCompleted");
}

// RUN-2.5, RUN-11.8, RUN-12.8
#[test]
fn a_look_that_is_due_is_not_repeated_while_another_plan_is_made() {
    let mut spec = Spec {
        planner: planned(Preset::Protocol).planner,
        ..wants(&["image"])
    };
    spec.limits.revision_ms = 500;
    spec.limits.max_substitutions = 0;
    let mut world = world(spec);
    world.complete("a", image(json!({"path": "cat.png"})));
    world.settle(look(&world), failed(OutcomeClass::Unknown));
    world.pass(4_000);
    assert_eq!(world.run.shown().as_str(), "planning");
}

// RUN-12.7
#[test]
fn what_nobody_can_read_fails_the_attempt() {
    let one = |more: Value| image(more)["$artifacts"][0].clone();
    let many: Vec<Value> = (0..17).map(|_| one(json!({"path": "x"}))).collect();
    let deep = (0..40).fold(json!(1), |inner, _| json!([inner]));
    for artifacts in [
        json!("x"),
        json!([1]),
        json!([{}]),
        json!(many),
        json!([deep]),
        json!([one(json!({}))]),
        json!([one(json!({"path": "x", "data": PNG}))]),
        json!([one(json!({"type": "", "path": "x"}))]),
        json!([one(json!({"type": "a\u{7}b", "path": "x"}))]),
        json!([one(json!({"type": "x".repeat(300), "path": "x"}))]),
        json!([one(json!({"mime_type": "png", "path": "x"}))]),
        json!([one(json!({"mime_type": "image/png; a=b", "path": "x"}))]),
        json!([one(json!({"path": "/etc/passwd"}))]),
        json!([one(json!({"path": "a/../../b"}))]),
        json!([one(json!({"path": "a//b"}))]),
        json!([one(json!({"path": "C:\\b"}))]),
        json!([one(json!({"path": ""}))]),
        json!([one(json!({"path": "x".repeat(1025)}))]),
        json!([one(json!({"data": "="}))]),
        json!([one(json!({"data": "a b="}))]),
        json!([one(json!({"path": "x", "size_bytes": 1.5}))]),
        json!([one(json!({"path": "x", "size_bytes": -1}))]),
        json!([one(json!({"path": "x", "sha256": "zz"}))]),
        json!([one(json!({"path": "x", "name": "x".repeat(256)}))]),
    ] {
        let mut world = World::of(json!([tool("a", "safe.paint", &[])]));
        world.complete("a", json!({"$artifacts": artifacts}));
        assert_eq!(world.error().0, "OUTPUT_INVALID", "{artifacts}");
        assert!(world.run.state().artifacts.is_empty());
    }
    let mut world = World::of(json!([tool("a", "safe.paint", &[])]));
    world.complete("a", json!({"$artifacts": null, "n": 1}));
    assert_eq!(world.run.shown().as_str(), "completed");
}

fn upload(content: &[u8], name: &str) -> Input {
    Input::Upload(Upload {
        artifact_type: "image".to_owned(),
        mime_type: "image/png".to_owned(),
        name: name.to_owned(),
        content: content.to_vec().into(),
    })
}

// RUN-12.12
#[test]
fn what_is_uploaded_counts_once_and_in_every_revision() {
    let png = b"\x89PNG\r\n\x1a\n\0\0";
    let mut world = world(wants(&["image"]));
    for wrong in [
        upload(b"GIF89a and so on", "a"),
        upload(&png[..9], "a"),
        upload(png, "a\n"),
    ] {
        assert_eq!(world.refusal(wrong), RefusedReason::ArtifactInvalid);
    }
    world.input(upload(png, "cat.png"));
    assert_eq!(world.last_events(), ["ArtifactCreated"]);
    world.input(upload(png, "cat.png"));
    assert_eq!(world.last, 0);
    world.fail("a", OutcomeClass::FailedForGood);
    assert_eq!(world.run.state().revision_number, 2);
    world.complete("a", json!({}));
    assert_eq!(world.run.shown().as_str(), "completed");
    let artifact = &world.run.state().artifacts[0];
    assert_eq!(
        (artifact.created.unit, artifact.verdict()),
        (None, Verdict::Right)
    );
    assert_eq!(world.refusal(upload(png, "dog.png")), RefusedReason::RunEnded);
}

// RUN-12.12
#[test]
fn what_is_uploaded_survives_a_reset_and_is_bounded() {
    let png = b"\x89PNG\r\n\x1a\n\0\0";
    let mut world = world(wants(&[]));
    for n in 0..256 {
        world.input(upload(png, &n.to_string()));
    }
    assert_eq!(world.refusal(upload(png, "256")), RefusedReason::ArtifactsFull);
    world.input(Input::Pause {
        reason: String::new(),
    });
    world.complete("a", json!({}));
    world.input(Input::Rewind {
        step_key: "a".to_owned(),
        scope: escapement_run::RewindScope::Later,
        allow_repeat_effects: true,
    });
    assert_eq!(world.run.state().steps[0].epoch, 1);
    assert_eq!(world.run.state().artifacts.len(), 256);
    let large = [&png[..], &[0; 8 << 20]].concat();
    assert_eq!(
        world.refusal(upload(&large, "large")),
        RefusedReason::ArtifactInvalid
    );
}
