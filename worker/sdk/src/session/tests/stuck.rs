//! Handlers that ignore everything.

use super::spoken::{assignment, assignments, token_bytes};
use super::story::Story;
use crate::SessionEvent;
use escapement_wire::worker::v1::Assignment;
use escapement_wire::worker::v1::rejected_attempt::Reason;

/// Returns the times of the reports, counted from the abortion.
fn reports(story: &Story) -> Vec<u64> {
    let seconds = |event: &SessionEvent| match event {
        SessionEvent::Stuck { aborted_for, .. } => aborted_for.as_secs(),
        other => panic!("{other:?}"),
    };
    story.events.iter().map(seconds).collect()
}

#[test]
fn a_handler_that_ignores_its_abortion_keeps_its_slot_and_is_reported_again_and_again() {
    let mut story = Story::welcomed();
    story.say(assignments([Assignment {
        execution_id: "the execution".to_owned(),
        step_id: "the step".to_owned(),
        ..assignment(token_bytes(1), "single", 1_000)
    }]));
    story.pass(1_500);
    assert_eq!(story.aborted.len(), 1);
    story.pass(9_999);
    assert!(story.events.is_empty());
    story.pass(1);
    let first = format!("{:?}", story.events[0]);
    for part in ["\"single\"", "\"the execution\"", "\"the step\"", "10s"] {
        assert!(first.contains(part), "{first}");
    }
    story.pass(3_600_000);
    let distances = [10, 30, 70, 150, 310, 630, 1_230, 1_830, 2_430, 3_030];
    assert_eq!(reports(&story), distances, "doubling up to ten minutes");
    assert_eq!(story.aborted.len(), 1, "it is aborted once");

    story.heard();
    story.assign(2, "single", 1_000);
    assert_eq!(story.heard_acks().rejected[0].reason(), Reason::NoCapacity);
    story.body_succeeds(1);
    story.events.clear();
    story.pass(3_600_000);
    assert!(story.events.is_empty(), "it has ended");
    story.assign(3, "single", 1_000);
    assert_eq!(story.heard_acks().started.len(), 1);
}

#[test]
fn a_cancel_that_is_repeated_each_second_changes_nothing_about_the_reports() {
    let mut story = Story::welcomed();
    story.assign(1, "work", 500_000);
    for _ in 0..200 {
        story.cancel(1, 100);
        story.pass(1_000);
    }
    assert_eq!(story.aborted.len(), 1);
    assert_eq!(reports(&story), [10, 30, 70, 150]);
    assert_eq!(story.cancelled.len(), 1);
}

#[test]
fn a_handler_that_ends_after_its_abortion_is_not_reported() {
    let mut story = Story::welcomed();
    story.assign(1, "work", 1_000);
    story.pass(2_000);
    story.body_ends(1, crate::session::TaskEnd::Aborted);
    story.pass(100_000);
    assert!(story.events.is_empty());
}
