//! Several orchestrators, one worker.

use std::time::Duration;

use escapement_tests::Fault;
use escapement_wire::worker::v1::HeartbeatAck;
use escapement_wire::worker::v1::attempt_verdict::Verdict;
use escapement_wire::worker::v1::rejected_attempt::Reason;
use escapement_wire::worker::v1::session_response::Message as ToWorker;
use serde_json::json;

use crate::catalogue::{Check, check};
use crate::log::Log;
use crate::messages::{assignment, assignments, delays, fresh_bytes, welcome};
use crate::play::{ANSWER_LIMIT, HELLO_LIMIT, Play, demand, outcome_of, room};
use crate::scene::Scene;
use crate::session::Session;
use crate::stage::Stage;

pub(super) const CHECKS: &[Check] = &[
    check!(
        a_session_with_each_peer,
        "The worker keeps a session with each peer of `Welcome`, as the same instance, and works for both.",
        "PROTOCOL.md, section 11: A worker SHOULD keep a session with each ..."
    ),
    check!(
        peers_share_one_capacity,
        "Two orchestrators hand out twice as many as there are slots: no more start than fit, and what is rejected is so as `no_capacity`.",
        "PROTOCOL.md, section 11: The sessions share the slots: offer each the whole level and answer `no_capacity` ..."
    ),
    check!(
        a_peer_that_comes_later_is_met,
        "A peer that an acknowledgement names later gets its session as well.",
        "session.proto, HeartbeatAck.peers: Present when they changed."
    ),
    check!(
        no_peer_is_shown_the_token_in_clear,
        "A peer whose address is not loopback gets no token where nothing is encrypted, however near it is, and one on loopback does.",
        "PROTOCOL.md, section 2: The worker MUST NOT send its token unencrypted to an address that is not loopback ..."
    ),
    check!(
        a_dead_peer_disturbs_nobody,
        "A peer that does not answer, or is no address at all, does not disturb the session that there is.",
        "PROTOCOL.md, section 11: ... an own numbering, lease, backoff and set of attempts for each, one set of handlers for all."
    ),
];

/// A worker with a session on the play's stage and one on the other.
struct Both {
    play: Play,
    first: Session,
    second: Session,
    room: u32,
    _other: Stage,
}

async fn meet(scene: &Scene, later: bool) -> Result<Both, Fault> {
    let mut other = Stage::open().await?;
    let mut play = Play::start(scene).await?;
    let (first, hello) = play.greeted().await?;
    let mut greeting = play.welcome_for(&hello, Verdict::Keep);
    if !later {
        greeting.peers = vec![other.url()];
    }
    first.send(ToWorker::Welcome(greeting));
    if later {
        first.acknowledge_heartbeats(false);
        let n = first
            .expect("a heartbeat", Duration::from_secs(3), |log| {
                log.heartbeats().next().map(|(_, h)| h.n)
            })
            .await?;
        first.send(ToWorker::HeartbeatAck(HeartbeatAck {
            n,
            peers: vec![other.url()],
        }));
        first.acknowledge_heartbeats(true);
    }
    let second = other
        .stream(Duration::from_secs(10))
        .await
        .map_err(|fault| format!("at the peer: {fault}"))?;
    let theirs = second
        .expect("`Hello` at the peer", HELLO_LIMIT, |log| log.hello().cloned())
        .await?;
    demand(theirs.instance_id == hello.instance_id, || {
        "expected the same instance at the peer, got another".to_owned()
    })?;
    let mut greeting = welcome(&fresh_bytes());
    greeting.peers = vec![play.stage.url()];
    second.send(ToWorker::Welcome(greeting));
    Ok(Both {
        play,
        first,
        second,
        room: room(&hello),
        _other: other,
    })
}

async fn works(session: &Session) -> Result<(), Fault> {
    outcome_of(session, &assignment("echo", json!({})), Duration::from_secs(4))
        .await
        .map(|_| ())
}

async fn a_session_with_each_peer(scene: Scene) -> Result<(), Fault> {
    let mut both = meet(&scene, false).await?;
    works(&both.first).await?;
    works(&both.second).await?;
    let again = both.play.stage.stream(Duration::from_secs(2)).await.is_ok();
    demand(!again, || {
        "expected one session with each, got a second one with the first".to_owned()
    })
}

async fn peers_share_one_capacity(scene: Scene) -> Result<(), Fault> {
    let both = meet(&scene, false).await?;
    let items = delays(both.room, Duration::from_secs(60));
    both.first.send(assignments(items));
    let some = |log: &Log| log.starts().next().map(|_| ());
    both.first
        .expect("a start for the first orchestrator", ANSWER_LIMIT, some)
        .await?;
    crate::play::pass(Duration::from_secs(1)).await;
    both.second
        .send(assignments(delays(both.room, Duration::from_secs(60))));
    // What is too much may wait, be rejected, or have been kept off by `Capacity`.
    crate::play::pass(Duration::from_secs(1)).await;
    let (mut n, mut reasons) = (0, Vec::new());
    for session in [&both.first, &both.second] {
        let log = session.log();
        n += log.starts().count();
        reasons.extend(log.rejections().map(|(_, item)| item.reason()));
    }
    let refused = reasons.iter().all(|reason| *reason == Reason::NoCapacity);
    demand(n <= both.room as usize && refused, || {
        let room = both.room;
        format!(
            "expected at most {room} started, others rejected as no_capacity, got {n}, rejected as {reasons:?}"
        )
    })
}

async fn a_peer_that_comes_later_is_met(scene: Scene) -> Result<(), Fault> {
    let both = meet(&scene, true).await?;
    works(&both.second).await?;
    works(&both.first).await
}

async fn no_peer_is_shown_the_token_in_clear(scene: Scene) -> Result<(), Fault> {
    let (far, mut near) = (Stage::open().await?, Stage::open().await?);
    let mut play = Play::start(&scene).await?;
    let (first, hello) = play.greeted().await?;
    let mut greeting = play.welcome_for(&hello, Verdict::Keep);
    // It leads to this machine, and does not say so: as the address of another one would.
    greeting.peers = vec![far.url().replace("127.0.0.1", "0.0.0.0"), near.url()];
    first.send(ToWorker::Welcome(greeting));
    let second = near.stream(Duration::from_secs(10)).await?;
    demand(second.authorization().is_some(), || {
        "expected the token at a peer on loopback, got none".to_owned()
    })?;
    // Longer than the first delays between two dials.
    crate::play::pass(Duration::from_secs(2)).await;
    works(&first).await?;
    let shown = far
        .sessions()
        .into_iter()
        .any(|session| session.authorization().is_some());
    demand(!shown, || {
        "expected no token at a peer that is not on loopback, got it unencrypted".to_owned()
    })
}

async fn a_dead_peer_disturbs_nobody(scene: Scene) -> Result<(), Fault> {
    let mut dead = Stage::open().await?;
    dead.close_port();
    let mut play = Play::start(&scene).await?;
    let (session, hello) = play.greeted().await?;
    let mut greeting = play.welcome_for(&hello, Verdict::Keep);
    let strange = [
        "",
        "no address",
        "http://",
        "ftp://127.0.0.1:1",
        "http://256.0.0.1:99999",
        "http://[::1",
    ];
    greeting.peers = strange
        .iter()
        .map(|peer| (*peer).to_owned())
        .chain([dead.url(), play.stage.url()])
        .collect();
    session.send(ToWorker::Welcome(greeting));
    for _ in 0..5 {
        works(&session).await?;
        crate::play::pass(Duration::from_millis(400)).await;
    }
    play.worker.must_live()
}
