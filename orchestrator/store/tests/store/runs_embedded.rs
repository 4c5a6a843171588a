//! What only the embedded store promises of runs: damage that stays where it is, copies.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use bytes::Bytes;
use escapement_model::Namespace;
use escapement_store::backup::{self, BackedUp, RestoreOptions, Restored};
use escapement_store::embedded::{Finding, open_run_reader};
use escapement_store::runs::{
    ClientRequest, Content, DefinitionChange, DefinitionKind, DefinitionOutcome, DefinitionPut,
    DefinitionWrite, ExpectedVersion, RunBatch, RunGivenUp, RunRemoved, RunStore, Scope,
};
use escapement_store::{Embedded, EmbeddedOptions, StoreFault};
use escapement_store_kit::runs::conformance::RunSample;
use rusqlite::Connection;

use crate::opened::{commit, open};
use crate::scratch::Scratch;

const N_RUNS: u64 = 9;
const ALL: usize = usize::MAX;

fn shared() -> Content {
    Content::new(Bytes::from(vec![5; 40_000]))
}

/// Nine runs of five entries with a snapshot each, all of which refer to one content; the last one has ended.
fn furnished() -> Scratch {
    let directory = Scratch::new();
    let mut store = open(directory.path());
    for sample in (1..=N_RUNS).map(RunSample::new) {
        let mut write = sample.create();
        write.contents = vec![shared()];
        write.opened = vec![sample.input_request(1)];
        commit(&mut store, [write, sample.append(2, 4)]);
        let mut write = sample.append(6, 0);
        write.snapshot = sample.snapshot(3);
        commit(&mut store, [write]);
    }
    commit(&mut store, [RunSample::new(N_RUNS).end(6)]);
    directory
}

fn tamper(directory: &Scratch, sql: &str) {
    let changed = Connection::open(directory.path().join("store.db"))
        .unwrap()
        .execute(sql, [])
        .unwrap();
    assert!(changed > 0, "{sql}");
}

fn findings(directory: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut examiner = escapement_store::embedded::Examiner::open(directory).unwrap();
    examiner
        .examine_all(&mut |finding| findings.push(finding.clone()))
        .unwrap();
    findings
}

#[test]
fn damage_is_found_named_and_stays_in_its_run() {
    let row = |number: u64, set: &str| format!("UPDATE run SET {set} WHERE number = {number}");
    let entry = |set: &str| format!("UPDATE journal SET {set} WHERE place = (4 << 32) + 5");
    for (sql, part, is_read) in [
        (row(4, "priority = priority + 1"), "index row", true),
        (row(4, "next_seq = next_seq + 1"), "index row", true),
        (entry("entry = x'00'"), "journal", true),
        (entry("link = zeroblob(32)"), "journal", true),
        (
            "DELETE FROM journal WHERE place = (4 << 32) + 4".to_owned(),
            "journal",
            true,
        ),
        (
            "UPDATE snapshot SET bytes = x'00' WHERE number = 4".to_owned(),
            "snapshot",
            true,
        ),
        (
            "DELETE FROM snapshot WHERE number = 4".to_owned(),
            "snapshot",
            true,
        ),
        ("DELETE FROM pin WHERE number = 4".to_owned(), "", false),
        (
            "UPDATE input_request SET kind = kind + 1 WHERE number = 4".to_owned(),
            "input request",
            false,
        ),
    ] {
        let directory = furnished();
        tamper(&directory, &sql);
        let reader = open_run_reader(directory.path()).unwrap();
        for sample in (1..=N_RUNS).map(RunSample::new) {
            let found = reader.run(sample.run_id(), ALL);
            match found {
                Err(StoreFault::CorruptRun { number: 4, part: of }) if is_read => {
                    assert_eq!((of, sample.run_id()), (part, RunSample::new(4).run_id()), "{sql}");
                }
                found => {
                    let run = found.unwrap().unwrap();
                    let is_cut = is_read && run.summary.number == 4;
                    assert!(!is_cut || run.tail.len() < 2, "{sql}: {run:?}");
                }
            }
        }
        if part.is_empty() {
            continue;
        }
        let found = findings(directory.path());
        let is_named = |finding: &Finding| match finding {
            Finding::Run {
                number,
                parts,
                run_id,
            } => *number == 4 && parts.contains(&part) && *run_id == Some(RunSample::new(4).run_id()),
            _ => false,
        };
        assert!(found.iter().any(is_named), "{sql}: {found:?}");
        let is_local = |finding: &Finding| is_named(finding) || matches!(finding, Finding::Store(_));
        assert!(found.iter().all(is_local), "{sql}: {found:?}");
    }
}

