//! Restarts: what is outstanding is done again, byte for byte, and nothing else.

use std::sync::Arc;

use escapement_run::journal::OutcomeClass::Failed;
use escapement_run::journal::{Entry, Event};
use escapement_run::presets::Preset;
use escapement_run::spec::{ActionProfile, EffectClass, ResumePolicy, Risk};
use escapement_run::state::RunState;
use escapement_run::{Effect, Input, RefusedReason, Run, SessionNews};
use prost::Message;
use serde_json::json;

use crate::world::{World, and, call, opaque, spec};

const CHILD: &str = "0b9e7a34-51c2-4d8e-8f60-1a2b3c4d5e01";

/// The run as another process has it: from a snapshot, or folded from its journal.
fn restarted(mut world: World) -> World {
    let snapshot = RunState::decode(world.run.state().encode_to_vec().as_slice()).unwrap();
    assert_eq!(snapshot, world.folded());
    world.run = Run::from_snapshot(snapshot, Arc::clone(world.run.plan()));
    world
}

// RUN-9.2, RUN-9.4, RUN-4.2
#[test]
fn an_attempt_without_an_outcome_is_submitted_again_byte_for_byte() {
    let document = json!({"schema": "escapement.plan/1", "name": "Story", "parallel": true, "steps": [
        and(call("a"), json!({"async": true})), and(call("b"), json!({"async": true})),
        and(call("c"), json!({"async": true}))]});
    let mut three = spec(Preset::Standard);
    three.limits.max_concurrency = 3;
    let mut world = World::document(document, three);
    world.complete("b", json!({}));
    let sent = world.effects.clone();
    let mut world = restarted(world);
    world.effects.clear();
    world.input(Input::Recovered);
    assert_eq!(world.effects, [sent[0].clone(), sent[2].clone()]);
    let Some(Event::RunRecovered(recovered)) = world.journal.last().unwrap().event else {
        panic!("{:?}", world.journal.last());
    };
    assert_eq!(
        (recovered.completed, recovered.resubmitted, recovered.ambiguous),
        (1, 2, 0)
    );
}

// RUN-7.2, RUN-14.4
#[test]
fn downtime_before_a_session_read_does_not_count_as_active() {
    let mut shared = spec(Preset::Standard);
    shared.session_id = "s".to_owned();
    shared.limits.watchdog_ms = 5_000;
    let mut world = restarted(World::with(json!([call("a")]), shared));
    world.now += 60_000;
    // Another run changed the session since the start.
    world.input(Input::Session(SessionNews {
        state: Some((1, opaque(&json!({ "seen": 1 })))),
        health: None,
    }));
    world.input(Input::Recovered);
    assert_eq!(world.shows(), "running: a running");
    world.pass(4_999);
    assert_eq!(world.shows(), "running: a running");
    world.pass(1);
    assert_eq!(world.error().0, "WATCHDOG");
}

// RUN-9.4
#[test]
fn evaluations_and_children_are_asked_for_again() {
    let steps = json!([{"key": "if", "type": "condition", "config": {"condition": "input.n > 2"}},
        {"key": "sub", "type": "sub_plan", "config": {"plan_id": CHILD, "input": {"c": "${input:/city}"}}}]);
    let mut world = restarted(World::of(steps));
    let asked = world.effects.clone();
    world.input(Input::Recovered);
    assert_eq!(world.effects[asked.len()..], asked);
    world.input(Input::Evaluated {
        evaluation: 1,
        result: Ok(true),
    });
    let child = world.effects.last().cloned().unwrap();
    assert!(matches!(child, Effect::StartChild { .. }));
    let mut world = restarted(world);
    world.input(Input::Recovered);
    assert_eq!(world.effects.last(), Some(&child));
}

// RUN-9.5
#[test]
fn a_run_that_shall_not_be_resumed_is_cancelled_by_a_restart() {
    let mut discard = spec(Preset::Standard);
    discard.policy.resume = ResumePolicy::Discard.into();
    let mut world = restarted(World::with(json!([call("a")]), discard));
    let before = world.effects.len();
    world.input(Input::Recovered);
    assert_eq!(
        (world.run.shown().as_str(), world.error().1.as_str()),
        ("cancelled", "discarded")
    );
    assert_eq!(world.effects.len(), before);
}

