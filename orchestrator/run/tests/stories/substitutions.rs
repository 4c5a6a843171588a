//! Alternatives of actions that failed for good, and constraints that they keep to.

use escapement_run::Input;
use escapement_run::journal::{Decision, Event, OutcomeClass, ReplanTriggered};
use escapement_run::presets::Preset;
use escapement_run::spec::{ActionProfile, Constraints, EffectClass, Risk, Spec};
use serde_json::{Value, json};

use crate::world::{World, and, spec, tool};

/// An action with a side effect that runs unasked.
fn profile(action: &str, alternatives: &[&str], produces: &[&str]) -> ActionProfile {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    ActionProfile {
        action: action.to_owned(),
        effect: EffectClass::SideEffect.into(),
        risk: Risk::Safe.into(),
        seen: true,
        alternatives: texts(alternatives),
        produces: texts(produces),
        ..ActionProfile::default()
    }
}

/// `paint` may be replaced by `write`, `draw` and `sketch`; `write` makes a text.
fn painters() -> Vec<ActionProfile> {
    vec![
        profile("draw", &[], &["image"]),
        profile("paint", &["write", "draw", "sketch"], &["image"]),
        profile("sketch", &[], &["image"]),
        profile("write", &[], &["text"]),
    ]
}

fn protocol(constraints: Constraints) -> Spec {
    Spec {
        constraints,
        ..spec(Preset::Protocol)
    }
}

fn image() -> Constraints {
    Constraints {
        must_produce: vec!["image".to_owned()],
        ..Constraints::default()
    }
}

fn world(steps: Value, spec: Spec) -> World {
    let document = json!({"schema": "escapement.plan/1", "name": "Story", "steps": steps});
    let mut world = World::knowing(document, spec, &painters());
    world.input(Input::Admit);
    world
}

fn replans(world: &World) -> Vec<ReplanTriggered> {
    let replans = world.journal.iter().filter_map(|entry| match &entry.event {
        Some(Event::ReplanTriggered(replan)) => Some(replan.clone()),
        _ => None,
    });
    replans.collect()
}

fn action(world: &World, step: &str) -> String {
    let state = &world.run.state().steps[world.at(step)];
    let live = state.units.iter().rev().find_map(|unit| unit.live.as_ref());
    live.map_or_else(String::new, |live| live.action.clone())
}

// RUN-12.2, RUN-12.3
#[test]
fn an_alternative_takes_the_place_of_an_action_that_failed() {
    let mut world = world(json!([tool("a", "paint", &[])]), protocol(Constraints::default()));
    world.fail("a", OutcomeClass::FailedForGood);
    assert_eq!(
        world.last_events(),
        [
            "ToolOutput",
            "SkillHealthChanged",
            "SkillHealthChanged",
            "UnitFailed",
            "StepFailed",
            "RevisionFailing",
            "ReplanTriggered",
            "PlanCreated",
            "StepStarted",
            "ToolCalled"
        ]
    );
    let replan = &replans(&world)[0];
    let substituted = replan.substituted.clone().unwrap();
    assert_eq!(
        (substituted.from.as_str(), substituted.to.as_str()),
        ("paint", "write")
    );
    assert_eq!((replan.revision, replan.error.code.as_str()), (1, "BROKEN"));
    let made = world.journal.iter().filter_map(|entry| match &entry.event {
        Some(Event::PlanCreated(made)) => Some(made),
        _ => None,
    });
    let [first, second] = &made.collect::<Vec<_>>()[..] else {
        panic!("there are two revisions")
    };
    assert!(first.parent.is_empty() && first.failed_steps.is_empty() && first.disabled.is_empty());
    assert_eq!(second.parent, first.digest);
    assert_eq!(second.failed_steps, ["a"]);
    assert_eq!(second.disabled, ["paint"]);
    assert_eq!(action(&world, "a"), "write");
    assert_eq!(world.payload("a"), json!({"of": "a"}));
    assert_eq!(world.run.state().disabled_actions, ["paint"]);
    world.complete("a", json!({"ok": 1}));
    assert_eq!(world.output(), json!({"ok": 1}));
    assert_eq!(world.run.shown().as_str(), "completed");
}

