//! Archives that a random execution seldom leaves: what is stored replays, what is changed shows. Random ones are judged by the
//! fuzz target `execution`, forged ones by `tests/records`.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test fails by panicking and its name is its documentation"
)]

mod story;

use bytes::Bytes;
use escapement_codec::archive::Archive;
use escapement_codec::archive::check::{Part, Verdict, verify};
use escapement_codec::archive::file;
use escapement_codec::provenance::Provenance;
use escapement_codec::stored as stored_bytes;
use escapement_codec::stored::seal::Seal;
use escapement_contract::{
    Effect, Execution, Input, Interruption, Moment, Outcome, Reported, StepDraft, validate_request,
};
use escapement_model::opaque::StructBuilder;
use escapement_model::{ExecutionId, Namespace, Opaque, limits};
use escapement_wire::v1;
use prost::Message;
use std::sync::Arc;
use story::{Story, draft, execution_id, finished, step_id, stored};

fn assert_identical(record: &Archive) -> Verdict {
    let verdict = verify(record);
    assert_eq!(verdict.differences, []);
    assert!(verdict.is_identical() && verdict.chain_intact);
    assert!(verdict.decisions_identical && verdict.audit_identical && verdict.result_identical);
    verdict
}

//
#[test]
fn an_output_that_the_result_has_is_not_stored_again() {
    let record = finished().record();
    assert!(record.result.len() > 100_000);
    let inputs = record.inputs.as_ref().unwrap();
    assert!(inputs.len() < 100, "{} bytes", inputs.len());
    assert_identical(&record);
}

//
#[test]
fn what_a_restart_or_a_restore_interrupted_replays() {
    let request = Arc::new(validate_request(draft(), 1_000).unwrap());
    // The wall clock was set back while the orchestrator was down.
    let now = Moment {
        monotonic_ms: 12,
        unix_ms: 5_000,
    };
    for interruption in [
        Interruption::Restarted { started_at: 9_000 },
        Interruption::Restored,
    ] {
        let mut execution = Execution::recover(
            Arc::clone(&request),
            execution_id(),
            8_000,
            90_000,
            interruption,
            now,
        );
        let Some(Effect::PersistResult(settlement)) = execution.poll_effect() else {
            panic!("what is recovered ends at once")
        };
        let verdict = assert_identical(&stored(&request, &settlement));
        assert_eq!(verdict.n_inputs, 0);
    }
}

//
#[test]
fn a_limit_that_runs_out_while_the_start_is_written_replays() {
    let request = draft();
    let now = Moment {
        monotonic_ms: 1,
        unix_ms: 1_000,
    };
    let mut story = Story::new(request, now);
    story.feed(Input::Start);
    story.pass(10_000);
    story.feed(Input::StartPersisted);
    let record = story.record();
    let verdict = assert_identical(&record);
    // The late answer changed nothing and is left out.
    assert_eq!(verdict.n_inputs, 2);
    let result = record.decode_result().unwrap();
    assert_eq!(result.error.unwrap().error_code, "PLAN_TIMEOUT");
}

/// An execution with more inputs than are kept.
fn long_story() -> Story {
    let mut request = draft();
    let plan = request.plan.as_mut().unwrap();
    plan.steps = (0..12)
        .map(|n| StepDraft {
            id: step_id(n),
            action: "act".into(),
            payload: Some(Opaque::default()),
            ..StepDraft::default()
        })
        .collect();
    let mut story = Story::new(
        request,
        Moment {
            monotonic_ms: 0,
            unix_ms: 1_000,
        },
    );
    story.feed(Input::Start);
    story.feed(Input::StartPersisted);
    let context = StructBuilder::new().text("long", &"c".repeat(16_000)).build();
    let warning = Reported {
        code: "SLOW".into(),
        context,
        ..Reported::default()
    };
    for step in story.request.plan().canonical_order().to_vec() {
        story.feed(Input::Assigned {
            step,
            attempt: 1,
            worker: "worker".into(),
        });
        let warnings = vec![warning.clone(); limits::WARNINGS_MAX];
        let outcome = Outcome::Completed {
            output: Opaque::default(),
            warnings,
        };
        story.feed(Input::AttemptEnded {
            step,
            attempt: 1,
            outcome,
        });
    }
    story
}

//
#[test]
fn of_more_inputs_than_are_kept_the_first_are_compared() {
    let story = long_story();
    let record = story.record();
    let verdict = verify(&record);
    assert_eq!(verdict.differences, []);
    assert!(verdict.is_good() && !verdict.is_identical() && !verdict.is_complete);
    assert!(verdict.decisions_identical && verdict.audit_identical && verdict.chain_intact);
    assert!(!verdict.result_identical, "it is not compared");
    assert!(verdict.n_inputs > 10);
    // What lies behind the inputs is covered by the chain and the seal still.
    let mut changed = record.clone();
    changed.result = Bytes::from([&record.result[..], b"\x28\x01"].concat());
    assert_eq!(parts(&verify(&changed)), [(Part::Result, 0)]);
    // Sealed anew, a result of another execution is found as well.
    let mut another = record.decode_result().unwrap();
    another.execution_id = record.decode_result().unwrap().plan_id;
    let mut changed = record.clone();
    changed.result = another.encode_to_vec().into();
    let entries = record.decode_entries().unwrap();
    let head = entries.last().unwrap().hash.as_slice().try_into().unwrap();
    let inputs = record.inputs.as_deref().unwrap();
    changed.seal = Some(Seal::over(&head, &changed.result, inputs).encode().into());
    assert_eq!(parts(&verify(&changed)), [(Part::Result, 0)]);
}

