//! Rows as the store writes them, with every column set, checksums and links included: written once and kept for ever as SQL.
//! Today's store writes the same rows, and finds nothing wrong with those that are kept.

mod tables;

use std::path::{Path, PathBuf};

use bytes::Bytes;
use escapement_model::{BootId, InputRequestId, Namespace, RunId};
use escapement_store::embedded::Examiner;
use escapement_store::runs::{
    BatchOutcome, ClientRequest, ClosedInputRequest, Content, DefinitionChange, DefinitionKind,
    DefinitionPut, DefinitionWrite, ExpectedVersion, NewInputRequest, NewNotice, NewRun, RunBatch,
    RunProgress, RunRemoved, RunStore, RunWrite, Snapshot,
};
use escapement_store::{
    ActionMemory, Embedded, EmbeddedOptions, OperatorDeed, OperatorIntent, OperatorWrite, Outcome, Removal,
    Store, Write,
};
use escapement_store_kit::conformance::Sample;
use escapement_store_kit::earlier::{EXECUTIONS, RUNS};
use escapement_tests::{PrivateDirectory, checkout};
use rusqlite::Connection;
use tables::{NULL, Table, tables_of};

const AT: i64 = 1_800_000_000_000;

#[test]
fn rows_are_written_and_read_as_they_ever_were() {
    let directory = PrivateDirectory::new("rows").unwrap();
    write_executions(directory.path());
    write_runs(directory.path());
    assert_kept("store", &dump(&directory.join("store.db")));
    let kept = filled("store", |path| {
        drop(Embedded::open(path, EmbeddedOptions::default()).unwrap())
    });
    assert_whole(&kept.join("store.db"));
}

#[test]
fn rows_of_two_databases_become_the_rows_of_one() {
    let directory = PrivateDirectory::new("rows").unwrap();
    for earlier in [EXECUTIONS, RUNS] {
        let database = Connection::open(directory.join(format!("{}.db", earlier.name))).unwrap();
        for migration in earlier.migrations {
            database.execute_batch(migration).unwrap();
        }
        let (version, kind) = (earlier.migrations.len(), earlier.application_id);
        let version = i64::try_from(version).unwrap();
        database.pragma_update(None, "user_version", version).unwrap();
        database.pragma_update(None, "application_id", kind).unwrap();
        fill(&database, earlier.name);
    }
    drop(Embedded::open(directory.path(), EmbeddedOptions::default()).unwrap());
    assert_kept("store", &dump(&directory.join("store.db")));
    assert_whole(&directory.join("store.db"));
}

fn assert_whole(database: &Path) {
    let mut examiner = Examiner::open_file(database).unwrap();
    let found = examiner
        .examine_all(&mut |finding| panic!("{finding:?}"))
        .unwrap();
    assert!(found.is_clean());
}