// RUN-12.3, RUN-12.5
#[test]
fn an_alternative_that_breaks_a_constraint_or_failed_before_is_passed_over() {
    let mut world = world(json!([tool("a", "paint", &[])]), protocol(image()));
    world.fail("a", OutcomeClass::FailedForGood);
    assert_eq!(action(&world, "a"), "draw", "a text is no image");
    world.fail("a", OutcomeClass::FailedForGood);
    assert_eq!(
        action(&world, "a"),
        "sketch",
        "what the action stands in for has more"
    );
    world.fail("a", OutcomeClass::FailedForGood);
    assert_eq!(world.run.shown().as_str(), "failed");
    assert_eq!(world.error().0, "BROKEN");
    assert_eq!(world.run.state().disabled_actions, ["draw", "paint"]);
    assert_eq!(replans(&world).len(), 2);
}

// RUN-12.3
#[test]
fn there_are_as_many_substitutions_as_the_limit_allows() {
    let mut limited = protocol(Constraints::default());
    limited.limits.max_substitutions = 1;
    let mut world = world(json!([tool("a", "paint", &[])]), limited);
    world.fail("a", OutcomeClass::FailedForGood);
    world.fail("a", OutcomeClass::FailedForGood);
    assert_eq!(world.run.shown().as_str(), "failed");
    assert_eq!(replans(&world).len(), 1);
    let mut none = protocol(Constraints::default());
    none.limits.max_substitutions = 0;
    let mut world = self::world(json!([tool("a", "paint", &[])]), none);
    world.fail("a", OutcomeClass::FailedForGood);
    assert_eq!(world.run.shown().as_str(), "failed");
}

// RUN-12.3
#[test]
fn a_failure_that_is_not_the_actions_own_leads_to_no_alternative() {
    let mut asking = protocol(Constraints::default());
    asking.autonomy_level = 0;
    let mut denied = world(json!([tool("a", "paint", &[])]), asking);
    denied.answer(Decision::Deny, Value::Null);
    assert_eq!(denied.error().0, "APPROVAL_DENIED");
    let mut doubtful = protocol(Constraints::default());
    doubtful.policy.ambiguity = escapement_run::spec::InDoubt::Fail.into();
    let mut doubtful = world(json!([tool("a", "paint", &[])]), doubtful);
    doubtful.fail("a", OutcomeClass::Unknown);
    assert_eq!(doubtful.error().0, "AMBIGUOUS_EFFECT");
    let unresolved = and(
        tool("a", "paint", &[]),
        json!({"config": {"tool_name": "paint", "tool_args": {"x": "${input:/none}"}}}),
    );
    let unresolved = world(json!([unresolved]), protocol(Constraints::default()));
    assert_eq!(unresolved.error().0, "INPUT_UNRESOLVED");
    for world in [denied, doubtful, unresolved] {
        assert!(replans(&world).is_empty());
    }
}

// RUN-12.1, RUN-12.4
#[test]
fn what_the_changed_step_has_no_part_in_is_kept() {
    let steps = json!([
        tool("a", "safe.mail", &[]),
        {"key": "asked", "type": "user_input", "config": {"question": "Which?"}},
        tool("b", "paint", &["a"]),
        tool("c", "safe.mail", &["b"]),
    ]);
    let mut world = world(steps, protocol(Constraints::default()));
    world.complete("a", json!({"sent": 1}));
    world.answer(Decision::Answer, json!("blue"));
    let first = world.live("b");
    world.fail("b", OutcomeClass::FailedForGood);
    assert_eq!(
        world.shows(),
        "running: a completed, asked completed, b running, c pending"
    );
    assert_ne!(world.live("b"), first, "another attempt has another id");
    world
        .complete("b", json!({}))
        .complete("c", json!({"done": true}));
    assert_eq!(world.output(), json!({"done": true}));
    assert_eq!(world.submitted(), 4, "the mail is sent once");
}

// RUN-12.4
#[test]
fn a_branch_that_hung_on_the_failure_is_taken_anew() {
    let steps = json!([
        tool("a", "safe.mail", &[]),
        and(tool("b", "paint", &[]), json!({"on_failure": "drain"})),
        {"key": "if", "type": "condition",
            "config": {"condition": "result:b", "true_step": "yes", "false_step": "no"}},
        tool("yes", "safe.mail", &["if"]),
        tool("no", "safe.mail", &["if"]),
    ]);
    let mut world = world(steps, protocol(Constraints::default()));
    world.complete("a", json!({}));
    world.fail("b", OutcomeClass::FailedForGood);
    assert_eq!(
        world.shows(),
        "running: a completed, b failed BROKEN, if completed, yes skipped branch, no running"
    );
    world.complete("no", json!({}));
    assert_eq!(
        world.shows(),
        "running: a completed, b running, if pending, yes pending, no pending"
    );
    world.complete("b", json!({"ok": true}));
    assert_eq!(
        world.shows(),
        "running: a completed, b completed, if completed, yes running, no skipped branch"
    );
}

