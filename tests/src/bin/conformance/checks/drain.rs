//! SIGTERM: what a worker finishes, what it gives back, and how it ends.

use std::process::ExitStatus;
use std::time::Duration;

use escapement_tests::{Fault, wait_for};
use escapement_wire::worker::v1::attempt_outcome::Outcome;
use escapement_wire::worker::v1::rejected_attempt::Reason;
use serde_json::json;
use tokio::time::Instant;

use crate::catalogue::{Check, check};
use crate::log::Log;
use crate::messages::{assignment, assignments, delay, shown, tokens};
use crate::play::{ANSWER_LIMIT, Play, demand, outcome_of, pass, quiet, start_one};
use crate::scene::Scene;
use crate::session::Session;
use crate::stage::Welcoming;
use crate::subject::DRAIN_GRACE;

pub(super) const CHECKS: &[Check] = &[
    check!(
        sigterm_drains,
        "On SIGTERM an idle worker says `Drain`, then `Goodbye`, and ends with exit code 0 within its grace.",
        "PROTOCOL.md, section 11: Send `Drain` with the time within which you mean to be gone."
    ),
    check!(
        a_drain_finishes_what_runs,
        "What runs at SIGTERM ends as a success, is acknowledged, and only then comes `Goodbye`.",
        "PROTOCOL.md, section 11: Let the handlers finish, and send their outcomes."
    ),
    check!(
        no_goodbye_before_the_acknowledgement,
        "While an outcome is not acknowledged, a draining worker does not say `Goodbye`.",
        "PROTOCOL.md, section 11: Wait for `DrainStarted` and for every `OutcomeAcks`."
    ),
    check!(
        no_goodbye_before_drain_started,
        "An assignment that crossed `Drain` is rejected as `draining`, even where `DrainStarted` comes late, and `Goodbye` waits for it.",
        "PROTOCOL.md, section 11: Wait for `DrainStarted` and for every `OutcomeAcks`."
    ),
    check!(
        assignments_that_cross_the_drain_are_answered,
        "Each assignment between `Drain` and `DrainStarted` is rejected as `draining`.",
        "PROTOCOL.md, section 11: From now on answer each new assignment, and each one not started, `rejected` `draining`."
    ),
    check!(
        heartbeats_stop_last,
        "Heartbeats go on while a draining worker finishes what runs.",
        "PROTOCOL.md, section 11: Go on with heartbeats: they stop last."
    ),
    check!(
        a_drain_gives_up_what_takes_too_long,
        "A step that outlasts the grace is released, never a success, and the process ends at most 6 s after the grace.",
        "PROTOCOL.md, section 11: When your own grace is over, end the handlers and record `released` `drain` for each that ended so."
    ),
    check!(
        a_drain_survives_a_break,
        "A connection that breaks during a drain does not lose the outcome.",
        "session.proto, Outcomes: Each item is sent again, unchanged, on every new session until `OutcomeAcks` answers it."
    ),
    check!(
        a_drain_that_nobody_answers_ends,
        "Without `DrainStarted` an idle worker still ends at most 6 s after its grace.",
        "PROTOCOL.md, section 17: ... handlers may go on for the whole grace, and the process is gone at most 6 s later."
    ),
    check!(
        sigterm_without_a_session_ends,
        "A worker that never got a session, or lost it, ends on SIGTERM at most 6 s after its grace.",
        "PROTOCOL.md, section 17: ... handlers may go on for the whole grace, and the process is gone at most 6 s later."
    ),
    check!(
        an_operator_may_drain,
        "An unasked `DrainStarted` breaks nothing: what runs ends as a success, heartbeats go on, the worker stays, SIGTERM still works.",
        "PROTOCOL.md, section 11: ... it continues its heartbeats until it is stopped."
    ),
];

/// Returns a worker that has read its welcome: before that there is nothing to drain.
async fn settled(scene: &Scene) -> Result<(Play, Session), Fault> {
    let (play, session) = Play::begin(scene).await?;
    session
        .expect("a heartbeat", Duration::from_secs(3), |log| {
            log.heartbeats().next().map(|_| ())
        })
        .await?;
    Ok((play, session))
}

/// Waits until the process has ended by itself, and demands exit code 0.
async fn ends_cleanly(play: &Play, limit: Duration) -> Result<(), Fault> {
    let status = play.worker.exit(limit).await?;
    demand(status.code() == Some(0), || {
        format!("expected exit code 0, got {status}")
    })
}

async fn drain_said(session: &Session) -> Result<(), Fault> {
    session
        .expect("`Drain` after SIGTERM", ANSWER_LIMIT, |log| {
            log.drain().map(|_| ())
        })
        .await
}

