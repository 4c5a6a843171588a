//! Time: limits inside of limits, the watchdog, and what is due when.

use escapement_run::journal::OutcomeClass::{Failed, TimedOut};
use escapement_run::presets::Preset;
use escapement_run::{Effect, Input};
use prost::Message;
use serde_json::json;

use crate::world::{START, World, and, call, spec};

// RUN-7.6, RUN-2.5
#[test]
fn each_limit_of_the_run_ends_it_as_timeout() {
    type Set = fn(&mut escapement_run::spec::Limits);
    let table: [(&str, Set, i64); 4] = [
        ("WATCHDOG", |limits| limits.watchdog_ms = 5000, 5000),
        ("REVISION_TIMEOUT", |limits| limits.revision_ms = 6000, 6000),
        ("RUN_TIMEOUT", |limits| limits.run_ms = 7000, 7000),
        ("LIFETIME_EXCEEDED", |limits| limits.lifetime_ms = 8000, 8000),
    ];
    for (code, set, ms) in table {
        let mut limited = spec(Preset::Standard);
        set(&mut limited.limits);
        let mut world = World::with(json!([call("a"), call("b")]), limited);
        world.pass(ms - 1);
        assert_eq!(world.run.shown().as_str(), "running", "{code}");
        world.pass(1);
        assert_eq!(
            world.shows(),
            "timeout: a skipped runended, b skipped runended",
            "{code}"
        );
        assert_eq!(world.error().0, code);
        assert_eq!(
            world.last_events().last_chunk().unwrap(),
            &["TimeoutError", "RunFailed"]
        );
    }
}

// RUN-7.3
#[test]
fn only_what_ends_re_arms_the_watchdog() {
    let mut strict = spec(Preset::Protocol);
    strict.limits.watchdog_ms = 1000;
    strict.limits.max_retries = 3;
    strict.limits.backoff_ms = 100;
    let mut world = World::with(json!([call("a"), call("b")]), strict);
    world.pass(900).complete("a", json!({}));
    world.pass(900).fail("b", Failed);
    assert_eq!(world.run.shown().as_str(), "running");
    world.pass(99);
    assert_eq!(world.run.shown().as_str(), "running");
    world.pass(1);
    assert_eq!(world.error().0, "WATCHDOG", "a retry is no progress");
}

// RUN-7.3
#[test]
fn the_computed_watchdog_leaves_a_unit_all_its_retries() {
    let mut patient = spec(Preset::Standard);
    patient.limits.attempt_ms = 600_000;
    let mut world = World::with(json!([call("a")]), patient);
    for _ in 0..3 {
        world.pass(599_000).fail("a", Failed).pass(4000);
    }
    assert_eq!(world.shows(), "running: a running");
    world.complete("a", json!({}));
    assert_eq!(world.run.shown().as_str(), "completed");
}

// RUN-7.2, RUN-7.6
#[test]
fn waiting_for_people_is_no_active_time_and_yet_a_part_of_the_life() {
    let question =
        json!({"key": "q", "type": "user_input", "config": {"question": "Go?", "input_type": "confirm"}});
    let mut limited = spec(Preset::Standard);
    limited.limits.run_ms = 3000;
    limited.limits.watchdog_ms = 1000;
    limited.limits.lifetime_ms = 10_000;
    let mut world = World::with(json!([question, call("a")]), limited.clone());
    world.pass(5000);
    assert_eq!(world.shows(), "waiting: q running, a pending");
    world.answer(escapement_run::journal::Decision::Answer, json!(true));
    world.pass(500).complete("a", json!({}));
    assert_eq!(world.run.shown().as_str(), "completed");
    assert_eq!(world.run.state().active_ms, 500);
    let question =
        json!({"key": "q", "type": "user_input", "config": {"question": "Go?", "input_type": "confirm"}});
    let mut world = World::with(json!([question]), limited);
    world.pass(10_000);
    assert_eq!(world.error().0, "LIFETIME_EXCEEDED");
}