#[test]
fn a_damaged_content_is_told_with_the_runs_that_refer_to_it() {
    let directory = furnished();
    tamper(&directory, "UPDATE content SET bytes = x'00'");
    let reader = open_run_reader(directory.path()).unwrap();
    let found = reader.content(&shared().digest());
    let is_told = matches!(
        found,
        Err(StoreFault::CorruptRun {
            number: 1,
            part: "content"
        })
    );
    assert!(is_told, "{found:?}");
    let expected = Finding::Content {
        digest: Some(shared().digest()),
        runs: (1..=N_RUNS).collect(),
        definitions: Vec::new(),
    };
    assert_eq!(findings(directory.path()), [expected]);
}

#[test]
fn a_link_that_is_not_that_of_its_entry_is_found() {
    let directory = furnished();
    // As somebody would who changes an entry and makes its checksum anew: the next link does not fit.
    let path = directory.path().join("store.db");
    let connection = Connection::open(path).unwrap();
    let copy = "UPDATE journal SET (link, entry, checksum) = (SELECT link, entry, checksum FROM journal WHERE \
                place = (3 << 32) + 1), place = (3 << 32) + 2 WHERE place = (3 << 32) + 2";
    assert_eq!(connection.execute(copy, []).unwrap(), 1);
    drop(connection);
    let found = findings(directory.path());
    assert!(
        matches!(&found[..], [Finding::Run { number: 3, parts, .. }] if parts == &["journal"]),
        "{found:?}"
    );
}

#[test]
fn what_is_unreadable_can_be_ended_or_given_up_and_nothing_else_is_harmed() {
    let directory = furnished();
    tamper(&directory, "UPDATE snapshot SET bytes = x'00' WHERE number = 4");
    tamper(&directory, "UPDATE run SET priority = 70 WHERE number = 5");
    let mut store = open(directory.path());
    // The row of this one is whole: it can be ended without being read.
    commit(&mut store, [RunSample::new(4).end(6)]);
    // That of this one is not.
    let mut batch = RunBatch::new();
    batch.add(RunSample::new(5).end(6));
    let refused = store.commit(&batch);
    assert!(
        matches!(refused, Err(StoreFault::CorruptRun { number: 5, .. })),
        "{refused:?}"
    );
    assert_eq!(store.give_up_run(1, 99).unwrap(), RunGivenUp::Whole);
    assert_eq!(store.give_up_run(50, 99).unwrap(), RunGivenUp::Missing);
    for number in [4, 5] {
        let run_id = Some(RunSample::new(number).run_id());
        assert_eq!(
            store.give_up_run(number, 99).unwrap(),
            RunGivenUp::Done { run_id }
        );
    }
    let reader = store.reader().unwrap();
    let counts = reader.counts().unwrap();
    assert_eq!((counts.live, counts.ended, counts.removed), (6, 1, 2));
    let left = reader.removed(RunSample::new(5).run_id()).unwrap().unwrap();
    assert_eq!((left.number, left.removed_at), (5, 99));
    commit(&mut store, [RunSample::new(6).append(6, 1)]);
    drop(store);
    drop(open(directory.path()));
    assert_eq!(findings(directory.path()), []);
}

