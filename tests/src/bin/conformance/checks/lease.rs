//! What a worker does when its heartbeats are not acknowledged any more. A lease that runs out stops everything.

use std::time::Duration;

use bytes::Bytes;
use escapement_tests::{Fault, wait_for};
use escapement_wire::worker::v1::HeartbeatAck;
use escapement_wire::worker::v1::attempt_outcome::Outcome;
use escapement_wire::worker::v1::attempt_verdict::Verdict;
use escapement_wire::worker::v1::in_flight::Phase;
use escapement_wire::worker::v1::rejected_attempt::Reason;
use escapement_wire::worker::v1::session_response::Message as ToWorker;
use serde_json::json;
use tokio::time::Instant;

use crate::catalogue::{Check, check};
use crate::log::{Log, listed};
use crate::messages::{assignment, assignments, delay, is_success, milliseconds, shown};
use crate::play::{Play, all_started, demand, pass, quiet, start_one};
use crate::scene::Scene;
use crate::session::Session;
use crate::stage::Welcoming;

pub(super) const CHECKS: &[Check] = &[
    check!(
        the_lease_stops_what_runs,
        "Without acknowledgements the worker stops what runs by the end of its lease, and lists nothing as running.",
        "session.proto, Welcome.lease_ms: When it runs out, the worker MUST start nothing and MUST stop what runs."
    ),
    check!(
        nothing_starts_after_the_lease,
        "An assignment after the end of the lease is rejected as `lease_expired`, or finds the stream over.",
        "session.proto, Welcome.lease_ms: When it runs out, the worker MUST start nothing ..."
    ),
    check!(
        nothing_succeeds_after_the_lease,
        "What ran when the lease ended never succeeds, neither on the old stream nor on a new one that would keep it.",
        "PROTOCOL.md, section 7: end what runs, within 500 ms if it can"
    ),
    check!(
        the_lease_counts_from_the_sending,
        "An acknowledgement that comes late renews the lease from when its heartbeat was sent, not from when it came.",
        "PROTOCOL.md, section 7: It ends `lease_ms` after the worker **sent** the heartbeat that was acknowledged last ..."
    ),
    check!(
        slow_acknowledgements_keep_the_lease,
        "Acknowledgements that are always late, but within the lease, stop nothing.",
        "session.proto, HeartbeatAck: Renews the lease."
    ),
    check!(
        acks_of_heartbeats_never_sent_renew_nothing,
        "An acknowledgement of a heartbeat that was never sent does not renew the lease.",
        "session.proto, Welcome.lease_ms: The worker counts it from the moment it sent the heartbeat that was acknowledged last."
    ),
    check!(
        the_worker_comes_back_after_its_lease,
        "At the end of its lease the worker drops the stream, opens a new session, and works.",
        "PROTOCOL.md, section 7: drop the stream if it is open, and connect again."
    ),
    check!(
        a_pause_longer_than_the_lease_is_noticed,
        "After SIGSTOP for longer than the lease and SIGCONT, what ran never succeeds without a new session that keeps it.",
        "PROTOCOL.md, section 7: ... look at the clock before each handler is started and after each pause of the process."
    ),
    check!(
        a_pause_shorter_than_the_lease_does_nothing,
        "After SIGSTOP for half of the lease and SIGCONT, what ran goes on and succeeds.",
        "session.proto, HeartbeatAck: Renews the lease."
    ),
];

/// Returns a session with a short lease, whose first heartbeats are acknowledged.
async fn leased(scene: &Scene, lease: Duration) -> Result<(Play, Session), Fault> {
    let mut play = Play::start(scene).await?;
    play.leave_books_alone();
    let (session, hello) = play.greeted().await?;
    let mut welcome = play.welcome_for(&hello, Verdict::Keep);
    welcome.lease_ms = milliseconds(lease);
    session.send(ToWorker::Welcome(welcome));
    let two = |log: &Log| (log.heartbeats().count() >= 2).then_some(());
    session
        .expect("two heartbeats", Duration::from_secs(3), two)
        .await?;
    Ok((play, session))
}

