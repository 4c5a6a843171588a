//! How a run comes to its plans: generations, what becomes of them, and what follows when a plan fails.

use escapement_model::ExecutionId;
use escapement_model::opaque::ValueView;
use escapement_run::catalogue::{Catalogue, CatalogueAction};
use escapement_run::journal::{Decision, Event, OutcomeClass, Verdict};
use escapement_run::outcome::AttemptOutcome;
use escapement_run::presets::Preset;
use escapement_run::spec::{
    ActionProfile, EffectClass, Fallback, FallbackKind, Planner, Risk, Spec, Templates,
};
use escapement_run::{Effect, Input, ShownState};
use serde_json::{Value, json};

use crate::words::message_field;
use crate::world::{World, call, completed, failed, json_of, opaque, spec, tool};

/// A spec with a planner and without gates.
pub(crate) fn planned(preset: Preset) -> Spec {
    Spec {
        planner: Some(Box::new(Planner {
            action: "plan.make".to_owned(),
            limit_ms: 5_000,
            ..Planner::default()
        })),
        goal: "weigh the {input} of Bern".to_owned(),
        fallback: preset.fallback(),
        ..spec(preset)
    }
}

/// A run of a goal, admitted.
pub(crate) fn of_goal(spec: Spec) -> World {
    let document = json!({"schema": "escapement.plan/1", "name": "Weigh", "goal": spec.goal, "steps": []});
    World::document(document, spec)
}

pub(crate) fn profile(action: &str) -> ActionProfile {
    ActionProfile {
        action: action.to_owned(),
        effect: EffectClass::Pure.into(),
        risk: Risk::Safe.into(),
        seen: true,
        ..ActionProfile::default()
    }
}

/// What the generation that waits for it may choose from.
pub(crate) fn offer(world: &mut World, actions: &[&str]) {
    offer_profiles(world, actions.iter().map(|action| profile(action)).collect());
}

pub(crate) fn offer_profiles(world: &mut World, profiles: Vec<ActionProfile>) {
    let generation = world.run.state().planning.as_ref().unwrap().generation;
    let actions = profiles.into_iter().map(|profile| CatalogueAction {
        description: format!("does {}", profile.action),
        profile,
        input_schema: r#"{"type": "object"}"#.to_owned(),
        ..CatalogueAction::default()
    });
    world.input(Input::Catalogue {
        generation,
        catalogue: Catalogue {
            actions: actions.collect(),
            n_left_out: 0,
        },
        own: vec![profile("plan.make")],
    });
}

/// The execution that was submitted last.
fn last_submitted(world: &World) -> ExecutionId {
    let mut submits = world.effects.iter().rev().filter_map(|effect| match effect {
        Effect::Submit { execution_id, .. } => Some(*execution_id),
        _ => None,
    });
    submits.next().expect("something was submitted")
}

/// The planner ends like this.
pub(crate) fn planner(world: &mut World, outcome: AttemptOutcome) {
    let execution_id = last_submitted(world);
    world.settle(execution_id, outcome);
}

/// What the planner was told last, as JSON.
pub(crate) fn told_planner(world: &World) -> Value {
    let planning = world.run.state().planning.clone().unwrap();
    let plan = message_field(&world.request_of(&planning.live.unwrap().request), 1);
    json_of(ValueView::Struct(&message_field(&message_field(&plan, 4), 3)))
}

/// The planner, offered the usual actions, answers with a plan of these steps.
pub(crate) fn plans(world: &mut World, steps: Value) {
    offer(world, &["pure.other", "pure.work", "safe.mail"]);
    planner(world, completed(json!({"plan": document(steps)})));
}

pub(crate) fn document(steps: Value) -> Value {
    json!({"schema": "escapement.plan/1", "name": "Made", "steps": steps})
}

pub(crate) fn verdicts(world: &World) -> Vec<Verdict> {
    let ended = world
        .journal
        .iter()
        .filter_map(|entry| match entry.event.as_ref() {
            Some(Event::GenerationEnded(ended)) => Some(ended.verdict()),
            _ => None,
        });
    ended.collect()
}

pub(crate) fn violation_codes(world: &World) -> Vec<String> {
    let planning = world.run.state().planning.clone().unwrap();
    let last = planning.previous.last().cloned().unwrap_or_default();
    last.violations.into_iter().map(|part| part.code).collect()
}

