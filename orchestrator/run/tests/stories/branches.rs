//! Conditions, jumps, loops, parallel steps, child runs.

use escapement_run::journal::OutcomeClass::{Failed, FailedForGood};
use escapement_run::presets::Preset;
use escapement_run::{Effect, Input};
use serde_json::{Value, json};

use crate::world::{World, and, call, encoded, spec, tool};

fn condition(key: &str, text: &str, true_step: Option<&str>, false_step: Option<&str>) -> Value {
    let mut config = json!({"condition": text});
    for (name, target) in [("true_step", true_step), ("false_step", false_step)] {
        if let Some(target) = target {
            config[name] = json!(target);
        }
    }
    json!({"key": key, "type": "condition", "config": config})
}

// RUN-3.3, RUN-3.8, RUN-4.10
#[test]
fn a_condition_takes_one_arm_and_skips_the_other() {
    let steps = |text: &str| {
        json!([
            call("a"),
            condition("if", text, Some("yes"), Some("no")),
            and(call("yes"), json!({"on_success": "end"})),
            call("no"),
            call("end"),
        ])
    };
    let mut yes = World::of(steps("result:a"));
    yes.complete("a", json!({"found": 1}));
    assert_eq!(
        yes.shows(),
        "running: a completed, if completed, yes running, no skipped branch, end pending"
    );
    yes.complete("yes", json!({}));
    assert_eq!(
        yes.shows(),
        "running: a completed, if completed, yes completed, no skipped branch, end running"
    );
    let mut no = World::of(steps("false"));
    no.complete("a", json!({}));
    assert_eq!(
        no.shows(),
        "running: a completed, if completed, yes skipped branch, no running, end pending"
    );
}

// RUN-4.10, RUN-2.2
#[test]
fn any_other_expression_is_evaluated_outside_and_its_value_is_an_entry() {
    let steps = json!([
        condition("if", "input.n > 2", Some("b"), None),
        call("a"),
        call("b")
    ]);
    let mut world = World::of(steps.clone());
    assert_eq!(world.shows(), "running: if running, a pending, b pending");
    assert_eq!(
        world.effects,
        [Effect::Evaluate {
            evaluation: 1,
            expression: "input.n > 2".to_owned()
        }]
    );
    world.input(Input::Evaluated {
        evaluation: 1,
        result: Ok(true),
    });
    assert_eq!(
        world.shows(),
        "running: if completed, a skipped branch, b running"
    );
    // The same answer again, and one that nobody asked for.
    world.input(Input::Evaluated {
        evaluation: 1,
        result: Ok(false),
    });
    world.input(Input::Evaluated {
        evaluation: 9,
        result: Ok(false),
    });
    assert_eq!(
        world.shows(),
        "running: if completed, a skipped branch, b running"
    );

    let mut broken = World::of(steps);
    broken.input(Input::Evaluated {
        evaluation: 1,
        result: Err("no such key: m".to_owned()),
    });
    assert_eq!(
        broken.shows(),
        "failed: if failed EXPRESSION_FAILED, a skipped runended, b skipped runended"
    );
}

// RUN-4.10
#[test]
fn an_empty_result_is_false() {
    let steps = json!([
        call("a"),
        condition("if", "result:a", None, Some("c")),
        call("b"),
        call("c")
    ]);
    for (output, arm) in [
        (json!(null), "c"),
        (json!(0), "c"),
        (json!(""), "c"),
        (json!(false), "c"),
        (json!([]), "b"),
        (json!("0"), "b"),
    ] {
        let mut world = World::of(steps.clone());
        let execution_id = world.live("a");
        world.settle(execution_id, crate::world::completed(output.clone()));
        assert!(
            world.shows().contains(&format!("{arm} running")),
            "{output}: {}",
            world.shows()
        );
    }
}

// RUN-4.10
#[test]
fn a_condition_waits_for_the_result_that_it_asks_for() {
    let asynchronous = |step| and(step, json!({"async": true}));
    let steps = json!([
        asynchronous(call("a")),
        asynchronous(condition("if", "result:a", None, Some("c"))),
        call("b"),
        call("c")
    ]);
    let document = json!({"schema": "escapement.plan/1", "name": "Story", "parallel": true, "steps": steps});
    let mut world = World::document(document, spec(Preset::Execution));
    assert_eq!(
        world.shows(),
        "running: a running, if pending, b pending, c pending"
    );
    world.complete("a", json!({}));
    assert_eq!(
        world.shows(),
        "running: a completed, if completed, b running, c skipped branch"
    );
}

