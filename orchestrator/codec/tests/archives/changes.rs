//! Records that were changed, with and without every hash computed anew.

use crate::story::{Dice, random_story};
use crate::{assert_identical, parts};
use bytes::Bytes;
use escapement_codec::archive::Archive;
use escapement_codec::archive::check::{Part, verify};
use escapement_codec::archive::file;
use escapement_codec::audit;
use escapement_codec::audit_from_wire;
use escapement_codec::stored::seal::Seal;
use escapement_contract::{AuditEntry, ChainHash, chain_seed};
use escapement_model::ExecutionId;
use escapement_wire::v1;
use escapement_wire::v1::recorded_input::Input;
use prost::Message;

fn entries_of(record: &Archive) -> Vec<AuditEntry> {
    let decoded = record.decode_entries().unwrap().into_iter();
    decoded
        .map(|entry| audit_from_wire::entry(entry).unwrap())
        .collect()
}

/// What somebody would write who changes a record and computes every hash of it anew.
fn forged(record: &Archive, entries: Vec<AuditEntry>) -> Archive {
    let mut head: ChainHash = chain_seed(record.execution_id, &record.request_digest);
    let rechained = entries.into_iter().map(|entry| {
        head = entry.link(&head);
        audit::entry(&AuditEntry { hash: head, ..entry })
            .encode_to_vec()
            .into()
    });
    let entries = rechained.collect();
    let seal = Seal::over(&head, &record.result, record.inputs.as_ref().unwrap());
    Archive {
        entries,
        seal: Some(seal.encode().into()),
        ..record.clone()
    }
}

//
#[test]
fn an_entry_that_is_changed_missing_added_or_moved_is_named() {
    for seed in 0..12 {
        let record = random_story(seed).record();
        let n_entries = record.entries.len();
        for index in 0..n_entries {
            let sequence = index as u64 + 1;
            let first = |record: &Archive| parts(&verify(record))[0];
            let mut changed = record.clone();
            let mut entry = v1::AuditEntry::decode(record.entries[index].clone()).unwrap();
            entry.at += 1;
            changed.entries[index] = entry.encode_to_vec().into();
            assert_eq!(first(&changed), (Part::Entry, sequence), "changed, seed {seed}");
            let mut changed = record.clone();
            changed.entries.remove(index);
            let found = first(&changed);
            let expected = if sequence == n_entries as u64 {
                (Part::Seal, 0)
            } else {
                (Part::Entry, sequence)
            };
            assert_eq!(found, expected, "missing, seed {seed}");
            let mut changed = record.clone();
            changed.entries.insert(index, record.entries[index].clone());
            assert_eq!(first(&changed), (Part::Entry, sequence + 1), "twice, seed {seed}");
            if index > 0 {
                let mut changed = record.clone();
                changed.entries.swap(index - 1, index);
                assert_eq!(first(&changed), (Part::Entry, sequence - 1), "moved, seed {seed}");
            }
        }
    }
}

//
#[test]
fn an_entry_that_is_changed_with_every_hash_behind_it_does_not_replay() {
    for seed in 0..20 {
        let record = random_story(seed).record();
        let entries = entries_of(&record);
        assert_identical(&forged(&record, entries.clone()));
        // The first says when the execution was accepted, which the replay takes from it.
        for index in 1..entries.len() {
            let mut entries = entries.clone();
            entries[index].at_unix_ms += 1;
            let verdict = verify(&forged(&record, entries));
            assert!(verdict.chain_intact && !verdict.audit_identical && !verdict.is_identical());
            assert_eq!(parts(&verdict), [(Part::Entry, index as u64 + 1)], "seed {seed}");
        }
    }
}

//
#[test]
fn a_result_or_an_input_that_is_changed_with_its_seal_does_not_replay() {
    for seed in 0..50 {
        let story = random_story(seed);
        let record = story.record();
        let resealed = |record: Archive| forged(&record, entries_of(&record));
        let mut result = record.decode_result().unwrap();
        result.completed_at += 1;
        let mut changed = record.clone();
        changed.result = result.encode_to_vec().into();
        assert_eq!(
            parts(&verify(&changed)).first(),
            Some(&(Part::Result, 0)),
            "seed {seed}"
        );
        let verdict = verify(&resealed(changed));
        assert!(verdict.chain_intact && !verdict.result_identical);
        assert_eq!(parts(&verdict), [(Part::Result, 0)], "seed {seed}");

        let wire = v1::ExecutionInputs::decode(record.inputs.clone().unwrap()).unwrap();
        for index in 0..wire.inputs.len() {
            // Where the wall clock stands before the start, one moment passes for another.
            if matches!(wire.inputs[index].input, Some(Input::Tick(_))) {
                continue;
            }
            let mut without = wire.clone();
            without.inputs.remove(index);
            let mut changed = record.clone();
            changed.inputs = Some(without.encode_to_vec().into());
            assert_eq!(
                parts(&verify(&changed)).first(),
                Some(&(Part::Inputs, 0)),
                "seed {seed}"
            );
            assert!(
                !verify(&resealed(changed)).is_good(),
                "seed {seed}, without input {index}"
            );
        }
    }
}

#[test]
fn a_request_that_is_changed_is_named() {
    let record = random_story(1).record();
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
    let mut record = random_story(1).record();
    // Messages in a row are one, in which the last number counts.
    let mut certificate = v1::StoredCertificate {
        worst_case_attempts: 7_000,
        ..v1::StoredCertificate::default()
    };
    let appended = |certificate: &v1::StoredCertificate| {
        v1::StoredAcceptance {
            plan: None,
            certificate: Some(certificate.clone()),
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
    let record = random_story(2).record();
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

/// whatever stands in a record, it is judged and nothing panics.
#[test]
fn random_bytes_in_a_record_whose_hashes_are_right_never_panic() {
    let mut dice = Dice(11);
    for seed in 0..300 {
        let record = random_story(seed % 40).record();
        let mut changed = record.clone();
        let parts = [
            Some(&record.accepted),
            Some(&record.result),
            record.inputs.as_ref(),
            record.seal.as_ref(),
        ];
        let which = dice.below(5) as usize;
        let entry = dice.below(record.entries.len() as u64) as usize;
        let part = parts
            .get(which)
            .map_or(&record.entries[entry], |part| part.unwrap());
        let mut bytes = part.to_vec();
        for _ in 0..=dice.below(4) {
            if !bytes.is_empty() {
                let at = dice.below(bytes.len() as u64) as usize;
                bytes[at] = dice.roll() as u8;
            }
        }
        let is_changed = bytes != part[..];
        let bytes = Bytes::from(bytes);
        match which {
            0 => changed.accepted = bytes,
            1 => changed.result = bytes,
            2 => changed.inputs = Some(bytes),
            3 => changed.seal = Some(bytes),
            _ => changed.entries[entry] = bytes,
        }
        let verdict = verify(&changed);
        assert!(
            which == 0 || !is_changed || !verdict.is_good(),
            "seed {seed}, part {which}"
        );
        // The same for somebody who computes the seal anew, as far as the entries can be read.
        if changed.decode_entries().is_ok_and(|entries| {
            entries
                .into_iter()
                .all(|entry| audit_from_wire::entry(entry).is_ok())
        }) {
            verify(&forged(&changed, entries_of(&changed)));
        }
    }
}
