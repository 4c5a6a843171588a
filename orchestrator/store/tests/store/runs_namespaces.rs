//! What belongs to which namespace in the embedded store of runs: kept, migrated, and covered by checksums.

use std::path::Path;

use bytes::Bytes;
use escapement_model::Namespace;
use escapement_store::embedded::Finding;
use escapement_store::runs::{
    DefinitionChange, DefinitionKind, DefinitionOutcome, DefinitionPut, DefinitionWrite, ExpectedVersion,
    RunFilter, RunStore, Scope,
};
use escapement_store_kit::earlier::{EXECUTIONS, RUNS};
use escapement_store_kit::runs::conformance::RunSample;
use rusqlite::Connection;

use crate::earlier::take_back;
use crate::opened::{commit, open};
use crate::scratch::Scratch;

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
    let connection = Connection::open(directory.path().join("store.db")).unwrap();
    assert!(connection.execute(sql, []).unwrap() > 0, "{sql}");
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
fn what_was_kept_by_an_earlier_version_is_listed_as_it_was() {
    for version in 1..=RUNS.migrations.len() {
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
        take_back(directory.path(), EXECUTIONS.migrations.len(), version);

        let mut store = open(directory.path());
        let mut billing = RunSample::new(1).create();
        billing.opened = vec![RunSample::new(1).input_request(1)];
        commit(&mut store, [billing]);
        assert_eq!(findings(directory.path()), [], "version {version}");
        let reader = store.reader().unwrap();
        let listed = |name: &str, owner: Option<&str>| {
            let namespaces = Some(vec![Namespace::parse(name).unwrap()]);
            let scopes = Scope::each(owner, namespaces.as_deref());
            let filter = RunFilter {
                scopes: scopes.clone(),
                ..RunFilter::default()
            };
            let open = reader.open_input_requests(scopes.as_deref(), None, 100);
            let kind = DefinitionKind::SavedPlan;
            let plans = reader.definitions(kind, scopes.as_deref(), None, 100);
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
            let is_found = |found: &Finding| matches!(found, Finding::Run { number: 1, .. });
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
            .any(|found| matches!(found, Finding::Definition { .. })),
        "{found:?}"
    );
}