// RUN-1.6
#[test]
fn a_list_that_is_too_long_together_is_said_to_be_and_its_items_are_there() {
    let repeated =
        json!({"key": "l", "type": "loop", "config": {"tool_name": "pure.work", "max_iterations": 3}});
    let uses = |reference: &str| {
        let config = json!({"tool_name": "pure.work", "tool_args": {"x": reference}});
        json!({"key": "b", "type": "tool_call", "config": config})
    };
    for (reference, shown) in [
        ("${l}", "failed: l completed, b failed INPUT_TOO_LARGE"),
        ("${l:/1/n}", "running: l completed, b running"),
    ] {
        let mut world = World::of(json!([repeated, uses(reference)]));
        for n in 0..3 {
            world.complete("l", json!({"n": n, "x": "y".repeat(500_000)}));
        }
        assert_eq!(world.shows(), shown);
    }
}

// RUN-1.6
#[test]
fn a_list_that_can_only_be_too_long_is_not_read() {
    let repeated =
        json!({"key": "l", "type": "loop", "config": {"tool_name": "pure.work", "max_iterations": 12}});
    for reference in ["${l}", "all: ${l}"] {
        let uses = and(
            call("b"),
            json!({"config": {"tool_name": "pure.work", "tool_args": {"x": reference}}}),
        );
        let mut world = World::of(json!([repeated, uses]));
        for n in 0..12 {
            world.disk.n_bytes_read();
            world.complete("l", json!({"n": n, "x": "y".repeat(1_000_000)}));
        }
        assert_eq!(world.shows(), "failed: l completed, b failed INPUT_TOO_LARGE");
        // The last output may be looked at, but not the list.
        let n_bytes = world.disk.n_bytes_read();
        assert!(n_bytes < 4 << 20, "{n_bytes}");
    }
}

// RUN-3.6
#[test]
fn what_only_skipped_steps_lead_to_is_skipped_and_one_completed_dependency_is_enough() {
    let steps = json!([
        condition("if", "true", Some("yes"), Some("no")),
        call("yes"),
        call("no"),
        crate::world::call_after("after_no", &["no"]),
        crate::world::call_after("join", &["yes", "no"]),
    ]);
    let mut world = World::of(steps);
    world.complete("yes", json!({}));
    assert_eq!(
        world.shows(),
        "running: if completed, yes completed, no skipped branch, after_no skipped branch, join running"
    );
}

// RUN-5.5, RUN-3.8
#[test]
fn a_failure_can_jump() {
    let steps = json!([
        and(
            call("a"),
            json!({"on_failure": "rescue", "retry": {"max_retries": 0}})
        ),
        call("b"),
        call("rescue"),
    ]);
    let mut world = World::of(steps);
    world.fail("a", Failed);
    assert_eq!(
        world.shows(),
        "running: a failed BROKEN, b skipped branch, rescue running"
    );
    world.complete("rescue", json!({}));
    assert!(world.run.state().end.as_ref().unwrap().partial);
}

fn items(n: usize, more: Value) -> Value {
    let items: Vec<Value> = (0..n)
        .map(|n| json!({"tool_name": "pure.work", "tool_args": {"n": n}}))
        .collect();
    json!([{"key": "all", "type": "parallel", "config": and(json!({"steps": items}), more)}])
}

// RUN-4.1, RUN-4.8
#[test]
fn a_batch_begins_once_the_one_before_has_ended() {
    let mut world = World::of(items(7, json!({})));
    assert_eq!(world.submitted(), 5);
    for index in [4, 2, 0, 3] {
        world.complete_unit("all", index, json!({"i": index}));
        assert_eq!(world.submitted(), 5);
    }
    world.complete_unit("all", 1, json!({"i": 1}));
    assert_eq!(world.submitted(), 7);
    world
        .complete_unit("all", 6, json!({"i": 6}))
        .complete_unit("all", 5, json!({"i": 5}));
    let outputs: Vec<Value> = (0..7).map(|i| json!({"i": i})).collect();
    assert_eq!(world.output(), json!(outputs));
}

// RUN-4.8
#[test]
fn an_item_that_fails_is_retried_alone_and_stops_nobody() {
    let mut world = World::of(items(3, json!({"batch_size": 2})));
    world.fail_unit("all", 1, Failed);
    assert_eq!(world.submitted(), 2);
    world.complete_unit("all", 0, json!({}));
    assert_eq!(world.submitted(), 2);
    world.pass(1000);
    assert_eq!(world.submitted(), 3);
    world.fail_unit("all", 1, FailedForGood);
    assert_eq!(world.submitted(), 4);
    world.complete_unit("all", 2, json!({}));
    assert_eq!(
        world.error(),
        (
            "PARALLEL_FAILED".to_owned(),
            "Some parallel steps failed".to_owned()
        )
    );
}

