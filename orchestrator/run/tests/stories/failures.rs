//! What failure leads to: retries, doubt, escalation, the end.

use escapement_run::journal::OutcomeClass::{Failed, FailedForGood, NeverRan, TimedOut, Unknown};
use escapement_run::journal::{Decision, Event, OutcomeClass, RequestKind};
use escapement_run::outcome::AttemptOutcome;
use escapement_run::presets::Preset;
use escapement_run::spec::{InDoubt, Spec};
use serde_json::{Value, json};

use crate::world::{START, World, and, call, call_after, failed, spec, tool};

/// Due times of the retries in the journal, after the failure that each follows.
fn delays(world: &World) -> Vec<(u32, i64)> {
    let entries = world.journal.iter();
    entries
        .filter_map(|entry| match entry.event.as_ref() {
            Some(Event::StepRetrying(retrying)) => Some((retrying.retry, retrying.due_at - entry.at)),
            _ => None,
        })
        .collect()
}

// RUN-5.3
#[test]
fn retries_wait_longer_each_time_and_are_counted() {
    let mut world = World::of(json!([call("a")]));
    for delay in [1000, 2000, 4000] {
        world.fail("a", Failed);
        assert_eq!(world.shows(), "running: a running");
        world.pass(delay - 1);
        assert!(world.live_unit("a", None).is_none());
        world.pass(1);
    }
    world.fail("a", Failed);
    assert_eq!(world.shows(), "failed: a failed BROKEN");
    assert_eq!(delays(&world), [(1, 1000), (2, 2000), (3, 4000)]);
    assert_eq!(world.submitted(), 4);
}

// RUN-5.3
#[test]
fn who_is_called_says_how_long_it_wants_to_be_left_alone() {
    let mut world = World::of(json!([call("a")]));
    for (wanted, delay) in [(500, 1000), (7_000, 7000), (u64::MAX, 86_400_000)] {
        let outcome = AttemptOutcome {
            retry_after_ms: wanted,
            ..failed(Failed)
        };
        world.settle(world.live("a"), outcome);
        assert_eq!(delays(&world).last().unwrap().1, delay);
        world.pass(delay.min(10_000));
    }
}

// RUN-5.3
#[test]
fn delays_are_those_of_the_preset_and_bounded() {
    let delays_of = |preset: Preset, n: u32| {
        let steps = json!([and(call("a"), json!({"retry": {"max_retries": n}}))]);
        let mut world = World::with(steps, spec(preset));
        for _ in 0..n {
            world.fail("a", Failed);
            let (_, delay) = *delays(&world).last().unwrap();
            world.pass(delay);
        }
        delays(&world)
            .into_iter()
            .map(|(_, delay)| delay)
            .collect::<Vec<_>>()
    };
    assert_eq!(delays_of(Preset::Execution, 3), [100, 200, 400]);
    assert_eq!(
        delays_of(Preset::Autonomous, 7),
        [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]
    );
    assert_eq!(delays_of(Preset::PlanMode, 2), [0, 0]);
    let retry = json!({"max_retries": 4, "backoff_ms": 3, "multiplier": 1.5});
    let mut world = World::of(json!([and(call("a"), json!({"retry": retry}))]));
    for _ in 0..4 {
        world.fail("a", Failed).pass(20);
    }
    assert_eq!(
        delays(&world),
        [(1, 3), (2, 4), (3, 6), (4, 10)],
        "only what is waited is whole"
    );
}

// RUN-5.2
#[test]
fn an_attempt_that_never_ran_is_repeated_uncounted() {
    let mut world = World::of(json!([tool("a", "mail.send", &[])]));
    for _ in 0..5 {
        world.fail("a", NeverRan).pass(30_000);
    }
    world.complete("a", json!({}));
    assert_eq!(world.run.shown().as_str(), "completed");
    assert_eq!(
        delays(&world),
        [(0, 1000), (0, 2000), (0, 4000), (0, 8000), (0, 16_000)]
    );
}

/// Where a step is after its attempt ended so, by the words of the policy.
fn after(action: &str, class: OutcomeClass, ambiguity: InDoubt, timeout: InDoubt) -> String {
    let mut policy: Spec = spec(Preset::Standard);
    policy.policy.ambiguity = ambiguity.into();
    policy.policy.ambiguous_timeout = timeout.into();
    let mut world = World::with(json!([tool("a", action, &[])]), policy);
    world.fail("a", class);
    let asked = world
        .run
        .state()
        .open_requests()
        .next()
        .map(|request| request.kind());
    match (world.run.shown().as_str(), asked) {
        ("waiting", Some(kind)) => format!("{kind:?}"),
        ("failed", None) => world.error().0,
        ("running", None) => "retried".to_owned(),
        other => panic!("{other:?}"),
    }
}

// RUN-5.2
#[test]
fn an_effect_in_doubt_is_never_repeated_in_silence() {
    use InDoubt::{Ask, Fail, Retry};
    for (class, word) in [(Unknown, 0), (TimedOut, 1)] {
        for (policy, expected) in [
            (Ask, "AmbiguousEffect"),
            (Fail, "AMBIGUOUS_EFFECT"),
            (Retry, "retried"),
        ] {
            let words = if word == 0 { (policy, Ask) } else { (Ask, policy) };
            assert_eq!(after("mail.send", class, words.0, words.1), expected, "{class:?}");
            for harmless in ["pure.work", "world.read", "llm.chat", "mail.idempotent"] {
                assert_eq!(
                    after(harmless, class, words.0, words.1),
                    "retried",
                    "{harmless} {class:?}"
                );
            }
        }
    }
    assert_eq!(
        after("mail.send", Failed, Ask, Ask),
        "retried",
        "it surely failed"
    );
    assert_eq!(after("pure.work", FailedForGood, Ask, Ask), "BROKEN");
}

