//! Changes that the program makes while the worker runs.

use super::story::{Story, token_bytes};
use escapement_wire::worker::v1::rejected_attempt::Reason;
use escapement_wire::worker::v1::session_request::Message as Request;
use escapement_wire::worker::v1::{Capacity, RegisterActions};

/// Returns the levels and actions that were sent since the last call, in their order.
fn heard_changes(story: &mut Story) -> (Vec<RegisterActions>, Vec<Capacity>) {
    // Changes that follow each other closely wait for a moment.
    story.pass(100);
    let (mut actions, mut overrides) = (Vec::new(), Vec::new());
    for request in story.heard() {
        match request {
            Request::RegisterActions(message) => {
                assert!(
                    overrides.is_empty(),
                    "levels come after the actions that they belong to"
                );
                actions.push(message);
            }
            Request::Capacity(message) => overrides.push(message),
            _ => {}
        }
    }
    (actions, overrides)
}

fn names(message: &RegisterActions) -> Vec<&str> {
    message.actions.iter().map(|spec| spec.name.as_str()).collect()
}

#[test]
fn a_changed_level_is_told_once_with_a_rising_revision_and_again_on_every_new_session() {
    let mut story = Story::welcomed();
    assert_eq!(
        heard_changes(&mut story),
        (vec![], vec![]),
        "Hello has told the levels"
    );
    story.change(|worker_state| worker_state.set_max_in_flight(1));
    story.change(|worker_state| worker_state.set_action_capacity("work", 0));
    let (_, overrides) = heard_changes(&mut story);
    assert_eq!(
        overrides
            .iter()
            .map(|level| (level.revision, level.max_in_flight))
            .collect::<Vec<_>>(),
        [(1, 1), (2, 1)]
    );
    assert_eq!(
        overrides[1].per_action.clone().into_iter().collect::<Vec<_>>(),
        [("work".to_owned(), 0)]
    );
    story.change(|worker_state| worker_state.set_max_in_flight(1));
    assert_eq!(heard_changes(&mut story), (vec![], vec![]), "nothing has changed");
    for _ in 0..2 {
        story.disconnect();
        story.pass(5_000);
        assert_eq!(story.heard_hello().max_in_flight, 1);
        story.welcome();
        assert_eq!(heard_changes(&mut story).1, [overrides[1].clone()]);
    }
}

#[test]
fn levels_bind_at_once_and_what_runs_goes_on() {
    let mut story = Story::welcomed();
    story.assign(1, "work", 500_000);
    story.assign(2, "work", 500_000);
    story.change(|worker_state| worker_state.set_max_in_flight(1));
    assert!(story.cancelled.is_empty());
    story.heard();
    story.body_succeeds(1);
    story.assign(3, "work", 500_000);
    assert_eq!(story.heard_acks().rejected[0].reason(), Reason::NoCapacity);
    story.body_succeeds(2);
    story.assign(4, "work", 500_000);
    assert_eq!(story.heard_acks().started, [token_bytes(4)]);

    story.change(|worker_state| worker_state.set_max_in_flight(0));
    story.change(|worker_state| worker_state.set_action_capacity("wait", 0));
    story.assign(5, "wait", 500_000);
    assert_eq!(story.heard_acks().rejected[0].reason(), Reason::NoCapacity);
    story.change(|worker_state| worker_state.set_max_in_flight(3));
    story.change(|worker_state| worker_state.set_action_capacity("single", 2));
    story.assign(6, "single", 500_000);
    story.assign(7, "single", 500_000);
    assert_eq!(story.heard_acks().started, [token_bytes(6), token_bytes(7)]);
}

#[test]
fn actions_are_taken_back_and_offered_again() {
    let mut story = Story::welcomed();
    story.change(|worker_state| worker_state.set_action_capacity("single", 2));
    story.heard();
    story.change(|worker_state| worker_state.set_enabled("work", false));
    let (actions, overrides) = heard_changes(&mut story);
    assert_eq!(
        (actions[0].revision, names(&actions[0])),
        (1, vec!["single", "wait"])
    );
    // A registration brings the built levels, so the asked ones follow it.
    assert_eq!((overrides[0].revision, overrides[0].per_action["single"]), (2, 2));
    story.assign(1, "work", 500_000);
    assert_eq!(story.heard_acks().rejected[0].reason(), Reason::UnknownAction);
    story.disconnect();
    story.pass(5_000);
    let hello = story.heard_hello();
    assert_eq!(hello.actions.len(), 2);
    story.welcome();
    let (actions, _) = heard_changes(&mut story);
    assert_eq!((actions[0].revision, actions[0].actions.len()), (1, 2));

    story.change(|worker_state| worker_state.set_enabled("work", true));
    let (actions, _) = heard_changes(&mut story);
    assert_eq!(
        (actions[0].revision, names(&actions[0])),
        (2, vec!["work", "single", "wait"])
    );
    story.assign(2, "work", 500_000);
    assert_eq!(story.heard_acks().started, [token_bytes(2)]);
}

#[test]
fn a_worker_that_stops_takes_nothing_back() {
    let mut story = Story::welcomed();
    story.assign(1, "work", 500_000);
    story.stop();
    story.heard();
    story.change(|worker_state| worker_state.set_max_in_flight(9));
    story.change(|worker_state| worker_state.set_enabled("single", false));
    assert_eq!(heard_changes(&mut story), (vec![], vec![]));
    story.disconnect();
    story.pass(5_000);
    assert_eq!(story.heard_hello().max_in_flight, 0);
    story.welcome();
    assert_eq!(heard_changes(&mut story), (vec![], vec![]));
}

#[test]
fn changes_at_a_high_rate_are_told_now_and_then_and_the_last_one_always() {
    let mut story = Story::welcomed();
    for round in 1..=1_000 {
        story.change(|worker_state| worker_state.set_max_in_flight(round));
        story.change(|worker_state| worker_state.set_enabled("work", round % 2 == 0));
        story.pass(1);
    }
    let (mut actions, mut overrides) = (0, Vec::new());
    story.pass(100);
    for request in story.heard() {
        match request {
            Request::RegisterActions(_) => actions += 1,
            Request::Capacity(level) => overrides.push((level.revision, level.max_in_flight)),
            _ => {}
        }
    }
    assert!(
        actions <= 12 && overrides.len() <= 12,
        "{actions} and {}",
        overrides.len()
    );
    assert!(
        overrides.is_sorted_by(|one, next| one.0 < next.0),
        "revisions rise: {overrides:?}"
    );
    assert_eq!(overrides.last().unwrap().1, 1_000);
}
