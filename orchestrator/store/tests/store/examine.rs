//! Damage is found wherever it is, and a copy holds what was acknowledged. Repairs nothing.

use std::fs::File;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use escapement_model::Namespace;
use escapement_store::backup::{self, BackedUp, RestoreOptions, Restored};
use escapement_store::embedded::{Examination, Examiner, Finding};
use escapement_store::{Outcome, Reader, Removal, Store, StoreFault, StoredState, Write};
use escapement_store_kit::conformance::Sample;
use rusqlite::Connection;

use crate::earlier::executions_of;
use crate::opened::open;
use crate::scratch::Scratch;

const N_ALL: u64 = 200;
const N_REMOVED: u64 = 50;

fn database(directory: &Scratch) -> std::path::PathBuf {
    directory.path().join("store.db")
}

/// Two hundred executions: the first fifty removed, then a mix of settled, running and queued ones.
fn furnished() -> (Scratch, Vec<Sample>) {
    let directory = Scratch::new();
    let samples: Vec<Sample> = (1..=N_ALL)
        .map(|seed| {
            let mut sample = Sample::with_record_bytes(seed, if seed % 9 == 0 { 9000 } else { 150 });
            if seed % 7 == 0 {
                sample.accept.parent_execution_id = Some(Sample::new(1).execution_id());
            }
            sample
        })
        .collect();
    let mut store = open(directory.path());
    let (removed, kept) = samples.split_at(N_REMOVED as usize);
    let batch: Vec<Write> = removed
        .iter()
        .flat_map(|sample| [sample.accept(), sample.settle(1)])
        .collect();
    store.commit(&batch).unwrap();
    let all = Removal {
        keep_settled_count: Some(0),
        ..Removal::default()
    };
    while store.remove_settled(&all, 7).unwrap().has_more {}
    for (number, sample) in (N_REMOVED + 1..).zip(kept) {
        let batch = match number % 3 {
            0 => vec![sample.accept(), sample.settle(1)],
            1 => vec![sample.accept(), sample.start()],
            _ => vec![sample.accept()],
        };
        store.commit(&batch).unwrap();
    }
    (directory, samples)
}

fn tamper(directory: &Scratch, sql: &str) {
    Connection::open(database(directory))
        .unwrap()
        .execute_batch(sql)
        .unwrap();
}

/// Returns everything that an examination says.
fn examine(examiner: &mut Examiner) -> Result<(Examination, Vec<Finding>), StoreFault> {
    let mut findings = Vec::new();
    let examination = examiner.examine_all(&mut |finding| findings.push(finding.clone()))?;
    Ok((examination, findings))
}

fn examine_in(directory: &Path) -> (Examination, Vec<Finding>) {
    examine(&mut Examiner::open(directory).unwrap()).unwrap()
}

#[test]
fn a_whole_store_is_clean_while_it_is_open_and_afterwards() {
    let (directory, _) = furnished();
    let expected = Examination {
        n_executions: N_ALL - N_REMOVED,
        n_removed: N_REMOVED,
        ..Examination::default()
    };
    assert_eq!(examine_in(directory.path()), (expected, Vec::new()));
    let store = open(directory.path());
    assert_eq!(examine(&mut store.examiner().unwrap()).unwrap().0, expected);
    assert_eq!(examine_in(directory.path()).0, expected);
    assert_eq!(store.examiner().unwrap().structure().unwrap(), []);
    assert!(expected.is_clean());
}

#[test]
fn a_store_of_another_schema_is_refused_and_untouched() {
    let (directory, _) = furnished();
    tamper(&directory, "PRAGMA user_version = 1");
    let fault = Examiner::open(directory.path()).unwrap_err();
    assert!(matches!(
        fault,
        StoreFault::Incompatible {
            found: 1,
            known: 9,
            ..
        }
    ));
    assert!(fault.to_string().contains("start this program's"), "{fault}");
    let nowhere = Scratch::new();
    let fault = Examiner::open(nowhere.path()).unwrap_err();
    assert!(matches!(fault, StoreFault::Open { .. }), "{fault:?}");
    assert!(!nowhere.path().exists(), "nothing is created");
}