#[test]
fn a_damaged_run_is_discarded_by_its_id_and_nothing_else_is_harmed() {
    let directory = furnished();
    tamper(
        &directory,
        "UPDATE journal SET entry = x'00' WHERE place = (4 << 32) + 2",
    );
    tamper(&directory, "UPDATE run SET priority = 70 WHERE number = 5");
    let mut store = open(directory.path());
    for number in [4, 5] {
        let run_id = RunSample::new(number).run_id();
        assert_eq!(store.discard_run(run_id, 9, 99).unwrap(), RunRemoved::Done);
        assert_eq!(store.discard_run(run_id, 9, 99).unwrap(), RunRemoved::NotFound);
        let left = store.reader().unwrap().removed(run_id).unwrap().unwrap();
        assert_eq!((left.state, left.removed_at), (9, 99));
    }
    let reader = store.reader().unwrap();
    let counts = reader.counts().unwrap();
    assert_eq!((counts.live, counts.ended, counts.removed), (6, 1, 2));
    assert!(
        reader.content(&shared().digest()).unwrap().is_some(),
        "others refer to it"
    );
    commit(&mut store, [RunSample::new(6).append(6, 1)]);
    drop(store);
    drop(open(directory.path()));
    assert_eq!(findings(directory.path()), []);
}

#[test]
fn a_missing_run_refuses_to_open_until_the_loss_is_accepted() {
    let directory = furnished();
    tamper(&directory, "DELETE FROM run WHERE number = 9");
    let refused = Embedded::open(directory.path(), EmbeddedOptions::default());
    assert!(
        matches!(
            refused,
            Err(StoreFault::Gap {
                what: "runs",
                expected: 9,
                found: 8
            })
        ),
        "{refused:?}"
    );
    let accepting = EmbeddedOptions {
        accept_loss: true,
        ..EmbeddedOptions::default()
    };
    let mut store = Embedded::open(directory.path(), accepting.clone()).unwrap();
    assert_eq!(store.opening().repaired.len(), 1);
    commit(&mut store, [RunSample::new(10).create()]);
    let reader = store.reader().unwrap();
    let run = reader.summary(RunSample::new(10).run_id()).unwrap().unwrap();
    assert_eq!(run.number, 10, "no number is given twice");
}

#[test]
fn a_lost_end_refuses_to_open() {
    let directory = furnished();
    let copy = std::fs::read(directory.path().join("store.db")).unwrap();
    let mut store = open(directory.path());
    commit(&mut store, [RunSample::new(1).append(6, 1)]);
    drop(store);
    std::fs::write(directory.path().join("store.db"), copy).unwrap();
    let refused = Embedded::open(directory.path(), EmbeddedOptions::default());
    assert!(
        matches!(refused, Err(StoreFault::Gap { what: "commits", .. })),
        "{refused:?}"
    );
}

fn back_up(directory: &Scratch, file: &Path, accept_damage: bool) -> Result<(BackedUp, usize), StoreFault> {
    let mut n_found = 0;
    let backed_up = backup::back_up(directory.path(), file, accept_damage, &mut |_| n_found += 1)?;
    Ok((backed_up, n_found))
}

fn restore(file: &Path, directory: &Scratch, accept_damage: bool) -> Result<Restored, StoreFault> {
    let options = RestoreOptions {
        accept_damage,
        ..RestoreOptions::default()
    };
    backup::restore(file, directory.path(), options, &mut |_| (), &mut |store| {
        let there = store.reader()?.counts()?;
        assert_eq!(there.live + there.ended, N_RUNS);
        Ok(7)
    })
}

#[test]
fn a_backup_of_a_store_in_use_is_restored_whole() {
    let directory = furnished();
    let mut store = open(directory.path());
    let file = directory.path().join("backup");
    let (backed_up, n_found) = back_up(&directory, &file, false).unwrap();
    assert!(backed_up.is_kept && n_found == 0);
    assert_eq!(backed_up.n_bytes, file.metadata().unwrap().len());
    let examined = backed_up.examined;
    assert_eq!((examined.n_runs, examined.n_contents), (N_RUNS, 1));
    let again = back_up(&directory, &file, false);
    assert!(matches!(again, Err(StoreFault::Exists { .. })), "{again:?}");
    commit(&mut store, [RunSample::new(1).append(6, 1)]);

    let target = Scratch::new();
    let restored = restore(&file, &target, false).unwrap();
    assert!(restored.is_kept && restored.examined == backed_up.examined);
    assert_eq!(restored.n_runs_changed, 7);
    let again = restore(&file, &target, false);
    assert!(matches!(again, Err(StoreFault::Exists { .. })), "{again:?}");
    let names = std::fs::read_dir(target.path()).unwrap();
    let names: BTreeSet<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["store.db", "lock"].map(OsString::from).into());
    let mut restored = open(target.path());
    let reader = restored.reader().unwrap();
    for sample in (1..=N_RUNS).map(RunSample::new) {
        let run = reader.run(sample.run_id(), ALL).unwrap().unwrap();
        let ends_at = if run.summary.number == N_RUNS { 7 } else { 6 };
        assert_eq!(run.summary.next_seq, ends_at, "as it was then");
    }
    commit(&mut restored, [RunSample::new(1).append(6, 1)]);
}

