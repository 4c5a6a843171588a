//! How much runs at a time, and how often.

use std::time::Duration;

use escapement_tests::{Fault, wait_for};
use escapement_wire::worker::v1::attempt_verdict::Verdict;
use escapement_wire::worker::v1::rejected_attempt::Reason;
use escapement_wire::worker::v1::session_response::Message as ToWorker;
use serde_json::json;

use crate::catalogue::{Check, check};
use crate::log::Log;
use crate::messages::{assignment, assignments, delay, delays, output, tokens};
use crate::play::{ANSWER_LIMIT, Play, all_started, counts, demand, outcome_of, pass, quiet, room};
use crate::scene::Scene;
use crate::session::Session;

pub(super) const CHECKS: &[Check] = &[
    check!(
        never_more_than_capacity,
        "Of three attempts too many none starts while every slot is taken: each is rejected as `no_capacity`, or waits.",
        "PROTOCOL.md, section 6: no free slot and no queue for it: `rejected` `no_capacity`"
    ),
    check!(
        slots_come_back,
        "What ended and was acknowledged frees its slot: as many run again.",
        "session.proto, Assignment: Holds one credit until its outcome is acknowledged, or it is rejected or stopped."
    ),
    check!(
        one_token_runs_once,
        "The same token handed out twice runs once, with the payload that came first.",
        "session.proto, Assignment.attempt_token: Names the attempt everywhere ..."
    ),
    check!(
        a_finished_token_does_not_run_again,
        "A token that is handed out again before its outcome is acknowledged does not run again.",
        "PROTOCOL.md, section 15: Run two handlers for one token."
    ),
    check!(
        a_steady_load_is_worked_off,
        "A thousand short attempts, never more than there are slots, all give their own output.",
        "PROTOCOL.md, section 9: A worker SHOULD have its handlers ready for as many as it offers ..."
    ),
    check!(
        every_slot_may_be_refused,
        "As many assignments without a handler as there are slots are all rejected as `unknown_action`, in one message.",
        "session.proto, Assignments: The worker MUST answer each item `started` or `rejected`."
    ),
    check!(
        alone ten_thousand_at_once_do_no_harm,
        "10,000 assignments in one message, far beyond any slot, are all rejected, or end the stream; the worker goes on.",
        "PROTOCOL.md, section 15: Leave an assignment, a cancel or a `SnapshotRequest` unanswered."
    ),
];

/// A session with a worker, and how many delays it takes.
async fn with_room(scene: &Scene) -> Result<(Play, Session, u32), Fault> {
    let mut play = Play::start(scene).await?;
    let (session, hello) = play.greeted().await?;
    session.send(ToWorker::Welcome(play.welcome_for(&hello, Verdict::Keep)));
    Ok((play, session, room(&hello)))
}

async fn never_more_than_capacity(scene: Scene) -> Result<(), Fault> {
    let (_play, session, room) = with_room(&scene).await?;
    let items = delays(room + 3, Duration::from_secs(60));
    session.send(assignments(items));
    let full = |log: &Log| (log.starts().count() >= room as usize).then_some(());
    session
        .expect("every slot to be taken", ANSWER_LIMIT, full)
        .await?;
    // A worker may keep what is too much until a slot is free.
    pass(Duration::from_secs(1)).await;
    let reasons: Vec<_> = {
        let log = session.log();
        log.rejections().map(|(_, item)| item.reason()).collect()
    };
    let n = session.log().starts().count();
    let refused = reasons.len() <= 3 && reasons.iter().all(|reason| *reason == Reason::NoCapacity);
    demand(n == room as usize && refused, || {
        format!(
            "expected {room} started, others rejected as no_capacity, got {n} started, rejected as {reasons:?}"
        )
    })
}

async fn slots_come_back(scene: Scene) -> Result<(), Fault> {
    let (_play, session, room) = with_room(&scene).await?;
    let items = delays(room, Duration::from_millis(300));
    session.send(assignments(items.clone()));
    let told = tokens(&items);
    let ended = |log: &Log| {
        told.iter()
            .all(|token| log.outcomes_of(token).next().is_some())
            .then_some(())
    };
    session
        .expect("the outcomes of all slots", Duration::from_secs(10), ended)
        .await?;
    counts(&session, 0, Duration::from_secs(3)).await?;
    let items = delays(room, Duration::from_secs(60));
    session.send(assignments(items.clone()));
    all_started(&session, &tokens(&items)).await
}

