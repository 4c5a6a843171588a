//! What belongs to which namespace in the embedded store of runs: kept, migrated, and covered by checksums.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod scratch;

use std::path::Path;

use bytes::Bytes;
use escapement_model::Namespace;
use escapement_store::EmbeddedOptions;
use escapement_store::runs::conformance::RunSample;
use escapement_store::runs::{
    BatchOutcome, DefinitionChange, DefinitionKind, DefinitionOutcome, DefinitionPut, DefinitionWrite,
    EmbeddedRuns, ExpectedVersion, RunBatch, RunFilter, RunFinding, RunStore, RunWrite,
};
use rusqlite::Connection;

use crate::scratch::Scratch;

fn open(directory: &Path) -> EmbeddedRuns {
    EmbeddedRuns::open(directory, &EmbeddedOptions::default()).unwrap()
}

fn commit(store: &mut EmbeddedRuns, writes: impl IntoIterator<Item = RunWrite>) {
    let mut batch = RunBatch::new();
    for write in writes {
        batch.add(write);
    }
    assert_eq!(store.commit(&batch).unwrap(), BatchOutcome::Done);
}

fn plan() -> DefinitionWrite {
    DefinitionWrite {
        kind: DefinitionKind::SavedPlan,
        name: "plan".to_owned(),
        expected: ExpectedVersion::New,
        change: DefinitionChange::Put(DefinitionPut {
            namespace: Namespace::default(),
            owner: Some("owner".to_owned()),
            priority: 0,
            at: 1,
            record: Bytes::from_static(b"a plan"),
            contents: Vec::new(),
            pinned: Vec::new(),
        }),
    }
}

fn tamper(directory: &Scratch, sql: &str) {
    let connection = Connection::open(directory.path().join("runs.db")).unwrap();
    assert!(connection.execute(sql, []).unwrap() > 0, "{sql}");
}

fn findings(directory: &Path) -> Vec<RunFinding> {
    let mut findings = Vec::new();
    let mut examiner = escapement_store::runs::RunExaminer::open(directory).unwrap();
    examiner
        .examine_all(&mut |finding| findings.push(finding.clone()))
        .unwrap();
    findings
}

/// What each version added, and what takes it away again.
const STEPS: [(&str, &str); 3] = [
    (include_str!("../src/runs/embedded/0001_runs.sql"), ""),
    (
        include_str!("../src/runs/embedded/0002_namespaces.sql"),
        "DROP INDEX run_by_namespace; DROP INDEX input_request_by_namespace; DROP INDEX definition_by_namespace; \
         ALTER TABLE run DROP COLUMN namespace; ALTER TABLE input_request DROP COLUMN namespace; \
         ALTER TABLE definition DROP COLUMN namespace",
    ),
    (
        include_str!("../src/runs/embedded/0003_lists.sql"),
        "DROP INDEX run_by_namespace_and_owner; DROP INDEX run_by_namespace_and_state; DROP INDEX run_live_by_owner; \
         DROP INDEX input_request_by_namespace_and_owner; DROP INDEX definition_by_namespace_and_owner; \
         DROP INDEX run_by_namespace; DROP INDEX input_request_by_namespace; DROP INDEX definition_by_namespace; \
         CREATE INDEX run_by_namespace ON run (namespace, priority, created_at, number) WHERE namespace IS NOT NULL; \
         CREATE INDEX input_request_by_namespace ON input_request (namespace, place) \
             WHERE namespace IS NOT NULL AND closed_at IS NULL; \
         CREATE INDEX definition_by_namespace ON definition (kind, namespace, priority, created_at, number) \
             WHERE namespace IS NOT NULL",
    ),
];

/// Tables and indexes, and what they are made with, but for how that is laid out.
fn schema(connection: &Connection) -> Vec<String> {
    let mut select = connection
        .prepare("SELECT name || ' ' || coalesce(sql, '') FROM sqlite_schema ORDER BY name")
        .unwrap();
    let made = select.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let words = |made: String| made.split_whitespace().collect::<Vec<_>>().join(" ");
    made.map(|made| words(made.unwrap())).collect()
}