// RUN-11.1, RUN-11.2, RUN-11.7
#[test]
fn a_plan_that_works_costs_one_generation() {
    let mut world = of_goal(planned(Preset::Standard));
    assert_eq!(world.last_events(), ["RunStarted", "GenerationStarted"]);
    assert_eq!(world.shows(), "planning: ");
    plans(&mut world, json!([call("a")]));
    let events = [
        "ToolOutput",
        "GenerationEnded",
        "PlanCreated",
        "PlanSummary",
        "StepStarted",
        "ToolCalled",
    ];
    assert_eq!(world.last_events(), events);
    world.complete("a", json!({"kg": 3}));
    assert_eq!(world.shows(), "completed: a completed");
    assert_eq!(world.output(), json!({"kg": 3}));
    let state = world.run.state();
    assert_eq!(
        (state.revision_number, state.planning.as_ref().unwrap().generation),
        (1, 1)
    );
}

// RUN-11.7
#[test]
fn an_empty_plan_with_a_narrative_completes_at_once() {
    let mut world = of_goal(planned(Preset::Standard));
    offer(&mut world, &[]);
    let mut plan = document(json!([]));
    plan["narrative"] = json!("It weighs nothing.");
    let text = format!("Here it is:\n```json\n{plan}\n```\nAnything else?");
    planner(&mut world, completed(json!({"content": text, "tool_calls": []})));
    assert_eq!(world.run.shown(), ShownState::Completed);
    assert_eq!(world.output(), json!("It weighs nothing."));
}

// RUN-11.5, RUN-11.6
#[test]
fn an_answer_that_may_not_run_costs_a_generation_and_runs_nothing() {
    let table: [(Value, &str); 15] = [
        (json!({"content": "I cannot do that."}), "NO_OBJECT"),
        (
            json!({"content": "{\"name\": \"x\", \"steps\": ["}),
            "BROKEN_JSON",
        ),
        (
            json!({"content": "{\"name\": \"x\", \"name\": \"y\"}"}),
            "BROKEN_JSON",
        ),
        (
            json!({"content": "{\"name\": \"x\", \"steps\": [{\"id\": 2512292042121000001}]}"}),
            "BROKEN_JSON",
        ),
        (json!({"content": "{\"a\": 1} and {\"b\": 2}"}), "TWO_OBJECTS"),
        (json!({"plan": 7}), "NO_OBJECT"),
        (
            json!({"plan": {"schema": "escapement.plan/1", "name": "x", "steps": [], "more": 1}}),
            "UNKNOWN_FIELD",
        ),
        (
            json!({"plan": document(json!([tool("a", "pure.work", &["a"])]))}),
            "CYCLIC_DEPENDENCY",
        ),
        (
            json!({"plan": document(json!([tool("a", "pure.work", &["b"]), tool("b", "pure.work", &["a"])]))}),
            "CYCLIC_DEPENDENCY",
        ),
        (
            json!({"plan": document(json!([call("a"), call("a")]))}),
            "DUPLICATE_KEY",
        ),
        (
            json!({"plan": document(json!([tool("a", "pure.work", &["zz"])]))}),
            "UNKNOWN_REFERENCE",
        ),
        (
            json!({"plan": document(json!([tool("a", "rm.all", &[])]))}),
            "TOOL_NOT_ALLOWED",
        ),
        (
            json!({"plan": document(json!([
                {"key": "a", "type": "sub_plan", "config": {"plan_id": "3f2a41e0-7a44-4a0e-8a56-0d6a4f1f2b11"}}
            ]))}),
            "TOOL_NOT_ALLOWED",
        ),
        (
            json!({"plan": document(json!([{"key": "a", "type": "llm_decision", "config": {"prompt": "?", "tools": ["rm.all"]}}]))}),
            "TOOL_NOT_ALLOWED",
        ),
        (
            json!({"plan": document(json!([
                {"key": "a", "type": "parallel", "config": {"steps": [{"tool_name": "rm.all", "tool_args": {}}]}}
            ]))}),
            "TOOL_NOT_ALLOWED",
        ),
    ];
    for (answer, code) in table {
        let mut world = of_goal(planned(Preset::Standard));
        offer(&mut world, &["pure.work"]);
        planner(&mut world, completed(answer.clone()));
        assert_eq!(verdicts(&world), [Verdict::Refused], "{answer}");
        assert_eq!(violation_codes(&world)[0], code, "{answer}");
        assert_eq!(
            world.last_events(),
            ["ToolOutput", "GenerationEnded", "GenerationStarted"],
            "{answer}"
        );
        assert_eq!(
            world.submitted(),
            1,
            "{answer}: nothing but the planner was called"
        );
    }
}

