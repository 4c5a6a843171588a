//! Effects of which nobody knows whether they happened, when another plan or another run would make them again.

use std::sync::Arc;

use escapement_run::ids::RunId;
use escapement_run::journal::{Decision, Doubt, OutcomeClass, RequestKind};
use escapement_run::plan;
use escapement_run::presets::Preset;
use escapement_run::spec::{ActionProfile, EffectClass, InDoubt, Spec};
use escapement_run::{
    EditedPlan, Effect, Input, Keep, Refused, RefusedReason, RewindScope, Rollback, ShownState, Takes,
};
use serde_json::{Value, json};

use crate::planning::{document, of_goal, offer_profiles, planned, planner, profile, told_planner};
use crate::world::{World, and, call, completed, failed, opaque, rollback, spec, tool};

/// One generation of a plan may take a second, and there are three.
fn limited(unknown: InDoubt, timed_out: InDoubt) -> Spec {
    let mut spec = planned(Preset::Standard);
    spec.limits.revision_ms = 1_000;
    spec.limits.max_generations = 3;
    spec.policy.set_ambiguity(unknown);
    spec.policy.set_ambiguous_timeout(timed_out);
    spec
}

fn mail() -> ActionProfile {
    ActionProfile {
        effect: EffectClass::SideEffect.into(),
        ..profile("safe.mail")
    }
}

/// The planner makes a plan of these steps.
fn plans(world: &mut World, steps: Value) {
    offer_profiles(world, vec![profile("pure.work"), mail()]);
    planner(world, completed(json!({"plan": document(steps)})));
}

/// The same mail, whatever the step is called.
fn sends_as(key: &str) -> Value {
    let config = json!({"config": {"tool_name": "safe.mail", "tool_args": {"to": "eve"}}});
    and(tool(key, "safe.mail", &[]), config)
}

fn sends(key: &str) -> Value {
    json!([sends_as(key)])
}

/// A run whose first plan sends a mail, of which nothing is known when the time of the plan is over.
fn interrupted(spec: Spec) -> World {
    let mut world = of_goal(spec);
    plans(&mut world, sends("a"));
    world.pass(1_000);
    assert_eq!(world.run.shown(), ShownState::Planning);
    world
}

// RUN-12.14
#[test]
fn an_effect_in_flight_when_the_time_of_its_plan_is_over_is_not_repeated_in_silence() {
    for (decision, shown, sent) in [
        (Decision::Happened, "completed: b completed", 0),
        (Decision::DidNot, "running: b running", 1),
    ] {
        let mut world = interrupted(limited(InDoubt::Ask, InDoubt::Ask));
        let sent_before = world.submitted();
        plans(&mut world, sends("b"));
        assert_eq!(world.shows(), "waiting: b running");
        let asked = world.asked();
        assert_eq!(asked.kind(), RequestKind::AmbiguousEffect);
        assert!(!asked.earlier_execution.is_empty(), "it says which one");
        world.answer(decision, json!({"sent": true}));
        assert_eq!(world.shows(), shown);
        // The planner was asked once more.
        assert_eq!(world.submitted() - sent_before, 1 + sent);
    }
}

// RUN-12.14
#[test]
fn a_person_who_does_not_know_either_leaves_the_effect_in_doubt() {
    let mut world = interrupted(limited(InDoubt::Ask, InDoubt::Ask));
    plans(&mut world, sends("b"));
    world.answer(Decision::Fail, Value::Null);
    assert_eq!(world.run.shown(), ShownState::Planning);
    plans(&mut world, sends("c"));
    assert_eq!(world.shows(), "waiting: c running");
}

// RUN-12.14, RUN-5.2
#[test]
fn the_policy_of_the_run_decides_about_what_is_in_doubt() {
    let mut world = interrupted(limited(InDoubt::Fail, InDoubt::Retry));
    plans(
        &mut world,
        json!([and(sends_as("b"), json!({"required": false}))]),
    );
    assert_eq!(world.shows(), "completed: b failed AMBIGUOUS_EFFECT");
    let mut world = interrupted(limited(InDoubt::Retry, InDoubt::Fail));
    plans(&mut world, sends("b"));
    assert_eq!(world.shows(), "running: b running");
}