async fn goodbye_said(session: &Session) -> Result<(), Fault> {
    session
        .expect("`Goodbye`", DRAIN_GRACE, |log| log.goodbye().map(|_| ()))
        .await
}

async fn sigterm_drains(scene: Scene) -> Result<(), Fault> {
    let (play, session) = Play::begin(&scene).await?;
    outcome_of(&session, &assignment("echo", json!({})), ANSWER_LIMIT).await?;
    pass(Duration::from_millis(300)).await;
    play.worker.terminate()?;
    drain_said(&session).await?;
    let deadline = session.log().drain().map(|(_, deadline_ms)| deadline_ms);
    demand(deadline.is_some_and(|ms| ms > 0), || {
        format!("expected a deadline in `Drain`, got {deadline:?}")
    })?;
    goodbye_said(&session).await?;
    ends_cleanly(&play, DRAIN_GRACE).await
}

async fn a_drain_finishes_what_runs(scene: Scene) -> Result<(), Fault> {
    let (play, session) = Play::begin(&scene).await?;
    let items = [
        delay(Duration::from_millis(700)),
        delay(Duration::from_millis(1_400)),
    ];
    let told = tokens(&items);
    session.send(assignments(items));
    crate::play::all_started(&session, &told).await?;
    play.worker.terminate()?;
    goodbye_said(&session).await?;
    for token in &told {
        let log = session.log();
        let ended = log
            .outcomes_of(token)
            .next()
            .map(|(_, item)| shown(item.outcome.as_ref()));
        let succeeded = log.succeeded(token);
        demand(succeeded, || {
            format!("expected a success before `Goodbye`, got {ended:?}")
        })?;
    }
    ends_cleanly(&play, DRAIN_GRACE).await
}

async fn no_goodbye_before_the_acknowledgement(scene: Scene) -> Result<(), Fault> {
    let (play, session) = Play::begin(&scene).await?;
    session.withhold_acks();
    let item = assignment("echo", json!({}));
    outcome_of(&session, &item, ANSWER_LIMIT).await?;
    play.worker.terminate()?;
    drain_said(&session).await?;
    quiet(Duration::from_millis(1_200), || {
        let log = session.log();
        let early = log.goodbye().is_some() || log.end.is_some();
        early.then(|| "expected no `Goodbye` before the acknowledgement, got it".to_owned())
    })
    .await?;
    session.acknowledge([item.attempt_token], 1);
    goodbye_said(&session).await?;
    ends_cleanly(&play, DRAIN_GRACE).await
}

async fn crossed(scene: &Scene, late: Duration) -> Result<(), Fault> {
    let (play, session) = settled(scene).await?;
    session.answer_drain(false);
    play.worker.terminate()?;
    drain_said(&session).await?;
    let items = [
        assignment("echo", json!({ "n": 1 })),
        delay(Duration::from_millis(300)),
        assignment("no.such", json!({})),
    ];
    session.send(assignments(items.clone()));
    pass(late).await;
    session.start_drain();
    let told = tokens(&items);
    let answered = |log: &Log| {
        told.iter()
            .all(|token| log.rejected(token).is_some())
            .then_some(())
    };
    session
        .expect(
            "a rejection of each that crossed the drain",
            ANSWER_LIMIT,
            answered,
        )
        .await?;
    for token in &told[..2] {
        let reason = session.log().rejected(token).map(|(_, item)| item.reason());
        demand(reason == Some(Reason::Draining), || {
            format!("expected a rejection as draining, got {reason:?}")
        })?;
    }
    goodbye_said(&session).await?;
    ends_cleanly(&play, DRAIN_GRACE).await
}

async fn assignments_that_cross_the_drain_are_answered(scene: Scene) -> Result<(), Fault> {
    crossed(&scene, Duration::ZERO).await
}

async fn no_goodbye_before_drain_started(scene: Scene) -> Result<(), Fault> {
    crossed(&scene, Duration::from_millis(800)).await
}

async fn heartbeats_stop_last(scene: Scene) -> Result<(), Fault> {
    let (play, session) = Play::begin(&scene).await?;
    start_one(&session, &delay(Duration::from_millis(2_000))).await?;
    play.worker.terminate()?;
    drain_said(&session).await?;
    let begin = Instant::now();
    goodbye_said(&session).await?;
    let n = session.log().heartbeats().filter(|(at, _)| *at > begin).count();
    demand(n >= 4, || {
        format!("expected heartbeats each 200 ms through the drain of 2 s, got {n}")
    })?;
    ends_cleanly(&play, DRAIN_GRACE).await
}

