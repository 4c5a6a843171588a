//! Section 2: whose turn it is, and what an attempt goes through.

use crate::story::{assigned, completed, failed, returned, steps};
use escapement_contract::{Evidence, Input, Outcome, Progress, StepState};
use escapement_model::Severity;

//
#[test]
fn steps_run_one_at_a_time_in_canonical_order() {
    let mut story = steps("a after=c; b; c; d after=a").running();
    story.says("dispatch b#1");
    story.complete("b").says("dispatch c#1");
    story.complete("c").says("dispatch a#1");
    story.complete("a").says("dispatch d#1");
    story.complete("d").says("persist_result success 4/4");
}

//
#[test]
fn as_many_steps_as_asked_for_start_in_canonical_order() {
    let mut story = steps("a; b; c after=a; d; e").at_a_time(3).running();
    story.says("dispatch a#1, dispatch b#1, dispatch d#1");
    // c has become ready, and its place is before that of e.
    story.complete("a").says("dispatch c#1");
    story.complete("d").says("dispatch e#1");
}

//
#[test]
fn a_sleeping_step_keeps_its_slot() {
    let mut story = steps("a retry; b").attempts(2, 50, &["FLAKY"]).running();
    story.says("dispatch a#1");
    story.at(10).fail("a", "FLAKY").says("");
    assert_eq!(story.state("a"), StepState::BackingOff { next_attempt: 2 });
    story.at(59).tick().says("");
    story.at(60).tick().says("dispatch a#2");
    story.complete("a").says("dispatch b#1");
}

//
#[test]
fn a_dependent_with_skip_is_skipped_and_the_cascade_goes_on() {
    let spec = steps("a skip; b after=a skip; c after=b skip; d");
    let mut story = spec.running();
    story.says("dispatch a#1");
    story.fail("a", "BROKEN").says("dispatch d#1");
    assert_eq!(story.state("c"), StepState::NotCompleted);
    story
        .complete("d")
        .says("persist_result partial 1/4 error BROKEN@a");
    assert_eq!(story.trace(), ["BROKEN@a#1", "STEP_SKIPPED@b", "STEP_SKIPPED@c"]);
}

//
#[test]
fn a_dependent_that_may_not_be_skipped_ends_the_plan_without_a_retry() {
    for spec in [steps("a skip; b after=a"), steps("a skip; b after=a retry")] {
        let mut story = spec.attempts(5, 100, &["*"]).running();
        story.says("dispatch a#1");
        story.fail("a", "BROKEN");
        story.says("persist_result failure 0/2 fatal DEPENDENCY_UNRESOLVED@b < error BROKEN@a");
    }
}

//
#[test]
fn a_step_that_cannot_run_ends_in_its_turn() {
    let spec = steps("a skip; b; c after=a").at_a_time(2);
    let mut story = spec.running();
    story.says("dispatch a#1, dispatch b#1");
    // The slot of a is free again, so c is taken up, which stops b.
    story.fail("a", "BROKEN").says(
        "withdraw b#1 execution_ended, \
         persist_result failure 0/3 fatal DEPENDENCY_UNRESOLVED@c < error BROKEN@a",
    );
}

//
#[test]
fn the_cause_is_the_earliest_failed_dependency_in_canonical_order() {
    let spec = steps("a skip; b skip; c after=b,a").at_a_time(2);
    let mut story = spec.running();
    story.says("dispatch a#1, dispatch b#1");
    story.fail("b", "SECOND").says("");
    story.fail("a", "FIRST");
    story.says("persist_result failure 0/3 fatal DEPENDENCY_UNRESOLVED@c < error FIRST@a");
}

//
#[test]
fn an_attempt_is_settled_once() {
    let mut story = steps("a; b").running();
    story.complete("a").says("dispatch a#1, dispatch b#1");
    for outcome in [completed("a"), failed("LATE", None), Outcome::Lost] {
        let refused = story.refused(story.ended("a", 1, outcome));
        assert_eq!(refused.step, Some(StepState::Completed));
        assert_eq!(
            refused.to_string(),
            "attempt_ended is refused: the execution is Running, the step is Completed"
        );
    }
}

