//! What happens to bytes, streams and connections on their way, and how much a worker can take.

use std::time::Duration;

use escapement_tests::{Fault, wait_for};
use escapement_wire::worker::v1::SessionResponse;
use escapement_wire::worker::v1::attempt_verdict::Verdict;
use escapement_wire::worker::v1::cancel::Reason;
use escapement_wire::worker::v1::session_response::Message as ToWorker;
use prost::Message;
use serde_json::json;

use crate::catalogue::{Check, check};
use crate::frames::framed;
use crate::log::Log;
use crate::messages::{assignment, assignments, cancels, delay, fresh_bytes};
use crate::play::{ANSWER_LIMIT, Play, demand, outcome_of, pass, start_one};
use crate::scene::Scene;
use crate::session::Session;
use crate::stage::{Stage, Welcoming};

pub(super) const CHECKS: &[Check] = &[
    check!(
        frames_may_be_cut_anywhere,
        "A welcome, an assignment and its acknowledgement whose bytes come one by one are understood.",
        "PROTOCOL.md, section 2: gRPC over HTTP/2 without TLS ..."
    ),
    check!(
        a_reset_in_the_middle_of_a_message_is_survived,
        "A connection that is reset in the middle of a message loses nothing: what runs ends on a new stream.",
        "PROTOCOL.md, section 12: A stream that ends without a `SessionError`, with whatever status, is a break: backoff, then resume."
    ),
    check!(
        every_end_of_a_stream_is_survived,
        "After a close, a reset of the stream, and a status of 0, 4, 13 and 14 the worker is back with what it ran.",
        "PROTOCOL.md, section 12: A stream that ends without a `SessionError`, with whatever status, is a break: backoff, then resume."
    ),
    check!(
        messages_of_four_mebibytes_are_read,
        "A message of almost 4 MiB, full of assignments, is read and each item answered.",
        "session.proto, SessionLimits.message_bytes_max: Bytes of one message on the stream."
    ),
    check!(
        alone a_flood_of_small_messages_is_read,
        "50,000 messages of an unknown kind and 200 cancels of unknown tokens in waves neither stop the worker nor grow it by 200 MiB.",
        "worker_service.proto, Session: Both sides MUST keep reading at all times ..."
    ),
    check!(
        alone a_flood_of_large_messages_is_read,
        "40 messages of almost 4 MiB neither stop the worker nor grow it by 200 MiB.",
        "PROTOCOL.md, section 2: Work is bounded by credits, so what was read always fits into memory."
    ),
    check!(
        alone a_flood_of_breaks_is_survived,
        "Ten breaks in a row, each right after the welcome, and the worker is back and has not grown by 200 MiB.",
        "PROTOCOL.md, section 12: A stream that ends without a `SessionError`, with whatever status, is a break: backoff, then resume."
    ),
];

async fn frames_may_be_cut_anywhere(scene: Scene) -> Result<(), Fault> {
    let stage = Stage::open().await?;
    stage.welcome_by(Welcoming::ServeByteByByte);
    let mut play = Play::start_on(stage, &scene)?;
    let session = play.welcomed().await?;
    for n in 0..3 {
        let item = outcome_of(&session, &assignment("echo", json!({ "n": n })), ANSWER_LIMIT).await?;
        let output = crate::messages::output(&item)?;
        demand(output["n"] == n, || format!("expected {n}, got {output}"))?;
    }
    // The frames of HTTP/2 cut as finely as those of gRPC.
    let item = assignment("echo", json!({ "cut": true }));
    let items = assignments([item.clone()]);
    session.send_in_single_bytes(items);
    let token = &item.attempt_token;
    let ended = |log: &Log| log.outcomes_of(token).next().map(|_| ());
    session
        .expect("an outcome of what came byte by byte", ANSWER_LIMIT, ended)
        .await
}

/// What ran before ends on the next stream.
async fn ends_on_the_next(play: &mut Play, token: &bytes::Bytes) -> Result<(), Fault> {
    let session = play.welcomed().await?;
    session
        .expect_success("a success on the next stream", token, Duration::from_secs(6))
        .await
}

async fn a_reset_in_the_middle_of_a_message_is_survived(scene: Scene) -> Result<(), Fault> {
    let stage = Stage::open().await?;
    stage.reset_when_cut();
    let mut play = Play::start_on(stage, &scene)?;
    let session = play.welcomed().await?;
    let item = delay(Duration::from_millis(1_500));
    start_one(&session, &item).await?;
    let whole = framed(
        &SessionResponse {
            seq: session.next_seq(),
            message: Some(assignments([delay(Duration::from_secs(1))])),
        }
        .encode_to_vec(),
    );
    session.send_bytes(whole.slice(..whole.len() / 2));
    pass(Duration::from_millis(200)).await;
    session.cut();
    ends_on_the_next(&mut play, &item.attempt_token).await
}

