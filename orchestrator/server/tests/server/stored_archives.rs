//! Records that a real store holds and a real orchestrator reads: its own, those of an earlier version, and changed ones.

#[path = "../../../codec/tests/archives/story.rs"]
#[allow(dead_code, reason = "the tests of the codec need more of it")]
mod story;

use crate::process::{Orchestrator, TestDirectory};
use bytes::Bytes;
use escapement_codec::archive::check::{Part, Verdict, verify};
use escapement_codec::archive::file;
use escapement_codec::{store_write, stored};
use escapement_engine::StoreWrite;
use escapement_store::{Embedded, EmbeddedOptions, Outcome, Store, Write};
use escapement_wire::v1;
use prost::Message;
use std::path::Path;
use std::sync::Arc;
use story::{execution_id, finished};
use tonic::Code;
use tonic_types::StatusExt;

/// A store with one settled execution, whose result and audit record were changed before they were written.
fn store(name: &str, change: impl FnOnce(&mut Bytes, &mut Bytes)) -> TestDirectory {
    let story = finished();
    let settlement = Arc::clone(story.settlement.as_ref().unwrap());
    let accept = store_write::encode(&StoreWrite::Accept {
        execution_id: execution_id(),
        request: Arc::clone(&story.request),
        accepted_at: story.execution.accepted_at(),
        deadline_ms: story.execution.deadline(),
        started_at: None,
    });
    let request = Arc::clone(&story.request);
    let mut settle = store_write::encode(&StoreWrite::Settle { settlement, request });
    let Write::Settle { result, audit, .. } = &mut settle else {
        panic!("a settlement is written as one")
    };
    change(result, audit);
    let directory = TestDirectory::new(name);
    let mut store = Embedded::open(Path::new(&directory.join(".")), EmbeddedOptions::default()).unwrap();
    for outcome in store.commit(&[accept, settle]).unwrap() {
        assert!(matches!(outcome, Outcome::Done { .. }), "{outcome:?}");
    }
    directory
}

async fn replay(orchestrator: &Orchestrator) -> Result<v1::ReplayExecutionResponse, tonic::Status> {
    let request = v1::ReplayExecutionRequest {
        execution_id: execution_id().to_string(),
    };
    let answer = orchestrator.plans().await.replay_execution(request).await?;
    Ok(answer.into_inner())
}

async fn export(orchestrator: &Orchestrator) -> Bytes {
    let request = v1::ExportExecutionRequest {
        execution_id: execution_id().to_string(),
    };
    let mut plans = orchestrator.plans().await;
    let mut pieces = plans.export_execution(request).await.unwrap().into_inner();
    let mut bytes = Vec::new();
    while let Some(piece) = pieces.message().await.unwrap() {
        bytes.extend(piece.data);
    }
    bytes.into()
}

async fn n_entries(orchestrator: &Orchestrator) -> usize {
    let request = v1::ListAuditEntriesRequest {
        execution_id: execution_id().to_string(),
        ..v1::ListAuditEntriesRequest::default()
    };
    let listed = orchestrator.plans().await.list_audit_entries(request).await;
    listed.unwrap().into_inner().entries.len()
}

#[tokio::test]
async fn what_a_store_holds_is_listed_replayed_and_exported() {
    let directory = store("record-whole", |_, _| {});
    let orchestrator = Orchestrator::start(&directory, &[]).await;
    let replayed = replay(&orchestrator).await.unwrap();
    assert!(
        replayed.identical && replayed.first_difference.is_none(),
        "{replayed:?}"
    );
    let exported = file::read(&export(&orchestrator).await).unwrap();
    assert_eq!((exported.faults, exported.archive), (vec![], finished().record()));
    assert_eq!(n_entries(&orchestrator).await, finished().record().entries.len());
}

#[tokio::test]
async fn what_an_earlier_version_stored_is_listed_and_exported_and_cannot_be_replayed() {
    let directory = store("record-early", |_, audit| {
        let mut entries = stored::decode_audit(audit).unwrap();
        entries.iter_mut().for_each(|entry| entry.hash.clear());
        let list = v1::ListAuditEntriesResponse {
            entries,
            next_sequence: 0,
        };
        *audit = list.encode_to_vec().into();
    });
    let orchestrator = Orchestrator::start(&directory, &[]).await;
    let refused = replay(&orchestrator).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    let details = refused.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "INPUTS_NOT_RECORDED");
    let exported = file::read(&export(&orchestrator).await).unwrap();
    assert_eq!(exported.faults, []);
    assert_eq!(parts(&verify(&exported.archive)), [(Part::Inputs, 0)]);
    assert_eq!(n_entries(&orchestrator).await, exported.archive.entries.len());
}

#[tokio::test]
async fn a_result_that_was_changed_in_the_store_is_named() {
    let directory = store("record-changed", |result, _| {
        let mut changed = stored::decode_result(result).unwrap();
        changed.duration_ms += 1;
        *result = changed.encode_to_vec().into();
    });
    let orchestrator = Orchestrator::start(&directory, &[]).await;
    let replayed = replay(&orchestrator).await.unwrap();
    assert!(!replayed.identical && !replayed.result_identical && !replayed.chain_intact);
    assert!(replayed.decisions_identical && replayed.audit_identical && replayed.complete);
    assert_eq!(replayed.first_difference.unwrap().part, "result");
}

#[tokio::test]
async fn an_audit_record_that_cannot_be_taken_apart_is_damage() {
    let directory = store("record-torn", |_, audit| audit.truncate(audit.len() - 1));
    let orchestrator = Orchestrator::start(&directory, &[]).await;
    assert_eq!(replay(&orchestrator).await.unwrap_err().code(), Code::DataLoss);
}

fn parts(verdict: &Verdict) -> Vec<(Part, u64)> {
    let differences = verdict.differences.iter();
    differences
        .map(|difference| (difference.part, difference.sequence))
        .collect()
}
