//! Bytes, numbers and messages that no worker should send, few of them and very many. Tells what each costs, and whom.

use crate::arena::{Arena, LIMIT, scale};
use crate::intruder::{
    end_of, expect_alive, expect_end, foreign_token, forget_peak, greeted, heartbeat, hello, memory_mib,
    next, peak_mib, steps,
};
use bytes::Bytes;
use escapement_tests::raw_session::{RawSession, framed};
use escapement_tests::session_checker::Count;
use escapement_tests::session_journal::{FromWorker, What};
use escapement_tests::{Dice, ScriptedWorker, let_pass};
use escapement_wire::worker::v1::session_error::Code;
use escapement_wire::worker::v1::session_request::Message;
use escapement_wire::worker::v1::session_response::Message as Answer;
use escapement_wire::worker::v1::{
    AttemptAcks, AttemptOutcome, Capacity, Outcomes, RegisterActions, SessionRequest, Snapshot,
};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::time::timeout;
/// What a worker may cost that takes nothing of what it is sent: the queue of its session, and what is on the way.
const UNREAD_COST_MIB: u64 = 250;

#[tokio::test]
async fn noise_in_place_of_messages_ends_its_own_stream_alone() {
    let arena = Arena::start().await;
    let mut bystander = greeted(&arena.orchestrator, hello(&["frames"], 1)).await;
    let mut noise = Dice::new(0x5eed);
    let n_streams = scale(60, 2_000);
    let mut n_ended = 0;
    for n in 0..n_streams {
        let mut session = if n % 2 == 0 {
            greeted(&arena.orchestrator, hello(&["frames"], 1)).await
        } else {
            RawSession::open(arena.orchestrator.address()).await.unwrap()
        };
        // The stream may be over before all is sent.
        let length = noise.index(300);
        let bytes = drawn(&mut noise, length);
        let _ = match n % 6 {
            // Messages of noise; by chance one in many decodes, so there are several.
            0 | 1 => {
                let mut sent = Ok(());
                for _ in 0..20 {
                    let bytes = drawn(&mut noise, 100);
                    sent = sent.and(session.send_message(&bytes).await);
                }
                sent
            }
            // A message that says it is compressed.
            2 => {
                session
                    .send_bytes([&[1, 0, 0, 0, 4], &bytes[..]].concat().into())
                    .await
            }
            // A length of 4 GiB.
            3 => {
                session
                    .send_bytes([&[0, 0xff, 0xff, 0xff, 0xff], &bytes[..]].concat().into())
                    .await
            }
            // A message that the end of the stream cuts off.
            4 => session.send_bytes(framed(&[8, 1, 0x12, 0x7f, 1, 2])).await,
            // No frame at all: the first byte is neither 0 nor 1.
            _ => session.send_bytes([&[0x7f], &bytes[..]].concat().into()).await,
        };
        let _ = session.half_close();
        let _error = end_of(&mut session).await;
        n_ended += 1;
        if n % 20 == 0 {
            expect_alive(&mut bystander, n + 1).await;
        }
    }
    assert_eq!(n_ended, n_streams);
    drop(bystander);
    arena.finish().await.at_least(Count::Sessions, n_streams / 2);
}

