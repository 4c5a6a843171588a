//! What only the embedded store promises about what operators did: its chain is held against itself, and nothing of it is
//! missing unseen.

use escapement_model::BootId;
use escapement_store::backup::{RestoreOptions, back_up, restore};
use escapement_store::embedded::{Examination, Examiner, Finding};
use escapement_store::{
    Embedded, EmbeddedOptions, OPERATOR_ENTRY_BYTES_MAX, OperatorDeed, OperatorFilter, OperatorIntent,
    OperatorWrite, Store, StoreFault, Write,
};
use rusqlite::Connection;
use std::path::Path;

use crate::opened::open;
use crate::scratch::Scratch;

fn write(at: i64, deed: OperatorDeed) -> Write {
    Write::Operator(OperatorWrite {
        at,
        boot_id: BootId::new([3; 16]),
        deed,
        keep_from: None,
    })
}

fn intent(name: &str) -> OperatorDeed {
    OperatorDeed::Intent(OperatorIntent {
        name: name.to_owned(),
        kind: "token".to_owned(),
        issuer: "i".to_owned(),
        peer: "p".to_owned(),
        rpc: "r".to_owned(),
        request: "{}".to_owned(),
    })
}

/// Seventy acts with their outcomes: more than an examination looks at in one step.
fn furnished() -> Scratch {
    let directory = Scratch::new();
    let mut store = open(directory.path());
    for act in 0..70 {
        let outcome = OperatorDeed::Outcome {
            intent: 2 * act + 1,
            outcome: "{}".to_owned(),
        };
        store
            .commit(&[write(1, intent("anna")), write(2, outcome)])
            .unwrap();
    }
    directory
}

fn tamper(directory: &Scratch, sql: &str) {
    let database = Connection::open(directory.path().join("store.db")).unwrap();
    database.execute_batch(sql).unwrap();
}

fn examine(directory: &Path) -> (Examination, Vec<Finding>) {
    let mut findings = Vec::new();
    let mut examiner = Examiner::open(directory).unwrap();
    let examined = examiner
        .examine_all(&mut |finding| findings.push(finding.clone()))
        .unwrap();
    assert_eq!(examined.is_clean(), findings.is_empty());
    (examined, findings)
}

#[test]
fn a_change_of_any_column_is_found_and_said_to_be_of_its_entry() {
    let directory = furnished();
    let (examined, findings) = examine(directory.path());
    assert_eq!((examined.n_operator_entries, findings), (140, vec![]));
    assert!(examined.operators_head.is_some());
    for (entry, changes) in [
        (
            5,
            &[
                "at = at + 1",
                "boot_id = zeroblob(16)",
                "boot_id = x'00'",
                "name = 'bob'",
                "kind = 'jwt'",
                "issuer = ''",
                "peer = 'q'",
                "rpc = NULL",
                "request = '{ }'",
                "previous_hash = zeroblob(32)",
            ][..],
        ),
        (
            6,
            &[
                "outcome = '{\"x\":1}'",
                "intent = 7000",
                "intent = NULL",
                "intent = -1",
            ],
        ),
        // The first and the last of a step.
        (64, &["outcome = 'x'"]),
        (65, &["name = 'x'"]),
        (140, &["outcome = 'x'"]),
    ] {
        for change in changes {
            let directory = furnished();
            tamper(
                &directory,
                &format!("UPDATE operator_entry SET {change} WHERE number = {entry}"),
            );
            let found = examine(directory.path()).1;
            assert_eq!(found, [Finding::Operators { number: entry }], "{change}");
        }
    }
    // A hash that is changed is not what its entry says, nor what the next one follows.
    tamper(
        &directory,
        "UPDATE operator_entry SET hash = zeroblob(32) WHERE number = 9",
    );
    let found = [9, 10].map(|number| Finding::Operators { number });
    assert_eq!(examine(directory.path()).1, found);
}

#[test]
fn an_entry_that_is_missing_is_found() {
    for (missing, found) in [
        (64, vec![Finding::Operators { number: 65 }]),
        (66, vec![Finding::Operators { number: 67 }]),
        // What is older than the first that is kept was removed.
        (1, vec![]),
    ] {
        let directory = furnished();
        tamper(
            &directory,
            &format!("DELETE FROM operator_entry WHERE number = {missing}"),
        );
        assert_eq!(examine(directory.path()).1, found, "{missing}");
    }
    let directory = furnished();
    tamper(&directory, "DELETE FROM operator_entry WHERE number = 140");
    let found = examine(directory.path()).1;
    assert!(matches!(&found[..], [Finding::Store(said)] if said.contains("entries of operators")));
    let fault = Embedded::open(directory.path(), EmbeddedOptions::default()).unwrap_err();
    assert!(
        matches!(
            fault,
            StoreFault::Gap {
                what: "entries of operators",
                expected: 140,
                found: 139
            }
        ),
        "{fault:?}"
    );
    let options = EmbeddedOptions {
        accept_loss: true,
        ..EmbeddedOptions::default()
    };
    let mut store = Embedded::open(directory.path(), options).unwrap();
    store.commit(&[write(9, intent("anna"))]).unwrap();
    drop(store);
    assert_eq!(examine(directory.path()).1, []);
    drop(open(directory.path()));
}

#[test]
fn a_damaged_entry_is_not_listed_and_hides_no_newer_one() {
    let directory = furnished();
    tamper(
        &directory,
        "UPDATE operator_entry SET name = 'bob' WHERE number = 137",
    );
    let reader = open(directory.path()).reader().unwrap();
    let all = OperatorFilter::default();
    assert_eq!(reader.operator_actions(&all, None, 1).unwrap().len(), 1);
    let fault = reader.operator_actions(&all, None, 2).unwrap_err();
    assert!(
        matches!(fault, StoreFault::Corrupt { number: 137, .. }),
        "{fault:?}"
    );
    assert_eq!(reader.operator_actions(&all, Some(137), 5).unwrap().len(), 5);
}

#[test]
fn a_backup_holds_the_chain_and_a_restored_store_goes_on_with_it() {
    let directory = furnished();
    let head = examine(directory.path()).0.operators_head;
    let file = directory.path().join("backup");
    let backed_up = back_up(directory.path(), &file, false, &mut |_| {}).unwrap();
    assert_eq!(backed_up.examined.operators_head, head);
    let target = Scratch::new();
    let restored = restore(
        &file,
        target.path(),
        RestoreOptions::default(),
        &mut |_| {},
        &mut |_| Ok(0),
    );
    assert!(restored.unwrap().is_kept);
    let mut store = open(target.path());
    store.commit(&[write(9, intent("anna"))]).unwrap();
    let newest = store.reader().unwrap();
    let newest = newest
        .operator_actions(&OperatorFilter::default(), None, 1)
        .unwrap();
    assert_eq!(Some(newest[0].intent.previous_hash), head);
    assert_eq!(newest[0].intent.number, 141);
}

#[test]
#[should_panic(expected = "an entry of")]
fn an_entry_beyond_its_limit_is_a_mistake_of_the_caller() {
    let directory = Scratch::new();
    let deed = intent(&"x".repeat(OPERATOR_ENTRY_BYTES_MAX));
    let _never = open(directory.path()).commit(&[write(1, deed)]);
}