// RUN-12.2
#[test]
fn the_plan_of_another_revision_is_approved_again() {
    let mut suggesting = protocol(Constraints::default());
    suggesting.autonomy_level = 1;
    let mut world = world(json!([tool("a", "paint", &[])]), suggesting);
    world.answer(Decision::Approve, Value::Null);
    world.fail("a", OutcomeClass::FailedForGood);
    assert_eq!(world.shows(), "waiting: a pending");
    world.answer(Decision::Approve, Value::Null);
    assert_eq!(action(&world, "a"), "write");
    world.complete("a", json!({}));
    assert_eq!(world.run.shown().as_str(), "completed");
}

// RUN-12.3
#[test]
fn items_and_iterations_are_called_with_the_alternative_too() {
    let parallel = json!([{"key": "a", "type": "parallel", "config": {"steps": [
        "paint", {"tool_name": "safe.mail"}, {"tool_name": "paint", "tool_args": {"n": 2}}]}}]);
    let mut world = world(parallel, protocol(Constraints::default()));
    world
        .fail_unit("a", 0, OutcomeClass::FailedForGood)
        .complete_unit("a", 1, json!({}))
        .complete_unit("a", 2, json!({}));
    let actions: Vec<_> = world
        .run
        .plan()
        .actions()
        .into_iter()
        .map(str::to_owned)
        .collect();
    assert_eq!(actions, ["safe.mail", "write"]);
    let repeated = json!([{"key": "a", "type": "loop",
        "config": {"tool_name": "paint", "tool_args": {}, "max_iterations": 2}}]);
    let mut world = self::world(repeated, protocol(Constraints::default()));
    world
        .complete("a", json!({}))
        .fail("a", OutcomeClass::FailedForGood);
    assert_eq!(action(&world, "a"), "write");
}

// RUN-12.5
#[test]
fn a_plan_that_breaks_a_constraint_says_which() {
    let judge = |steps: Value, constraints: &Constraints| {
        let document = json!({"schema": "escapement.plan/1", "name": "x", "steps": steps,
            "constraints": {"must_produce": ["image"]}});
        let plan = escapement_run::plan::read(&crate::world::opaque(&document)).unwrap();
        let found = escapement_run::plan::constraints::violations(&plan, constraints, &painters());
        let found: Vec<_> = found
            .into_iter()
            .map(|one| (one.path, one.code.as_str()))
            .collect();
        found
    };
    let none = Constraints::default();
    let broken = "CONSTRAINT_VIOLATED";
    assert_eq!(judge(json!([tool("a", "paint", &[])]), &none), []);
    assert_eq!(
        judge(json!([tool("a", "write", &[])]), &none),
        [("constraints.must_produce[0]".to_owned(), broken)]
    );
    let of_run = Constraints {
        expected_artifact_type: "text".to_owned(),
        forbidden_actions: vec!["sketch".to_owned()],
        allowed_actions: vec!["sketch".to_owned(), "draw".to_owned()],
        ..Constraints::default()
    };
    let steps = json!([tool("a", "draw", &[]), tool("b", "sketch", &[]),
        {"key": "c", "type": "parallel", "config": {"steps": ["paint"]}},
        {"key": "d", "type": "llm_decision", "config": {"prompt": "x", "tools": ["paint"]}}]);
    let places = [
        "steps",
        "steps[1].config.tool_name",
        "steps[2].config.steps[0].tool_name",
        "steps[3].config.tools[0]",
    ];
    assert_eq!(
        judge(steps, &of_run),
        places.map(|place| (place.to_owned(), broken))
    );
}

fn suggesting() -> Spec {
    Spec {
        autonomy_level: 1,
        ..protocol(Constraints::default())
    }
}

/// The plan that is asked about is approved with another one in its place.
fn edit(world: &mut World, steps: Value) {
    let document = json!({"schema": "escapement.plan/1", "name": "Other", "steps": steps});
    let answer = world.answer_of(&world.asked(), "bob", Decision::ApproveWithEdits, document);
    let profiles = world.run.state().profiles.clone();
    world.input(Input::ApproveEdited { answer, profiles });
}

fn memos(world: &World) -> Vec<(u32, u32)> {
    let memos = world.journal.iter().filter_map(|entry| match &entry.event {
        Some(Event::UnitMemoized(memo)) => Some((memo.unit.step, memo.unit.index)),
        _ => None,
    });
    memos.collect()
}

