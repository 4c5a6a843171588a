//! Several orchestrators, one worker.

use std::time::Duration;

use escapement_tests::Fault;
use escapement_wire::worker::v1::HeartbeatAck;
use escapement_wire::worker::v1::attempt_verdict::Verdict;
use escapement_wire::worker::v1::session_response::Message as ToWorker;
use serde_json::json;

use crate::catalogue::{Check, check};
use crate::log::Log;
use crate::messages::{assignment, assignments, delays, fresh_bytes, tokens, welcome};
use crate::play::{ANSWER_LIMIT, HELLO_LIMIT, Play, all_started, demand, outcome_of, room};
use crate::scene::Scene;
use crate::session::Session;
use crate::stage::Stage;

pub(super) const CHECKS: &[Check] = &[
    check!(
        a_session_with_each_peer,
        "The worker keeps a session with each peer of `Welcome`, as the same instance, and works for both.",
        "session.proto, Welcome.peers: Addresses of the other orchestrators, with each of which a worker keeps a session."
    ),
    check!(
        peers_share_one_capacity,
        "With every slot taken by one orchestrator, the other's assignment is rejected as `no_capacity`.",
        "Peers: same instance id, one capacity shared by all."
    ),
    check!(
        a_peer_that_comes_later_is_met,
        "A peer that an acknowledgement names later gets its session as well.",
        "session.proto, HeartbeatAck.peers: Present when they changed."
    ),
    check!(
        a_dead_peer_disturbs_nobody,
        "A peer that does not answer, or is no address at all, does not disturb the session that there is.",
        "session.proto, Welcome.peers: Addresses of the other orchestrators."
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
    both.first.send(assignments(items.clone()));
    all_started(&both.first, &tokens(&items)).await?;
    let item = crate::messages::delay(Duration::from_millis(100));
    both.second.send(assignments([item.clone()]));
    let rejected = |log: &Log| log.rejected(&item.attempt_token).map(|(_, item)| item.reason());
    let reason = both
        .second
        .expect("a rejection at the peer", ANSWER_LIMIT, rejected)
        .await?;
    let expected = escapement_wire::worker::v1::rejected_attempt::Reason::NoCapacity;
    demand(reason == expected, || {
        format!("expected no_capacity, got {reason:?}")
    })
}

async fn a_peer_that_comes_later_is_met(scene: Scene) -> Result<(), Fault> {
    let both = meet(&scene, true).await?;
    works(&both.second).await?;
    works(&both.first).await
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