// RUN-4.8, RUN-4.4
#[test]
fn the_first_success_is_enough_if_nobody_waits_for_all() {
    let mut world = World::of(items(3, json!({"wait_all": false})));
    let late = world.live_unit("all", Some(2)).unwrap();
    world.fail_unit("all", 0, FailedForGood);
    world.complete_unit("all", 1, json!({"i": 1}));
    assert_eq!(world.run.shown().as_str(), "completed");
    let entries = world.journal.len();
    world.settle(late, crate::world::completed(json!({})));
    assert_eq!(world.journal.len(), entries);
}

// RUN-3.1, RUN-4.8
#[test]
fn what_comes_after_the_first_success_changes_the_result_no_more() {
    let mut steps = items(2, json!({"wait_all": false}));
    let later = ["one", "two"].map(|key| tool(key, "pure.work", &["all"]));
    let later = later.map(|step| {
        and(
            step,
            json!({"config": {"tool_name": "pure.work", "tool_args": {"r": "${all}"}}}),
        )
    });
    steps.as_array_mut().unwrap().extend(later);
    let mut world = World::of(steps);
    world.complete_unit("all", 0, json!({"i": 0}));
    let first = world.payload("one");
    assert_eq!(first, json!({"r": [{"i": 0}, null]}));
    world.complete_unit("all", 1, json!({"i": 1}));
    world.complete("one", json!({}));
    assert_eq!(world.payload("two"), first);
}

fn repeat(more: Value) -> Value {
    let config = and(json!({"tool_name": "pure.work", "tool_args": {"x": 1}}), more);
    json!([{"key": "again", "type": "loop", "config": config}])
}

// RUN-4.9, RUN-4.5
#[test]
fn a_loop_repeats_its_call_with_the_number_of_the_iteration() {
    let mut world = World::of(repeat(json!({"max_iterations": 3})));
    for i in 0..3 {
        assert_eq!(world.payload("again"), json!({"x": 1, "iteration": i}));
        world.complete("again", json!({"i": i}));
    }
    assert_eq!(world.output(), json!([{"i": 0}, {"i": 1}, {"i": 2}]));
    let world = World::of(repeat(json!({"max_iterations": 2, "pass_iteration": false})));
    assert_eq!(world.payload("again"), json!({"x": 1}));
    assert_eq!(
        World::of(repeat(json!({"max_iterations": 0}))).output(),
        json!([])
    );
}

// RUN-4.9
#[test]
fn a_loop_goes_on_while_its_condition_holds() {
    let mut world = World::of(repeat(
        json!({"max_iterations": 9, "loop_condition": "last.more"}),
    ));
    world.complete("again", json!({"more": true}));
    assert_eq!(world.submitted(), 1);
    world.input(Input::Evaluated {
        evaluation: 1,
        result: Ok(true),
    });
    assert_eq!(world.submitted(), 2);
    world.complete("again", json!({"more": false}));
    world.input(Input::Evaluated {
        evaluation: 2,
        result: Ok(false),
    });
    assert_eq!(world.output(), json!([{"more": true}, {"more": false}]));
}

// RUN-4.9, RUN-5.5
#[test]
fn an_iteration_that_fails_ends_the_loop_and_keeps_what_it_has() {
    let mut world = World::of(repeat(json!({})));
    world
        .complete("again", json!({"i": 0}))
        .complete("again", json!({"i": 1}));
    world.fail("again", FailedForGood);
    assert_eq!(world.shows(), "failed: again failed BROKEN");
    assert_eq!(
        world.run.state().steps[0]
            .units
            .iter()
            .filter(|unit| unit.output.is_some())
            .count(),
        2
    );
}

const CHILD: &str = "0b9e7a34-51c2-4d8e-8f60-1a2b3c4d5e01";

// RUN-4.12
#[test]
fn a_sub_plan_is_a_child_run_with_its_input_and_output() {
    let steps = json!([call("a"), {"key": "sub", "type": "sub_plan", "config": {"plan_id": CHILD, "input": {"x": "${a:/x}"}}}]);
    let mut world = World::with(steps, spec(Preset::Standard));
    world.complete("a", json!({"x": [1, 2]}));
    let Some(Effect::StartChild {
        run_id,
        plan_id,
        input,
        ..
    }) = world.effects.last().cloned()
    else {
        panic!("{:?}", world.effects);
    };
    assert_eq!(plan_id.as_deref(), Some(CHILD));
    assert_eq!(input, crate::world::opaque(&json!({"x": [1, 2]})));
    world.input(Input::ChildEnded {
        run_id,
        result: Ok(encoded(&json!("done"))),
        used: None,
        doubts: None,
    });
    assert_eq!(world.output(), json!("done"));
}

