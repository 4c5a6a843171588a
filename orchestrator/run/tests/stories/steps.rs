//! Which step has its turn.

use escapement_run::journal::OutcomeClass::{Failed, FailedForGood};
use escapement_run::presets::Preset;
use escapement_run::{Input, plan, preview};
use serde_json::{Value, json};

use crate::words::opaque;
use crate::world::{World, and, call, call_after, spec};

// RUN-3.1, RUN-3.2, RUN-10.1, RUN-10.2
#[test]
fn steps_run_one_after_another_and_the_last_output_is_the_runs() {
    let mut world = World::of(json!([call("a"), call("b")]));
    assert_eq!(world.shows(), "running: a running, b pending");
    world.complete("a", json!({"n": 1}));
    assert_eq!(world.shows(), "running: a completed, b running");
    world.complete("b", json!({"n": 2}));
    assert_eq!(world.shows(), "completed: a completed, b completed");
    assert_eq!(world.output(), json!({"n": 2}));
    assert_eq!(
        world.last_events(),
        ["ToolOutput", "StepCompleted", "RunCompleted"]
    );
}

// RUN-2.4
#[test]
fn nothing_runs_before_the_run_is_admitted_and_it_is_admitted_once() {
    let document = json!({"schema": "escapement.plan/1", "name": "Story", "steps": [call("a")]});
    let mut world = World::queued(document, spec(Preset::Standard));
    assert_eq!(world.shows(), "queued: a pending");
    assert_eq!(world.submitted(), 0);
    world.input(Input::Admit);
    assert_eq!(world.submitted(), 1);
    assert_eq!(world.refusal(Input::Admit).as_str(), "NOT_QUEUED");
}

// RUN-2.4, RUN-10.2
#[test]
fn a_plan_without_steps_completes_at_once_with_its_narrative() {
    let document =
        json!({"schema": "escapement.plan/1", "name": "Story", "narrative": "That was it.", "steps": []});
    let world = World::document(document, spec(Preset::Standard));
    assert_eq!(world.shows(), "completed: ");
    assert_eq!(world.output(), json!("That was it."));
}

// RUN-1.3, RUN-3.4
#[test]
fn a_diamond_runs_in_canonical_order_and_overlaps_only_if_plan_and_steps_say_so() {
    let steps = |more: serde_json::Value| {
        let of = |step| and(step, more.clone());
        json!([
            of(call_after("d", &["b", "c"])),
            of(call_after("c", &["a"])),
            of(call_after("b", &["a"])),
            of(call("a"))
        ])
    };
    let document = |parallel: bool, more| {
        let steps = steps(more);
        json!({"schema": "escapement.plan/1", "name": "Diamond", "parallel": parallel, "steps": steps})
    };
    let mut one = World::document(document(false, json!({"async": true})), spec(Preset::Execution));
    one.complete("a", json!({}));
    assert_eq!(
        one.shows(),
        "running: a completed, c running, b pending, d pending"
    );
    let mut both = World::document(document(true, json!({"async": true})), spec(Preset::Execution));
    both.complete("a", json!({}));
    assert_eq!(
        both.shows(),
        "running: a completed, c running, b running, d pending"
    );
    both.complete("b", json!({})).complete("c", json!({}));
    assert_eq!(
        both.shows(),
        "running: a completed, c completed, b completed, d running"
    );
    let mut sync = World::document(document(true, json!({"async": false})), spec(Preset::Execution));
    sync.complete("a", json!({}));
    assert_eq!(
        sync.shows(),
        "running: a completed, c running, b pending, d pending"
    );
}