#[test]
fn a_request_that_is_changed_is_named() {
    let record = finished().record();
    let mut request = v1::SubmitPlanRequest::decode(record.accepted.clone()).unwrap();
    request.plan.as_mut().unwrap().name = "another".to_owned();
    let mut changed = record.clone();
    changed.accepted = request.encode_to_vec().into();
    assert_eq!(parts(&verify(&changed)), [(Part::Accepted, 0)]);
    changed.accepted = Bytes::from_static(b"\xff");
    let verdict = verify(&changed);
    assert_eq!(parts(&verdict), [(Part::Accepted, 0)]);
    assert!(!verdict.audit_identical, "nothing was replayed");
    let mut changed = record;
    changed.execution_id = ExecutionId::from_random([1; 16]);
    let found = parts(&verify(&changed));
    assert_eq!(found[..2], [(Part::Accepted, 0), (Part::Entry, 1)]);
}

#[test]
fn a_certificate_that_does_not_follow_from_the_plan_is_named() {
    let mut record = finished().record();
    // Messages in a row are one, in which the last number counts.
    let mut certificate = v1::StoredCertificate {
        worst_case_attempts: 7_000,
        ..v1::StoredCertificate::default()
    };
    let appended = |certificate: &v1::StoredCertificate| {
        v1::StoredAcceptance {
            certificate: Some(certificate.clone()),
            ..v1::StoredAcceptance::default()
        }
        .encode_to_vec()
    };
    let mut of_another_revision = record.clone();
    record.accepted = [&record.accepted[..], &appended(&certificate)].concat().into();
    let verdict = verify(&record);
    assert!(
        verdict.audit_identical && verdict.result_identical,
        "the request is the same"
    );
    assert_eq!(parts(&verdict), [(Part::Certificate, 0)]);
    certificate.revision = u32::MAX;
    let accepted = [&of_another_revision.accepted[..], &appended(&certificate)].concat();
    of_another_revision.accepted = accepted.into();
    assert_eq!(
        parts(&verify(&of_another_revision)),
        [],
        "what an earlier version computed stays as it is"
    );
}

//
#[test]
fn where_a_request_came_from_is_part_of_the_chain_and_of_no_digest() {
    let plain = finished().record();
    let provenance = Provenance {
        namespace: Namespace::parse("billing").unwrap(),
        ..Provenance::default()
    };
    let record = story::finished_from(&provenance).record();
    assert_eq!(record.request_digest, plain.request_digest);
    assert_eq!(
        stored_bytes::accepted_provenance(&record.accepted).unwrap(),
        provenance
    );
    assert_identical(&record);
    // Two messages in a row are one, in which the last name counts.
    let other = v1::StoredAcceptance {
        namespace: "agents".to_owned(),
        ..v1::StoredAcceptance::default()
    };
    for accepted in [
        [&record.accepted[..], &other.encode_to_vec()].concat(),
        plain.accepted.to_vec(),
    ] {
        let changed = Archive {
            accepted: accepted.into(),
            ..record.clone()
        };
        assert_eq!(parts(&verify(&changed)), [(Part::Entry, 1)]);
    }
    let added = Archive {
        accepted: record.accepted.clone(),
        ..plain
    };
    assert_eq!(parts(&verify(&added)), [(Part::Entry, 1)]);
}

/// What an earlier version stored: neither hashes nor inputs nor seal.
fn of_earlier_version(record: &Archive) -> Archive {
    let without_hash = |entry: &Bytes| {
        let entry = v1::AuditEntry::decode(entry.clone()).unwrap();
        v1::AuditEntry {
            hash: Vec::new(),
            ..entry
        }
        .encode_to_vec()
        .into()
    };
    Archive {
        entries: record.entries.iter().map(without_hash).collect(),
        inputs: None,
        seal: None,
        ..record.clone()
    }
}

#[test]
fn what_an_earlier_version_recorded_is_readable_and_not_called_good() {
    let record = finished().record();
    let early = of_earlier_version(&record);
    let verdict = verify(&early);
    assert_eq!(parts(&verdict), [(Part::Inputs, 0)]);
    assert!(!verdict.is_good() && !verdict.chain_intact);
    let written: Vec<Bytes> = file::pieces(early.clone()).collect();
    assert_eq!(file::read(&written.concat().into()).unwrap().archive, early);
    // Inputs or seal alone are never missing.
    let without_inputs = Archive {
        inputs: None,
        ..record.clone()
    };
    assert!(parts(&verify(&without_inputs)).contains(&(Part::Inputs, 0)));
    let without_seal = Archive { seal: None, ..record };
    assert_eq!(parts(&verify(&without_seal)), [(Part::Seal, 0)]);
}

fn parts(verdict: &Verdict) -> Vec<(Part, u64)> {
    let differences = verdict.differences.iter();
    differences
        .map(|difference| (difference.part, difference.sequence))
        .collect()
}