#[test]
fn each_damage_is_found_and_said_to_be_of_its_execution() {
    for (sql, number, parts) in [
        (
            "UPDATE accepted_record SET record = x'00' WHERE number = 101",
            101,
            &["accepted record"][..],
        ),
        (
            "UPDATE settled_record SET result = x'00', audit = x'00' WHERE number = 102",
            102,
            &["result record", "audit record"],
        ),
        (
            "UPDATE settled_record SET audit = x'00' WHERE number = 102",
            102,
            &["audit record"],
        ),
        (
            "UPDATE execution SET started_at = 5 WHERE number = 102",
            102,
            &["result record"],
        ),
        (
            "UPDATE execution SET user_id = 'x' WHERE number = 103",
            103,
            &["accepted record"],
        ),
        (
            "UPDATE execution SET tags = x'01' WHERE number = 103",
            103,
            &["index row"],
        ),
    ] {
        let (directory, samples) = furnished();
        tamper(&directory, sql);
        let (examination, findings) = examine_in(directory.path());
        let expected = Finding::Execution {
            number,
            execution_id: Some(samples[number as usize - 1].execution_id()),
            parts: parts.to_vec(),
        };
        assert_eq!(findings, [expected], "{sql}");
        assert_eq!(
            (examination.n_damaged, examination.n_executions),
            (1, N_ALL - N_REMOVED)
        );
    }
    let (directory, _) = furnished();
    tamper(
        &directory,
        "UPDATE removed_execution SET removed_at = 8 WHERE number = 20",
    );
    assert_eq!(examine_in(directory.path()).1, [Finding::Removed { number: 20 }]);
}

#[test]
fn what_does_not_add_up_is_found() {
    for (sql, said) in [
        (
            "DELETE FROM execution WHERE number = 101",
            "199 executions where 200",
        ),
        (
            "DELETE FROM accepted_record WHERE number = 101",
            "149 accepted records",
        ),
        (
            "DELETE FROM removed_execution WHERE number = 20",
            "49 ids of removed executions",
        ),
        (
            "INSERT INTO settled_record VALUES (1, 0, 0, x'', x'')",
            "51 settled records",
        ),
        ("UPDATE tally SET n_commits = n_commits - 1", "commits where"),
    ] {
        let (directory, _) = furnished();
        tamper(&directory, sql);
        let (examination, findings) = examine_in(directory.path());
        let is_said = |finding: &Finding| matches!(finding, Finding::Store(text) if text.contains(said));
        assert!(findings.iter().any(is_said), "{sql}: {findings:?}");
        assert!(!examination.is_clean());
    }
}

#[test]
fn an_index_that_differs_from_its_table_is_found() {
    let (directory, _) = furnished();
    tamper(
        &directory,
        "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET rootpage = (SELECT sum(rootpage) FROM \
         sqlite_schema WHERE name IN ('execution_by_id', 'execution_by_plan')) - rootpage \
         WHERE name IN ('execution_by_id', 'execution_by_plan')",
    );
    let (examination, findings) = examine_in(directory.path());
    assert_eq!(examination.n_damaged, N_ALL - N_REMOVED);
    let both = ["index by execution id", "index by plan id"];
    let is_that = |finding: &Finding| matches!(finding, Finding::Execution { parts, .. } if parts == &both);
    assert_eq!(
        findings.iter().filter(|it| is_that(it)).count() as u64,
        examination.n_damaged
    );
    // The same for what is left of removed executions.
    let (directory, _) = furnished();
    tamper(
        &directory,
        "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET rootpage = (SELECT sum(rootpage) FROM \
         sqlite_schema WHERE name IN ('removed_by_id', 'removed_by_plan')) - rootpage \
         WHERE name IN ('removed_by_id', 'removed_by_plan')",
    );
    let (examination, findings) = examine_in(directory.path());
    assert_eq!(
        (examination.n_damaged, findings.len() as u64),
        (N_REMOVED, N_REMOVED)
    );
    // Left over in an index: the row is gone and its entry is not.
    let (directory, _) = furnished();
    let hide = "PRAGMA writable_schema = ON; CREATE TABLE hidden AS SELECT * FROM sqlite_schema \
                WHERE name = 'execution_by_plan'; DELETE FROM sqlite_schema WHERE name = 'execution_by_plan'";
    let show =
        "PRAGMA writable_schema = ON; INSERT INTO sqlite_schema SELECT * FROM hidden; DROP TABLE hidden";
    tamper(&directory, hide);
    tamper(&directory, "DELETE FROM execution WHERE number = 199");
    tamper(&directory, show);
    let (_, findings) = examine_in(directory.path());
    let said = "150 entries of the index by plan id where 149 must be";
    assert!(
        findings.contains(&Finding::Store(said.to_owned())),
        "{findings:?}"
    );
}