async fn every_end_of_a_stream_is_survived(scene: Scene) -> Result<(), Fault> {
    let ends: [fn(&Session); 6] = [
        Session::cut,
        Session::reset_stream,
        |session| session.finish(0),
        |session| session.finish(4),
        |session| session.finish(13),
        |session| session.finish(14),
    ];
    for end in ends {
        let (mut play, session) = Play::begin(&scene).await?;
        let item = delay(Duration::from_millis(1_000));
        start_one(&session, &item).await?;
        end(&session);
        ends_on_the_next(&mut play, &item.attempt_token).await?;
    }
    Ok(())
}

async fn messages_of_four_mebibytes_are_read(scene: Scene) -> Result<(), Fault> {
    let (_play, session) = Play::begin(&scene).await?;
    let fill = "x".repeat(1_000_000);
    let items: Vec<_> = (0..4)
        .map(|n| assignment("echo", json!({ "n": n, "fill": fill })))
        .collect();
    session.send(assignments(items.clone()));
    let all = |log: &Log| {
        items
            .iter()
            .all(|item| log.succeeded(&item.attempt_token))
            .then_some(())
    };
    session
        .expect("four outputs of a megabyte", Duration::from_secs(15), all)
        .await
}

const GROWTH_BYTES_MAX: u64 = 200 << 20;

/// Takes the worker's memory before and after, and fails where it grew too much.
struct Memory(Option<u64>);

impl Memory {
    fn before(play: &Play) -> Self {
        Self(play.worker.memory_bytes())
    }

    fn after(self, play: &Play) -> Result<(), Fault> {
        let (Some(before), Some(after)) = (self.0, play.worker.memory_bytes()) else {
            eprintln!("the memory of the worker cannot be read here; only its life was judged");
            return Ok(());
        };
        let grown = after.saturating_sub(before);
        demand(grown <= GROWTH_BYTES_MAX, || {
            format!("expected at most 200 MiB more, got {} MiB", grown >> 20)
        })
    }
}

async fn a_flood_of_small_messages_is_read(scene: Scene) -> Result<(), Fault> {
    let (mut play, session) = Play::begin(&scene).await?;
    outcome_of(&session, &assignment("echo", json!({})), ANSWER_LIMIT).await?;
    let memory = Memory::before(&play);
    for _ in 0..20 {
        for _ in 0..5 {
            for _ in 0..500 {
                session.send_encoded(None, |seq| unknown(seq, 40));
            }
            session.send(cancels([fresh_bytes(), fresh_bytes()], Reason::ExecutionEnded));
        }
        // Libraries of HTTP/2 end a connection with some 10,000 small frames that nobody read, as they may: so each
        // wave waits until the one before is read.
        let item = assignment("echo", json!({ "behind": "a wave" }));
        outcome_of(&session, &item, Duration::from_secs(20)).await?;
    }
    memory.after(&play)?;
    play.must_still_work(&session).await
}

async fn a_flood_of_large_messages_is_read(scene: Scene) -> Result<(), Fault> {
    let (mut play, session) = Play::begin(&scene).await?;
    outcome_of(&session, &assignment("echo", json!({})), ANSWER_LIMIT).await?;
    let memory = Memory::before(&play);
    for _ in 0..40 {
        session.send_encoded(None, |seq| unknown(seq, (4 << 20) - 100));
        pass(Duration::from_millis(20)).await;
    }
    outcome_of(&session, &assignment("echo", json!({})), Duration::from_secs(20)).await?;
    memory.after(&play)?;
    play.must_still_work(&session).await
}

async fn a_flood_of_breaks_is_survived(scene: Scene) -> Result<(), Fault> {
    let (mut play, mut session) = Play::begin(&scene).await?;
    let memory = Memory::before(&play);
    for _ in 0..10 {
        session.cut();
        let (next, hello) = play.greeted().await?;
        next.send(ToWorker::Welcome(play.welcome_for(&hello, Verdict::Keep)));
        session = next;
    }
    wait_for(
        "a heartbeat after all breaks",
        Duration::from_secs(5),
        async || session.log().heartbeats().next().map(|_| ()),
    )
    .await?;
    memory.after(&play)?;
    play.must_still_work(&session).await
}

/// Returns a message of a kind that no revision knows.
fn unknown(seq: u64, bytes: usize) -> Vec<u8> {
    let mut message = SessionResponse { seq, message: None }.encode_to_vec();
    prost::encoding::encode_varint(999 << 3 | 2, &mut message);
    prost::encoding::encode_varint(bytes as u64, &mut message);
    message.resize(message.len() + bytes, 0);
    message
}
