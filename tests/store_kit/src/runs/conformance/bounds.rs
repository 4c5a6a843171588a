//! Stories about lists that show few of very many rows. Counts pages, not time.

use escapement_model::Namespace;

use super::{Make, RunSample, commit, reader};
use escapement_store::runs::limits::ROWS_LOOKED_AT_MAX;
use escapement_store::runs::{
    DefinitionChange, DefinitionKind, DefinitionPut, DefinitionWrite, ExpectedVersion, ListCount, Listing,
    RunBatch, RunFilter, RunReader, Scope,
};

/// Rows of others, so that a list that looked at all of them would look at more than a page may.
const N_OTHERS: usize = ROWS_LOOKED_AT_MAX + 100;
/// What is looked for is the oldest of all: a list comes to it last.
const WANTED: &str = "one of very many";
/// Pages in which everything is looked at, and the last one.
const PAGES_MAX: usize = 1 + N_OTHERS.div_ceil(ROWS_LOOKED_AT_MAX);

pub(super) fn a_page_looks_at_a_bounded_number_of_rows(make: Make<'_>) {
    let mut subject = make();
    let numbers: Vec<u64> = (0..=N_OTHERS as u64).collect();
    for chunk in numbers.chunks(1024) {
        let writes = chunk.iter().map(|n| {
            let mut sample = RunSample::new(n + 1);
            sample.created.created_at = *n as i64;
            sample.created.priority = 0;
            sample.created.owner = Some(if *n == 0 { WANTED } else { "others" }.to_owned());
            let mut write = sample.create();
            write.opened = vec![sample.input_request(1)];
            write.progress.state = if *n == 0 { 7 } else { 1 };
            write
        });
        commit(&mut *subject, writes);
        let mut batch = RunBatch::new();
        for n in chunk {
            batch.define(definition(*n));
        }
        subject.store().commit(&batch).expect("commits");
    }
    let reader = reader(&mut *subject);
    let everywhere: Vec<Namespace> = ["agents", "billing", "default"]
        .into_iter()
        .filter_map(Namespace::parse)
        .collect();
    let of_one = Some(everywhere[1..2].to_vec());
    // Filters for which there is no index of their own, and others.
    let two = RunFilter {
        scopes: Scope::each(Some("others"), None),
        states: vec![7],
        ..RunFilter::default()
    };
    assert_eq!(found(&*reader, &two), 0);
    let beyond = ListCount {
        n: ROWS_LOOKED_AT_MAX as u64,
        is_at_least: true,
    };
    let kind = DefinitionKind::SavedPlan;
    for listing in [
        Listing::Runs(&RunFilter::default()),
        Listing::Definitions { kind, scopes: None },
        Listing::OpenInputRequests {
            scopes: None,
            kind: None,
            run_id: None,
        },
    ] {
        assert_eq!(reader.count(listing).expect("reads"), beyond, "{listing:?}");
    }
    for namespaces in [None, of_one, Some(everywhere)] {
        let owner = Some(WANTED.to_owned());
        let filters = [(owner.clone(), vec![]), (None, vec![7]), (owner.clone(), vec![7])];
        for (owner, states) in filters {
            let filter = RunFilter {
                scopes: Scope::each(owner.as_deref(), namespaces.as_deref()),
                states,
                ..RunFilter::default()
            };
            assert_eq!(found(&*reader, &filter), 1, "{filter:?}");
            let count = reader.count(Listing::Runs(&filter)).expect("reads");
            assert!(count.n == 1 || count.is_at_least, "{count:?} of {filter:?}");
        }
        let (owner, namespaces) = (owner.as_deref(), namespaces.as_deref());
        assert_eq!(requests_found(&*reader, owner, namespaces), 1, "{namespaces:?}");
        assert_eq!(
            definitions_found(&*reader, owner, namespaces),
            1,
            "{namespaces:?}"
        );
    }
}

fn definition(n: u64) -> DefinitionWrite {
    DefinitionWrite {
        kind: DefinitionKind::SavedPlan,
        name: n.to_string(),
        expected: ExpectedVersion::Any,
        change: DefinitionChange::Put(DefinitionPut {
            namespace: RunSample::new(n + 1).created.namespace,
            owner: Some(if n == 0 { WANTED } else { "others" }.to_owned()),
            priority: 0,
            at: n as i64,
            record: "record".into(),
            contents: Vec::new(),
            pinned: Vec::new(),
        }),
    }
}

/// Returns the number of runs that the pages of a list have; each of them may be empty.
fn found(reader: &dyn RunReader, filter: &RunFilter) -> usize {
    let (mut n_found, mut behind) = (0, None);
    for _ in 0..PAGES_MAX {
        let page = reader.list(filter, behind, 20).expect("reads");
        n_found += page.runs.len();
        match page.next {
            None => return n_found,
            next => behind = next,
        }
    }
    panic!("{filter:?}: more pages than rows for them");
}

fn requests_found(reader: &dyn RunReader, owner: Option<&str>, namespaces: Option<&[Namespace]>) -> usize {
    let (mut n_found, mut after) = (0, None);
    for _ in 0..PAGES_MAX {
        let page = reader.open_input_requests(Scope::each(owner, namespaces).as_deref(), after, 20);
        let page = page.expect("reads");
        n_found += page.requests.len();
        match page.next {
            None => return n_found,
            next => after = next,
        }
    }
    panic!("more pages than rows for them");
}

fn definitions_found(reader: &dyn RunReader, owner: Option<&str>, namespaces: Option<&[Namespace]>) -> usize {
    let (mut n_found, mut before) = (0, None);
    for _ in 0..PAGES_MAX {
        let page = reader.definitions(
            DefinitionKind::SavedPlan,
            Scope::each(owner, namespaces).as_deref(),
            before,
            20,
        );
        let page = page.expect("reads");
        n_found += page.definitions.len();
        before = page.next();
        if before.is_none() {
            return n_found;
        }
    }
    panic!("more pages than rows for them");
}
