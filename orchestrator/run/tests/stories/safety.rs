//! Destructive calls that are put to a safety check before anybody is asked.

use escapement_run::journal::Decision::Approve;
use escapement_run::journal::OutcomeClass::{Failed, NeverRan, Unknown};
use escapement_run::journal::{Event, OutcomeClass};
use escapement_run::presets::Preset;
use escapement_run::spec::Spec;
use escapement_run::{Effect, Input, RewindScope};
use escapement_runs_insight::explain_step;
use serde_json::{Value, json};

use crate::world::{World, and, call, spec, tool};

fn checked() -> Spec {
    Spec {
        autonomy_level: 3,
        safety_action: "safety.judge".to_owned(),
        ..spec(Preset::Standard)
    }
}

fn destroying() -> Value {
    json!([tool("a", "danger.wipe", &[]), call("b")])
}

/// The action of the attempt that lives, and the index of its unit.
fn live(world: &World) -> (String, u32) {
    let live = world.run.state().steps[0].units[0]
        .live
        .clone()
        .expect("an attempt lives");
    (live.action, live.unit.index)
}

// RUN-6.11
#[test]
fn a_yes_lets_the_call_run_without_asking_anybody() {
    let mut world = World::with(destroying(), checked());
    assert_eq!(live(&world), ("safety.judge".to_owned(), 1_000_000));
    assert_eq!(
        world.payload("a"),
        json!({"action": "danger.wipe", "payload": {"of": "a"}, "plan": "Story", "goal": "", "step": "a"})
    );
    assert_eq!(explain_step(&world.run, 0).rules, ["RUN-6.11"]);
    world.complete("a", json!({"safe": true, "why": "it is a copy"}));
    assert_eq!(live(&world), ("danger.wipe".to_owned(), 0));
    assert_eq!(world.payload("a"), json!({"of": "a"}));
    let verdict = world.journal.iter().find_map(|entry| match &entry.event {
        Some(Event::ToolOutput(output)) => Some((output.unit.index, output.is_safe)),
        _ => None,
    });
    assert_eq!(verdict, Some((1_000_000, true)), "the verdict is an entry");
    // It covers the retries of this very subject.
    world.fail("a", Failed).pass(60_000);
    assert_eq!(live(&world), ("danger.wipe".to_owned(), 0));
    world.complete("a", json!({})).complete("b", json!({}));
    assert_eq!(world.run.shown().as_str(), "completed");
    let ids: std::collections::BTreeSet<_> = world.effects.iter().filter_map(submitted).collect();
    assert_eq!(ids.len(), 4, "each execution has an id of its own");
}

fn submitted(effect: &Effect) -> Option<String> {
    match effect {
        Effect::Submit { execution_id, .. } => Some(execution_id.to_string()),
        _ => None,
    }
}

// RUN-6.11
#[test]
fn whatever_is_no_clear_yes_asks_a_person() {
    type Say = fn(&mut World) -> &mut World;
    let says: [Say; 7] = [
        |world| world.complete("a", json!({"safe": false})),
        |world| world.complete("a", json!({"safe": "true"})),
        |world| world.complete("a", json!({})),
        |world| world.fail("a", Failed),
        |world| world.fail("a", NeverRan),
        |world| world.fail("a", Unknown),
        |world| world.fail("a", OutcomeClass::ApprovalRequired),
    ];
    for say in says {
        let mut world = World::with(destroying(), checked());
        say(&mut world);
        assert_eq!(world.shows(), "waiting: a running, b pending");
        assert_eq!(world.asked().question, "May the step \"a\" run danger.wipe?");
        world.answer(Approve, Value::Null);
        assert_eq!(live(&world), ("danger.wipe".to_owned(), 0));
    }
}