// RUN-12.14
#[test]
fn what_comes_while_another_plan_is_made_settles_the_doubt() {
    let late = |outcome| {
        let mut world = of_goal(limited(InDoubt::Ask, InDoubt::Fail));
        plans(&mut world, sends("a"));
        let execution = world.live("a");
        world.pass(1_000).settle(execution, outcome);
        assert_eq!(world.shows(), "planning: a skipped runended");
        plans(&mut world, sends("b"));
        world
    };
    let world = late(completed(json!({"sent": true})));
    assert_eq!(world.shows(), "completed: b completed");
    assert_eq!(world.output(), json!({"sent": true}));
    assert_eq!(late(failed(OutcomeClass::Failed)).shows(), "running: b running");
    assert_eq!(late(failed(OutcomeClass::NeverRan)).shows(), "running: b running");
    assert_eq!(late(failed(OutcomeClass::Unknown)).shows(), "waiting: b running");
    let world = late(failed(OutcomeClass::TimedOut));
    assert_eq!(
        world.shows(),
        "planning: b failed AMBIGUOUS_EFFECT",
        "its own policy"
    );
}

// RUN-12.14
#[test]
fn only_the_same_call_of_what_may_not_be_repeated_is_in_doubt() {
    let mut world = interrupted(limited(InDoubt::Ask, InDoubt::Ask));
    let config = json!({"config": {"tool_name": "safe.mail", "tool_args": {"to": "bob"}}});
    plans(&mut world, json!([and(tool("b", "safe.mail", &[]), config)]));
    assert_eq!(world.shows(), "running: b running");
    let mut world = of_goal(limited(InDoubt::Ask, InDoubt::Ask));
    plans(&mut world, json!([call("a")]));
    world.pass(1_000);
    plans(&mut world, json!([call("a")]));
    assert_eq!(world.shows(), "running: a running");
    let idempotent = || ActionProfile {
        idempotent: true,
        ..mail()
    };
    let mut world = of_goal(limited(InDoubt::Ask, InDoubt::Ask));
    for _ in 0..2 {
        offer_profiles(&mut world, vec![idempotent()]);
        planner(&mut world, completed(json!({"plan": document(sends("a"))})));
        assert_eq!(world.shows(), "running: a running");
        world.pass(1_000);
    }
}

// RUN-12.14, RUN-11.4
#[test]
fn a_planner_is_told_of_what_is_in_doubt() {
    let mut world = interrupted(limited(InDoubt::Ask, InDoubt::Ask));
    offer_profiles(&mut world, vec![mail()]);
    let told = told_planner(&world).to_string();
    assert!(told.contains("AMBIGUOUS_EFFECT"), "{told}");
}

// RUN-12.14, RUN-12.4
#[test]
fn a_substitution_does_not_repeat_what_is_in_doubt() {
    let paint = ActionProfile {
        alternatives: vec!["pure.draw".to_owned()],
        ..profile("pure.paint")
    };
    let known = [profile("pure.draw"), paint, mail()];
    let mut spec = spec(Preset::Protocol);
    spec.limits.max_retries = 0;
    let optional = and(tool("a", "safe.mail", &[]), json!({"required": false}));
    let document = document(json!([optional, tool("b", "pure.paint", &[])]));
    let mut world = World::knowing(document, spec, &known);
    world.input(Input::Admit).fail("a", OutcomeClass::Unknown);
    assert_eq!(world.shows(), "running: a failed AMBIGUOUS_EFFECT, b running");
    world.fail("b", OutcomeClass::FailedForGood);
    assert_eq!(world.shows(), "running: a failed AMBIGUOUS_EFFECT, b running");
}

fn fork(world: &World, keep: Keep<'_>, allow: bool) -> Result<World, Refused> {
    let takes = Takes {
        keep,
        edited: None,
        allow_repeat_effects: allow,
        doubts_of_children: Vec::new(),
    };
    let mut fork = world.fork_taking(RunId::from_random([9; 16]), spec(Preset::Standard), takes)?;
    fork.input(Input::Admit);
    Ok(fork)
}

// RUN-12.14, RUN-8.8
#[test]
fn a_retry_of_a_run_whose_time_was_over_asks_about_what_was_in_flight() {
    let mut limited = spec(Preset::Standard);
    limited.limits.run_ms = 1_000;
    let mut world = World::with(sends("a"), limited);
    world.pass(1_000);
    assert_eq!(world.shows(), "timeout: a skipped runended");
    let retried = fork(&world, Keep::Completed, false).unwrap();
    assert_eq!(retried.shows(), "waiting: a running");
    // Nobody has said anything yet: it is in doubt in the next run, too.
    let again = fork(&retried, Keep::Completed, false).unwrap();
    assert_eq!(again.shows(), "waiting: a running");
    assert_eq!(
        fork(&world, Keep::Completed, true).unwrap().shows(),
        "running: a running"
    );
}

