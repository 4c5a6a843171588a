//! Each message to a worker is one on the wire: it never exceeds the protocol's limits. The auditor judges all of them.

use crate::world::{WaitFor, World, action, plan};
use bytes::Bytes;
use escapement_engine::{
    Assignment, AttemptReport, FromWorker, Input, ReleaseReason, SessionErrorCode, SessionKey, ToWorker,
};
use escapement_model::opaque::StructBuilder;
use escapement_model::{AttemptToken, limits};

fn tokens(n: usize) -> Vec<AttemptToken> {
    let token = |n: usize| AttemptToken::new((n as u128).to_be_bytes());
    (0..n).map(token).collect()
}

/// Sizes of the lists of one kind that a session was sent.
fn sizes(world: &mut World, session: u64) -> Vec<usize> {
    let sent = world.take_sent(session).into_iter();
    sent.filter_map(|message| match message {
        ToWorker::Assignments(items) => Some(items.len()),
        ToWorker::OutcomeAcks(items) => Some(items.len()),
        ToWorker::UnknownOutcomes(items) => Some(items.len()),
        ToWorker::Cancels(items) => Some(items.len()),
        _ => None,
    })
    .collect()
}

#[test]
fn many_answers_go_in_several_messages() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    let released = || AttemptReport::Released(ReleaseReason::Drain);
    let outcomes = |seq| Input::SessionMessage {
        session: SessionKey(1),
        seq,
        message: FromWorker::Outcomes {
            items: tokens(12_000)
                .into_iter()
                .map(|token| (token, released()))
                .collect(),
            unreadable: vec![],
        },
    };
    world.inputs(vec![outcomes(2), outcomes(3)]);
    assert_eq!(sizes(&mut world, 1), [16_384, 7_616]);
}

#[test]
fn answers_to_what_is_no_token_are_cut_by_bytes() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    let mut say = |unreadable: Vec<Bytes>| {
        let items = vec![];
        world.say(1, FromWorker::Outcomes { items, unreadable });
        sizes(&mut world, 1)
    };
    let large = Bytes::from(vec![0; limits::SESSION_MESSAGE_BYTES_MAX / 4]);
    assert_eq!(say(vec![large; 4]), [3, 1]);
}

#[test]
fn what_no_answer_can_hold_ends_the_session() {
    for (n_bytes, is_over) in [
        (limits::SESSION_MESSAGE_BYTES_MAX - 88, false),
        (limits::SESSION_MESSAGE_BYTES_MAX - 87, true),
    ] {
        let mut world = World::new();
        world.worker(1, 1, &["a"]);
        let unreadable = vec![Bytes::from(vec![0; n_bytes])];
        let items = vec![];
        world.say(1, FromWorker::Outcomes { items, unreadable });
        let is_refused = world.take_errors(1) == [SessionErrorCode::LimitExceeded];
        assert_eq!(is_refused, is_over);
    }
}

#[test]
fn a_welcome_does_not_repeat_names_of_any_length() {
    let mut world = World::new();
    let long = "é".repeat(2_000);
    world.hello(1, 1, 1, vec![action(&long); 1024], vec![]);
    let welcome = world.take_sent(1).remove(0);
    let ToWorker::Welcome(welcome) = welcome else {
        panic!("{welcome:?}")
    };
    assert_eq!(welcome.refused_actions.len(), 1024);
    let cut = |refusal: &escapement_engine::ActionRefusal| refusal.name == "é".repeat(255);
    assert!(welcome.refused_actions.iter().all(cut));
}

#[test]
fn large_assignments_go_in_several_messages_with_numbers_of_their_own() {
    let mut world = World::new();
    world.worker(1, 8, &["a"]);
    let large = "x".repeat(600_000);
    let request = plan(1, &["a"; 6])
        .at_a_time(6)
        .draft(|draft| {
            let environment = StructBuilder::new().text("region", "eu").text("large", &large);
            draft.environment = Some(environment.build());
        })
        .plan(|plan| {
            for step in &mut plan.steps {
                step.payload = Some(StructBuilder::new().text("large", &large).build());
            }
        })
        .build();
    world.submit(1, &request, WaitFor::Settled);
    let sent = world.take_sent(1).into_iter();
    let batches: Vec<Vec<Assignment>> = sent
        .filter_map(|message| match message {
            ToWorker::Assignments(items) => Some(items),
            _ => None,
        })
        .collect();
    assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3]);
    let seqs: Vec<u64> = batches
        .iter()
        .map(|batch| world.auditor.seq_of[&batch[0].token])
        .collect();
    assert_eq!(seqs, [2, 3]);
    world.say(1, FromWorker::Drain);
    let told = world.take_sent(1).pop();
    assert!(
        matches!(
            told,
            Some(ToWorker::DrainStarted {
                last_assignment_seq: 3
            })
        ),
        "{told:?}"
    );
}

#[test]
fn one_assignment_always_fits() {
    let headers = limits::CORRELATION_ENTRIES_MAX
        * (4 * limits::LABEL_CHARS_MAX + 4 * limits::CORRELATION_VALUE_CHARS_MAX + 16);
    let largest = limits::PAYLOAD_BYTES_MAX + limits::ENVIRONMENT_BYTES_MAX + headers + 2_048 + 64;
    assert!(largest <= limits::SESSION_MESSAGE_BYTES_MAX);
}