/// Acknowledges nothing more and lets no new connection in. The answer is when the heartbeat arrived that was acknowledged last.
fn abandon(play: &Play, session: &Session) -> Instant {
    session.acknowledge_heartbeats(false);
    play.stage.welcome_by(Welcoming::SaysNothing);
    last_acknowledged(&session.log())
}

fn last_acknowledged(log: &Log) -> Instant {
    let acknowledged = log.told().filter_map(|(_, _, message)| match message {
        ToWorker::HeartbeatAck(ack) => Some(ack.n),
        _ => None,
    });
    let n = acknowledged.last().unwrap_or_default();
    let sent = log.heartbeats().find(|(_, heartbeat)| heartbeat.n == n);
    sent.map_or(log.opened, |(at, _)| at)
}

/// Waits until the worker said that it gave the attempt up, or ended the stream; at most until a little after `end`.
async fn given_up(session: &Session, token: &Bytes, end: Instant) -> Result<(), Fault> {
    let limit = (end + LATE).saturating_duration_since(Instant::now());
    let seen = wait_for("the lease to end what runs", limit, async || {
        let log = session.log();
        let outcome = log
            .outcomes_of(token)
            .next()
            .map(|(_, item)| item.outcome.clone());
        // `stopped` is said of what was cancelled only.
        outcome.map(Some).or(log.end.as_ref().map(|_| None))
    });
    let seen = seen.await.map_err(|_| {
        format!("expected `released` or the end of the stream by {LATE:?} after the lease, got none")
    })?;
    match seen {
        Some(Some(Outcome::Success(_))) => Err("expected the attempt to be given up, it succeeded".into()),
        _ => Ok(()),
    }
}

/// Opens the stage again, without the old connections, and takes the next session with its `Hello`.
async fn again(play: &mut Play) -> Result<(Session, escapement_wire::worker::v1::Hello), Fault> {
    play.stage.welcome_by(Welcoming::Serve);
    play.stage.cut_all();
    play.greeted().await
}

async fn the_lease_stops_what_runs(scene: Scene) -> Result<(), Fault> {
    let (mut play, session) = leased(&scene, LEASE).await?;
    let item = delay(Duration::from_secs(60));
    start_one(&session, &item).await?;
    let end = abandon(&play, &session) + LEASE;
    given_up(&session, &item.attempt_token, end).await?;
    pass((end + LATE).saturating_duration_since(Instant::now())).await;
    let (session, hello) = again(&mut play).await?;
    let phase = listed(&hello.in_flight, &item.attempt_token).map(|entry| entry.phase());
    demand(phase.is_none_or(|phase| phase == Phase::Finished), || {
        format!("expected nothing to run after the lease, `Hello` lists the attempt as {phase:?}")
    })?;
    session.send(ToWorker::Welcome(play.welcome_for(&hello, Verdict::Keep)));
    play.must_still_work(&session).await
}

async fn nothing_starts_after_the_lease(scene: Scene) -> Result<(), Fault> {
    let (play, session) = leased(&scene, LEASE).await?;
    let end = abandon(&play, &session) + LEASE;
    pass((end + LATE).saturating_duration_since(Instant::now())).await;
    let item = assignment("echo", json!({ "too": "late" }));
    session.send(assignments([item.clone()]));
    let answer = wait_for(
        "a rejection or the end of the stream",
        Duration::from_secs(2),
        async || {
            let log = session.log();
            let rejected = log
                .rejected(&item.attempt_token)
                .map(|(_, rejected)| Some(rejected.reason()));
            let started = log.started(&item.attempt_token).is_some();
            let ended = log.outcomes_of(&item.attempt_token).next().is_some();
            match () {
                () if started || ended => Some(Err("expected no start after the lease, got one")),
                () => rejected.or(log.end.as_ref().map(|_| None)).map(Ok),
            }
        },
    );
    let reason = answer.await??;
    demand(reason.is_none_or(|reason| reason == Reason::LeaseExpired), || {
        format!("expected a rejection as lease_expired, got {reason:?}")
    })
}