// RUN-11.5
#[test]
fn an_answer_in_another_format_counts_if_it_says_so() {
    let mut world = of_goal(planned(Preset::Standard));
    offer(&mut world, &["pure.work"]);
    let narrative = json!({"schema": "narrative/1", "requestId": "3f2a41e0-7a44-4a0e-8a56-0d6a4f1f2b11",
        "tools": [{"toolId": "t1", "toolPath": "pure.work", "input": {"of": 1}}]});
    planner(&mut world, completed(json!({"plan": narrative})));
    assert_eq!(world.shows(), "running: t1 running");
    world.complete("t1", json!({}));
}

// RUN-11.8, RUN-12.1
#[test]
fn a_plan_that_fails_is_followed_by_one_without_what_failed() {
    let mut world = of_goal(planned(Preset::Standard));
    let steps = json!([call("a"), tool("b", "pure.other", &["a"])]);
    plans(&mut world, steps);
    world.complete("a", json!({"kg": 3}));
    world.fail("b", OutcomeClass::FailedForGood);
    let events = world.last_events();
    assert!(
        events.ends_with(&["ReplanTriggered".to_owned(), "GenerationStarted".to_owned()]),
        "{events:?}"
    );
    assert_eq!(world.run.shown(), ShownState::Planning);
    offer(&mut world, &["pure.other", "pure.work"]);
    // What failed is not offered again, and is refused if it comes all the same.
    planner(
        &mut world,
        completed(json!({"plan": document(json!([tool("b", "pure.other", &[])]))})),
    );
    assert_eq!(violation_codes(&world), ["TOOL_DISABLED"]);
    plans(&mut world, json!([call("a")]));
    // RUN-12.6
    assert_eq!(
        world.output(),
        json!({"kg": 3}),
        "what the plan before completed is not done again"
    );
    let planning = world.run.state().planning.clone().unwrap();
    assert_eq!(
        (
            planning.generation,
            planning.replans,
            world.run.state().disabled_actions.clone()
        ),
        (3, 1, vec!["pure.other".to_owned()])
    );
}

