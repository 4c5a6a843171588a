//! Section 3: limits and the clock.

use crate::story::{T0, completed, moment, number, plan, steps, text, texts, value};
use escapement_contract::{Input, Phase, StepState, default_deadline, validate_request};
use escapement_model::opaque::StructBuilder;

//
#[test]
fn a_deadline_that_passes_in_the_queue_ends_the_execution() {
    let mut story = steps("a").deadline(T0 + 5000).queued();
    assert_eq!(story.execution.next_due_ms(), Some(5000));
    story.at(4999).tick().says("");
    story
        .at(5000)
        .tick()
        .says("persist_result failure 0/1 fatal DEADLINE_EXCEEDED");
    let result = story.settle();
    assert_eq!((result.completed_at, result.duration_ms), (T0 + 5000, 0));
    assert_eq!(story.execution.started_at(), None);
}

//
#[test]
fn the_start_is_stamped_when_the_queue_is_left() {
    let mut story = steps("a").queued();
    story.at(300).ok(Input::Start).says("persist_start 1000300");
    assert_eq!(story.execution.started_at(), Some(T0 + 300));
    assert_eq!(story.execution.limit_due_ms(), Some(1300));
}

//
#[test]
fn a_deadline_that_leaves_less_than_the_plans_limit_ends_the_execution_at_its_start() {
    for (window, expected) in [
        (999, "persist_result failure 0/1 fatal DEADLINE_EXCEEDED"),
        (0, "persist_result failure 0/1 fatal DEADLINE_EXCEEDED"),
        (-5, "persist_result failure 0/1 fatal DEADLINE_EXCEEDED"),
        (1000, "persist_start 1000000"),
    ] {
        let mut story = steps("a").deadline(T0 + window).queued();
        story.feed(Input::Start).ok();
        story.says(expected);
    }
}

//
#[test]
fn a_limit_at_the_end_of_the_range_runs() {
    for timeout_ms in [
        i64::MAX,
        i64::MAX - T0,
        i64::MAX - T0 - 1,
        i64::MAX - T0 - 3_600_000,
    ] {
        let mut story = steps("a");
        story.plan().timeout_ms = Some(timeout_ms);
        let request = validate_request(story.0.clone(), 1).unwrap();
        let deadline = default_deadline(T0, request.plan(), 3_600_000);
        let mut story = story.deadline(deadline).queued();
        story.at(300).ok(Input::Start).says("persist_start 1000300");
    }
    let mut story = steps("a").deadline(i64::MAX - 1);
    story.plan().timeout_ms = Some(i64::MAX);
    let mut story = story.queued();
    story
        .ok(Input::Start)
        .says("persist_result failure 0/1 fatal DEADLINE_EXCEEDED");
}

//
#[test]
fn the_deadline_is_looked_at_before_the_environment() {
    let mut story = steps("a").requires(&["missing"]).deadline(T0 + 5).queued();
    story
        .ok(Input::Start)
        .says("persist_result failure 0/1 fatal DEADLINE_EXCEEDED");
}

//
#[test]
fn a_required_key_must_be_present_and_nothing_else() {
    let environment = StructBuilder::new()
        .null("a")
        .object("b", &[])
        .text("nested", "c")
        .build();
    let mut story = steps("s")
        .requires(&["a", "b"])
        .environment(environment.clone())
        .queued();
    story.ok(Input::Start).says("persist_start 1000000");
    assert_eq!(story.execution.request().environment(), &environment);

    let mut story = steps("s")
        .requires(&["c", "a", "d"])
        .environment(environment)
        .queued();
    story
        .ok(Input::Start)
        .says("persist_result failure 0/1 fatal CONTEXT_MISSING");
    assert_eq!(texts(&story.error().context, "missing_keys"), ["c", "d"]);
    let result = story.settle();
    assert_eq!((result.steps_executed, result.duration_ms), (0, 0));
}

