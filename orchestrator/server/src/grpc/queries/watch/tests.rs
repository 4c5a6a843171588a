#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::grpc::fresh_execution_id;
use crate::grpc::testing::{Stage, plan_that_fails_at_once};
use crate::limits::WATCHED_RECORD_TIMEOUT;
use crate::storage::readers::ReadClass;
use escapement_codec::request::request_draft;
use escapement_codec::store_write::encode;
use escapement_contract::validate_request;
use escapement_engine::StoreWrite;
use escapement_store::{Removal, Store, Write};
use prost::Message as _;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::timeout;
use tokio_stream::StreamExt;

/// Returns an execution that was settled before, with a record of so many entries of so many bytes.
fn settled_before(n_entries: i64, bytes: usize) -> (Stage, ExecutionId) {
    use v1::audit_entry::Event;
    let id = fresh_execution_id(7);
    let entry = |sequence| v1::AuditEntry {
        sequence,
        at: 7,
        hash: hash_of(sequence),
        event: Some(Event::AttemptReturned(v1::AttemptReturned {
            step_id: "x".repeat(bytes),
            ..v1::AttemptReturned::default()
        })),
    };
    let list = v1::ListAuditEntriesResponse {
        entries: (1..=n_entries).map(entry).collect(),
        next_sequence: 0,
    };
    let result = v1::PlanResult {
        execution_id: id.to_string(),
        ..v1::PlanResult::default()
    };
    let stage = Stage::with_records(Removal::default(), |store| {
        let request = v1::SubmitPlanRequest {
            plan: Some(plan_that_fails_at_once(1)),
            ..v1::SubmitPlanRequest::default()
        };
        let request = validate_request(request_draft(request), 1).unwrap();
        let accept = StoreWrite::Accept {
            execution_id: id,
            request: Arc::new(request),
            accepted_at: 1,
            deadline_ms: 2,
            started_at: None,
        };
        let settle = Write::Settle {
            execution_id: id,
            status: 3,
            started_at: None,
            settled_at: 7,
            outline: Vec::new().into(),
            result: result.encode_to_vec().into(),
            audit: list.encode_to_vec().into(),
        };
        store.commit(&[encode(&accept), settle]).unwrap();
    });
    (stage, id)
}

fn hash_of(sequence: i64) -> Vec<u8> {
    vec![u8::try_from(sequence % 251).unwrap(); 32]
}

/// Reads to the end, which must bring the result.
async fn read_all(mut answers: Answers<v1::WatchExecutionResponse>) -> Vec<i64> {
    let mut sequences = Vec::new();
    let mut result = None;
    while let Some(answer) = answers.next().await {
        let answer = answer.unwrap();
        assert_eq!(result, None, "the result comes last");
        sequences.push(answer.entry.unwrap().sequence);
        result = answer.result;
    }
    assert!(result.is_some());
    sequences
}

#[tokio::test]
async fn a_settled_record_is_read_once_however_large_it_is() {
    let (stage, id) = settled_before(300, 20_000);
    let answers = stage.edge.watch(id, 2, None, stage.recipient()).await.unwrap();
    assert_eq!(read_all(answers).await, (2..=300).collect::<Vec<_>>());
    assert_eq!(stage.reads.n_records.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_large_record_is_read_once_for_all_its_pages_and_then_forgotten() {
    let (stage, id) = settled_before(300, 20_000);
    let mut next_sequence = 1;
    while next_sequence != 0 {
        let page = stage.edge.audit_page(&None, id, next_sequence, 20).await.unwrap();
        assert_eq!(page.entries[0].sequence, next_sequence as i64);
        next_sequence = page.next_sequence as u64;
    }
    assert_eq!(stage.reads.n_records.load(Ordering::Relaxed), 1);
    let nothing = timeout(2 * WATCHED_RECORD_TIMEOUT, std::future::pending::<()>()).await;
    assert!(nothing.is_err());
    assert!(stage.edge.settled.is_empty(), "nothing of it is held");
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_reads_slowly_loses_the_record_and_not_its_place() {
    let (stage, id) = settled_before(4, 20_000);
    let mut answers = stage.edge.watch(id, 1, None, stage.recipient()).await.unwrap();
    for sequence in 1..=4 {
        let answer = answers.next().await.unwrap().unwrap();
        assert_eq!(answer.entry.unwrap().sequence, sequence);
        // The clock is paused: it goes on to the end of this limit, and all tasks with it.
        let nothing = timeout(2 * WATCHED_RECORD_TIMEOUT, std::future::pending::<()>()).await;
        assert!(nothing.is_err());
        assert!(stage.edge.settled.is_empty(), "nothing of it is held");
    }
    assert!(answers.next().await.is_none());
    assert_eq!(stage.reads.n_records.load(Ordering::Relaxed), 4);
}

//
#[tokio::test]
async fn a_watcher_whose_record_is_being_read_holds_up_no_caller_that_repeats_its_request() {
    let (stage, id) = settled_before(1, 20_000);
    let held_up = stage.reads.hold_up();
    let (edge, recipient) = (stage.edge.clone(), stage.recipient());
    let watcher =
        tokio::spawn(async move { read_all(edge.watch(id, 1, None, recipient).await.unwrap()).await });
    wait_for("the watcher to read", || {
        stage.reads.n_records.load(Ordering::Relaxed) == 1
    })
    .await;
    let repeated = stage.edge.stored_result(id, ReadClass::Submission);
    let repeated = timeout(Duration::from_secs(5), repeated).await;
    drop(held_up);
    assert!(repeated.expect("nobody holds it up").is_ok());
    assert_eq!(watcher.await.unwrap(), [1]);
}

async fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(10), waiting).await.expect(what);
}