// RUN-11.9
#[test]
fn exhausted_generations_end_in_the_fallback() {
    let mut world = of_goal(planned(Preset::Execution));
    for _ in 0..5 {
        offer(&mut world, &[]);
        planner(&mut world, failed(OutcomeClass::Failed));
    }
    assert_eq!(verdicts(&world), [Verdict::Failed; 5]);
    assert_eq!(world.run.shown(), ShownState::Failed);
    assert_eq!(world.error().0, "PLANNING_ERROR");
    let output = world.output();
    assert_eq!(output["tools"], json!([]));
    assert_eq!(
        (&output["success"], &output["fallback"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(output.as_object().unwrap().len(), 4);
    assert_eq!(
        world.last_events(),
        ["ToolOutput", "GenerationEnded", "FallbackUsed", "RunFailed"]
    );
}

// RUN-11.9
#[test]
fn a_goal_goes_into_the_fallback_as_it_is() {
    let mut spec = planned(Preset::Standard);
    spec.limits.max_generations = 1;
    let texts = vec!["<{input}> and {input}".to_owned()];
    let kind = FallbackKind::Templates(Templates { texts });
    spec.fallback = Some(Fallback { kind: Some(kind) });
    let mut world = of_goal(spec);
    offer(&mut world, &[]);
    planner(&mut world, failed(OutcomeClass::FailedForGood));
    let goal = "weigh the {input} of Bern";
    assert_eq!(world.output()["narrative"], json!(format!("<{goal}> and {goal}")));
}

// RUN-11.2
#[test]
fn a_planner_that_hangs_costs_five_seconds_each_time() {
    let mut world = of_goal(planned(Preset::Execution));
    for n in 1..=5 {
        offer(&mut world, &["pure.work"]);
        world.pass(4_999);
        assert_eq!(verdicts(&world).len(), n - 1);
        world.pass(1);
        assert_eq!(verdicts(&world), vec![Verdict::TimedOut; n]);
    }
    assert_eq!(world.run.shown(), ShownState::Failed);
    assert_eq!(world.now - crate::world::START, 25_000);
    assert!(world.output()["narrative"].is_string());
}

// RUN-11.2
#[test]
fn a_planner_that_hangs_is_not_asked_for_the_same_time_again() {
    let mut world = of_goal(planned(Preset::Standard));
    offer(&mut world, &["pure.work"]);
    world.pass(5_000);
    assert_eq!(verdicts(&world), [Verdict::TimedOut]);
    let (code, message) = world.error();
    assert_eq!(code, "PLANNING_ERROR");
    assert!(message.contains("--planner-limit-ms"), "{message}");
}

// RUN-11.2
#[test]
fn a_lost_planner_is_asked_again_in_the_same_generation() {
    let mut world = of_goal(planned(Preset::Standard));
    offer(&mut world, &["pure.work"]);
    let first = last_submitted(&world);
    planner(&mut world, failed(OutcomeClass::Unknown));
    assert_eq!(world.last_events(), ["ToolOutput", "ToolCalled"]);
    assert_ne!(last_submitted(&world), first);
    // What the first one says after all changes nothing.
    world.settle(first, completed(json!({"plan": document(json!([]))})));
    assert_eq!(world.last, 0);
    planner(&mut world, completed(json!({"plan": document(json!([]))})));
    assert_eq!(world.run.shown(), ShownState::Completed);
    assert_eq!(verdicts(&world), [Verdict::Accepted]);
}

// RUN-11.2, RUN-9.4
#[test]
fn a_restart_asks_the_same_again_and_never_what_was_answered() {
    let mut world = of_goal(planned(Preset::Standard));
    world.input(Input::Recovered);
    assert!(matches!(
        world.effects.last(),
        Some(Effect::Catalogue { generation: 1, .. })
    ));
    offer(&mut world, &["pure.work"]);
    let asked = world.effects.last().cloned();
    world.input(Input::Recovered);
    assert_eq!(world.effects.last().cloned(), asked, "byte for byte");
    planner(
        &mut world,
        completed(json!({"plan": document(json!([call("a")]))})),
    );
    let n_effects = world.effects.len();
    world.input(Input::Recovered);
    assert_eq!(
        world.effects.len(),
        n_effects + 1,
        "the attempt of the step alone"
    );
    world.complete("a", json!({}));
}

// RUN-11.8
#[test]
fn a_person_may_want_another_plan() {
    let mut spec = planned(Preset::Standard);
    spec.autonomy_level = 1;
    spec.limits.max_generations = 2;
    let mut world = of_goal(spec);
    plans(&mut world, json!([call("a")]));
    assert_eq!(world.run.shown(), ShownState::Waiting);
    let mut answer = world.answer_of(&world.asked(), "bob", Decision::Revise, Value::Null);
    answer.comment = "with a scale".to_owned();
    world.input(Input::Answer(answer));
    assert_eq!(
        world.last_events(),
        [
            "InputReceived",
            "StepSkipped",
            "ReplanTriggered",
            "GenerationStarted"
        ]
    );
    let planning = world.run.state().planning.clone().unwrap();
    assert_eq!(planning.previous.last().unwrap().comment, "with a scale");
    plans(&mut world, json!([call("b")]));
    let again = world.answer_of(&world.asked(), "bob", Decision::Revise, Value::Null);
    world.refusal(Input::Answer(again));
    world
        .answer(Decision::Approve, Value::Null)
        .complete("b", json!({}));
    assert_eq!(world.run.shown(), ShownState::Completed);
}

// RUN-11.7, RUN-12.2
#[test]
fn a_plan_that_was_sent_back_waits_for_approval_when_it_comes_again() {
    let mut world = of_goal(Spec {
        autonomy_level: 1,
        ..planned(Preset::Standard)
    });
    plans(&mut world, json!([call("a")]));
    world.answer(Decision::Revise, Value::Null);
    plans(&mut world, json!([call("a")]));
    assert_eq!(world.shows(), "waiting: a pending");
    world
        .answer(Decision::Approve, Value::Null)
        .complete("a", json!({}));
    assert_eq!(world.run.shown(), ShownState::Completed);
}

// RUN-11.8
#[test]
fn the_limit_of_a_plan_leads_to_another_one_if_one_is_left() {
    let mut spec = planned(Preset::Standard);
    spec.limits.revision_ms = 1_000;
    spec.limits.max_generations = 2;
    let mut world = of_goal(spec);
    plans(&mut world, json!([call("a")]));
    let late = world.live("a");
    world.pass(1_000);
    assert_eq!(world.run.shown(), ShownState::Planning);
    world.settle(late, completed(json!({"late": true})));
    assert_eq!(
        world.shows(),
        "planning: a skipped runended",
        "it changes nothing any more"
    );
    plans(&mut world, json!([call("a")]));
    world.pass(1_000);
    assert_eq!(world.run.shown(), ShownState::Timeout);
}

// RUN-8.1, RUN-11.2
#[test]
fn a_pause_lets_the_generation_end_and_begins_no_other_one() {
    let mut world = of_goal(planned(Preset::Standard));
    offer(&mut world, &["pure.work"]);
    let reason = || "look".to_owned();
    world.input(Input::Pause { reason: reason() });
    assert_eq!(world.run.shown(), ShownState::Pausing);
    planner(&mut world, failed(OutcomeClass::Failed));
    assert_eq!(
        world.last_events(),
        ["ToolOutput", "GenerationEnded", "RunPaused"]
    );
    world.pass(60_000).input(Input::Resume { reason: reason() });
    assert_eq!(world.last_events(), ["RunResumed", "GenerationStarted"]);
    offer(&mut world, &["pure.work"]);
    world.input(Input::Pause { reason: reason() });
    planner(
        &mut world,
        completed(json!({"plan": document(json!([call("a")]))})),
    );
    assert_eq!(world.shows(), "paused: a pending");
    world
        .input(Input::Resume { reason: reason() })
        .complete("a", json!({}));
}

// RUN-8.1, RUN-11.2
#[test]
fn a_planner_is_not_asked_while_its_run_is_to_pause() {
    let mut world = of_goal(planned(Preset::Standard));
    let reason = || "look".to_owned();
    world.input(Input::Pause { reason: reason() });
    offer(&mut world, &["pure.work"]);
    assert_eq!(world.last_events(), ["CatalogueGiven", "RunPaused"]);
    world.pass(60_000).input(Input::Resume { reason: reason() });
    assert_eq!(world.last_events(), ["RunResumed", "ToolCalled"]);
    world.input(Input::Pause { reason: reason() });
    planner(&mut world, failed(OutcomeClass::NeverRan));
    assert_eq!(world.last_events(), ["ToolOutput", "RunPaused"]);
    world.input(Input::Resume { reason: reason() });
    let plan = document(json!([call("a")]));
    planner(&mut world, completed(json!({"plan": plan})));
    world.complete("a", json!({}));
}

// RUN-11.8
#[test]
fn a_given_plan_that_fails_is_followed_by_one_of_the_planner() {
    let mut spec = planned(Preset::Standard);
    spec.goal = String::new();
    let mut world = World::with(json!([tool("a", "pure.other", &[])]), spec);
    world.fail("a", OutcomeClass::FailedForGood);
    plans(&mut world, json!([call("b")]));
    world.complete("b", json!({"done": true}));
    let state = world.run.state();
    assert_eq!(
        (state.revision_number, state.planning.as_ref().unwrap().generation),
        (2, 1)
    );
}

// RUN-11.3, RUN-11.4
#[test]
fn what_is_told_to_a_planner_is_bounded() {
    let mut world = of_goal(planned(Preset::Standard));
    let names: Vec<String> = (0..5_000).map(|n| format!("pure.action_{n:04}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    offer(&mut world, &names);
    let Some(Event::CatalogueGiven(given)) = world.journal[world.journal.len() - 2].event.clone() else {
        panic!("the catalogue is written down")
    };
    assert!(given.catalogue.length <= 300 << 10 && given.n_left_out > 0);
    assert_eq!(given.n_actions + given.n_left_out, 5_000);
    let huge = json!({"content": "{\"a\":".repeat(100_000)});
    planner(&mut world, completed(huge));
    assert_eq!(violation_codes(&world), ["BROKEN_JSON"]);
    let many: Vec<Value> = (0..1_000)
        .map(|n| tool(&format!("s{n}"), "rm.all", &[]))
        .collect();
    offer(&mut world, &[]);
    planner(&mut world, completed(json!({"plan": document(json!(many))})));
    assert_eq!(violation_codes(&world).len(), 20);
    assert!(opaque(&json!({})).is_empty());
}