//
#[test]
fn the_plans_limit_stops_everything_that_is_under_way() {
    let spec = steps("a; b retry; c; d; e")
        .attempts(2, 5000, &["*"])
        .at_a_time(4);
    let mut story = spec.running();
    story.complete("a").fail("b", "FLAKY").hand("c").assign("d");
    story.says("dispatch a#1, dispatch b#1, dispatch c#1, dispatch d#1, dispatch e#1");
    assert_eq!(story.execution.next_due_ms(), Some(1000));
    story.at(1000).tick().says(
        "withdraw c#1 execution_ended, withdraw d#1 execution_ended, \
         withdraw e#1 execution_ended, persist_result failure 1/5 fatal PLAN_TIMEOUT",
    );
    let context = story.error().context;
    assert_eq!(
        (number(&context, "limit_ms"), number(&context, "started_at")),
        (1000.0, T0 as f64)
    );
    assert_eq!(texts(&context, "steps_in_flight").len(), 4);
    assert_eq!(story.state("b"), StepState::Stopped);
    //
    assert_eq!(story.trace(), ["FLAKY@b#1", "PLAN_TIMEOUT"]);
    assert_eq!(story.execution.next_due_ms(), None);
}

//
#[test]
fn the_plans_limit_runs_while_the_start_is_being_written() {
    let mut story = steps("a").queued();
    story.ok(Input::Start).says("persist_start 1000000");
    story
        .at(1000)
        .tick()
        .says("persist_result failure 0/1 fatal PLAN_TIMEOUT");
    story.ok(Input::StartPersisted).says("");
    story.refused(Input::StartPersisted);
    assert_eq!(story.execution.phase(), Phase::Settling);
}

//
#[test]
fn a_steps_limit_runs_from_the_hand_out_of_each_attempt() {
    let mut story = steps("a retry limit=100")
        .attempts(2, 50, &["STEP_TIMEOUT"])
        .running();
    story.says("dispatch a#1");
    // Waiting for a worker costs nothing.
    story.at(300).tick().says("");
    story.hand("a").at(399).tick().says("");
    story.at(400).tick().says("withdraw a#1 step_timeout");
    story.at(450).tick().says("dispatch a#2");
    story
        .at(500)
        .hand("a")
        .at(599)
        .complete("a")
        .says("persist_result success 1/1");
}

//
#[test]
fn a_worker_is_told_the_shorter_of_both_limits() {
    let mut story = steps("a limit=300").running();
    let a = story.index("a");
    let at = |ms: u64| moment(ms, T0);
    assert_eq!(story.execution.attempt_time_left_ms(a, at(0)), 300);
    assert_eq!(story.execution.attempt_time_left_ms(a, at(800)), 200);
    assert_eq!(story.execution.attempt_time_left_ms(a, at(1000)), 1);
    story.assign("a");
    assert_eq!(story.execution.attempt_time_left_ms(a, at(100)), 200);
    let story = steps("b").running();
    assert_eq!(
        story.execution.attempt_time_left_ms(story.index("b"), at(10)),
        990
    );
}

//
#[test]
fn the_plans_limit_ends_a_step_without_a_limit_and_precedes_that_of_a_step_at_the_same_instant() {
    for spec in [steps("a"), steps("a limit=1000")] {
        let mut story = spec.running();
        story.hand("a").at(1000).tick();
        story.says(
            "dispatch a#1, withdraw a#1 execution_ended, persist_result failure 0/1 fatal PLAN_TIMEOUT",
        );
    }
}

//
#[test]
fn timers_fire_by_due_time_and_then_in_canonical_order() {
    let spec = steps("a skip limit=200; b skip limit=100; c skip limit=100");
    let mut story = spec.attempts(1, 0, &["*"]).at_a_time(3).running();
    story
        .hand("a")
        .hand("b")
        .hand("c")
        .says("dispatch a#1, dispatch b#1, dispatch c#1");
    story.at(900).tick().says(
        "withdraw b#1 step_timeout, withdraw c#1 step_timeout, withdraw a#1 step_timeout, \
         persist_result failure 0/3 fatal STEP_TIMEOUT@a < error STEP_TIMEOUT@a",
    );
}

