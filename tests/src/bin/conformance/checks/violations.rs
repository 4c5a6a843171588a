//! An orchestrator that breaks the protocol, and one from the future.

use std::time::Duration;

use bytes::{BufMut, Bytes};
use escapement_tests::Fault;
use escapement_wire::worker::v1::attempt_verdict::Verdict;
use escapement_wire::worker::v1::cancel::Reason;
use escapement_wire::worker::v1::session_response::Message as ToWorker;
use escapement_wire::worker::v1::{
    Assignment, Assignments, HeartbeatAck, OutcomeAck, OutcomeAcks, SessionResponse,
};
use prost::Message;
use serde_json::json;

use crate::catalogue::{Check, check};
use crate::frames::{framed, prefixed};
use crate::messages::{assignment, assignments, cancels, delay, fresh_bytes};
use crate::play::{ANSWER_LIMIT, Play, demand, outcome_of, pass, start_one};
use crate::scene::Scene;
use crate::session::Session;

pub(super) const CHECKS: &[Check] = &[
    check!(
        unknown_messages_are_ignored,
        "A message of an unknown kind is ignored, and the stream goes on behind it.",
        "worker_service.proto, SessionResponse: An unknown arm of `message` is ignored and counted."
    ),
    check!(
        unknown_fields_are_ignored,
        "Unknown fields in `Welcome`, in an assignment and beside `seq` change nothing.",
        "PROTOCOL.md, section 3: an unknown field: ignored"
    ),
    check!(
        a_gap_in_numbers_ends_the_stream,
        "After a message whose number leaves one out the worker ends the stream and comes back.",
        "worker_service.proto, Session: a gap or a repeat ends the stream."
    ),
    check!(
        a_repeated_number_ends_the_stream,
        "After a message with the number of the one before the worker ends the stream and comes back.",
        "worker_service.proto, Session: a gap or a repeat ends the stream."
    ),
    check!(
        a_first_number_other_than_1_ends_the_stream,
        "A `Welcome` with the number 0 or 2 ends the stream, and the worker comes back.",
        "worker_service.proto, SessionResponse.seq: 1 for the first message of the stream, then one more each time."
    ),
    check!(
        work_before_the_welcome_ends_the_stream,
        "An assignment before `Welcome` does not run: the worker ends the stream and comes back.",
        "PROTOCOL.md, section 4: A second `Welcome`, or another message before it, is a violation by the orchestrator ..."
    ),
    check!(
        a_second_welcome_ends_the_stream,
        "A second `Welcome` ends the stream, and the worker comes back.",
        "PROTOCOL.md, section 4: A second `Welcome`, or another message before it, is a violation by the orchestrator ..."
    ),
    check!(
        bytes_that_are_no_message_end_the_stream,
        "Bytes that are no message end the stream, and the worker comes back.",
        "PROTOCOL.md, section 3: a message that does not decode, or is too large: the stream ends ..."
    ),
    check!(
        false_frames_end_the_stream,
        "A frame that claims 4 GiB, or compression that nobody asked for, ends the stream, and the worker comes back.",
        "PROTOCOL.md, section 3: a message that does not decode, or is too large: the stream ends ..."
    ),
    check!(
        what_runs_survives_a_violation,
        "What ran when the orchestrator broke the protocol is listed on the next stream, and ends.",
        "PROTOCOL.md, section 5: A broken stream proves nothing about the work."
    ),
    check!(
        tokens_of_a_wrong_length_end_the_stream,
        "A token of 0, 15, 17 or 1000 bytes in an assignment, a cancel or an acknowledgement ends the stream, and the worker comes back.",
        "PROTOCOL.md, section 3: a token that is not 16 bytes, from the orchestrator, in whatever message; ..."
    ),
    check!(
        empty_messages_do_no_harm,
        "An assignment with nothing in it, and lists without items, end the stream at most; the worker works on.",
        "PROTOCOL.md, section 6: no such handler: `rejected` `unknown_action`"
    ),
    check!(
        broken_payloads_do_no_harm,
        "A payload that is no object, or is nested a thousand deep, ends that attempt or the stream; the worker works on.",
        "PROTOCOL.md, section 3: a message that does not decode, or is too large: the stream ends ..."
    ),
];

/// The worker ends the stream, and comes back as the same process that still works.
async fn ends_and_returns(mut play: Play, session: &Session) -> Result<(), Fault> {
    let before = session.log().hello().map(|hello| hello.instance_id.clone());
    session
        .ended("the end of the stream after a violation", ENDS_WITHIN)
        .await?;
    let (session, hello) = play.greeted().await?;
    demand(before == Some(hello.instance_id.clone()), || {
        "expected the same instance, got another".to_owned()
    })?;
    session.send(ToWorker::Welcome(play.welcome_for(&hello, Verdict::Keep)));
    play.must_still_work(&session).await
}

