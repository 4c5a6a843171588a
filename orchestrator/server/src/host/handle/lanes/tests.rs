#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::host::handle::{CallError, EngineHandle, EngineInbox, Lane, Message, Route, link};
use crate::limits::{
    LONG_READS_BATCH_MAX, OPEN_BATCH_MAX, READS_BATCH_MAX, READS_LANE_MAX, WORKERS_BATCH_MAX,
    WRITES_BATCH_MAX, WRITES_LANE_MAX,
};
use escapement_engine::Input;
use tokio::task::JoinSet;

/// Calls that wait in a lane, for an engine that does nothing.
fn flood(link: &EngineHandle, calls: &mut JoinSet<Result<(), CallError>>, lane: Lane, n_calls: usize) {
    for _ in 0..n_calls {
        let link = link.clone();
        calls.spawn(async move { link.call(lane, Input::ListWorkers).await.map(drop) });
    }
}

async fn all_wait() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

fn batch(end: &mut EngineInbox) -> Vec<Message> {
    let mut batch = Vec::new();
    end.messages.top_up(&mut batch);
    batch
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_callers_fills_no_lane_of_workers_and_operators_and_is_refused_in_time() {
    let (link, mut end) = link();
    let mut calls = JoinSet::new();
    flood(&link, &mut calls, Lane::Reads, READS_LANE_MAX + 7);
    flood(&link, &mut calls, Lane::Writes, WRITES_LANE_MAX + 5);
    all_wait().await;
    // The clock goes on by itself while nothing else happens: these wait for room, and in vain.
    let mut refused = Vec::new();
    for _ in 0..7 + 5 {
        refused.push(calls.join_next().await.unwrap().unwrap().unwrap_err());
    }
    let reads = refused
        .iter()
        .filter(|refused| **refused == CallError::Overloaded(Lane::Reads));
    assert_eq!(reads.count(), 7);
    assert!(
        refused[..7]
            .iter()
            .all(|refused| *refused == CallError::Overloaded(Lane::Reads)),
        "reads give way first: {refused:?}"
    );
    link.tell(Lane::Workers, Input::Tick).await.unwrap();
    link.tell(Lane::Control, Input::Drain { grace_ms: 1 })
        .await
        .unwrap();
    let batch = batch(&mut end);
    assert_eq!(batch.len(), 2 + WRITES_BATCH_MAX + READS_BATCH_MAX);
    assert!(matches!(
        batch[0],
        Message::Input(Input::Drain { .. }, Route::None)
    ));
    assert!(matches!(batch[1], Message::Input(Input::Tick, Route::None)));
    drop((batch, end));
    while let Some(ended) = calls.join_next().await {
        assert_eq!(
            ended.unwrap(),
            Err(CallError::Gone),
            "nothing hangs when the engine ends"
        );
    }
}

#[tokio::test]
async fn every_batch_takes_from_every_lane() {
    let (link, mut end) = link();
    for _ in 0..2 * WORKERS_BATCH_MAX {
        link.tell(Lane::Workers, Input::Tick).await.unwrap();
    }
    let mut calls = JoinSet::new();
    flood(&link, &mut calls, Lane::Open, OPEN_BATCH_MAX + 1);
    flood(&link, &mut calls, Lane::Reads, 1);
    flood(&link, &mut calls, Lane::LongReads, 128);
    all_wait().await;
    let n_taken = |n_reads| WORKERS_BATCH_MAX + n_reads + LONG_READS_BATCH_MAX;
    assert_eq!(batch(&mut end).len(), n_taken(1) + OPEN_BATCH_MAX);
    assert_eq!(
        batch(&mut end).len(),
        n_taken(0) + 1,
        "the others kept their places"
    );
}