//
#[test]
fn an_outcome_at_the_instant_of_expiry_is_late_whether_or_not_time_ticked_before() {
    let story = || {
        let mut story = steps("a limit=100").running();
        story.hand("a").says("dispatch a#1");
        story.at(100);
        story
    };
    let expected = "withdraw a#1 step_timeout, persist_result failure 0/1 fatal STEP_TIMEOUT@a";
    let mut ticked = story();
    ticked.tick().says(expected);
    ticked.refused(ticked.ended("a", 1, completed("a")));
    let mut not_ticked = story();
    let refused = not_ticked
        .feed(not_ticked.ended("a", 1, completed("a")))
        .unwrap_err();
    assert_eq!(refused.phase, Phase::Settling);
    not_ticked.says(expected);
    assert_eq!(ticked.persisted, not_ticked.persisted);
}

//
#[test]
fn an_outcome_one_millisecond_before_expiry_counts() {
    let mut story = steps("a limit=100").running();
    story
        .hand("a")
        .at(99)
        .complete("a")
        .says("dispatch a#1, persist_result success 1/1");
}

//
#[test]
fn what_comes_after_a_limit_is_refused() {
    let mut story = steps("a skip limit=100; b")
        .attempts(1, 0, &["STEP_TIMEOUT"])
        .running();
    story.hand("a").says("dispatch a#1");
    story
        .at(100)
        .tick()
        .says("withdraw a#1 step_timeout, dispatch b#1");
    story.refused(story.ended("a", 1, completed("a")));
    story
        .complete("b")
        .says("persist_result partial 1/2 error STEP_TIMEOUT@a");
}

//
#[test]
fn jumps_of_the_wall_clock_move_no_timer_and_no_result_ends_before_its_start() {
    let mut story = steps("a limit=500").running();
    story.hand("a");
    story.now = moment(10, T0 + 999_999_999);
    story.tick().says("dispatch a#1");
    story.now = moment(20, 5);
    story.complete("a").says("persist_result success 1/1");
    let result = story.settle();
    assert_eq!((result.completed_at, result.duration_ms), (T0, 0));
    assert!(story.execution.audit().iter().all(|entry| entry.at_unix_ms >= T0));
}

//
#[test]
fn a_sleep_is_cut_short_by_the_plans_limit() {
    let mut story = steps("a retry").attempts(2, 5000, &["*"]).running();
    story.fail("a", "FLAKY").says("dispatch a#1");
    story
        .at(1000)
        .tick()
        .says("persist_result failure 0/1 fatal PLAN_TIMEOUT");
}

//
#[test]
fn an_outcome_before_the_limit_counts_though_it_becomes_durable_after_it() {
    let mut story = steps("a").running();
    story
        .at(999)
        .complete("a")
        .says("dispatch a#1, persist_result success 1/1");
    story.at(5000).tick();
    let result = story.settle();
    assert_eq!(
        (result.status.as_str(), result.completed_at),
        ("success", T0 + 999)
    );
}

//
#[test]
fn errors_of_limits_name_no_step() {
    let mut story = steps("a").queued();
    story.at(1500).tick();
    let error = story.error();
    assert_eq!(error.step_id, None);
    assert_eq!(number(&error.context, "deadline_ms"), (T0 + 1500) as f64);
    assert!(texts(&error.context, "steps_in_flight").is_empty());
    assert!(value(&error.context, "errors").is_some());
    assert_eq!(
        error.message,
        "The deadline passed while the execution was queued."
    );
    let mut story = steps("a limit=10").running();
    story.hand("a").at(10).tick();
    assert_eq!(number(&story.error().context, "limit_ms"), 10.0);
    assert_eq!(text(&plan().0.environment.unwrap(), "region"), "north");
}