// RUN-3.7
#[test]
fn no_more_steps_overlap_than_max_concurrency_and_a_step_that_is_not_async_runs_alone() {
    let asynchronous = |key| and(call(key), json!({"async": true}));
    let [a, b, c, e] = ["a", "b", "c", "e"].map(asynchronous);
    let steps = json!([a, b, c, call("d"), e]);
    let mut limited = spec(Preset::Execution);
    limited.limits.max_concurrency = 2;
    let document = json!({"schema": "escapement.plan/1", "name": "Story", "parallel": true, "steps": steps});
    let mut world = World::document(document, limited);
    assert_eq!(
        world.shows(),
        "running: a running, b running, c pending, d pending, e pending"
    );
    world.complete("a", json!({}));
    // `d` cannot run beside others; `e` can.
    assert_eq!(
        world.shows(),
        "running: a completed, b running, c running, d pending, e pending"
    );
    world.complete("b", json!({})).complete("c", json!({}));
    assert_eq!(
        world.shows(),
        "running: a completed, b completed, c completed, d pending, e running"
    );
    world.complete("e", json!({}));
    assert_eq!(
        world.shows(),
        "running: a completed, b completed, c completed, d running, e completed"
    );
}

/// Returns a plan of these steps that may overlap.
fn parallel(steps: Value) -> Value {
    json!({"schema": "escapement.plan/1", "name": "Story", "parallel": true, "steps": steps})
}

// RUN-3.7
#[test]
fn all_steps_of_a_parallel_plan_overlap_by_policy_if_it_marks_none() {
    let three = || json!([call("a"), call("b"), call_after("c", &["a"])]);
    let mut world = World::document(parallel(three()), spec(Preset::Standard));
    assert_eq!(world.shows(), "running: a running, b running, c pending");
    world.complete("a", json!({}));
    assert_eq!(world.shows(), "running: a completed, b running, c running");

    let marked = json!([and(call("a"), json!({"async": true})), call("b"), call("c")]);
    let world = World::document(parallel(marked), spec(Preset::Standard));
    assert_eq!(world.shows(), "running: a running, b pending, c pending");

    let mut one_at_a_time = spec(Preset::Standard);
    one_at_a_time.limits.max_concurrency = 1;
    let mut earlier = spec(Preset::Standard);
    earlier.policy.async_by_default = false;
    let others = [
        Preset::Execution,
        Preset::PlanMode,
        Preset::Autonomous,
        Preset::Protocol,
    ];
    for spec in others.map(spec).into_iter().chain([one_at_a_time, earlier]) {
        let world = World::document(parallel(three()), spec);
        assert_eq!(world.shows(), "running: a running, b pending, c pending");
    }
    let in_turn = World::with(three(), spec(Preset::Standard));
    assert_eq!(in_turn.shows(), "running: a running, b pending, c pending");
}

// RUN-3.7
#[test]
fn a_preview_says_why_steps_run_one_at_a_time() {
    let alone = |parallel: bool, marks: &[bool], preset: Preset, max_concurrency: u32| {
        let step = |(at, marked): (usize, &bool)| and(call(&format!("s{at}")), json!({"async": marked}));
        let steps: Vec<Value> = marks.iter().enumerate().map(step).collect();
        let document =
            json!({"schema": "escapement.plan/1", "name": "Story", "parallel": parallel, "steps": steps});
        let mut spec = spec(preset);
        spec.limits.max_concurrency = max_concurrency;
        preview(&plan::read(&opaque(&document)).unwrap(), &spec, &[]).alone
    };
    let none: [&str; 0] = [];
    let (not_parallel, one_marked, unmarked, limit) = (
        "`async` has no effect, because the plan is not `parallel`",
        "the steps run one at a time, because only one of them is `async`",
        "the steps run one at a time, because none is `async` and `policy.async_by_default` is false",
        "the steps run one at a time, because `limits.max_concurrency` is 1",
    );
    let (standard, execution) = (Preset::Standard, Preset::Execution);
    assert_eq!(alone(true, &[false, false], standard, 8), none);
    assert_eq!(alone(true, &[true, true], execution, 8), none);
    assert_eq!(alone(false, &[false, false], execution, 1), none);
    assert_eq!(alone(true, &[false], execution, 1), none);
    assert_eq!(alone(true, &[true, false], standard, 8), [one_marked]);
    assert_eq!(alone(true, &[false, false], standard, 1), [limit]);
    assert_eq!(alone(true, &[false, false], execution, 1), [unmarked, limit]);
    assert_eq!(alone(false, &[true, false], standard, 1), [not_parallel]);
}