fn write_executions(directory: &Path) {
    let mut store = Embedded::open(directory, EmbeddedOptions::default()).unwrap();
    // Removed, settled without a start, and settled after one with every column.
    let [removed, unstarted, mut full, live] = [1, 2, 3, 4].map(Sample::new);
    full.accept.parent_execution_id = Some(removed.execution_id());
    full.accept.user_id = Some("user".to_owned());
    full.accept.namespace = Namespace::parse("billing").unwrap();
    let memory = |left_ms| ActionMemory {
        name: "action".to_owned(),
        left_ms: Some(left_ms),
    };
    let operator = |deed| {
        Write::Operator(OperatorWrite {
            at: AT,
            boot_id: BootId::new(id(1)),
            deed,
            keep_from: None,
        })
    };
    let intent = OperatorIntent {
        name: "operator".to_owned(),
        kind: "token".to_owned(),
        issuer: "issuer".to_owned(),
        peer: "peer".to_owned(),
        rpc: "SERVICE/METHOD".to_owned(),
        request: "{}".to_owned(),
    };
    let outcome = OperatorDeed::Outcome {
        intent: 1,
        outcome: "{}".to_owned(),
    };
    let not_started = Write::Settle {
        execution_id: unstarted.execution_id(),
        status: 3,
        started_at: None,
        settled_at: unstarted.settled_at(),
        outline: unstarted.outline(),
        result: unstarted.result.clone(),
        audit: unstarted.audit.clone(),
    };
    for batch in [
        vec![removed.accept(), unstarted.accept(), full.accept(), live.accept()],
        vec![
            Write::RememberActions(vec![memory(7)]),
            operator(OperatorDeed::Intent(intent)),
        ],
        vec![removed.start(), full.start(), live.start(), operator(outcome)],
        vec![removed.settle(1), not_started, full.settle(2)],
    ] {
        let outcomes = Store::commit(&mut store, &batch).unwrap();
        assert!(
            outcomes
                .iter()
                .all(|outcome| matches!(outcome, Outcome::Done { .. })),
            "{outcomes:?}"
        );
    }
    let policy = Removal {
        keep_settled_count: Some(2),
        ..Removal::default()
    };
    assert_eq!(store.remove_settled(&policy, AT).unwrap().n_executions, 1);
}

fn write_runs(directory: &Path) {
    let mut store = Embedded::open(directory, EmbeddedOptions::default()).unwrap();
    let [removed, full] = [2, 3].map(|n| RunId::from_bytes(id(n)).unwrap());
    let mut batch = RunBatch::new();
    batch.add(created(removed, Some(AT + 1)));
    assert_eq!(RunStore::commit(&mut store, &batch).unwrap(), BatchOutcome::Done);
    assert_eq!(store.remove_run(removed, AT + 2).unwrap(), RunRemoved::Done);
    let mut batch = RunBatch::new();
    batch.add(RunWrite {
        snapshot: Some(Snapshot {
            seq: 2,
            bytes: Bytes::from_static(b"snapshot"),
        }),
        keep_from: Some(2),
        contents: vec![
            Content::new(Bytes::from_static(b"content")),
            Content::of_revision(Bytes::from_static(b"document"), [9; 32]),
        ],
        opened: vec![opened(4), opened(5)],
        requests: vec![request("answered")],
        notices: vec![NewNotice {
            stream: "u user".to_owned(),
            at: AT,
            record: Bytes::from_static(b"notice"),
            kept_max: 10,
        }],
        ..created(full, None)
    });
    for kind in DefinitionKind::ALL {
        batch.define(definition(kind));
    }
    assert_eq!(RunStore::commit(&mut store, &batch).unwrap(), BatchOutcome::Done);
    let mut batch = RunBatch::new();
    batch.add(RunWrite {
        closed: vec![ClosedInputRequest {
            id: InputRequestId::from_bytes(id(5)).unwrap(),
            state: 2,
            closed_at: AT + 3,
            record: Some(Bytes::from_static(b"answered")),
        }],
        ..RunWrite::new(full, 3, progress(None))
    });
    assert_eq!(RunStore::commit(&mut store, &batch).unwrap(), BatchOutcome::Done);
    let mut batch = RunBatch::new();
    batch.add(RunWrite {
        entries: vec![Bytes::from_static(b"last entry")],
        ..created(RunId::from_bytes(id(6)).unwrap(), Some(AT + 4))
    });
    assert_eq!(RunStore::commit(&mut store, &batch).unwrap(), BatchOutcome::Done);
}

/// Creates the write of a new run with two entries and every column.
fn created(run_id: RunId, ended_at: Option<i64>) -> RunWrite {
    let text = |word: &str| Some(format!("{word} {}", run_id));
    let created = NewRun {
        namespace: Namespace::parse("billing").unwrap(),
        owner: text("owner"),
        priority: 7,
        created_at: AT,
        plan: text("plan"),
        goal: text("goal"),
        trigger: text("trigger"),
        session: text("session"),
        parent: Some(RunId::from_bytes(id(7)).unwrap()),
        request: Some(request(&format!("created {run_id}"))),
    };
    RunWrite {
        created: Some(created),
        entries: vec![Bytes::from_static(b"entry 1"), Bytes::from_static(b"entry 2")],
        ..RunWrite::new(run_id, 1, progress(ended_at))
    }
}

