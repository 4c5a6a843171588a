//! Attempts that are not wanted any more, and attempts that take too long.

use std::time::Duration;

use bytes::Bytes;
use escapement_tests::Fault;
use escapement_wire::worker::v1::attempt_verdict::Verdict;
use escapement_wire::worker::v1::cancel::Reason;
use escapement_wire::worker::v1::session_response::Message as ToWorker;
use serde_json::json;

use crate::catalogue::{Check, check};
use crate::log::Log;
use crate::messages::{assignment, assignments, cancels, delay, delays, fresh_bytes, tokens};
use crate::play::{
    ANSWER_LIMIT, Play, all_started, counts, demand, outcome_of, pass, quiet, room, start_one,
};
use crate::scene::Scene;
use crate::session::Session;

pub(super) const CHECKS: &[Check] = &[
    check!(
        a_cancel_stops_the_body,
        "A cancelled `delay` is answered by `stopped` within its grace, and has no outcome.",
        "session.proto, Cancels: ... again every second until each is answered by `stopped`, `rejected` or an outcome."
    ),
    check!(
        a_repeated_cancel_does_no_harm,
        "The same cancel twice in one message and again in three more is answered, and the session goes on.",
        "PROTOCOL.md, section 9: Several cancels of one attempt are one."
    ),
    check!(
        a_cancel_of_the_unknown_is_answered,
        "A cancel of a token that the worker does not have is answered by `stopped`.",
        "session.proto, Cancels: A worker that does not have an attempt answers `stopped` as well."
    ),
    check!(
        a_cancel_frees_the_slot,
        "With every slot taken and cancelled, as many run again.",
        "PROTOCOL.md, section 9: A credit is taken until the outcome is acknowledged, or the attempt is rejected or stopped ..."
    ),
    check!(
        a_cancel_hits_only_its_attempt,
        "The attempts beside a cancelled one run on and succeed.",
        "session.proto, Cancel: An attempt to stop."
    ),
    check!(
        a_cancel_may_race_everything,
        "Cancels that cross starts and outcomes are each resolved by `stopped`, `rejected` or an outcome.",
        "PROTOCOL.md, section 1: Outcome, limit, cancel and loss compete; the first wins ..."
    ),
    check!(
        what_was_stopped_stays_stopped,
        "After `stopped` a break brings neither the attempt nor an outcome back.",
        "session.proto, AttemptAcks.stopped: No outcome follows."
    ),
    check!(
        the_limit_is_enforced_locally,
        "An attempt with `timeout_ms` 300 never succeeds after that, and the cancel that follows frees its slot.",
        "PROTOCOL.md, section 9: The worker MUST enforce it too: at its end it ends the handler, says nothing and waits for the cancel."
    ),
    check!(
        a_limit_that_is_kept_does_nothing,
        "An attempt that ends within its limit succeeds.",
        "session.proto, Assignment.timeout_ms: Milliseconds that are left for this attempt ..."
    ),
    check!(
        absurd_limits_do_no_harm,
        "`timeout_ms` of 0, below 0 and of the largest number do no harm to the worker.",
        "PROTOCOL.md, section 9: ... 0 and less count as 1."
    ),
];

async fn stopped(session: &Session, token: &Bytes) -> Result<(), Fault> {
    session
        .expect("`stopped` for a cancelled attempt", ANSWER_LIMIT, |log| {
            log.stopped(token).map(|_| ())
        })
        .await
}

fn ended(session: &Session, token: &Bytes) -> Option<String> {
    let n = session.log().outcomes_of(token).count();
    (n > 0).then(|| format!("expected no outcome after `stopped`, got {n}"))
}

async fn a_cancel_stops_the_body(scene: Scene) -> Result<(), Fault> {
    for reason in [
        Reason::ExecutionEnded,
        Reason::StepTimeout,
        Reason::Superseded,
        Reason::Unspecified,
    ] {
        let (_play, session) = Play::begin(&scene).await?;
        let item = delay(Duration::from_millis(2_500));
        start_one(&session, &item).await?;
        session.send(cancels([item.attempt_token.clone()], reason));
        stopped(&session, &item.attempt_token).await?;
        counts(&session, 0, Duration::from_secs(2)).await?;
        quiet(Duration::from_millis(2_000), || {
            ended(&session, &item.attempt_token)
        })
        .await?;
    }
    Ok(())
}

async fn a_repeated_cancel_does_no_harm(scene: Scene) -> Result<(), Fault> {
    let (mut play, session) = Play::begin(&scene).await?;
    let item = delay(Duration::from_secs(60));
    start_one(&session, &item).await?;
    let token = &item.attempt_token;
    for _ in 0..4 {
        session.send(cancels([token.clone(), token.clone()], Reason::ExecutionEnded));
    }
    stopped(&session, token).await?;
    quiet(Duration::from_millis(500), || ended(&session, token)).await?;
    session.send(cancels([token.clone()], Reason::ExecutionEnded));
    play.must_still_work(&session).await
}

async fn a_cancel_of_the_unknown_is_answered(scene: Scene) -> Result<(), Fault> {
    let (mut play, session) = Play::begin(&scene).await?;
    for reason in [Reason::ExecutionEnded, Reason::StepTimeout, Reason::Superseded] {
        let token = fresh_bytes();
        session.send(cancels([token.clone()], reason));
        stopped(&session, &token).await?;
    }
    play.must_still_work(&session).await
}

