//! Signs of life.

use std::time::Duration;

use escapement_tests::{Fault, wait_for};
use escapement_wire::worker::v1::attempt_verdict::Verdict;
use escapement_wire::worker::v1::session_response::Message as ToWorker;
use tokio::time::Instant;

use crate::catalogue::{Check, check};
use crate::messages::{HEARTBEAT, assignments, delays, milliseconds, tokens};
use crate::play::{Play, all_started, demand};
use crate::scene::Scene;
use crate::session::Session;

pub(super) const CHECKS: &[Check] = &[
    check!(
        heartbeats_come_as_asked,
        "Heartbeats come at the interval that `Welcome` asks for, 200 ms here and 700 ms there.",
        "session.proto, Heartbeat: Sent every `Welcome.heartbeat_interval_ms`."
    ),
    check!(
        heartbeats_begin_at_1,
        "The first heartbeat of a process has n = 1.",
        "session.proto, Heartbeat.n: 1, 2, 3, ..."
    ),
    check!(
        heartbeats_go_on_while_all_slots_are_busy,
        "With every slot taken heartbeats still come at their interval, and count what runs.",
        "PROTOCOL.md, section 2: Heartbeats MUST NOT wait for handlers ..."
    ),
];

async fn heartbeats_come_as_asked(scene: Scene) -> Result<(), Fault> {
    for interval in [HEARTBEAT, Duration::from_millis(700)] {
        let mut play = Play::start(&scene).await?;
        let (session, hello) = play.greeted().await?;
        let mut welcome = play.welcome_for(&hello, Verdict::Keep);
        welcome.heartbeat_interval_ms = milliseconds(interval);
        session.send(ToWorker::Welcome(welcome));
        let begin = Instant::now();
        in_rhythm(&session, interval, begin, 8).await?;
    }
    Ok(())
}

async fn heartbeats_begin_at_1(scene: Scene) -> Result<(), Fault> {
    let (_play, session) = Play::begin(&scene).await?;
    let first = session.expect("a heartbeat", Duration::from_secs(3), |log| {
        log.heartbeats().next().map(|(_, h)| h.n)
    });
    let first = first.await?;
    demand(first == 1, || format!("expected n = 1, got {first}"))
}

async fn heartbeats_go_on_while_all_slots_are_busy(scene: Scene) -> Result<(), Fault> {
    let mut play = Play::start(&scene).await?;
    let (session, hello) = play.greeted().await?;
    session.send(ToWorker::Welcome(play.welcome_for(&hello, Verdict::Keep)));
    let max = hello.max_in_flight.min(BUSY_MAX);
    let items = delays(max, Duration::from_secs(60));
    session.send(assignments(items.clone()));
    all_started(&session, &tokens(&items)).await?;
    in_rhythm(&session, HEARTBEAT, Instant::now(), 8).await?;
    let counted = session
        .log()
        .heartbeats()
        .last()
        .map(|(_, heartbeat)| heartbeat.in_flight);
    demand(counted == Some(max), || {
        format!("expected {max} in flight, got {counted:?}")
    })
}

/// So many heartbeats from now on, at about this distance.
async fn in_rhythm(session: &Session, interval: Duration, begin: Instant, n: u32) -> Result<(), Fault> {
    let what = format!("{n} heartbeats {interval:?} apart");
    let times = wait_for(&what, interval * (n + 2) * 2, async || {
        let log = session.log();
        let times: Vec<_> = log
            .heartbeats()
            .map(|(at, _)| at)
            .filter(|at| *at >= begin)
            .collect();
        (times.len() >= n as usize).then_some(times)
    });
    let times = times.await?;
    // Lateness of one is made up by the next, and the first may come at once.
    let took = times[times.len() - 1] - times[0];
    let expected = interval * (n - 1);
    demand(took >= expected / 2 && took <= expected * 2, || {
        format!("expected {n} heartbeats in about {expected:?}, it took {took:?}")
    })?;
    let first = times[0] - begin;
    demand(first <= interval * 3, || {
        format!("expected a first heartbeat after {interval:?}, it took {first:?}")
    })
}

/// Enough to be busy.
const BUSY_MAX: u32 = 4096;