#[test]
fn a_restore_that_was_cut_short_is_made_again() {
    let directory = furnished();
    let file = directory.path().join("backup");
    back_up(&directory, &file, false).unwrap();
    let target = Scratch::new();
    restore(&file, &target, false).unwrap();
    // As a crash leaves it: the store is whole and has not its place yet.
    let place = |name: &str| target.path().join(name);
    std::fs::create_dir(place("restoring")).unwrap();
    std::fs::rename(place("store.db"), place("restoring/store.db")).unwrap();
    let again = restore(&file, &target, false).unwrap();
    assert!(again.is_kept && !place("restoring").exists());
    open(target.path());
    // Beside a store that is whole a restore stays refused.
    let refused = restore(&file, &target, false);
    assert!(matches!(refused, Err(StoreFault::Exists { .. })), "{refused:?}");
}

#[test]
fn a_damaged_backup_is_refused_and_leaves_nothing() {
    let directory = furnished();
    tamper(&directory, "UPDATE snapshot SET bytes = x'00' WHERE number = 4");
    let file = directory.path().join("backup");
    let (refused, n_found) = back_up(&directory, &file, false).unwrap();
    assert!(!refused.is_kept && !file.exists() && n_found == 1);
    assert!(back_up(&directory, &file, true).unwrap().0.is_kept);

    let target = Scratch::new();
    let refused = restore(&file, &target, false).unwrap();
    assert!(!refused.is_kept);
    assert!(!target.path().join("store.db").exists());
    let unfinished = Embedded::open(target.path(), EmbeddedOptions::default());
    assert!(
        matches!(unfinished, Err(StoreFault::Unfinished { .. })),
        "{unfinished:?}"
    );
    let restored = restore(&file, &target, true).unwrap();
    assert_eq!((restored.is_kept, restored.examined.n_damaged), (true, 1));
    open(target.path());
}

#[test]
fn a_backup_without_its_end_is_none() {
    let directory = furnished();
    let file = directory.path().join("backup");
    let (backed_up, _) = back_up(&directory, &file, false).unwrap();
    let whole = std::fs::read(&file).unwrap();
    let longer = [&whole[..], b"x"].concat();
    for cut in [1, 36, 37, 5_000, backed_up.n_bytes as usize - 50] {
        let target = Scratch::new();
        std::fs::write(&file, &whole[..whole.len() - cut]).unwrap();
        let refused = restore(&file, &target, true);
        assert!(
            matches!(refused, Err(StoreFault::NoBackup { .. })),
            "{cut}: {refused:?}"
        );
        assert!(!target.path().join("store.db").exists());
    }
    std::fs::write(&file, longer).unwrap();
    let refused = restore(&file, &Scratch::new(), true);
    assert!(matches!(refused, Err(StoreFault::NoBackup { .. })), "{refused:?}");
}

/// Returns a store with a saved plan, an action profile, a document that only the plan refers to, and an answered request.
fn defined() -> (Scratch, Content) {
    let directory = furnished();
    let mut store = open(directory.path());
    let document = Content::of_revision(Bytes::from_static(b"document"), [9; 32]);
    for (kind, name) in [
        (DefinitionKind::SavedPlan, "plan"),
        (DefinitionKind::ActionProfile, "action"),
    ] {
        let write = DefinitionWrite {
            kind,
            name: name.to_owned(),
            expected: ExpectedVersion::New,
            change: DefinitionChange::Put(DefinitionPut {
                namespace: Namespace::default(),
                owner: Some("owner".to_owned()),
                priority: 1,
                at: 5,
                record: Bytes::from_static(b"record"),
                contents: (name == "plan").then(|| document.clone()).into_iter().collect(),
                pinned: Vec::new(),
            }),
        };
        assert_eq!(
            store.define(&write).unwrap(),
            DefinitionOutcome::Done { version: 1 }
        );
    }
    let mut answers = RunSample::new(4).append(6, 1);
    answers.requests = vec![ClientRequest {
        key: "pause".to_owned(),
        digest: [3; 32],
    }];
    commit(&mut store, [answers]);
    (directory, document)
}