// RUN-7.4, RUN-7.6
#[test]
fn an_attempt_that_was_cut_and_hangs_ends_the_run_by_the_outer_limit_and_not_by_its_step() {
    type Set = fn(&mut escapement_run::spec::Limits);
    let table: [(&str, Set); 3] = [
        ("REVISION_TIMEOUT", |limits| limits.revision_ms = 8000),
        ("RUN_TIMEOUT", |limits| limits.run_ms = 8000),
        ("LIFETIME_EXCEEDED", |limits| limits.lifetime_ms = 8000),
    ];
    for (code, set) in table {
        let mut short = spec(Preset::Standard);
        set(&mut short.limits);
        short.limits.max_retries = 0;
        let skips = and(call("a"), json!({"on_failure": "skip"}));
        for first in [call("a"), skips] {
            let mut world = World::with(json!([first, call("b")]), short.clone());
            world.pass(7000).fail("a", TimedOut);
            assert_eq!(world.run.shown().as_str(), "running", "{code}");
            assert_eq!(world.submitted(), 1, "there is no retry");
            world.pass(999);
            assert_eq!(world.run.shown().as_str(), "running", "{code}");
            world.pass(1);
            assert_eq!(
                (world.run.shown().as_str(), world.error().0.as_str()),
                ("timeout", code)
            );
        }
        // An attempt with all the time of its own limit has failed on its own.
        let own = and(call("a"), json!({"timeout_ms": 1000}));
        let mut world = World::with(json!([own, call("b")]), short);
        world.pass(1000).fail("a", TimedOut);
        assert_eq!(world.error().0, "TOOL_TIMEOUT", "{code}");
    }
}

// RUN-7.4
#[test]
fn an_attempt_gets_what_the_outer_limits_leave() {
    let mut short = spec(Preset::Standard);
    short.limits.run_ms = 2000;
    let mut world = World::with(json!([call("a"), call("b")]), short.clone());
    let Some(Effect::Submit {
        attempt_ms, request, ..
    }) = world.effects.last()
    else {
        panic!("{:?}", world.effects);
    };
    assert_eq!(*attempt_ms, 1750, "an eighth is left to the contract's queue");
    let request = escapement_wire::v1::SubmitPlanRequest::decode(request.clone()).unwrap();
    let left_ms = request.deadline_ms.unwrap() - world.now;
    assert_eq!(left_ms, 2000);
    let plan_ms = request.plan.unwrap().timeout_ms.unwrap();
    assert_eq!(plan_ms, 1750, "with more the contract would not start it");
    world.pass(1951).complete("a", json!({}));
    assert_eq!(world.submitted(), 1, "with 49 ms left nothing is dispatched");
    assert_eq!(world.error().0, "RUN_TIMEOUT");
    let mut just = World::with(json!([call("a"), call("b")]), short);
    just.pass(1950).complete("a", json!({}));
    assert_eq!(just.submitted(), 2);
}

// RUN-7.5
#[test]
#[should_panic(expected = "time fires before a later input")]
fn an_input_before_the_time_that_is_due_is_a_defect() {
    let mut limited = spec(Preset::Standard);
    limited.limits.run_ms = 100;
    let mut world = World::with(json!([call("a")]), limited);
    world.now += 100;
    world.complete("a", json!({}));
}

// RUN-2.1
#[test]
fn time_does_not_go_back() {
    let mut world = World::of(json!([call("a"), call("b")]));
    world.pass(500).complete("a", json!({}));
    world.now = START;
    world.complete("b", json!({}));
    assert_eq!(world.journal.last().unwrap().at, START + 500);
}

// RUN-7.1
#[test]
fn the_presets_have_the_values_of_their_table() {
    let of = |preset: Preset| {
        let limits = preset.limits(8);
        let numbers = [
            limits.attempt_ms,
            u64::from(limits.max_retries),
            limits.backoff_ms,
            limits.watchdog_ms,
            limits.revision_ms,
            limits.run_ms,
            u64::from(limits.max_concurrency),
            u64::from(limits.max_generations),
            u64::from(limits.max_substitutions),
            u64::from(preset.autonomy_level()),
        ];
        let policy = preset.policy();
        let words = format!(
            "{:?} {:?} {:?} {:?} {} {}",
            policy.ambiguity(),
            policy.ambiguous_timeout(),
            policy.on_failure(),
            policy.on_dependency_failure(),
            policy.escalate,
            policy.async_by_default
        );
        (numbers, words)
    };
    let table = [
        (
            Preset::Standard,
            [30_000, 3, 1000, 0, 0, 3_600_000, 8, 5, 3, 1],
            "Ask Ask Abort Skip false true",
        ),
        (
            Preset::Execution,
            [30_000, 3, 100, 0, 60_000, 325_000, 8, 5, 0, 4],
            "Fail Retry Drain NullIfOptional false false",
        ),
        (
            Preset::PlanMode,
            [30_000, 3, 0, 0, 0, 3_600_000, 1, 1, 0, 4],
            "Fail Retry Skip Synthetic true false",
        ),
        (
            Preset::Autonomous,
            [60_000, 3, 1000, 0, 0, 3_600_000, 1, 1, 0, 1],
            "Ask Retry Abort Block false false",
        ),
        (
            Preset::Protocol,
            [60_000, 0, 1000, 30_000, 0, 3_600_000, 1, 1, 3, 4],
            "Fail Retry Abort Skip false false",
        ),
    ];
    for (preset, numbers, words) in table {
        assert_eq!(of(preset), (numbers, words.to_owned()), "{preset:?}");
        assert_eq!(Preset::spelled(preset.as_str()), Some(preset));
    }
}