fn mail(key: &str, to: &str) -> Value {
    json!({"key": key, "type": "tool_call", "config": {"tool_name": "safe.mail", "tool_args": {"to": to}}})
}

// RUN-12.6
#[test]
fn what_an_earlier_revision_completed_is_not_done_again() {
    let steps = json!([mail("a", "eve"), tool("b", "paint", &["a"])]);
    let mut world = world(steps, suggesting());
    world.answer(Decision::Approve, Value::Null);
    world
        .complete("a", json!({"sent": 1}))
        .fail("b", OutcomeClass::FailedForGood);
    let other = json!([mail("first", "eve"), mail("second", "eve"), mail("third", "bob")]);
    edit(&mut world, other);
    // Kept with its step, the result was not the revision's to take; it is that of the revision before the edit.
    assert_eq!(memos(&world), [(0, 0)], "each result is taken once");
    assert_eq!(
        world.shows(),
        "running: first completed, second running, third pending"
    );
    world
        .complete("second", json!({}))
        .complete("third", json!({"n": 3}));
    assert_eq!(world.output(), json!({"n": 3}));
}

// RUN-12.6
#[test]
fn a_loop_takes_as_many_results_as_there_are() {
    let repeated = |max: u32| {
        json!({"key": "l", "type": "loop", "config": {"tool_name": "safe.mail", "tool_args": {"to": "eve"},
            "pass_iteration": false, "max_iterations": max}})
    };
    let mut world = world(json!([repeated(3), tool("b", "paint", &[])]), suggesting());
    world.answer(Decision::Approve, Value::Null);
    for n in 0..3 {
        world.complete("l", json!({"n": n}));
    }
    world.fail("b", OutcomeClass::FailedForGood);
    edit(&mut world, json!([repeated(4)]));
    assert_eq!(memos(&world), [(0, 0), (0, 1), (0, 2)]);
    world.complete("l", json!({"n": 3}));
    assert_eq!(world.output(), json!([{"n": 0}, {"n": 1}, {"n": 2}, {"n": 3}]));
    assert!(world.run.state().results.is_empty());
}

// RUN-12.6
#[test]
fn what_was_read_is_read_again_unless_the_step_says_otherwise() {
    let reads = |key: &str, freshness: &str| {
        and(
            tool("read", "world.read", &[]),
            json!({"key": key, "freshness": freshness}),
        )
    };
    let steps = json!([
        reads("one", "attempt"),
        reads("two", "run"),
        tool("b", "paint", &[])
    ]);
    let mut world = world(steps, suggesting());
    world.answer(Decision::Approve, Value::Null);
    world
        .complete("one", json!({"n": 1}))
        .complete("two", json!({"n": 2}));
    world.fail("b", OutcomeClass::FailedForGood);
    edit(&mut world, json!([reads("x", "run"), reads("y", "attempt")]));
    assert_eq!(world.shows(), "running: x completed, y running");
    world.complete("y", json!({}));
    assert_eq!(world.run.shown().as_str(), "completed");
    assert!(plan_digest(&reads("x", "run")) != plan_digest(&reads("x", "attempt")));
}

fn plan_digest(step: &Value) -> [u8; 32] {
    let document = json!({"schema": "escapement.plan/1", "name": "x", "steps": [step]});
    escapement_run::plan::read(&crate::world::opaque(&document))
        .unwrap()
        .digest
}

// RUN-12.6
#[test]
fn what_was_set_back_is_done_again() {
    let mut world = world(
        json!([mail("a", "eve"), tool("b", "paint", &["a"])]),
        suggesting(),
    );
    world.answer(Decision::Approve, Value::Null);
    world
        .complete("a", json!({"sent": 1}))
        .fail("b", OutcomeClass::FailedForGood);
    edit(&mut world, json!([mail("x", "eve"), mail("y", "bob")]));
    assert_eq!(world.shows(), "running: x completed, y running");
    let rewind = |allow| Input::Rewind {
        step_key: "x".to_owned(),
        scope: escapement_run::RewindScope::Later,
        allow_repeat_effects: allow,
    };
    assert_eq!(
        world.refusal(rewind(false)),
        escapement_run::RefusedReason::EffectsWouldRepeat,
        "the mail was sent by this run"
    );
    world.input(rewind(true));
    assert_eq!(world.shows(), "running: x running, y pending");
}