fn echo() -> Assignment {
    assignment("echo", json!({ "a": 1 }))
}

/// A field of 100 bytes with a number that no revision knows.
fn unknown_field(into: &mut Vec<u8>) {
    let tag = UNKNOWN_FIELD << 3 | 2;
    prost::encoding::encode_varint(tag, into);
    into.put_u8(100);
    into.put_bytes(b'?', 100);
}

async fn unknown_messages_are_ignored(scene: Scene) -> Result<(), Fault> {
    let (_play, session) = Play::begin(&scene).await?;
    for _ in 0..5 {
        session.send_encoded(None, |seq| {
            let mut bytes = SessionResponse { seq, message: None }.encode_to_vec();
            unknown_field(&mut bytes);
            bytes
        });
        // No arm at all is as much as an unknown one.
        session.send_encoded(None, |seq| SessionResponse { seq, message: None }.encode_to_vec());
        outcome_of(&session, &echo(), ANSWER_LIMIT).await?;
    }
    Ok(())
}

async fn unknown_fields_are_ignored(scene: Scene) -> Result<(), Fault> {
    let mut play = Play::start(&scene).await?;
    let (session, hello) = play.greeted().await?;
    let welcome = play.welcome_for(&hello, Verdict::Keep);
    let encoded = welcome.encode_to_vec();
    session.send_encoded(Some(ToWorker::Welcome(welcome)), |seq| {
        with_unknown_fields(seq, 2, encoded)
    });
    let item = echo();
    let items = Assignments {
        items: vec![item.clone()],
    };
    let encoded = items.encode_to_vec();
    session.send_encoded(Some(ToWorker::Assignments(items)), |seq| {
        with_unknown_fields(seq, 4, encoded)
    });
    let token = &item.attempt_token;
    let ended = |log: &crate::log::Log| log.outcomes_of(token).next().map(|(_, item)| item.clone());
    let ended = session
        .expect("an outcome in spite of unknown fields", ANSWER_LIMIT, ended)
        .await?;
    let output = crate::messages::output(&ended)?;
    demand(output["a"] == 1, || format!("expected the payload, got {output}"))
}

/// Returns a message of the arm with this number, with unknown fields inside and outside of it.
fn with_unknown_fields(seq: u64, arm: u64, mut inside: Vec<u8>) -> Vec<u8> {
    unknown_field(&mut inside);
    let mut bytes = SessionResponse { seq, message: None }.encode_to_vec();
    unknown_field(&mut bytes);
    prost::encoding::encode_varint(arm << 3 | 2, &mut bytes);
    prost::encoding::encode_varint(inside.len() as u64, &mut bytes);
    bytes.extend(inside);
    bytes
}

async fn a_gap_in_numbers_ends_the_stream(scene: Scene) -> Result<(), Fault> {
    let (play, session) = Play::begin(&scene).await?;
    outcome_of(&session, &echo(), ANSWER_LIMIT).await?;
    let next = session.next_seq();
    session.send_as(Some(next + 1), assignments([echo()]));
    ends_and_returns(play, &session).await
}

async fn a_repeated_number_ends_the_stream(scene: Scene) -> Result<(), Fault> {
    let (play, session) = Play::begin(&scene).await?;
    outcome_of(&session, &echo(), ANSWER_LIMIT).await?;
    let next = session.next_seq();
    session.send_as(Some(next - 1), assignments([echo()]));
    ends_and_returns(play, &session).await
}

async fn a_first_number_other_than_1_ends_the_stream(scene: Scene) -> Result<(), Fault> {
    for seq in [0, 2] {
        let mut play = Play::start(&scene).await?;
        let (session, hello) = play.greeted().await?;
        let welcome = play.welcome_for(&hello, Verdict::Keep);
        session.send_as(Some(seq), ToWorker::Welcome(welcome));
        ends_and_returns(play, &session).await?;
    }
    Ok(())
}

async fn work_before_the_welcome_ends_the_stream(scene: Scene) -> Result<(), Fault> {
    let mut play = Play::start(&scene).await?;
    let (session, _) = play.greeted().await?;
    session.send(assignments([echo()]));
    ends_and_returns(play, &session).await?;
    let log = session.log();
    let n = log.starts().count() + log.outcomes().count();
    demand(n == 0, || {
        format!("expected nothing to run before `Welcome`, got {n} messages of it")
    })
}

async fn a_second_welcome_ends_the_stream(scene: Scene) -> Result<(), Fault> {
    let (play, session) = Play::begin(&scene).await?;
    outcome_of(&session, &echo(), ANSWER_LIMIT).await?;
    session.send(ToWorker::Welcome(crate::messages::welcome(&play.boot_id)));
    ends_and_returns(play, &session).await
}