/// Returns everything that callers could ask reads as it was written.
fn reads_as_written(reader: &dyn Reader, samples: &[Sample]) -> Result<bool, StoreFault> {
    for (number, sample) in (1u64..).zip(samples) {
        let id = sample.execution_id();
        let (execution, audit) = (reader.execution(id)?, reader.audit(id)?);
        let removed = reader.removed(id)?;
        let expected = match number {
            1..=N_REMOVED => None,
            _ if number % 3 == 0 => Some(sample.settled(sample.accepted(number), 1)),
            _ if number % 3 == 1 => Some(sample.started(number)),
            _ => Some(sample.accepted(number)),
        };
        let settled = expected
            .as_ref()
            .is_some_and(|execution| execution.summary.state == StoredState::Settled);
        let has_removed = removed.is_some_and(|removed| {
            removed.number == number && removed.request_digest == sample.accept.request_digest
        });
        if execution != expected
            || audit != settled.then(|| sample.audit.clone())
            || has_removed != (number <= N_REMOVED)
        {
            return Ok(false);
        }
    }
    Ok(true)
}

#[test]
fn whatever_bit_flips_is_found_or_changes_nothing_that_is_read() {
    let (directory, samples) = furnished();
    let clean = std::fs::read(database(&directory)).unwrap();
    let (mut n_found, mut n_harmless) = (0, 0);
    // A step without a common divisor with the size of a page, so that all places of a page are met.
    for at in (0..clean.len() as u64).step_by(4513) {
        let file = File::options().write(true).open(database(&directory)).unwrap();
        let byte = clean[at as usize];
        file.write_all_at(&[byte ^ (1 << (at % 8))], at).unwrap();
        let said = Examiner::open(directory.path()).and_then(|mut examiner| examine(&mut examiner));
        if matches!(&said, Ok((examination, _)) if examination.is_clean()) {
            n_harmless += 1;
            let store = open(directory.path());
            let reader = store.reader().unwrap();
            assert_eq!(
                reads_as_written(reader.as_ref(), &samples).map_err(|fault| fault.to_string()),
                Ok(true),
                "the flip of a bit at {at} was not found"
            );
        } else {
            n_found += 1;
        }
        // The header may count a commit that only opening made.
        std::fs::write(database(&directory), &clean).unwrap();
        for name in ["store.db-wal", "store.db-shm"] {
            let _ = std::fs::remove_file(directory.path().join(name));
        }
    }
    assert!(
        n_found > 40 && n_harmless > 10,
        "{n_found} found, {n_harmless} harmless"
    );
}

fn back_up(
    directory: &Path,
    file: &Path,
    accept_damage: bool,
    told: &mut dyn FnMut(&Finding),
) -> Result<BackedUp, StoreFault> {
    backup::back_up(directory, file, accept_damage, told)
}

fn restore(
    file: &Path,
    directory: &Path,
    options: RestoreOptions,
    told: &mut dyn FnMut(&Finding),
) -> Result<Restored, StoreFault> {
    backup::restore(file, directory, options, told, &mut |_| Ok(0))
}