/// Takes a closed store back to an earlier version, to the letter.
fn take_back(directory: &Path, version: usize) {
    let connection = Connection::open(directory.join("runs.db")).unwrap();
    for (_, away) in STEPS[version..].iter().rev() {
        connection.execute_batch(away).unwrap();
    }
    connection
        .pragma_update(None, "user_version", i64::try_from(version).unwrap())
        .unwrap();
    let first = Connection::open_in_memory().unwrap();
    for (made, _) in &STEPS[..version] {
        first.execute_batch(made).unwrap();
    }
    assert_eq!(schema(&connection), schema(&first), "version {version}");
}

#[test]
fn what_was_kept_by_an_earlier_version_is_listed_as_it_was() {
    let newest = Scratch::new();
    drop(open(newest.path()));
    let newest = schema(&Connection::open(newest.path().join("runs.db")).unwrap());
    for version in 1..=STEPS.len() {
        let directory = Scratch::new();
        let samples = [2, 4, 5, 7].map(RunSample::new);
        {
            let mut store = open(directory.path());
            for sample in &samples {
                assert_eq!(sample.created.namespace, Namespace::default());
                let mut write = sample.create();
                write.opened = vec![sample.input_request(1)];
                commit(&mut store, [write]);
            }
            assert_eq!(
                store.define(&plan()).unwrap(),
                DefinitionOutcome::Done { version: 1 }
            );
        }
        take_back(directory.path(), version);

        let mut store = open(directory.path());
        let now = schema(&Connection::open(directory.path().join("runs.db")).unwrap());
        assert_eq!(now, newest, "version {version}");
        let mut billing = RunSample::new(1).create();
        billing.opened = vec![RunSample::new(1).input_request(1)];
        commit(&mut store, [billing]);
        assert_eq!(findings(directory.path()), [], "version {version}");
        let reader = store.reader().unwrap();
        let listed = |name: &str, owner: Option<&str>| {
            let namespaces = Some(vec![Namespace::parse(name).unwrap()]);
            let filter = RunFilter {
                namespaces: namespaces.clone(),
                owner: owner.map(str::to_owned),
                ..RunFilter::default()
            };
            let open = reader.open_input_requests(owner, namespaces.as_deref(), None, 100);
            let kind = DefinitionKind::SavedPlan;
            let plans = reader.definitions(kind, owner, namespaces.as_deref(), None, 100);
            let runs = reader.list(&filter, None, 100).unwrap().runs.len();
            (
                runs,
                open.unwrap().requests.len(),
                plans.unwrap().definitions.len(),
            )
        };
        assert_eq!(listed("default", None), (4, 4, 1), "version {version}");
        assert_eq!(listed("billing", None), (1, 1, 0), "version {version}");
        assert_eq!(listed("agents", None), (0, 0, 0), "version {version}");
        assert_eq!(listed("default", Some("owner 1")), (2, 2, 0), "version {version}");
        assert_eq!(listed("default", Some("owner")), (0, 0, 1), "version {version}");
    }
}

#[test]
fn a_namespace_that_changed_by_itself_is_damage() {
    for table in ["run", "input_request"] {
        for namespace in ["'other'", "NULL", "'default'", "'Not a name'"] {
            let directory = Scratch::new();
            let mut write = RunSample::new(1).create();
            write.opened = vec![RunSample::new(1).input_request(1)];
            commit(&mut open(directory.path()), [write]);
            tamper(
                &directory,
                &format!("UPDATE {table} SET namespace = {namespace} WHERE number = 1"),
            );
            let found = findings(directory.path());
            let is_found = |found: &RunFinding| matches!(found, RunFinding::Run { number: 1, .. });
            assert!(found.iter().any(is_found), "{table} {namespace}: {found:?}");
        }
    }
    let directory = Scratch::new();
    let defined = open(directory.path()).define(&plan()).unwrap();
    assert_eq!(defined, DefinitionOutcome::Done { version: 1 });
    tamper(
        &directory,
        "UPDATE definition SET namespace = 'other' WHERE name = '1:plan'",
    );
    let found = findings(directory.path());
    assert!(
        found
            .iter()
            .any(|found| matches!(found, RunFinding::Definition { .. })),
        "{found:?}"
    );
}
