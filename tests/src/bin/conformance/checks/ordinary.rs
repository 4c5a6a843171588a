//! A worker's ordinary life from its start to SIGTERM, with a break in it: what the rules of the audit need to see.

use std::time::Duration;

use escapement_tests::{Fault, wait_for};
use escapement_wire::worker::v1::cancel::Reason;
use serde_json::json;

use crate::catalogue::{Check, check};
use crate::messages::{assignment, assignments, cancels, delay};
use crate::play::{ANSWER_LIMIT, Play, all_started, demand, outcome_of};
use crate::scene::Scene;
use crate::subject::DRAIN_GRACE;

pub(super) const CHECKS: &[Check] = &[check!(
    an_ordinary_day,
    "The worker runs, fails and stops what it is told to, comes back after a break, and ends cleanly on SIGTERM.",
    "PROTOCOL.md, section 1: After a break the worker says what it has, the orchestrator compares, and both agree again."
)];

async fn an_ordinary_day(scene: Scene) -> Result<(), Fault> {
    let (mut play, session) = Play::begin(&scene).await?;
    two_heartbeats(&session).await?;
    outcome_of(&session, &assignment("echo", json!({ "a": 1 })), ANSWER_LIMIT).await?;
    outcome_of(
        &session,
        &assignment("fail", json!({ "code": "NO", "message": "no" })),
        ANSWER_LIMIT,
    )
    .await?;
    let (kept, cancelled) = (delay(Duration::from_secs(3)), delay(Duration::from_secs(60)));
    session.send(assignments([kept.clone(), cancelled.clone()]));
    all_started(
        &session,
        &[kept.attempt_token.clone(), cancelled.attempt_token.clone()],
    )
    .await?;
    two_heartbeats(&session).await?;
    session.send(cancels([cancelled.attempt_token.clone()], Reason::ExecutionEnded));
    let token = cancelled.attempt_token;
    session
        .expect("`stopped` for a cancelled attempt", ANSWER_LIMIT, |log| {
            log.stopped(&token)
        })
        .await?;
    session.cut();
    let session = play.welcomed().await?;
    let token = kept.attempt_token;
    let what = "the outcome of what ran during a break";
    session
        .expect(what, Duration::from_secs(8), |log| {
            log.outcomes_of(&token).next().map(|_| ())
        })
        .await?;
    two_heartbeats(&session).await?;
    play.worker.terminate()?;
    session
        .expect("`Goodbye`", DRAIN_GRACE, |log| log.goodbye())
        .await?;
    let status = play.worker.exit(DRAIN_GRACE).await?;
    demand(status.code() == Some(0), || {
        format!("expected exit code 0 after SIGTERM, got {status}")
    })
}

async fn two_heartbeats(session: &crate::session::Session) -> Result<(), Fault> {
    let before = session.log().heartbeats().count();
    wait_for("two heartbeats", Duration::from_secs(3), async || {
        (session.log().heartbeats().count() >= before + 2).then_some(())
    })
    .await
}