fn progress(ended_at: Option<i64>) -> RunProgress {
    RunProgress {
        state: 3,
        updated_at: AT + 1,
        due_at: Some(AT + 1_000),
        ended_at,
    }
}

fn request(key: &str) -> ClientRequest {
    ClientRequest {
        key: key.to_owned(),
        digest: [8; 32],
    }
}

fn opened(n: u8) -> NewInputRequest {
    NewInputRequest {
        namespace: Namespace::parse("billing").unwrap(),
        id: InputRequestId::from_bytes(id(n)).unwrap(),
        kind: 2,
        state: 1,
        owner: Some("owner".to_owned()),
        opened_at: AT,
        due_at: Some(AT + 2_000),
        record: Bytes::from_static(b"asked"),
    }
}

fn definition(kind: DefinitionKind) -> DefinitionWrite {
    let put = DefinitionPut {
        namespace: Namespace::parse("billing").unwrap(),
        owner: Some("owner".to_owned()),
        priority: 5,
        at: AT,
        record: Bytes::from(format!("{kind:?}")),
        contents: vec![Content::new(Bytes::from_static(b"shared"))],
        pinned: Vec::new(),
    };
    DefinitionWrite {
        kind,
        name: "name".to_owned(),
        expected: ExpectedVersion::Any,
        change: DefinitionChange::Put(put),
    }
}

/// Returns the bytes of an id.
fn id(n: u8) -> [u8; 16] {
    let mut bytes = [n; 16];
    (bytes[6], bytes[8]) = (0x40, 0x80);
    bytes
}

/// Returns all rows of all tables, each as a statement that writes it. No table is empty, and no column is never set.
fn dump(path: &Path) -> String {
    let mut text = String::new();
    for table in tables_of(path) {
        let Table { name, columns, rows } = &table;
        assert!(!rows.is_empty(), "{name} has no row here");
        let is_set = |n: usize| rows.iter().any(|row| row[n] != NULL);
        let unset: Vec<&String> = (0..columns.len())
            .filter(|n| !is_set(*n))
            .map(|n| &columns[n])
            .collect();
        assert!(unset.is_empty(), "of {name} these are never set: {unset:?}");
        text += &table.statements();
    }
    text
}

/// Compares with what is kept; with `ESCAPEMENT_NEW_RECORDS=1` keeps it if nothing is.
fn assert_kept(name: &str, rows: &str) {
    let path = kept(name);
    if std::env::var_os("ESCAPEMENT_NEW_RECORDS").is_some() && !path.exists() {
        std::fs::write(&path, rows).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    for (row, kept) in rows.lines().zip(kept.lines()) {
        assert_eq!(row, kept, "{name}: a row is written differently today");
    }
    assert_eq!(rows, kept, "{name}: there are other rows today");
}

fn kept(name: &str) -> PathBuf {
    checkout::root().join(format!("tests/records/rows/{name}.sql"))
}

/// Makes a store with the rows that are kept and no others.
fn filled(name: &str, make: impl FnOnce(&Path)) -> PrivateDirectory {
    let directory = PrivateDirectory::new("rows").unwrap();
    make(directory.path());
    fill(
        &Connection::open(directory.join(format!("{name}.db"))).unwrap(),
        name,
    );
    directory
}

/// Fills an empty database with the rows that are kept.
fn fill(database: &Connection, name: &str) {
    database.execute_batch("DELETE FROM tally").unwrap();
    database
        .execute_batch(&std::fs::read_to_string(kept(name)).unwrap())
        .unwrap();
}