// RUN-3.5, RUN-1.7
#[test]
fn a_failed_dependency_skips_feeds_null_feeds_text_or_blocks() {
    let of = |word: &str| {
        json!([
            and(call("a"), json!({"on_failure": "skip", "retry": {"max_retries": 0}})),
            {"key": "b", "type": "tool_call", "on_dependency_failure": word,
                "config": {"tool_name": "pure.work", "tool_args": {"x": "${a:/x}", "t": "got ${a}"}}},
        ])
    };
    let run = |word| {
        let mut world = World::of(of(word));
        world.fail("a", Failed);
        world
    };
    assert_eq!(
        run("skip").shows(),
        "completed: a failed BROKEN, b skipped dependencyfailed"
    );
    let null = run("null_input");
    assert_eq!(null.payload("b"), json!({"x": null, "t": "got null"}));
    assert_eq!(
        null.environment("b")["escapement_run"]["failed_dependencies"],
        json!({"a": "BROKEN"})
    );
    let text = "(FAILED: BROKEN: it broke)";
    assert_eq!(
        run("synthetic").payload("b"),
        json!({"x": text, "t": format!("got {text}")})
    );
    let blocked = run("block");
    assert_eq!(blocked.shows(), "failed: a failed BROKEN, b blocked");
    assert_eq!(
        blocked.error(),
        (
            "DEADLOCK".to_owned(),
            "Dependency deadlock: all pending steps have unmet dependencies".to_owned()
        )
    );
}

// RUN-3.5
#[test]
fn the_execution_preset_skips_after_a_required_failure_and_feeds_null_after_an_optional_one() {
    let steps = |required: bool| {
        json!([
            and(
                call("a"),
                json!({"required": required, "retry": {"max_retries": 0}})
            ),
            call_after("b", &["a"]),
            call_after("c", &["b"]),
            call("d"),
        ])
    };
    let mut required = World::with(steps(true), spec(Preset::Execution));
    required.fail("a", Failed);
    assert_eq!(
        required.shows(),
        "running: a failed BROKEN, b skipped dependencyfailed, c skipped dependencyfailed, d running"
    );
    required.complete("d", json!({}));
    assert_eq!(required.run.shown().as_str(), "failed");
    assert_eq!(required.error().0, "BROKEN");
    // RUN-3.9: what could never run is blocked, and the cause is the first failure.
    let blocks = and(call_after("e", &["a"]), json!({"on_dependency_failure": "block"}));
    let mut blocked = World::with(
        json!([and(call("a"), json!({"retry": {"max_retries": 0}})), blocks]),
        spec(Preset::Execution),
    );
    blocked.fail("a", Failed);
    assert_eq!(blocked.shows(), "failed: a failed BROKEN, e blocked");
    assert_eq!(blocked.error().0, "BROKEN");
    let mut optional = World::with(steps(false), spec(Preset::Execution));
    optional.fail("a", Failed);
    assert_eq!(
        optional.shows(),
        "running: a failed BROKEN, b running, c pending, d pending"
    );
}

// RUN-3.9, RUN-2.2
#[test]
fn a_deadlock_is_found_at_once() {
    let steps = json!([
        and(call("a"), json!({"on_failure": "skip"})),
        and(call_after("b", &["a"]), json!({"on_dependency_failure": "block"})),
        and(call_after("c", &["b"]), json!({"on_dependency_failure": "block"})),
        call("d"),
    ]);
    let mut world = World::with(steps, spec(Preset::Autonomous));
    world.fail("a", FailedForGood);
    assert_eq!(
        world.shows(),
        "running: a failed BROKEN, b pending, c pending, d running"
    );
    world.complete("d", json!({}));
    assert_eq!(
        world.shows(),
        "failed: a failed BROKEN, b blocked, c blocked, d completed"
    );
}