//
#[test]
fn inputs_for_another_attempt_or_out_of_order_are_refused() {
    let mut story = steps("a; b").running();
    story.says("dispatch a#1");
    let (a, b) = (story.index("a"), story.index("b"));
    story.refused(Input::AttemptStarted { step: a, attempt: 1 });
    story.refused(story.ended("a", 1, completed("a")));
    story.refused(returned(a, 1, Evidence::Rejected));
    story.refused(assigned(a, 2));
    story.refused(assigned(b, 1));
    story.assign("a");
    story.refused(assigned(a, 1));
    story.refused(Input::ActionNotFound { step: a, attempt: 1 });
    story.refused(Input::AttemptStarted { step: a, attempt: 2 });
    story.refused(story.ended("a", 2, completed("a")));
    story.ok(Input::AttemptStarted { step: a, attempt: 1 });
    story.refused(Input::AttemptStarted { step: a, attempt: 1 });
}

//
#[test]
fn a_returned_attempt_is_dispatched_again_uncounted_and_its_limit_starts_anew() {
    let mut story = steps("a limit=100").running();
    story.says("dispatch a#1");
    story
        .assign("a")
        .at(90)
        .give_back("a", Evidence::LeaseExpired)
        .says("dispatch a#1");
    story.at(150).tick().says("");
    story.assign("a");
    assert_eq!(story.execution.next_due_ms(), Some(250));
    story.at(249).complete("a").says("persist_result success 1/1");
}

//
#[test]
fn an_attempt_that_started_is_not_returned() {
    let mut story = steps("a").running();
    story.hand("a");
    let step = story.index("a");
    for evidence in [
        Evidence::Rejected,
        Evidence::Released,
        Evidence::LeaseExpired,
        Evidence::ResumeOmits,
        Evidence::SnapshotOmits,
        Evidence::Goodbye,
        Evidence::DeclaredDead,
    ] {
        story.refused(returned(step, 1, evidence));
    }
}

//
#[test]
fn an_attempt_that_its_worker_may_not_do_is_dispatched_again_uncounted_even_if_it_started() {
    let mut story = steps("a limit=100").running();
    story.says("dispatch a#1");
    story
        .hand("a")
        .at(90)
        .give_back("a", Evidence::Refused)
        .says("dispatch a#1");
    story
        .assign("a")
        .at(91)
        .give_back("a", Evidence::Refused)
        .says("dispatch a#1");
    story.at(500).tick().says("");
    story.complete("a").says("persist_result success 1/1");
}

//
#[test]
fn an_action_that_nobody_offers_is_fatal_even_where_the_step_may_be_skipped() {
    let mut story = steps("a; b skip").running();
    story.complete("a").says("dispatch a#1, dispatch b#1");
    let step = story.index("b");
    story.ok(Input::ActionNotFound { step, attempt: 1 });
    story.says("persist_result failure 1/2 fatal ACTION_NOT_FOUND@b");
}

//
#[test]
fn progress_counts_every_step_once() {
    let spec = steps("a retry; b; c; d; e after=d").attempts(2, 50, &["*"]);
    let mut story = spec.at_a_time(3).running();
    story.fail("a", "FLAKY").complete("b").hand("c");
    let expected = Progress {
        steps_total: 5,
        steps_pending: 1,
        steps_waiting: 1,
        steps_running: 1,
        steps_backing_off: 1,
        steps_completed: 1,
        steps_not_completed: 0,
    };
    assert_eq!(story.execution.progress(), expected);
    story.end("d", failed("BAD", Some(Severity::Fatal)));
    // that the others stopped is told with the result.
    assert_eq!(story.execution.progress().steps_pending, 3);
    story.settle();
    let ended = Progress {
        steps_total: 5,
        steps_completed: 1,
        steps_not_completed: 4,
        ..Progress::default()
    };
    assert_eq!(story.execution.progress(), ended);
}