async fn a_drain_gives_up_what_takes_too_long(scene: Scene) -> Result<(), Fault> {
    let (play, session) = Play::begin(&scene).await?;
    let item = delay(Duration::from_secs(50));
    start_one(&session, &item).await?;
    play.worker.terminate()?;
    drain_said(&session).await?;
    // Workers need not know the variable for their grace, but they say what theirs is.
    let announced = session.log().drain().map_or(0, |(_, deadline_ms)| deadline_ms);
    let grace = DRAIN_GRACE.max(Duration::from_millis(announced.clamp(0, 30_000).unsigned_abs()));
    let _: ExitStatus = play.worker.exit(grace + EXIT_SLACK).await?;
    let log = session.log();
    let ended = log
        .outcomes_of(&item.attempt_token)
        .next()
        .and_then(|(_, item)| item.outcome.clone());
    demand(matches!(ended, Some(Outcome::Released(_))), || {
        format!("expected `released`, got {}", shown(ended.as_ref()))
    })
}

async fn a_drain_survives_a_break(scene: Scene) -> Result<(), Fault> {
    let (mut play, session) = Play::begin(&scene).await?;
    session.withhold_acks();
    let item = assignment("echo", json!({ "kept": true }));
    outcome_of(&session, &item, ANSWER_LIMIT).await?;
    play.worker.terminate()?;
    drain_said(&session).await?;
    session.cut();
    let session = play.welcomed().await?;
    let token = &item.attempt_token;
    let again = |log: &Log| log.outcomes_of(token).next().map(|_| ());
    session
        .expect(
            "the outcome again after a break in the drain",
            ANSWER_LIMIT,
            again,
        )
        .await?;
    ends_cleanly(&play, DRAIN_GRACE + EXIT_SLACK).await
}

async fn a_drain_that_nobody_answers_ends(scene: Scene) -> Result<(), Fault> {
    let (play, session) = settled(&scene).await?;
    session.answer_drain(false);
    play.worker.terminate()?;
    drain_said(&session).await?;
    let announced = session.log().drain().map_or(0, |(_, deadline_ms)| deadline_ms);
    let grace = DRAIN_GRACE.max(Duration::from_millis(announced.clamp(0, 30_000).unsigned_abs()));
    play.worker.exit(grace + EXIT_SLACK).await.map(|_| ())
}

async fn sigterm_without_a_session_ends(scene: Scene) -> Result<(), Fault> {
    // Never welcomed.
    let mut play = Play::start(&scene).await?;
    play.greeted().await?;
    play.worker.terminate()?;
    play.worker.exit(DRAIN_GRACE + EXIT_SLACK).await?;
    // Lost it, and cannot come back.
    let (mut play, session) = Play::begin(&scene).await?;
    pass(Duration::from_millis(300)).await;
    play.stage.close_port();
    session
        .ended("the end of the stream", Duration::from_secs(2))
        .await?;
    pass(Duration::from_millis(500)).await;
    play.worker.terminate()?;
    play.worker.exit(DRAIN_GRACE + EXIT_SLACK).await?;
    // Dials a peer that says nothing.
    let (play, session) = Play::begin(&scene).await?;
    pass(Duration::from_millis(300)).await;
    play.stage.welcome_by(Welcoming::SaysNothing);
    session.cut();
    wait_for("another dial", Duration::from_secs(10), async || {
        (play.stage.connects().len() > 1).then_some(())
    })
    .await?;
    play.worker.terminate()?;
    play.worker.exit(DRAIN_GRACE + EXIT_SLACK).await.map(|_| ())
}

async fn an_operator_may_drain(scene: Scene) -> Result<(), Fault> {
    let (play, session) = Play::begin(&scene).await?;
    let item = delay(Duration::from_millis(1_000));
    start_one(&session, &item).await?;
    session.start_drain();
    let token = &item.attempt_token;
    session
        .expect_success(
            "a success under an operator's drain",
            token,
            Duration::from_secs(4),
        )
        .await?;
    let before = session.log().heartbeats().count();
    pass(Duration::from_millis(1_200)).await;
    let (n, left) = {
        let log = session.log();
        (
            log.heartbeats().count() - before,
            log.goodbye().is_some() || log.end.is_some(),
        )
    };
    demand(n >= 2 && !left, || {
        format!("expected the worker to stay with heartbeats each 200 ms, got {n} in 1.2 s; left: {left}")
    })?;
    play.worker.terminate()?;
    ends_cleanly(&play, DRAIN_GRACE + EXIT_SLACK).await
}

/// From the end of the grace to the end of the process, and what a busy machine adds.
const EXIT_SLACK: Duration = Duration::from_millis(6_500);