// RUN-9.5
#[test]
fn ten_crashes_without_progress_pause_the_run() {
    let mut world = World::of(json!([call("a"), call("b")]));
    for _ in 0..9 {
        world.input(Input::Recovered);
    }
    world.complete("a", json!({}));
    for _ in 0..9 {
        world.input(Input::Recovered);
        assert_eq!(world.run.shown().as_str(), "running");
    }
    world.input(Input::Recovered);
    assert_eq!(world.last_events(), ["RunRecovered", "PauseRequested"]);
    let Some(Event::PauseRequested(pause)) = &world.journal.last().unwrap().event else {
        panic!("{:?}", world.journal.last());
    };
    assert!(pause.reason.starts_with("CRASH_LOOP: "), "{}", pause.reason);
    world.input(Input::Recovered);
    assert_eq!(world.last_events(), ["RunRecovered"], "it was said once");
    world.complete("b", json!({}));
    assert_eq!(world.run.shown().as_str(), "paused", "what is in flight ends");
    world.input(Input::Resume {
        reason: "found it".to_owned(),
    });
    assert_eq!(world.run.shown().as_str(), "completed");
    let question = json!({"key": "q", "type": "user_input", "config": {"question": "?"}});
    let mut waiting = World::of(json!([question]));
    for _ in 0..20 {
        waiting.input(Input::Recovered);
    }
    assert_eq!(
        waiting.run.shown().as_str(),
        "waiting",
        "there was nothing to crash on"
    );
}

// RUN-9.5
#[test]
fn neither_orderly_restarts_nor_children_count_as_crashes() {
    let mut world = World::of(json!([call("a")]));
    for _ in 0..30 {
        world.input(Input::Restarted);
        assert_eq!(world.effects.last(), Some(&world.effects[0]), "it is sent again");
    }
    assert_eq!(world.run.state().recoveries, 0);
    let step = json!({"key": "sub", "type": "sub_plan", "config": {"plan_id": CHILD}});
    let mut parent = World::of(json!([step]));
    for _ in 0..30 {
        parent.input(Input::Recovered);
    }
    assert_eq!(parent.run.shown().as_str(), "running");
    assert_eq!(parent.run.state().recoveries, 0);
    let parallel = json!({"schema": "escapement.plan/1", "name": "Both", "parallel": true, "steps": [
        and(step, json!({"async": true})), and(call("a"), json!({"async": true}))]});
    let mut two = spec(Preset::Standard);
    two.limits.max_concurrency = 2;
    let mut both = World::document(parallel, two);
    assert_eq!(both.effects.len(), 2);
    both.input(Input::Recovered);
    assert_eq!(both.run.state().recoveries, 1);
}

// RUN-2.6
#[test]
fn a_run_waits_in_the_queue_for_what_is_known_of_its_actions() {
    let nobody_said = |action: &str| ActionProfile {
        action: action.to_owned(),
        unknown: true,
        ..ActionProfile::default()
    };
    let document = json!({"schema": "escapement.plan/1", "name": "Story", "steps": [call("a")]});
    let mut careful = spec(Preset::Standard);
    careful.autonomy_level = 2;
    let action = "pure.work".to_owned();
    let waiting = || World::knowing(document.clone(), careful.clone(), &[nobody_said(&action)]);
    let asks = Effect::Actions {
        unknown: vec![action.clone()],
    };
    let mut world = waiting();
    assert_eq!(world.effects, std::slice::from_ref(&asks));
    assert_eq!(world.refusal(Input::Admit), RefusedReason::NotQueued);
    world.input(Input::Recovered);
    assert_eq!(world.effects, [asks.clone(), asks], "a restart asks again");
    let known = ActionProfile {
        action: action.clone(),
        effect: EffectClass::Pure.into(),
        risk: Risk::Safe.into(),
        ..ActionProfile::default()
    };
    let profiles = vec![known];
    world.input(Input::ActionsKnown {
        profiles: profiles.clone(),
    });
    world.input(Input::ActionsKnown { profiles });
    assert_eq!(world.last_events(), [""; 0], "it is learnt once");
    world.input(Input::Admit);
    assert_eq!(world.run.shown().as_str(), "running", "what is safe asks nobody");

    // No worker or operator described it in time: the careful traits hold.
    let mut world = waiting();
    world.input(Input::ActionsKnown {
        profiles: vec![nobody_said(&action)],
    });
    world.input(Input::Admit);
    assert_eq!(world.run.shown().as_str(), "waiting");
}