async fn nothing_succeeds_after_the_lease(scene: Scene) -> Result<(), Fault> {
    let (mut play, session) = leased(&scene, LEASE).await?;
    // Ends by itself when the lease is over, while nobody listens.
    let item = delay(LEASE + Duration::from_millis(1_200));
    start_one(&session, &item).await?;
    abandon(&play, &session);
    let succeeded = |session: &Session| {
        let log = session.log();
        let any = log.succeeded(&item.attempt_token);
        any.then(|| "expected no success after the lease, got one".to_owned())
    };
    quiet(LEASE + Duration::from_millis(1_700), || succeeded(&session)).await?;
    let (session, hello) = again(&mut play).await?;
    session.send(ToWorker::Welcome(play.welcome_for(&hello, Verdict::Keep)));
    quiet(Duration::from_millis(1_500), || succeeded(&session)).await
}

async fn the_lease_counts_from_the_sending(scene: Scene) -> Result<(), Fault> {
    let lease = Duration::from_secs(3);
    let (play, session) = leased(&scene, lease).await?;
    let item = delay(Duration::from_secs(60));
    start_one(&session, &item).await?;
    abandon(&play, &session);
    let before = session.log().heartbeats().count();
    let next = |log: &Log| {
        log.heartbeats()
            .nth(before)
            .map(|(at, heartbeat)| (at, heartbeat.n))
    };
    let (sent, n) = session
        .expect("one more heartbeat", Duration::from_secs(2), next)
        .await?;
    // Comes while the lease of the one before still lasts, and long before the end that it sets.
    pass((sent + lease * 2 / 3).saturating_duration_since(Instant::now())).await;
    session.send(ToWorker::HeartbeatAck(HeartbeatAck {
        n,
        ..HeartbeatAck::default()
    }));
    given_up(&session, &item.attempt_token, sent + lease).await
}

async fn slow_acknowledgements_keep_the_lease(scene: Scene) -> Result<(), Fault> {
    let (_play, session) = leased(&scene, Duration::from_millis(2_500)).await?;
    let late = Duration::from_millis(900);
    session.acknowledge_heartbeats(false);
    let first = session.log().heartbeats().count();
    let item = delay(Duration::from_millis(5_000));
    session.send(assignments([item.clone()]));
    all_started(&session, std::slice::from_ref(&item.attempt_token)).await?;
    let (begin, mut acknowledged) = (Instant::now(), first);
    loop {
        let (due, ended) = {
            let log = session.log();
            let due = log
                .heartbeats()
                .nth(acknowledged)
                .map(|(at, heartbeat)| (at, heartbeat.n));
            (
                due,
                log.outcomes_of(&item.attempt_token)
                    .next()
                    .map(|(_, item)| item.clone()),
            )
        };
        if let Some(ended) = ended {
            let outcome = shown(ended.outcome.as_ref());
            return demand(is_success(&ended), || {
                format!("expected a success under slow acknowledgements, got {outcome}")
            });
        }
        match due {
            Some((at, n)) if at + late <= Instant::now() => {
                acknowledged += 1;
                session.send(ToWorker::HeartbeatAck(HeartbeatAck {
                    n,
                    ..HeartbeatAck::default()
                }));
            }
            _ => pass(Duration::from_millis(10)).await,
        }
        let over = session.log().end.clone();
        demand(over.is_none(), || {
            format!("expected the stream to go on under slow acknowledgements, got {over:?}")
        })?;
        demand(begin.elapsed() < Duration::from_secs(12), || {
            "expected an outcome, none came".to_owned()
        })?;
    }
}