async fn a_cancel_frees_the_slot(scene: Scene) -> Result<(), Fault> {
    let mut play = Play::start(&scene).await?;
    let (session, hello) = play.greeted().await?;
    session.send(ToWorker::Welcome(play.welcome_for(&hello, Verdict::Keep)));
    for _ in 0..3 {
        let items = delays(room(&hello), Duration::from_secs(60));
        let told = tokens(&items);
        session.send(assignments(items));
        all_started(&session, &told).await?;
        session.send(cancels(told.clone(), Reason::ExecutionEnded));
        let all = |log: &Log| {
            told.iter()
                .all(|token| log.stopped(token).is_some())
                .then_some(())
        };
        session
            .expect("`stopped` for every slot", ANSWER_LIMIT, all)
            .await?;
    }
    Ok(())
}

async fn a_cancel_hits_only_its_attempt(scene: Scene) -> Result<(), Fault> {
    let (_play, session) = Play::begin(&scene).await?;
    let items = delays(4, Duration::from_millis(1_500));
    let told = tokens(&items);
    session.send(assignments(items));
    all_started(&session, &told).await?;
    session.send(cancels([told[1].clone()], Reason::ExecutionEnded));
    stopped(&session, &told[1]).await?;
    for token in [&told[0], &told[2], &told[3]] {
        session
            .expect_success(
                "a success beside a cancelled attempt",
                token,
                Duration::from_secs(5),
            )
            .await?;
    }
    Ok(())
}

async fn a_cancel_may_race_everything(scene: Scene) -> Result<(), Fault> {
    let (mut play, session) = Play::begin(&scene).await?;
    for round in 0..40 {
        let items = [
            assignment("echo", json!({ "round": round })),
            delay(Duration::from_millis(round % 8)),
            delay(Duration::from_secs(60)),
        ];
        let told = tokens(&items);
        session.send(assignments(items));
        if round % 2 == 1 {
            pass(Duration::from_millis(round % 8)).await;
        }
        session.send(cancels(told.clone(), Reason::ExecutionEnded));
        let resolved = |log: &Log, token: &Bytes| {
            log.stopped(token).is_some()
                || log.rejected(token).is_some()
                || log.outcomes_of(token).next().is_some()
        };
        let all = |log: &Log| told.iter().all(|token| resolved(log, token)).then_some(());
        session
            .expect("an end for each cancelled attempt", ANSWER_LIMIT, all)
            .await?;
    }
    counts(&session, 0, Duration::from_secs(3)).await?;
    play.must_still_work(&session).await
}

async fn what_was_stopped_stays_stopped(scene: Scene) -> Result<(), Fault> {
    let (mut play, session) = Play::begin(&scene).await?;
    let item = delay(Duration::from_secs(60));
    start_one(&session, &item).await?;
    session.send(cancels([item.attempt_token.clone()], Reason::ExecutionEnded));
    stopped(&session, &item.attempt_token).await?;
    session.cut();
    let (session, hello) = play.greeted().await?;
    let n = hello.in_flight.len();
    demand(n == 0, || {
        format!("expected nothing in flight after `stopped`, got {n} entries in `Hello`")
    })?;
    session.send(ToWorker::Welcome(play.welcome_for(&hello, Verdict::Keep)));
    quiet(Duration::from_millis(800), || {
        ended(&session, &item.attempt_token)
    })
    .await
}

async fn the_limit_is_enforced_locally(scene: Scene) -> Result<(), Fault> {
    let (mut play, session) = Play::begin(&scene).await?;
    let mut item = delay(Duration::from_millis(2_000));
    item.timeout_ms = 300;
    start_one(&session, &item).await?;
    let token = &item.attempt_token;
    let succeeded = || {
        let log = session.log();
        let any = log.succeeded(token);
        any.then(|| "expected no success after the limit, got one".to_owned())
    };
    // The orchestrator's timer runs out at the same time, but its cancel may take long to come.
    quiet(Duration::from_millis(2_500), succeeded).await?;
    session.send(cancels([token.clone()], Reason::StepTimeout));
    let resolved = |log: &Log| log.stopped(token).is_some() || log.outcomes_of(token).next().is_some();
    session
        .expect("`stopped` or an outcome after the limit", ANSWER_LIMIT, |log| {
            resolved(log).then_some(())
        })
        .await?;
    counts(&session, 0, Duration::from_secs(3)).await?;
    succeeded().map_or(Ok(()), Err)?;
    play.must_still_work(&session).await
}

async fn a_limit_that_is_kept_does_nothing(scene: Scene) -> Result<(), Fault> {
    let (_play, session) = Play::begin(&scene).await?;
    let mut item = delay(Duration::from_millis(200));
    item.timeout_ms = 5_000;
    let ended = outcome_of(&session, &item, Duration::from_secs(5)).await?;
    crate::messages::output(&ended)?;
    Ok(())
}

async fn absurd_limits_do_no_harm(scene: Scene) -> Result<(), Fault> {
    let (mut play, session) = Play::begin(&scene).await?;
    for timeout_ms in [0, -1, i64::MIN, i64::MAX] {
        let mut item = delay(Duration::from_millis(100));
        item.timeout_ms = timeout_ms;
        session.send(assignments([item]));
        pass(Duration::from_millis(300)).await;
    }
    play.must_still_work(&session).await
}