// RUN-7.2, RUN-9.4
#[test]
fn downtime_is_no_active_time_and_deadlines_stay_where_they_were() {
    let mut limited = spec(Preset::Standard);
    limited.limits.run_ms = 5000;
    let mut world = World::with(json!([call("a"), call("b")]), limited);
    world.pass(1000).complete("a", json!({}));
    world.now += 60_000;
    let mut world = restarted(world);
    world.input(Input::Recovered);
    world.pass(3999);
    assert_eq!(world.run.shown().as_str(), "running");
    world.pass(1);
    assert_eq!(world.error().0, "RUN_TIMEOUT");
}

// RUN-7.8, RUN-5.3
#[test]
fn after_a_start_behind_the_journal_no_delay_is_longer_than_it_is() {
    let hour_ms = 3_600_000;
    for back_ms in [1, hour_ms, 10 * 365 * 24 * hour_ms] {
        let mut mortal = spec(Preset::Standard);
        (mortal.limits.lifetime_ms, mortal.limits.backoff_ms) = (60_000, 4000);
        let mut world = World::with(json!([call("a")]), mortal);
        world.pass(1000).fail("a", Failed);
        let delay_ms = world.run.due_at().unwrap() - world.now;
        world.now -= back_ms;
        let mut world = restarted(world);
        world.input(Input::Recovered);
        assert_eq!(
            world.run.due_at(),
            Some(world.now + delay_ms),
            "{back_ms} ms back"
        );
        world.pass(delay_ms);
        assert_eq!(world.shows(), "running: a running");
        // Another start finds the clock right again: then only the downtime is unknown.
        world.now += back_ms;
        let mut world = restarted(world);
        world.input(Input::Recovered);
        assert_eq!(world.run.state().ahead_ms, 0);
        world.pass(60_000 - 1000 - delay_ms);
        assert_eq!(world.error().0, "LIFETIME_EXCEEDED");
        let replayed = escapement_runs_insight::replay(&world.bytes, &world.disk).unwrap();
        assert_eq!(replayed.run.state(), world.run.state());
    }
}

// RUN-7.8, RUN-6.6
#[test]
fn a_question_waits_no_longer_after_a_start_behind_the_journal() {
    let question = json!({"key": "q", "type": "user_input", "config": {"question": "?", "timeout_ms": 5000}});
    let mut world = World::of(json!([question]));
    let left_ms = world.run.due_at().unwrap() - world.now;
    world.now -= 86_400_000;
    let mut world = restarted(world);
    world.input(Input::Recovered);
    assert_eq!(world.run.due_at(), Some(world.now + left_ms));
    world.pass(left_ms);
    assert_eq!(world.run.shown().as_str(), "failed");
}

// RUN-9.1
#[test]
fn a_changed_entry_changes_every_hash_behind_it() {
    let mut world = World::of(json!([call("a")]));
    world.complete("a", json!({}));
    let right = world.folded().chain;
    for changed in 0..world.bytes.len() - 1 {
        let mut other = World::of(json!([call("a")]));
        other.complete("a", json!({}));
        let written = other.bytes.clone();
        let mut entry = Entry::decode(other.bytes[changed].clone()).unwrap();
        entry.at += i64::try_from(changed).unwrap();
        let later = entry.at;
        other.bytes[changed] = entry.encode_to_vec().into();
        for behind in changed + 1..other.bytes.len() {
            let mut entry = Entry::decode(other.bytes[behind].clone()).unwrap();
            entry.at = entry.at.max(later);
            other.bytes[behind] = entry.encode_to_vec().into();
        }
        assert_eq!(other.folded().chain == right, changed == 0, "entry {changed}");
        other.bytes = written;
    }
}