async fn bytes_that_are_no_message_end_the_stream(scene: Scene) -> Result<(), Fault> {
    // A length that runs out of the message; an end of a group without its begin; a varint without an end.
    for garbage in [
        &b"\x12\xff\xff\xff\x7f"[..],
        b"\x0c\x0c\x0c",
        b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    ] {
        let (play, session) = Play::begin(&scene).await?;
        outcome_of(&session, &echo(), ANSWER_LIMIT).await?;
        session.send_bytes(framed(garbage));
        ends_and_returns(play, &session).await?;
    }
    Ok(())
}

async fn false_frames_end_the_stream(scene: Scene) -> Result<(), Fault> {
    for frame in [
        prefixed(0, u32::MAX, b"xxxxxxxx"),
        prefixed(1, 4, b"\x08\x02\x08\x02"),
    ] {
        let (play, session) = Play::begin(&scene).await?;
        outcome_of(&session, &echo(), ANSWER_LIMIT).await?;
        session.send_bytes(frame);
        ends_and_returns(play, &session).await?;
    }
    Ok(())
}

async fn what_runs_survives_a_violation(scene: Scene) -> Result<(), Fault> {
    let (mut play, session) = Play::begin(&scene).await?;
    let item = delay(Duration::from_millis(2_000));
    start_one(&session, &item).await?;
    session.send_bytes(framed(b"\x12\xff\xff\xff\x7f"));
    session
        .ended("the end of the stream after a violation", ENDS_WITHIN)
        .await?;
    let session = play.welcomed().await?;
    let token = &item.attempt_token;
    session
        .expect_success(
            "a success of what ran during a violation",
            token,
            Duration::from_secs(6),
        )
        .await
}

async fn tokens_of_a_wrong_length_end_the_stream(scene: Scene) -> Result<(), Fault> {
    for length in [0, 15, 17, 1_000] {
        let token = Bytes::from(vec![7; length]);
        let (mut play, mut session) = Play::begin(&scene).await?;
        play.leave_books_alone();
        let mut item = echo();
        item.attempt_token = token.clone();
        let acks = OutcomeAcks {
            items: vec![OutcomeAck {
                attempt_token: token.clone(),
                verdict: 1,
            }],
        };
        let messages = [
            ("an assignment", assignments([item])),
            ("a cancel", cancels([token.clone()], Reason::ExecutionEnded)),
            ("an acknowledgement", ToWorker::OutcomeAcks(acks)),
        ];
        for (name, message) in messages {
            outcome_of(&session, &echo(), ANSWER_LIMIT).await?;
            session.send(message);
            let what = format!("the end of the stream after {name} with a token of {length} bytes");
            session.ended(&what, ENDS_WITHIN).await?;
            session = play.welcomed().await?;
        }
        play.must_still_work(&session).await?;
    }
    Ok(())
}

async fn empty_messages_do_no_harm(scene: Scene) -> Result<(), Fault> {
    let (mut play, mut session) = Play::begin(&scene).await?;
    play.leave_books_alone();
    let nothing = Assignment {
        attempt_token: fresh_bytes(),
        ..Assignment::default()
    };
    let messages = [
        assignments([]),
        assignments([nothing]),
        cancels([], Reason::Unspecified),
        ToWorker::OutcomeAcks(Default::default()),
        ToWorker::HeartbeatAck(HeartbeatAck::default()),
        ToWorker::SnapshotRequest(Default::default()),
        assignments([Assignment::default()]),
    ];
    for message in messages {
        session.send(message);
        pass(Duration::from_millis(100)).await;
        if session.log().end.is_some() {
            session = play.welcomed().await?;
        }
    }
    play.must_still_work(&session).await
}

async fn broken_payloads_do_no_harm(scene: Scene) -> Result<(), Fault> {
    let deep = (0..1_000).fold(Vec::new(), |inner, _| {
        // Entry, key, value, struct: an object in an object.
        let object = tagged(5, &inner);
        let entry = [tagged(1, b"o"), tagged(2, &object)].concat();
        tagged(1, &entry)
    });
    let (mut play, mut session) = Play::begin(&scene).await?;
    play.leave_books_alone();
    for payload in [b"\x0a\xff\x7f".to_vec(), b"\x0a\x03\x0a\x01\xff".to_vec(), deep] {
        let mut item = echo();
        item.payload = Some(escapement_model::Opaque::from_encoded(payload.into()));
        session.send(assignments([item]));
        pass(Duration::from_millis(500)).await;
        if session.log().end.is_some() {
            session = play.welcomed().await?;
        }
    }
    play.must_still_work(&session).await
}

fn tagged(field: u64, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    prost::encoding::encode_varint(field << 3 | 2, &mut out);
    prost::encoding::encode_varint(bytes.len() as u64, &mut out);
    out.extend(bytes);
    out
}

const UNKNOWN_FIELD: u64 = 999;
const ENDS_WITHIN: Duration = Duration::from_secs(4);
