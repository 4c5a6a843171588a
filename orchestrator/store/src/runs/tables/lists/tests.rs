use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use escapement_model::{Namespace, RunId};
use rusqlite::Connection;

use crate::database::schema::MIGRATIONS;
use crate::runs::limits::ROWS_LOOKED_AT_MAX;
use crate::runs::tables::reader::EmbeddedRunReader;
use crate::runs::tables::tally::RunTally;
use crate::runs::tables::writer;
use crate::runs::{
    BatchOutcome, DefinitionChange, DefinitionKind, DefinitionPut, DefinitionWrite, ExpectedVersion,
    ListCount, Listing, NewInputRequest, NewRun, RunBatch, RunFilter, RunOrder, RunProgress, RunReader,
    RunWrite, Scope,
};
use crate::tally_part::Part as _;

const N_OTHERS: u64 = 30_000;
/// What one page of one row may take: nothing that grows with what others have.
const STEPS_MAX: u64 = 1_000;

/// What the runs, requests and definitions of others are like.
#[derive(Clone, Copy)]
struct Others {
    namespace: Option<&'static str>,
    owner: &'static str,
    state: u8,
}

struct Table {
    reader: EmbeddedRunReader,
    n_steps: Arc<AtomicU64>,
}

impl Table {
    /// One run, request and definition of `billing` and "ada" in the state 3, older than very many others.
    fn beside(others: Others) -> Self {
        let mut connection = Connection::open_in_memory().expect("memory is there");
        for schema in MIGRATIONS {
            connection.execute_batch(schema).expect("the schema is right");
        }
        let mut tally = RunTally::load(&connection).expect("the tally is there");
        let outcome = writer::apply(&connection, &mut tally, &wanted());
        assert_eq!(outcome.expect("memory takes writes"), BatchOutcome::Done);
        let Others {
            namespace,
            owner,
            state,
        } = others;
        let namespace = namespace.map_or("NULL".to_owned(), |name| format!("'{name}'"));
        let numbers = format!(
            "WITH RECURSIVE others (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM others WHERE n <= {N_OTHERS}) INSERT INTO"
        );
        let sql = format!(
            "BEGIN; {numbers} run (number, run_id, owner, priority, created_at, state, updated_at, first_seq, next_seq, \
             snapshot_seq, link, checksum, namespace) SELECT n, CAST(printf('%016d', n) AS BLOB), '{owner}', 0, n, {state}, \
             n, 1, 2, 0, x'', 0, {namespace} FROM others; \
             {numbers} input_request (place, input_request_id, number, run_id, kind, state, owner, opened_at, record, \
             checksum, namespace) SELECT n, CAST(printf('%016d', n) AS BLOB), n, x'', 0, 0, '{owner}', n, x'', 0, {namespace} \
             FROM others; \
             {numbers} definition (number, kind, name, owner, priority, created_at, updated_at, version, record, checksum, \
             namespace) SELECT n, 1, '1:' || n, '{owner}', 0, n, n, 1, x'', 0, {namespace} FROM others; COMMIT"
        );
        connection.execute_batch(&sql).expect("the rows fit the schema");
        let n_steps = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&n_steps);
        let count = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            false
        };
        connection
            .progress_handler(1, Some(count))
            .expect("steps can be counted");
        let reader = EmbeddedRunReader::new(connection);
        Self { reader, n_steps }
    }

    /// How many steps SQLite takes for that.
    fn steps<T>(&self, read: impl FnOnce(&dyn RunReader) -> T) -> (T, u64) {
        self.n_steps.store(0, Ordering::Relaxed);
        let read = read(&self.reader);
        (read, self.n_steps.load(Ordering::Relaxed))
    }

    fn finds_one(&self, filter: &RunFilter) {
        for order in [RunOrder::NewestFirst, RunOrder::OldestFirst] {
            let filter = RunFilter {
                order,
                ..filter.clone()
            };
            let (page, n_steps) = self.steps(|reader| reader.list(&filter, None, 20).expect("reads"));
            assert_eq!((page.runs.len(), page.next), (1, None), "{filter:?}");
            assert!(n_steps < STEPS_MAX, "{n_steps} steps for {filter:?}");
        }
        if !filter.states.is_empty() {
            return;
        }
        let scopes = filter.scopes.as_deref();
        let (page, n_steps) = self.steps(|reader| {
            let page = reader.open_input_requests(scopes, None, 20);
            page.expect("reads")
        });
        assert_eq!((page.requests.len(), page.next), (1, None), "{filter:?}");
        assert!(n_steps < STEPS_MAX, "{n_steps} steps for requests of {filter:?}");
        let (page, n_steps) = self.steps(|reader| {
            let page = reader.definitions(DefinitionKind::SavedPlan, scopes, None, 20);
            page.expect("reads")
        });
        assert_eq!((page.definitions.len(), page.next()), (1, None), "{filter:?}");
        assert!(
            n_steps < STEPS_MAX,
            "{n_steps} steps for definitions of {filter:?}"
        );
    }
}