#[test]
fn a_damaged_definition_is_told_and_can_be_deleted() {
    let (directory, document) = defined();
    assert_eq!(findings(directory.path()), []);
    for set in [
        "record = x'00'",
        "owner = 'other'",
        "version = 7",
        "priority = 9",
        "kind = 9",
    ] {
        tamper(
            &directory,
            &format!("UPDATE definition SET {set} WHERE name = '1:plan'"),
        );
        let reader = open_run_reader(directory.path()).unwrap();
        let found = reader.definition(DefinitionKind::SavedPlan, "plan");
        assert!(
            matches!(found, Err(StoreFault::CorruptDefinition { number: 1 })),
            "{set}: {found:?}"
        );
        let listed = reader.definitions(DefinitionKind::SavedPlan, None, None, 9);
        assert_eq!(listed.unwrap().definitions, [], "{set}");
        assert_eq!(
            findings(directory.path()),
            [Finding::Definition { number: 1 }],
            "{set}"
        );
    }
    let mut store = open(directory.path());
    let delete = DefinitionWrite {
        kind: DefinitionKind::SavedPlan,
        name: "plan".to_owned(),
        expected: ExpectedVersion::Is(1),
        change: DefinitionChange::Delete,
    };
    let outcome = store.define(&delete).unwrap();
    assert_eq!(outcome, DefinitionOutcome::Done { version: 0 });
    let reader = store.reader().unwrap();
    assert_eq!(reader.content(&document.digest()).unwrap(), None);
    assert_eq!(findings(directory.path()), []);
}

#[test]
fn damage_of_revisions_and_answered_requests_is_found() {
    for (sql, is_plans) in [
        (
            "UPDATE content SET revision = zeroblob(32) WHERE revision IS NOT NULL",
            true,
        ),
        (
            "UPDATE content SET revision_checksum = 1 WHERE revision IS NOT NULL",
            true,
        ),
        (
            "UPDATE content SET bytes = x'00' WHERE revision IS NOT NULL",
            true,
        ),
        ("UPDATE request SET digest = zeroblob(32)", false),
        ("UPDATE request SET key = 'other'", false),
    ] {
        let (directory, document) = defined();
        tamper(&directory, sql);
        let expected = if is_plans {
            Finding::Content {
                digest: Some(document.digest()),
                runs: Vec::new(),
                definitions: vec![1],
            }
        } else {
            Finding::Run {
                number: 4,
                run_id: Some(RunSample::new(4).run_id()),
                parts: vec!["answered request"],
            }
        };
        assert_eq!(findings(directory.path()), [expected], "{sql}");
        let reader = open_run_reader(directory.path()).unwrap();
        let revision = reader.revision(&[9; 32], &[Scope::EVERYTHING]);
        let answered = reader.answered("pause");
        match is_plans {
            true => assert!(!matches!(revision, Ok(Some(_))), "{sql}: {revision:?}"),
            false => assert!(!matches!(answered, Ok(Some(_))), "{sql}: {answered:?}"),
        }
    }
}

#[test]
fn a_missing_definition_refuses_to_open_until_the_loss_is_accepted() {
    let (directory, _) = defined();
    tamper(&directory, "DELETE FROM definition WHERE name = '2:action'");
    let refused = Embedded::open(directory.path(), EmbeddedOptions::default());
    assert!(
        matches!(
            refused,
            Err(StoreFault::Gap {
                what: "saved plans and action profiles",
                expected: 2,
                found: 1
            })
        ),
        "{refused:?}"
    );
    let accepting = EmbeddedOptions {
        accept_loss: true,
        ..EmbeddedOptions::default()
    };
    drop(Embedded::open(directory.path(), accepting.clone()).unwrap());
    assert_eq!(findings(directory.path()), []);
}