// RUN-8.8
#[test]
fn a_fork_from_a_step_does_not_repeat_effects_unasked() {
    let steps = json!([call("a"), tool("mail", "safe.mail", &[]), call("c")]);
    let mut world = World::of(steps);
    world.complete("a", json!({}));
    let refused = |world: &World, from| {
        let refused = fork(world, Keep::Before(from), false).err();
        refused.map(|refused| (refused.reason, refused.message))
    };
    let message = "effects of these steps would be repeated, which allow_repeat_effects allows: mail";
    let repeats = Some((RefusedReason::EffectsWouldRepeat, message.to_owned()));
    assert_eq!(refused(&world, "mail"), repeats, "it is in flight");
    world.complete("mail", json!({}));
    assert_eq!(refused(&world, "a"), repeats);
    assert_eq!(refused(&world, "c"), None);
    // What a fork took over is its own effect, too.
    let kept = fork(&world, Keep::Before("c"), false).unwrap();
    assert_eq!(refused(&kept, "mail"), repeats);
    let allowed = fork(&world, Keep::Before("mail"), true).unwrap();
    assert_eq!(allowed.shows(), "running: a completed, mail running, c pending");
}

// RUN-8.4, RUN-8.5
#[test]
fn what_is_in_doubt_is_not_set_back_unasked() {
    let rewind = |allow| Input::Rewind {
        step_key: "mail".to_owned(),
        scope: RewindScope::Later,
        allow_repeat_effects: allow,
    };
    let mut world = World::of(json!([tool("mail", "safe.mail", &[])]));
    assert_eq!(world.refusal(rewind(false)), RefusedReason::EffectsWouldRepeat);
    let data = escapement_model::Opaque::default();
    world.input(Input::Checkpoint { data });
    world.fail("mail", OutcomeClass::Unknown);
    assert_eq!(world.shows(), "waiting: mail running");
    assert_eq!(world.refusal(rewind(false)), RefusedReason::EffectsWouldRepeat);
    for to in [Rollback::Reset, Rollback::Restore(None)] {
        assert_eq!(world.refusal(rollback(to)), RefusedReason::EffectsWouldRepeat);
    }
    world.answer(Decision::DidNot, Value::Null);
    world.fail("mail", OutcomeClass::FailedForGood);
    assert_eq!(world.run.shown(), ShownState::Failed);

    let mut world = World::of(json!([tool("mail", "safe.mail", &[])]));
    world.input(rewind(true));
    assert_eq!(world.shows(), "running: mail running");
}

const CHILD: &str = "0b9e7a34-51c2-4d8e-8f60-1a2b3c4d5e01";

fn sub_plan() -> Value {
    json!([{"key": "sub", "type": "sub_plan", "config": {"plan_id": CHILD}, "retry": {"max_retries": 1}}])
}

/// The child that was asked for last, and what it is told.
fn asked_for(world: &World) -> (RunId, Vec<Doubt>) {
    let mut effects = world.effects.iter().rev();
    let started = effects.find_map(|effect| match effect {
        Effect::StartChild { run_id, doubts, .. } => Some((*run_id, doubts.clone())),
        _ => None,
    });
    started.expect("a child was asked for")
}

/// The child that was asked for last: it sends the mail.
fn child_of(parent: &World, on_doubt: InDoubt) -> World {
    let (_, doubts) = asked_for(parent);
    let mut spec = limited(on_doubt, on_doubt);
    (spec.planner, spec.goal) = (None, String::new());
    spec.parent_run_id = parent.run.state().run_id.clone();
    spec.doubts = doubts;
    World::with(sends("a"), spec)
}

/// The parent hears of its end.
fn child_ended(parent: &mut World, child: &World) {
    let (run_id, _) = asked_for(parent);
    let state = child.run.state();
    assert!(state.stage().is_end(), "{}", child.shows());
    let result = match state.end.as_ref().and_then(|end| end.output.clone()) {
        Some(output) => Ok(child.request_of(&output)),
        None => Err("it failed".to_owned()),
    };
    parent.input(Input::ChildEnded {
        run_id,
        result,
        used: None,
        doubts: Some(child.journal.last().unwrap().doubts.clone()),
    });
}

/// A run whose child sent a mail of which nobody knows more, and that has asked for the next child.
fn with_a_child_in_doubt() -> World {
    let mut parent = World::of(sub_plan());
    let mut child = child_of(&parent, InDoubt::Fail);
    child.fail("a", OutcomeClass::Unknown);
    assert_eq!(child.shows(), "failed: a failed AMBIGUOUS_EFFECT");
    child_ended(&mut parent, &child);
    parent.pass(60_000);
    assert_eq!(parent.shows(), "running: sub running");
    parent
}