// RUN-4.12, RUN-5.3
#[test]
fn a_child_that_fails_is_tried_again_as_another_run_and_one_that_nobody_waits_for_is_cancelled() {
    let sub = json!({"key": "sub", "type": "sub_plan", "config": {"plan_id": CHILD}});
    let mut world = World::of(json!([sub]));
    let child = |world: &World| match world.effects.last() {
        Some(Effect::StartChild { run_id, .. }) => *run_id,
        other => panic!("{other:?}"),
    };
    let first = child(&world);
    world.input(Input::ChildEnded {
        run_id: first,
        result: Err("it failed".to_owned()),
        used: None,
        doubts: None,
    });
    world.pass(1000);
    let second = child(&world);
    assert_ne!(first, second);
    // The first one is not waited for any more.
    world.input(Input::ChildEnded {
        run_id: first,
        result: Ok(encoded(&json!(1))),
        used: None,
        doubts: None,
    });
    assert_eq!(world.shows(), "running: sub running");
    world.input(Input::Cancel {
        reason: "user".to_owned(),
    });
    assert_eq!(
        world.effects.last(),
        Some(&Effect::CancelChild { run_id: second })
    );
}

fn asked_loop() -> World {
    let mut world = World::of(repeat(
        json!({"max_iterations": 9, "loop_condition": "last.more"}),
    ));
    world.complete("again", json!({"more": true}));
    world
}

// RUN-2.2, RUN-8.1
#[test]
fn a_condition_of_a_loop_that_is_asked_is_in_flight_and_none_is_asked_during_a_pause() {
    let mut world = asked_loop();
    world.input(Input::Pause {
        reason: String::new(),
    });
    assert_eq!(world.run.shown().as_str(), "pausing");
    world.input(Input::Evaluated {
        evaluation: 1,
        result: Ok(true),
    });
    assert_eq!(world.run.shown().as_str(), "paused");
    let mut later = World::of(repeat(
        json!({"max_iterations": 9, "loop_condition": "last.more"}),
    ));
    later
        .input(Input::Pause {
            reason: String::new(),
        })
        .complete("again", json!({}));
    assert!(
        !later
            .effects
            .iter()
            .any(|effect| matches!(effect, Effect::Evaluate { .. }))
    );
    later.input(Input::Resume {
        reason: String::new(),
    });
    assert!(matches!(later.effects.last(), Some(Effect::Evaluate { .. })));
}

// RUN-4.10
#[test]
fn an_expression_is_about_the_input_the_results_and_the_iteration() {
    let steps = json!([
        call("a"),
        repeat(json!({"max_iterations": 9, "loop_condition": "last.more || results.a.n > 1"}))[0]
    ]);
    let mut world = World::of(steps);
    world
        .complete("a", json!({"n": 1}))
        .complete("again", json!({"more": true}));
    let mut bindings = world.bindings(1);
    assert!(bindings["run"]["id"].is_string());
    bindings["run"] = Value::Null;
    assert_eq!(
        bindings,
        json!({"input": {"city": "Bern", "n": 3}, "run": null, "session": {}, "results": {"a": {"n": 1}},
            "iteration": 0, "last": {"more": true}})
    );
}

// RUN-6.5, RUN-4.9
#[test]
fn an_iteration_that_a_person_says_happened_lets_the_loop_go_on() {
    let steps = json!([{"key": "again", "type": "loop", "config":
        {"tool_name": "mail.send", "max_iterations": 9, "loop_condition": "last.more"}}]);
    let mut world = World::of(steps);
    world.fail("again", escapement_run::journal::OutcomeClass::TimedOut);
    world.answer(escapement_run::journal::Decision::Happened, json!({"more": true}));
    world.input(Input::Evaluated {
        evaluation: 1,
        result: Ok(true),
    });
    assert_eq!(world.submitted(), 2);
}

// RUN-5.6, RUN-4.12, RUN-9.4
#[test]
fn an_abort_cancels_children_once_and_a_restart_does_so_again() {
    let sub = json!({"key": "sub", "type": "sub_plan", "async": true, "config": {"plan_id": CHILD}});
    let fails = and(call("a"), json!({"async": true, "retry": {"max_retries": 0}}));
    let document =
        json!({"schema": "escapement.plan/1", "name": "Story", "parallel": true, "steps": [sub, fails]});
    let mut two = spec(Preset::Standard);
    two.limits.max_concurrency = 2;
    let mut world = World::document(document, two);
    let cancels = |world: &World| {
        let cancels = world
            .effects
            .iter()
            .filter(|effect| matches!(effect, Effect::CancelChild { .. }));
        cancels.count()
    };
    world.fail("a", Failed);
    assert_eq!(
        (world.shows().as_str(), cancels(&world)),
        ("running: sub running, a failed BROKEN", 1)
    );
    world.input(Input::Checkpoint {
        data: crate::world::opaque(&json!({})),
    });
    assert_eq!(cancels(&world), 1);
    world.input(Input::Recovered);
    assert_eq!(cancels(&world), 2);
}