// RUN-5.2
#[test]
fn a_restart_is_not_counted_as_a_failure_of_what_it_interrupted() {
    let restarted = AttemptOutcome {
        class: Unknown,
        output: None,
        code: "UNKNOWN_ERROR".to_owned(),
        message: "restarted".to_owned(),
        pause: false,
        ..AttemptOutcome::default()
    };
    let mut world = World::of(json!([call("a")]));
    for _ in 0..4 {
        let execution_id = world.live("a");
        world.settle(execution_id, restarted.clone()).pass(30_000);
    }
    world.fail("a", Unknown).pass(30_000);
    assert_eq!(
        world.run.state().steps[0].units[0].retries,
        1,
        "a lost worker is counted"
    );
}

fn in_doubt() -> World {
    let mut world = World::of(json!([tool("a", "mail.send", &[]), call("b")]));
    world.fail("a", Unknown);
    assert_eq!(world.asked().kind(), RequestKind::AmbiguousEffect);
    world
}

// RUN-5.2, RUN-6.5
#[test]
fn a_person_says_what_became_of_an_effect_in_doubt() {
    let mut happened = in_doubt();
    happened.answer(Decision::Happened, json!({"id": 7}));
    assert_eq!(happened.shows(), "running: a completed, b running");
    let mut did_not = in_doubt();
    did_not.answer(Decision::DidNot, Value::Null);
    assert_eq!(did_not.shows(), "running: a running, b pending");
    assert_eq!(did_not.submitted(), 2);
    let mut fail = in_doubt();
    fail.answer(Decision::Fail, Value::Null);
    assert_eq!(fail.error().0, "AMBIGUOUS_EFFECT");
}

// RUN-5.4
#[test]
fn used_up_retries_can_be_extended_by_a_person() {
    let mut world = World::with(json!([call("a"), call("b")]), spec(Preset::PlanMode));
    let fail_all = |world: &mut World, n: usize| {
        for _ in 0..n {
            world.fail("a", Failed).pass(0);
        }
    };
    fail_all(&mut world, 4);
    assert_eq!(world.shows(), "waiting: a running, b pending");
    assert_eq!(world.asked().kind(), RequestKind::RetryExtension);
    world.answer(Decision::Extend, Value::Null).pass(0);
    fail_all(&mut world, 3);
    assert_eq!(world.submitted(), 7);
    world.answer(Decision::Fail, Value::Null);
    assert_eq!(
        world.shows(),
        "running: a failed BROKEN, b running",
        "plan_mode goes on"
    );
}

// RUN-5.6
#[test]
fn abort_waits_for_what_is_in_flight_and_names_the_first_cause() {
    let asynchronous = |key| and(call(key), json!({"async": true, "retry": {"max_retries": 0}}));
    let steps = json!([
        asynchronous("a"),
        asynchronous("b"),
        asynchronous("c"),
        call_after("d", &["a"])
    ]);
    let document = json!({"schema": "escapement.plan/1", "name": "Story", "parallel": true, "steps": steps});
    let mut both = spec(Preset::Standard);
    both.limits.max_concurrency = 2;
    let mut world = World::document(document, both);
    world.fail("b", Failed);
    assert_eq!(
        world.shows(),
        "running: a running, b failed BROKEN, c pending, d pending"
    );
    world.fail("a", TimedOut);
    assert_eq!(
        world.shows(),
        "failed: a failed TOOL_TIMEOUT, b failed BROKEN, c skipped runended, d skipped runended"
    );
    assert_eq!(world.error().0, "BROKEN");
}

// RUN-5.6
#[test]
fn an_abort_ends_a_drain() {
    let steps = json!([
        and(
            call("a"),
            json!({"on_failure": "drain", "retry": {"max_retries": 0}})
        ),
        and(
            call("b"),
            json!({"on_failure": "abort", "retry": {"max_retries": 0}})
        ),
        call("c"),
    ]);
    let mut world = World::of(steps);
    world.fail("a", Failed);
    assert_eq!(world.shows(), "running: a failed BROKEN, b running, c pending");
    world.fail("b", FailedForGood);
    assert_eq!(
        world.shows(),
        "failed: a failed BROKEN, b failed BROKEN, c skipped runended"
    );
    assert_eq!(
        world
            .run
            .state()
            .end
            .as_ref()
            .unwrap()
            .error
            .as_ref()
            .unwrap()
            .step,
        Some(0)
    );
    assert_eq!(world.now, START);
}

// RUN-5.5
#[test]
fn what_a_step_says_of_itself_goes_before_the_policy() {
    let skips = json!([
        and(call("a"), json!({"required": false, "retry": {"max_retries": 0}})),
        call("b")
    ]);
    let mut world = World::of(skips);
    world.fail("a", Failed);
    assert_eq!(world.shows(), "running: a failed BROKEN, b running");
    let aborts = json!([
        and(call("a"), json!({"required": true, "retry": {"max_retries": 0}})),
        call("b")
    ]);
    let mut world = World::with(aborts, spec(Preset::PlanMode));
    world.fail("a", Failed);
    assert_eq!(world.shows(), "failed: a failed BROKEN, b skipped runended");
}