fn wanted() -> RunBatch {
    let namespace = Namespace::parse("billing").expect("a name of a namespace");
    let owner = Some("ada".to_owned());
    let progress = RunProgress {
        state: 3,
        updated_at: 1,
        due_at: None,
        ended_at: None,
    };
    let mut write = RunWrite::new(RunId::from_random([1; 16]), 1, progress);
    write.created = Some(NewRun {
        namespace: namespace.clone(),
        owner: owner.clone(),
        ..NewRun::default()
    });
    write.entries = vec![Bytes::from_static(b"first")];
    write.opened = vec![NewInputRequest {
        namespace: namespace.clone(),
        id: escapement_model::InputRequestId::from_random([2; 16]),
        kind: 0,
        state: 0,
        owner: owner.clone(),
        opened_at: 1,
        due_at: None,
        record: Bytes::from_static(b"asks"),
    }];
    let mut batch = RunBatch::new();
    batch.add(write);
    batch.define(DefinitionWrite {
        kind: DefinitionKind::SavedPlan,
        name: "wanted".to_owned(),
        expected: ExpectedVersion::Any,
        change: DefinitionChange::Put(DefinitionPut {
            namespace,
            owner,
            priority: 0,
            at: 1,
            record: Bytes::from_static(b"plan"),
            contents: Vec::new(),
            pinned: Vec::new(),
        }),
    });
    batch
}

fn filter(namespaces: Option<&[&str]>, owner: Option<&str>, states: &[u8]) -> RunFilter {
    let named = |names: &[&str]| -> Vec<Namespace> {
        names.iter().filter_map(|name| Namespace::parse(name)).collect()
    };
    RunFilter {
        scopes: Scope::each(owner, namespaces.map(named).as_deref()),
        states: states.to_vec(),
        is_live: !states.is_empty(),
        ..RunFilter::default()
    }
}

#[test]
fn one_of_a_namespace_beside_very_many_of_another_costs_little() {
    for namespace in [None, Some("agents")] {
        let table = Table::beside(Others {
            namespace,
            owner: "ada",
            state: 3,
        });
        for names in [&["billing"][..], &["billing", "other"]] {
            for (owner, states) in [
                (None, &[][..]),
                (Some("ada"), &[]),
                (None, &[3]),
                (None, &[1, 2, 3]),
            ] {
                table.finds_one(&filter(Some(names), owner, states));
            }
        }
    }
}

#[test]
fn one_of_a_user_or_state_beside_very_many_others_costs_little() {
    let table = Table::beside(Others {
        namespace: Some("billing"),
        owner: "bob",
        state: 9,
    });
    for names in [None, Some(&["billing"][..])] {
        for (owner, states) in [(Some("ada"), &[][..]), (None, &[3]), (Some("ada"), &[1, 2, 3])] {
            table.finds_one(&filter(names, owner, states));
        }
    }
}

#[test]
fn what_a_user_has_under_way_beside_very_much_that_ended_costs_little() {
    let table = Table::beside(Others {
        namespace: Some("billing"),
        owner: "ada",
        state: 9,
    });
    for names in [None, Some(&["billing"][..])] {
        let live = filter(names, Some("ada"), &[1, 2, 3]);
        for order in [RunOrder::NewestFirst, RunOrder::OldestFirst] {
            let live = RunFilter {
                order,
                ..live.clone()
            };
            let (page, n_steps) = table.steps(|reader| reader.list(&live, None, 20).expect("reads"));
            assert_eq!((page.runs.len(), page.next), (1, None));
            assert!(n_steps < STEPS_MAX, "{n_steps} steps");
        }
    }
}

#[test]
fn a_count_looks_at_a_bounded_number_of_rows() {
    let table = Table::beside(Others {
        namespace: Some("billing"),
        owner: "bob",
        state: 9,
    });
    let kind = DefinitionKind::SavedPlan;
    for names in [None, Some(&["billing"][..]), Some(&["billing", "other"])] {
        for (owner, n, is_at_least) in [(Some("ada"), 1, false), (None, ROWS_LOOKED_AT_MAX as u64, true)] {
            let filter = filter(names, owner, &[]);
            let scopes = filter.scopes.as_deref();
            for listing in [
                Listing::Runs(&filter),
                Listing::Definitions { kind, scopes },
                Listing::OpenInputRequests {
                    scopes,
                    kind: None,
                    run_id: None,
                },
            ] {
                let (count, n_steps) = table.steps(|reader| reader.count(listing).expect("reads"));
                assert_eq!(count, ListCount { n, is_at_least }, "{listing:?}");
                assert!(n_steps < STEPS_MAX + 20 * n, "{n_steps} steps for {listing:?}");
            }
        }
    }
    // No index has both, so that the rows of the one are looked at.
    let of_bob = RunFilter {
        is_live: false,
        ..filter(None, Some("bob"), &[3])
    };
    let (count, n_steps) = table.steps(|reader| reader.count(Listing::Runs(&of_bob)).expect("reads"));
    let nothing_yet = ListCount {
        n: 0,
        is_at_least: true,
    };
    assert_eq!(count, nothing_yet);
    assert!(n_steps < 20 * ROWS_LOOKED_AT_MAX as u64, "{n_steps} steps");
}

#[test]
fn a_page_without_an_index_of_its_own_looks_at_a_bounded_number_of_rows() {
    let table = Table::beside(Others {
        namespace: None,
        owner: "ada",
        state: 9,
    });
    let of_user = RunFilter {
        is_live: false,
        ..filter(None, Some("ada"), &[3])
    };
    let (mut n_found, mut n_pages, mut behind) = (0, 0, None);
    loop {
        let (page, n_steps) = table.steps(|reader| reader.list(&of_user, behind, 20).expect("reads"));
        assert!(n_steps < 20 * ROWS_LOOKED_AT_MAX as u64, "{n_steps} steps");
        n_found += page.runs.len();
        n_pages += 1;
        behind = page.next;
        if behind.is_none() {
            break;
        }
    }
    assert_eq!(
        (n_found, n_pages),
        (1, 1 + N_OTHERS.div_ceil(ROWS_LOOKED_AT_MAX as u64))
    );
}