// RUN-6.11
#[test]
fn only_destructive_calls_at_level_3_are_checked_and_only_by_an_action_that_is_named() {
    for (level, action, destroys, shows) in [
        (2, "safety.judge", true, "waiting"),
        (4, "safety.judge", true, "danger.wipe"),
        (3, "", true, "waiting"),
        (3, "safety.judge", false, "pure.work"),
    ] {
        let steps = if destroys {
            destroying()
        } else {
            json!([call("a"), call("b")])
        };
        let spec = Spec {
            autonomy_level: level,
            safety_action: action.to_owned(),
            ..checked()
        };
        let world = World::with(steps, spec);
        let found = match world.run.shown().as_str() {
            "waiting" => "waiting".to_owned(),
            _ => live(&world).0,
        };
        assert_eq!(found, shows, "level {level} with {action:?}");
    }
}

// RUN-6.11, RUN-8.4
#[test]
fn a_verdict_does_not_survive_a_rewind() {
    let mut world = World::with(destroying(), checked());
    world
        .complete("a", json!({"safe": true}))
        .complete("a", json!({}));
    world.input(Input::Rewind {
        step_key: "a".to_owned(),
        scope: RewindScope::Later,
        allow_repeat_effects: true,
    });
    assert_eq!(live(&world), ("safety.judge".to_owned(), 1_000_000));
    // Another payload is another subject: here the first run's verdict would not have counted either.
    assert_eq!(world.run.state().steps[0].units[0].checks, 1);
}

// RUN-6.11, RUN-6.7
#[test]
fn a_handler_may_still_ask_what_a_check_has_cleared() {
    let mut world = World::with(destroying(), checked());
    world.complete("a", json!({"safe": true}));
    world.fail("a", OutcomeClass::ApprovalRequired);
    assert_eq!(world.shows(), "waiting: a running, b pending");
    world.answer(Approve, Value::Null);
    assert_eq!(live(&world), ("danger.wipe".to_owned(), 0));
}

// RUN-6.11, RUN-9.4
#[test]
fn a_check_in_flight_is_submitted_again_and_late_verdicts_change_nothing() {
    let mut world = World::with(destroying(), checked());
    let sent = world.effects.last().cloned().unwrap();
    world.input(Input::Recovered);
    assert_eq!(world.effects.last(), Some(&sent));
    let check = world.live("a");
    world.input(Input::Pause {
        reason: String::new(),
    });
    assert_eq!(world.run.shown().as_str(), "pausing");
    world.complete("a", json!({"safe": true}));
    assert_eq!((world.run.shown().as_str(), world.submitted()), ("paused", 2));
    world.input(Input::Resume {
        reason: String::new(),
    });
    assert_eq!(live(&world).0, "danger.wipe");
    world.settle(check, crate::world::completed(json!({"safe": false})));
    assert_eq!((world.last, live(&world).0.as_str()), (0, "danger.wipe"));
}

// RUN-6.11, RUN-4.8
#[test]
fn each_item_has_a_check_of_its_own() {
    let items = json!([{"tool_name": "danger.wipe", "tool_args": {"n": 1}}, {"tool_name": "pure.work"},
        {"tool_name": "danger.wipe", "tool_args": {"n": 2}}]);
    let step = and(
        json!({"key": "p", "type": "parallel"}),
        json!({"config": {"steps": items}}),
    );
    let mut world = World::with(json!([step]), checked());
    let units = |world: &World| -> Vec<u32> {
        let units = world.run.state().steps[0].units.iter();
        units
            .filter_map(|unit| unit.live.as_ref().map(|live| live.unit.index))
            .collect()
    };
    assert_eq!(units(&world), [1_000_000, 1, 1_000_002]);
    world.complete_unit("p", 2, json!({"safe": true}));
    assert_eq!(units(&world), [1_000_000, 1, 2]);
    world.complete_unit("p", 0, json!({"safe": false}));
    assert_eq!(units(&world), [1, 2]);
    world.answer(Approve, Value::Null);
    for index in 0..3 {
        world.complete_unit("p", index, json!({}));
    }
    assert_eq!(world.run.shown().as_str(), "completed");
}