#[tokio::test]
async fn a_wrong_order_or_a_wrong_identity_ends_the_session_in_words() {
    let arena = Arena::start().await;
    for (what, numbers) in [
        ("a gap", [2, 4]),
        ("a repeat", [2, 2]),
        ("a jump back", [2, 1]),
        ("nought", [2, 0]),
    ] {
        let mut session = greeted(&arena.orchestrator, hello(&["frames"], 1)).await;
        for seq in numbers {
            let request = SessionRequest {
                seq,
                message: Some(heartbeat(1)),
            };
            session.send_request(&request).await.unwrap();
        }
        expect_end(&mut session, Code::ProtocolViolation, what).await;
    }
    let mut session = RawSession::open(arena.orchestrator.address()).await.unwrap();
    session
        .send_request(&SessionRequest {
            seq: 2,
            message: Some(hello(&["frames"], 1)),
        })
        .await
        .unwrap();
    expect_end(
        &mut session,
        Code::ProtocolViolation,
        "a first message that is not number 1",
    )
    .await;
    drop(session);

    let mut session = greeted(&arena.orchestrator, hello(&["frames"], 1)).await;
    session.send(hello(&["frames"], 1)).await.unwrap();
    expect_end(&mut session, Code::ProtocolViolation, "a second hello").await;
    drop(session);

    for (what, first) in first_messages() {
        let mut session = RawSession::open(arena.orchestrator.address()).await.unwrap();
        session.send(first).await.unwrap();
        expect_end(&mut session, Code::ProtocolViolation, what).await;
    }
    for bytes in [0, 15, 17, 4_096] {
        let mut said = ScriptedWorker::hello_for(ScriptedWorker::specs(&["frames"]), 1);
        said.instance_id = Bytes::from(vec![7; bytes]);
        let mut session = RawSession::open(arena.orchestrator.address()).await.unwrap();
        session.send(Message::Hello(said)).await.unwrap();
        expect_end(
            &mut session,
            Code::ProtocolViolation,
            "an instance_id of another length",
        )
        .await;
    }
    for (min, max) in [(0, 0), (2, 9), (u32::MAX, u32::MAX), (2, 1)] {
        let mut said = ScriptedWorker::hello_for(ScriptedWorker::specs(&["frames"]), 1);
        (said.protocol_min, said.protocol_max) = (min, max);
        let mut session = RawSession::open(arena.orchestrator.address()).await.unwrap();
        session.send(Message::Hello(said)).await.unwrap();
        expect_end(&mut session, Code::UnsupportedProtocol, "no common revision").await;
    }
    // One that speaks later revisions too is welcome.
    let mut said = ScriptedWorker::hello_for(ScriptedWorker::specs(&["frames"]), 1);
    said.protocol_max = 99;
    drop(greeted(&arena.orchestrator, Message::Hello(said)).await);
    arena.finish().await.at_least(Count::Sessions, 6);
}

#[tokio::test]
async fn what_is_not_known_is_passed_over_and_takes_its_number() {
    let arena = Arena::start().await;
    let mut session = greeted(&arena.orchestrator, hello(&["frames"], 1)).await;
    let unknown: [Vec<u8>; 6] = [
        // An arm of a later revision, no arm at all, no byte but the number, a group, an empty heartbeat, fields of each kind.
        vec![8, 2, 0xba, 0x06, 3, 1, 2, 3],
        vec![8, 3],
        vec![8, 4, 0x98, 0x06, 1],
        vec![8, 5, 0xbb, 0x06, 0x08, 0x01, 0xbc, 0x06],
        vec![8, 6, 0x2a, 0],
        vec![8, 7, 0x2a, 8, 8, 1, 0x98, 0x06, 5, 0xba, 0x06, 0],
    ];
    for message in &unknown {
        session.send_message(message).await.unwrap();
    }
    for _ in 0..2 {
        assert!(matches!(next(&mut session).await, Some(Answer::HeartbeatAck(_))));
    }
    let request = SessionRequest {
        seq: 8,
        message: Some(heartbeat(9)),
    };
    session.send_request(&request).await.unwrap();
    assert!(matches!(next(&mut session).await, Some(Answer::HeartbeatAck(ack)) if ack.n == 9));
    // Known messages without content, and content without a meaning.
    let empty = [
        Message::AttemptAcks(AttemptAcks::default()),
        Message::Outcomes(Outcomes::default()),
        Message::Snapshot(Snapshot::default()),
        Message::Snapshot(Snapshot {
            n: u64::MAX,
            last_assignment_seq: u64::MAX,
            ..Snapshot::default()
        }),
        Message::Capacity(Capacity {
            revision: 1,
            max_in_flight: u32::MAX,
            ..Capacity::default()
        }),
        Message::AttemptAcks(AttemptAcks {
            started: vec![Bytes::new(), Bytes::from_static(&[1; 15]), foreign_token()],
            stopped: vec![Bytes::from_static(&[1; 17]), foreign_token()],
            ..AttemptAcks::default()
        }),
        Message::RegisterActions(RegisterActions::default()),
    ];
    for message in empty {
        session.send(message).await.unwrap();
    }
    expect_alive(&mut session, 10).await;
    // An empty first message is no hello, and no word at all before the time for it is over.
    let mut silent = RawSession::open(arena.orchestrator.address()).await.unwrap();
    let begin = Instant::now();
    silent.send_message(&[8, 1]).await.unwrap();
    let error = end_of(&mut silent).await;
    assert!(error.is_some(), "a stream without a hello ended without a word");
    assert!(
        begin.elapsed() < Duration::from_secs(9),
        "it went on for {:?}",
        begin.elapsed()
    );
    drop((session, silent));
    let lines = arena.lines();
    let unknown = lines.iter().filter(|line| {
        matches!(
            line.what,
            What::In {
                message: FromWorker::Unknown {},
                ..
            }
        )
    });
    assert!(unknown.count() >= 4);
    arena.finish().await.at_least(Count::Sessions, 1);
}