async fn one_token_runs_once(scene: Scene) -> Result<(), Fault> {
    let (mut play, session) = Play::begin(&scene).await?;
    let first = delay(Duration::from_millis(900));
    let mut second = assignment("echo", json!({ "run": "twice" }));
    second.attempt_token = first.attempt_token.clone();
    session.send(assignments([first.clone(), second.clone()]));
    session.send(assignments([second.clone()]));
    let token = &first.attempt_token;
    let what = "the outcome of a token that was handed out twice";
    let item = session.expect(what, Duration::from_secs(5), |log| {
        log.outcomes_of(token).next().map(|(_, item)| item.clone())
    });
    let output = output(&item.await?)?;
    demand(output.get("elapsed_ms").is_some(), || {
        format!("expected the output of the first, got {output}")
    })?;
    quiet(Duration::from_secs(1), || {
        let n = session.log().outcomes_of(token).count();
        // Sent again needlessly is allowed; another outcome is found by the audit and here.
        let others = session
            .log()
            .outcomes_of(token)
            .filter(|(_, item)| crate::messages::output(item).ok().as_ref() != Some(&output))
            .count();
        (others > 0).then(|| format!("expected one run, got {n} outcomes, {others} of them another"))
    })
    .await?;
    play.must_still_work(&session).await
}

async fn a_finished_token_does_not_run_again(scene: Scene) -> Result<(), Fault> {
    let (_play, session) = Play::begin(&scene).await?;
    session.withhold_acks();
    let first = assignment("echo", json!({ "run": 1 }));
    outcome_of(&session, &first, ANSWER_LIMIT).await?;
    let mut second = assignment("echo", json!({ "run": 2 }));
    second.attempt_token = first.attempt_token.clone();
    session.send(assignments([second]));
    quiet(Duration::from_millis(1_500), || {
        let log = session.log();
        let outputs = log
            .outcomes_of(&first.attempt_token)
            .map(|(_, item)| output(item));
        let other = outputs
            .into_iter()
            .find(|output| output.as_ref().is_ok_and(|output| output["run"] == 2));
        other.map(|other| format!("expected no second run, got {other:?}"))
    })
    .await?;
    session.acknowledge([first.attempt_token.clone()], 1);
    counts(&session, 0, Duration::from_secs(3)).await
}

async fn a_steady_load_is_worked_off(scene: Scene) -> Result<(), Fault> {
    let (_play, session, room) = with_room(&scene).await?;
    let at_a_time = (room as usize).min(64);
    let items: Vec<_> = (0..LOAD).map(|n| assignment("echo", json!({ "n": n }))).collect();
    for batch in items.chunks(at_a_time) {
        session.send(assignments(batch));
        let told = tokens(batch);
        let ended = |log: &Log| {
            // Of a growing log only the end matters.
            let n = log.outcomes().count();
            (n >= told.len() && told.iter().all(|token| log.outcomes_of(token).next().is_some()))
                .then_some(())
        };
        session
            .expect("the outcomes of a batch", Duration::from_secs(10), ended)
            .await?;
    }
    for (n, item) in items.iter().enumerate() {
        let log = session.log();
        let ended = log
            .outcomes_of(&item.attempt_token)
            .next()
            .ok_or("each has an outcome")?
            .1;
        let output = output(ended)?;
        demand(output["n"] == n, || {
            format!("expected the output {n}, got {output}")
        })?;
    }
    Ok(())
}

async fn every_slot_may_be_refused(scene: Scene) -> Result<(), Fault> {
    let (mut play, session, room) = with_room(&scene).await?;
    let items: Vec<_> = (0..room)
        .map(|n| assignment("no.such.action", json!({ "n": n })))
        .collect();
    session.send(assignments(items.clone()));
    let rejected = |log: &Log| (log.rejections().count() >= items.len()).then_some(());
    session
        .expect("a rejection for every slot", ANSWER_LIMIT, rejected)
        .await?;
    let other = session
        .log()
        .rejections()
        .map(|(_, item)| item.reason())
        .find(|reason| *reason != Reason::UnknownAction);
    demand(other.is_none(), || {
        format!("expected unknown_action, got {other:?}")
    })?;
    play.must_still_work(&session).await
}

async fn ten_thousand_at_once_do_no_harm(scene: Scene) -> Result<(), Fault> {
    let (mut play, session) = Play::begin(&scene).await?;
    let items: Vec<_> = (0..10_000)
        .map(|n| assignment("no.such.action", json!({ "n": n })))
        .collect();
    session.send(assignments(items.clone()));
    wait_for(
        "10,000 rejections, or the end of the stream",
        Duration::from_secs(20),
        async || {
            let log = session.log();
            (log.rejections().count() >= items.len() || log.end.is_some()).then_some(())
        },
    )
    .await?;
    let started = session.log().starts().count();
    demand(started == 0, || format!("expected none to start, {started} did"))?;
    play.must_still_work(&session).await
}

const LOAD: usize = 1_000;