// RUN-2.5
#[test]
fn a_retry_goes_before_a_limit_of_the_same_instant() {
    let mut limited = spec(Preset::Standard);
    limited.limits.lifetime_ms = 1000;
    limited.limits.backoff_ms = 1000;
    let mut world = World::with(json!([and(call("a"), json!({}))]), limited);
    world.fail("a", Failed);
    world.pass(1000);
    // The retry was due, found no time left, and the limit ended the run.
    assert_eq!(world.error().0, "LIFETIME_EXCEEDED");
    assert!(matches!(world.run.shown().as_str(), "timeout"));
    assert_eq!(
        world
            .refusal(Input::Pause {
                reason: String::new()
            })
            .as_str(),
        "RUN_ENDED"
    );
}

// RUN-2.5, RUN-5.6
#[test]
fn a_retry_that_an_abort_prevents_hides_no_limit() {
    let asynchronous = |key: &str, retries: u32| {
        and(
            call(key),
            json!({"async": true, "retry": {"max_retries": retries}}),
        )
    };
    let steps = json!([asynchronous("a", 3), asynchronous("b", 0), asynchronous("c", 0)]);
    let document = json!({"schema": "escapement.plan/1", "name": "Story", "parallel": true, "steps": steps});
    let mut three = spec(Preset::Standard);
    three.limits.max_concurrency = 3;
    three.limits.run_ms = 5000;
    let mut world = World::document(document, three);
    world.fail("a", Failed).fail("b", Failed);
    assert_eq!(world.shows(), "running: a running, b failed BROKEN, c running");
    assert_eq!(world.run.due_at(), Some(START + 5000));
    world.pass(5000);
    assert_eq!(world.error().0, "RUN_TIMEOUT");
}

// RUN-7.2, RUN-2.1
#[test]
fn time_in_which_the_orchestrator_stood_still_is_no_active_time() {
    let mut strict = spec(Preset::Standard);
    (strict.limits.watchdog_ms, strict.limits.run_ms) = (5000, 9000);
    let mut world = World::with(json!([call("a"), call("b")]), strict);
    world.pass(4000);
    world.now += 60_000;
    world.input(Input::Stalled { ms: 60_000 });
    assert_eq!(world.last_events(), ["RunStalled"]);
    world.pass(999);
    assert_eq!(world.shows(), "running: a running, b pending");
    world.complete("a", json!({})).pass(4000);
    assert_eq!(world.run.shown().as_str(), "running");
    world.pass(1);
    assert_eq!(world.error().0, "RUN_TIMEOUT");
    let replayed = escapement_runs_insight::replay(&world.bytes, &world.disk).unwrap();
    assert_eq!(replayed.run.state(), world.run.state());
}

// RUN-7.2
#[test]
fn what_lasts_while_the_orchestrator_stands_still_is_over_all_the_same() {
    let mut mortal = spec(Preset::Standard);
    mortal.limits.lifetime_ms = 30_000;
    let mut world = World::with(json!([call("a")]), mortal);
    world.fail("a", Failed);
    world.now += 20_000;
    world.input(Input::Stalled { ms: 20_000 }).input(Input::Time);
    assert_eq!(world.shows(), "running: a running", "the retry was due");
    world.pass(10_000);
    assert_eq!(world.error().0, "LIFETIME_EXCEEDED");
}
