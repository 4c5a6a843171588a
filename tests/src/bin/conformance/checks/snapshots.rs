//! What a worker says that it has, when it is asked.

use std::time::Duration;

use bytes::Bytes;
use escapement_tests::Fault;
use escapement_wire::worker::v1::in_flight::Phase;
use escapement_wire::worker::v1::session_response::Message as ToWorker;
use escapement_wire::worker::v1::{Snapshot, SnapshotRequest};
use serde_json::json;

use crate::catalogue::{Check, check};
use crate::log::{Log, listed};
use crate::messages::{assignment, assignments, delay};
use crate::play::{ANSWER_LIMIT, Play, counts, demand, outcome_of, start_one};
use crate::scene::Scene;
use crate::session::Session;

pub(super) const CHECKS: &[Check] = &[
    check!(
        a_snapshot_tells_what_there_is,
        "A snapshot lists what runs and what ended with its phase, and nothing that was released.",
        "session.proto, Snapshot: ... up to `last_assignment_seq` that is not listed is not with the worker ..."
    ),
    check!(
        a_snapshot_names_the_last_assignments,
        "`last_assignment_seq` is the number of the last `Assignments` before the request, 0 for none.",
        "session.proto, Snapshot.last_assignment_seq: `seq` of the last `Assignments` on this stream that the worker had read ..."
    ),
    check!(
        each_request_is_answered,
        "Two requests one right after the other are both answered, each with its own number.",
        "session.proto, SnapshotRequest: The worker MUST answer it with `Snapshot`."
    ),
    check!(
        a_snapshot_misses_nothing_that_came_before_it,
        "What was handed out right before the request is listed, ended or rejected, whatever the worker is doing.",
        "session.proto, Snapshot: ... it is settled as one that the worker does not have."
    ),
];

async fn ask(session: &Session, n: u64) -> Result<Snapshot, Fault> {
    session.send(ToWorker::SnapshotRequest(SnapshotRequest { n }));
    let what = format!("the snapshot {n}");
    let answer = |log: &Log| log.snapshots().find(|snapshot| snapshot.n == n).cloned();
    session.expect(&what, ANSWER_LIMIT, answer).await
}

fn phase(snapshot: &Snapshot, token: &Bytes) -> Option<Phase> {
    listed(&snapshot.in_flight, token).map(|entry| entry.phase())
}

async fn a_snapshot_tells_what_there_is(scene: Scene) -> Result<(), Fault> {
    let (_play, session) = Play::begin(&scene).await?;
    let n = ask(&session, 1).await?.in_flight.len();
    demand(n == 0, || format!("expected an empty snapshot, got {n} entries"))?;
    outcome_of(&session, &assignment("echo", json!({})), ANSWER_LIMIT).await?;
    counts(&session, 0, Duration::from_secs(3)).await?;
    session.withhold_acks();
    let (runs, ended) = (delay(Duration::from_secs(60)), assignment("echo", json!({})));
    start_one(&session, &runs).await?;
    outcome_of(&session, &ended, ANSWER_LIMIT).await?;
    let snapshot = ask(&session, 2).await?;
    let got = (
        phase(&snapshot, &runs.attempt_token),
        phase(&snapshot, &ended.attempt_token),
        snapshot.in_flight.len(),
    );
    let expected = (Some(Phase::Running), Some(Phase::Finished), 2);
    demand(got == expected, || format!("expected {expected:?}, got {got:?}"))
}

async fn a_snapshot_names_the_last_assignments(scene: Scene) -> Result<(), Fault> {
    let (_play, session) = Play::begin(&scene).await?;
    let mut expected = 0;
    for n in 1..=4 {
        let got = ask(&session, n).await?.last_assignment_seq;
        demand(got == expected, || {
            format!("expected last_assignment_seq {expected}, got {got}")
        })?;
        // Rejected ones count as well.
        let action = if n % 2 == 0 { "echo" } else { "no.such.action" };
        expected = session.send(assignments([assignment(action, json!({}))]));
    }
    Ok(())
}

async fn each_request_is_answered(scene: Scene) -> Result<(), Fault> {
    let (_play, session) = Play::begin(&scene).await?;
    session.send(ToWorker::SnapshotRequest(SnapshotRequest { n: 1 }));
    ask(&session, 2).await?;
    let answer = |log: &Log| log.snapshots().any(|snapshot| snapshot.n == 1).then_some(());
    session.expect("the snapshot 1", ANSWER_LIMIT, answer).await?;
    let numbers: Vec<u64> = session.log().snapshots().map(|snapshot| snapshot.n).collect();
    demand(numbers == [1, 2], || {
        format!("expected the snapshots 1 and 2, got {numbers:?}")
    })
}

async fn a_snapshot_misses_nothing_that_came_before_it(scene: Scene) -> Result<(), Fault> {
    let (_play, session) = Play::begin(&scene).await?;
    session.withhold_acks();
    for n in 1..=20 {
        let item = if n % 2 == 0 {
            delay(Duration::from_millis(n))
        } else {
            assignment("echo", json!({}))
        };
        let sent = session.send(assignments([item.clone()]));
        let snapshot = ask(&session, n).await?;
        let token = &item.attempt_token;
        demand(snapshot.last_assignment_seq == sent, || {
            format!(
                "expected last_assignment_seq {sent}, got {}",
                snapshot.last_assignment_seq
            )
        })?;
        let rejected = session.log().rejected(token).is_some();
        demand(phase(&snapshot, token).is_some() || rejected, || {
            format!(
                "expected attempt {n} in the snapshot that was asked after it, got {} others",
                snapshot.in_flight.len()
            )
        })?;
        let ended = |log: &Log| {
            (log.rejected(token).is_some() || log.outcomes_of(token).next().is_some()).then_some(())
        };
        session.expect("its outcome", ANSWER_LIMIT, ended).await?;
        session.acknowledge([token.clone()], 1);
    }
    Ok(())
}