/// Answers that nobody reads: the queue of the session is full, it is closed, and its connection is cut.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_never_reads_its_answers_is_cut() {
    let arena = Arena::start().await;
    greeted(&arena.orchestrator, hello(&["frames"], 1)).await;
    let before = memory_mib(&arena.orchestrator);
    forget_peak(&arena.orchestrator);
    let mut session = RawSession::open(arena.orchestrator.address()).await.unwrap();
    session.send(hello(&["frames"], 1)).await.unwrap();
    // An outcome whose token is none comes back as it is, a megabyte of it.
    let long = AttemptOutcome {
        attempt_token: Bytes::from(vec![7; 1 << 20]),
        ..AttemptOutcome::default()
    };
    let echoed = Message::Outcomes(Outcomes { items: vec![long] });
    let begin = Instant::now();
    let mut n_sent = 0;
    while timeout(LIMIT, session.send(echoed.clone()))
        .await
        .expect("the connection is not cut")
        .is_ok()
    {
        n_sent += 1;
        assert!(n_sent < 20_000, "it is read for ever");
    }
    let cost = peak_mib(&arena.orchestrator).saturating_sub(before);
    eprintln!(
        "never read: cut after {n_sent} messages and {:?}, {cost} MiB",
        begin.elapsed()
    );
    assert!(cost <= UNREAD_COST_MIB, "{cost} MiB");
    drop(session);
    let closed = arena
        .lines()
        .into_iter()
        .filter(|line| line.what == What::Closed)
        .count();
    assert!(closed >= 2, "the stream was not ended");
    arena.finish().await.at_least(Count::Sessions, 2);
}

/// Work and cancels that nobody reads, while heartbeats keep the lease.
#[tokio::test]
async fn a_worker_that_never_reads_its_work_takes_little_memory_and_no_time_of_others() {
    let arena = Arena::start().await;
    greeted(&arena.orchestrator, hello(&["frames"], 1)).await;
    let before = memory_mib(&arena.orchestrator);
    forget_peak(&arena.orchestrator);
    let mut session = RawSession::open(arena.orchestrator.address()).await.unwrap();
    session.send(hello(&["unread"], 4_096)).await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..scale(4, 12) {
        let plan = steps(
            "unread",
            300,
            &json!({ "payload": { "fill": "x".repeat(4_000) } }),
        )
        .plan_field("timeout_ms", 1_500);
        ids.push(arena.submit(plan).await);
    }
    for id in &ids {
        let mut beats = tokio::time::interval(Duration::from_millis(500));
        let result = arena.result_of(id);
        tokio::pin!(result);
        loop {
            tokio::select! {
                _ = &mut result => break,
                _ = beats.tick() => session.send(heartbeat(1)).await.unwrap(),
            }
        }
    }
    // Its cancels are repeated each second.
    for n in 0..scale(3, 30) {
        session.send(heartbeat(n)).await.unwrap();
        let_pass(Duration::from_secs(1)).await;
    }
    let cost = peak_mib(&arena.orchestrator).saturating_sub(before);
    eprintln!("unread work: {cost} MiB");
    assert!(cost <= UNREAD_COST_MIB, "{cost} MiB");
    drop(session);
    let judgement = arena.finish().await;
    judgement
        .at_least(Count::Assignments, 1_200)
        .at_least(Count::Cancels, 2_400);
}

/// Everything that must not come first.
fn first_messages() -> Vec<(&'static str, Message)> {
    vec![
        ("a heartbeat first", heartbeat(1)),
        ("answers first", Message::AttemptAcks(AttemptAcks::default())),
        ("outcomes first", Message::Outcomes(Outcomes::default())),
        ("levels first", Message::Capacity(Capacity::default())),
        (
            "actions first",
            Message::RegisterActions(RegisterActions::default()),
        ),
        ("a snapshot first", Message::Snapshot(Snapshot::default())),
        (
            "a drain first",
            Message::Drain(escapement_wire::worker::v1::Drain::default()),
        ),
        (
            "a goodbye first",
            Message::Goodbye(escapement_wire::worker::v1::Goodbye::default()),
        ),
    ]
}

fn drawn(dice: &mut Dice, count: usize) -> Vec<u8> {
    (0..count).map(|_| dice.any().to_be_bytes()[3]).collect()
}