// RUN-12.14, RUN-4.12
#[test]
fn a_child_that_is_tried_again_does_not_repeat_an_effect_in_doubt_of_the_one_before() {
    let mut parent = with_a_child_in_doubt();
    let mut second = child_of(&parent, InDoubt::Ask);
    assert_eq!(second.shows(), "waiting: a running");
    assert!(!second.asked().earlier_execution.is_empty(), "it says which one");
    second.answer(Decision::Happened, json!({"sent": true}));
    assert_eq!(second.shows(), "completed: a completed");
    assert_eq!(second.submitted(), 0);
    child_ended(&mut parent, &second);
    assert_eq!(parent.shows(), "completed: sub completed");
    assert_eq!(parent.run.in_doubt(&parent.disk), [], "it is settled here, too");
}

// RUN-12.14
#[test]
fn what_is_in_doubt_of_a_child_is_in_doubt_in_the_next_plan_and_in_a_fork() {
    let mut parent = with_a_child_in_doubt();
    let mut second = child_of(&parent, InDoubt::Ask);
    second.answer(Decision::Fail, Value::Null);
    child_ended(&mut parent, &second);
    assert_eq!(parent.shows(), "failed: sub failed CHILD_FAILED");
    let again = fork(&parent, Keep::Completed, false).unwrap();
    assert_eq!(asked_for(&again).1.len(), 1, "in the next child");
    let own = EditedPlan {
        plan: Arc::new(plan::read(&opaque(&document(sends("b")))).unwrap()),
        profiles: vec![mail()],
    };
    let takes = |allow_repeat_effects| Takes {
        keep: Keep::Completed,
        edited: Some(own.clone()),
        allow_repeat_effects,
        doubts_of_children: Vec::new(),
    };
    for (allow, shown) in [(false, "waiting: b running"), (true, "running: b running")] {
        let id = RunId::from_random([9; 16]);
        let forked = parent.fork_taking(id, spec(Preset::Standard), takes(allow));
        let mut forked = forked.unwrap();
        forked.input(Input::Admit);
        assert_eq!(forked.shows(), shown, "in a plan that makes the call itself");
    }
}

// RUN-12.14, RUN-8.4
#[test]
fn a_child_that_is_under_way_or_in_doubt_is_not_set_back_unasked() {
    let rewind = |allow| Input::Rewind {
        step_key: "sub".to_owned(),
        scope: RewindScope::Later,
        allow_repeat_effects: allow,
    };
    let mut parent = World::of(sub_plan());
    assert_eq!(parent.refusal(rewind(false)), RefusedReason::EffectsWouldRepeat);
    let mut child = child_of(&parent, InDoubt::Fail);
    child.fail("a", OutcomeClass::Unknown);
    child_ended(&mut parent, &child);
    assert_eq!(parent.shows(), "running: sub running", "it backs off");
    assert_eq!(parent.refusal(rewind(false)), RefusedReason::EffectsWouldRepeat);
    parent.input(rewind(true));
    assert_eq!(asked_for(&parent).1, []);
}

// RUN-12.14
#[test]
fn a_child_that_is_cancelled_says_what_was_in_flight_and_a_fork_is_told_of_it() {
    let mut parent = World::of(sub_plan());
    let mut child = child_of(&parent, InDoubt::Ask);
    let cancel = || Input::Cancel {
        reason: "parent".to_owned(),
    };
    let before = child.run.in_doubt(&child.disk);
    child.input(cancel());
    assert_eq!(child.journal.last().unwrap().doubts, before);
    assert_eq!(before.len(), 1);
    parent.input(cancel());
    let children: Vec<RunId> = parent.run.state().children().collect();
    assert_eq!(children, [asked_for(&parent).0], "whose end it does not hear of");
    let takes = |allow_repeat_effects| Takes {
        keep: Keep::Completed,
        edited: None,
        allow_repeat_effects,
        doubts_of_children: before.clone(),
    };
    let forked = |allow| {
        let id = RunId::from_random([9; 16]);
        let mut fork = parent
            .fork_taking(id, spec(Preset::Standard), takes(allow))
            .unwrap();
        fork.input(Input::Admit);
        asked_for(&fork).1
    };
    assert_eq!(forked(false), before);
    assert_eq!(forked(true), []);
}

// RUN-12.14
#[test]
fn a_run_that_nobody_waits_for_says_nothing_of_doubts_with_its_end() {
    let mut world = World::of(sends("a"));
    world.input(Input::Cancel {
        reason: "user".to_owned(),
    });
    let last = world.journal.last().unwrap();
    assert_eq!((&last.doubts, &last.children), (&Vec::new(), &Vec::new()));
}