#[test]
fn a_backup_of_a_running_store_is_whole_and_restores_elsewhere() {
    let (directory, samples) = furnished();
    let mut store = open(directory.path());
    let late = Sample::new(900);
    store.commit(&[late.accept()]).unwrap();
    let elsewhere = Scratch::new();
    std::fs::create_dir_all(elsewhere.path()).unwrap();
    let file = elsewhere.path().join("backup");
    let never = &mut |finding: &Finding| panic!("{finding:?}");
    let backed_up = back_up(directory.path(), &file, false, never).unwrap();
    assert!(backed_up.is_kept && backed_up.n_bytes > 100_000);
    assert_eq!(backed_up.examined.n_executions, N_ALL - N_REMOVED + 1);
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    store.commit(&[Sample::new(901).accept()]).unwrap();
    let fault = back_up(directory.path(), &file, false, never).unwrap_err();
    assert!(matches!(fault, StoreFault::Exists { .. }), "{fault:?}");
    drop(store);

    for run_queued in [true, false] {
        let target = elsewhere.path().join(format!("store-{run_queued}"));
        let options = RestoreOptions {
            run_queued,
            accept_damage: false,
        };
        let restored = restore(&file, &target, options, never).unwrap();
        let n_queued = samples.len() as u64 / 4 + 1;
        assert_eq!(restored.n_withheld, if run_queued { 0 } else { n_queued });
        let fault = restore(&file, &target, options, never).unwrap_err();
        assert!(matches!(fault, StoreFault::Exists { .. }), "{fault:?}");
        let names: Vec<_> = std::fs::read_dir(&target)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names.len(), 2, "the database and its lock: {names:?}");

        let mut store = open(&target);
        let reader = store.reader().unwrap();
        let found = reader.execution(late.execution_id()).unwrap().unwrap();
        if run_queued {
            assert!(reads_as_written(reader.as_ref(), &samples).unwrap());
            assert_eq!(found, late.accepted(N_ALL + 1));
        } else {
            assert_eq!(found.summary.state, StoredState::Running);
            assert_eq!(found.summary.started_at, None, "it did not start");
            assert_eq!(reader.counts().unwrap().queued, 0);
        }
        let outcomes = store
            .commit(&[Sample::new(902).accept(), late.settle(3)])
            .unwrap();
        let done = |number| Outcome::Done { number };
        assert_eq!(outcomes, [done(N_ALL + 2), done(N_ALL + 1)]);
        drop(store);
        assert_eq!(examine_in(&target).1, []);
    }
}

#[test]
fn a_backup_of_the_first_schema_is_restored_as_the_newest() {
    let directory = Scratch::new();
    // The first program knew no namespaces.
    let (settled, queued) = (Sample::new(2), Sample::new(3));
    assert_eq!(settled.accept.namespace, Namespace::default());
    let mut store = open(directory.path());
    store
        .commit(&[settled.accept(), settled.settle(1), queued.accept()])
        .unwrap();
    drop(store);
    let file = directory.path().join("backup");
    executions_of(&directory.path().join("store.db"), &file, 1);
    let target = Scratch::new();
    let restored = restore(&file, target.path(), RestoreOptions::default(), &mut |_| {}).unwrap();
    assert_eq!((restored.is_kept, restored.n_withheld), (true, 1));
    let store = open(target.path());
    let reader = store.reader().unwrap();
    let mut expected = settled.settled(settled.accepted(1), 1);
    // The first program kept none.
    expected.summary.outline = None;
    assert_eq!(reader.execution(settled.execution_id()).unwrap(), Some(expected));
}

#[test]
fn a_damaged_copy_gets_no_name_unless_the_damage_is_accepted() {
    let (directory, samples) = furnished();
    tamper(
        &directory,
        "UPDATE accepted_record SET record = x'00' WHERE number = 101",
    );
    let file = directory.path().join("backup");
    let mut found = Vec::new();
    let backed_up = back_up(directory.path(), &file, false, &mut |it| found.push(it.clone())).unwrap();
    assert!(!backed_up.is_kept && !file.exists());
    assert!(matches!(found[..], [Finding::Execution { number: 101, .. }]));
    let left = std::fs::read_dir(directory.path()).unwrap();
    let is_partial = |name: &std::ffi::OsStr| name.to_string_lossy().contains("partial");
    assert!(
        !left
            .into_iter()
            .any(|entry| is_partial(&entry.unwrap().file_name()))
    );
    assert!(
        back_up(directory.path(), &file, true, &mut |_| {})
            .unwrap()
            .is_kept
    );

    let target = Scratch::new();
    let options = RestoreOptions::default();
    let restored = restore(&file, target.path(), options, &mut |_| {}).unwrap();
    assert!(!restored.is_kept && !target.path().join("store.db").exists());
    let options = RestoreOptions {
        accept_damage: true,
        ..options
    };
    assert!(
        restore(&file, target.path(), options, &mut |_| {})
            .unwrap()
            .is_kept
    );
    let store = open(target.path());
    let reader = store.reader().unwrap();
    assert!(reader.execution(samples[100].execution_id()).is_err());
    assert!(reader.execution(samples[101].execution_id()).unwrap().is_some());
}