async fn acks_of_heartbeats_never_sent_renew_nothing(scene: Scene) -> Result<(), Fault> {
    let (play, session) = leased(&scene, LEASE).await?;
    let item = delay(Duration::from_secs(60));
    start_one(&session, &item).await?;
    let end = abandon(&play, &session) + LEASE;
    let claims = async {
        for n in 1_000_000.. {
            session.send(ToWorker::HeartbeatAck(HeartbeatAck {
                n,
                ..HeartbeatAck::default()
            }));
            pass(Duration::from_millis(200)).await;
        }
    };
    // Biased: the claims never end.
    tokio::select! {
        biased;
        ended = given_up(&session, &item.attempt_token, end) => ended,
        () = claims => Ok(()),
    }
}

async fn the_worker_comes_back_after_its_lease(scene: Scene) -> Result<(), Fault> {
    let (mut play, session) = leased(&scene, LEASE).await?;
    let end = abandon(&play, &session) + LEASE;
    let limit = (end + DROPPED).saturating_duration_since(Instant::now());
    session
        .ended("the end of the stream after the lease", limit)
        .await?;
    play.stage.welcome_by(Welcoming::Serve);
    play.stage.cut_all();
    let session = play.welcomed().await?;
    pass(Duration::from_secs(1)).await;
    play.must_still_work(&session).await
}

async fn a_pause_longer_than_the_lease_is_noticed(scene: Scene) -> Result<(), Fault> {
    let (mut play, session) = leased(&scene, LEASE).await?;
    let items = [delay(LEASE / 2), delay(Duration::from_secs(60))];
    let told = crate::messages::tokens(&items);
    session.send(assignments(items.clone()));
    all_started(&session, &told).await?;
    play.worker.pause()?;
    pass(LEASE * 2).await;
    play.worker.resume()?;
    let succeeded = |session: &Session| {
        let log = session.log();
        let mut outcomes = log
            .outcomes()
            .filter(|(_, item)| told.contains(&item.attempt_token));
        let any = outcomes.any(|(_, item)| is_success(item));
        any.then(|| "expected no success of what ran when the lease ended, got one".to_owned())
    };
    quiet(Duration::from_millis(1_500), || succeeded(&session)).await?;
    session.cut();
    let (session, hello) = play.greeted().await?;
    let runs = hello
        .in_flight
        .iter()
        .any(|entry| entry.phase() == Phase::Running);
    demand(!runs, || {
        "expected nothing to run after a pause longer than the lease, `Hello` lists it as running".to_owned()
    })?;
    session.send(ToWorker::Welcome(play.welcome_for(&hello, Verdict::Stop)));
    let finished = |token: &Bytes| listed(&hello.in_flight, token).is_some();
    quiet(Duration::from_millis(1_000), || {
        // What is listed as finished may be sent again; it is refused.
        let listed = told.iter().all(finished);
        succeeded(&session).filter(|_| !listed)
    })
    .await?;
    play.must_still_work(&session).await
}

async fn a_pause_shorter_than_the_lease_does_nothing(scene: Scene) -> Result<(), Fault> {
    let lease = Duration::from_secs(6);
    let (play, session) = leased(&scene, lease).await?;
    let item = delay(Duration::from_millis(1_500));
    start_one(&session, &item).await?;
    play.worker.pause()?;
    pass(lease / 2).await;
    play.worker.resume()?;
    let token = &item.attempt_token;
    let ended = |log: &Log| log.outcomes_of(token).next().map(|(_, item)| item.clone());
    let ended = session
        .expect("an outcome after a short pause", Duration::from_secs(4), ended)
        .await?;
    demand(is_success(&ended), || {
        format!("expected a success, got {}", shown(ended.outcome.as_ref()))
    })
}

const LEASE: Duration = Duration::from_millis(1_500);
/// The 500 ms in which handlers end, and what a busy machine adds.
const DROPPED: Duration = Duration::from_secs(2);
/// What a busy machine adds to the end of a lease.
const LATE: Duration = Duration::from_millis(600);
