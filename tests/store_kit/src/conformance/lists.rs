//! Stories about lists, pages and counts. Restarts nothing.

use super::{Make, ReopenableStore, Sample, commit, reader};
use escapement_model::Namespace;

use escapement_store::{Counts, ListFilter, Reader, StoredState, StoredSummary};

/// Executions in all states, with all kinds of labels; what must be listed, oldest first.
fn furnish(subject: &mut dyn ReopenableStore) -> Vec<StoredSummary> {
    let mut expected = Vec::new();
    let mut first = None;
    for (number, seed) in (1..=30u64).zip(100..) {
        let mut sample = Sample::new(seed);
        if number % 7 == 0 {
            sample.accept.parent_execution_id = first;
        }
        if number % 5 == 0 {
            sample.accept.tags = vec!["ünï 🏷️".to_owned()];
        }
        if number % 11 == 0 {
            // Holds the bytes of the tag "all" and still is another one.
            sample.accept.tags = vec!["x\u{3}\0\0\0all".to_owned()];
        }
        first = first.or(Some(sample.execution_id()));
        let status = u8::try_from(number % 3 + 1).expect("at most 3");
        let stored = match number % 4 {
            0 => {
                commit(subject, &[sample.accept()]);
                sample.accepted(number)
            }
            1 => {
                commit(subject, &[sample.accept(), sample.start()]);
                sample.started(number)
            }
            _ => {
                commit(subject, &[sample.accept(), sample.start(), sample.settle(status)]);
                sample.settled(sample.started(number), status)
            }
        };
        expected.push(stored.summary);
    }
    expected
}

/// Returns all pages of a list.
fn pages(reader: &dyn Reader, filter: &ListFilter, limit: usize) -> Vec<StoredSummary> {
    let mut all: Vec<StoredSummary> = Vec::new();
    loop {
        let before = all.last().map(|summary| summary.number);
        let page = reader.list(filter, before, limit).expect("a healthy store lists");
        assert!(
            page.len() <= limit,
            "a page of {} where {limit} were asked for",
            page.len()
        );
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

pub(super) fn a_list_is_newest_first_and_pages_without_gaps(make: Make<'_>) {
    let mut subject = make();
    let mut expected = furnish(&mut *subject);
    expected.reverse();
    let reader = reader(&mut *subject);
    for limit in [1, 7, 30, 1000] {
        assert_eq!(
            pages(&*reader, &ListFilter::default(), limit),
            expected,
            "with pages of {limit}"
        );
    }
    let none = reader.list(&ListFilter::default(), None, 0).expect("reads");
    assert_eq!(none, [], "a page of none");
    let none = reader.list(&ListFilter::default(), Some(1), 10).expect("reads");
    assert_eq!(none, [], "`before` is exclusive");
    let all = reader
        .list(&ListFilter::default(), Some(u64::MAX), 1000)
        .expect("reads");
    assert_eq!(all, expected);
}

/// A filter, and what it must let through.
type Case = (ListFilter, Box<dyn Fn(&StoredSummary) -> bool>);

fn case(filter: ListFilter, proof: impl Fn(&StoredSummary) -> bool + 'static) -> Case {
    (filter, Box::new(proof))
}

/// Returns each filter alone, with values that occur and values that do not.
#[expect(clippy::too_many_lines, reason = "a table")]
fn single_filters(all: &[StoredSummary]) -> Vec<Case> {
    let (time, parent) = (all[12].accepted_at, all[0].execution_id);
    let any = ListFilter::default;
    let mut cases = vec![
        case(
            ListFilter {
                plan_name: Some("plan 1".into()),
                ..any()
            },
            |s| s.plan_name == "plan 1",
        ),
        case(
            ListFilter {
                plan_name: Some("plan".into()),
                ..any()
            },
            |_| false,
        ),
        case(
            ListFilter {
                user_id: Some("user 2".into()),
                ..any()
            },
            |s| s.user_id.as_deref() == Some("user 2"),
        ),
        case(
            ListFilter {
                accepted_after: Some(time),
                ..any()
            },
            move |s| s.accepted_at >= time,
        ),
        case(
            ListFilter {
                accepted_before: Some(time),
                ..any()
            },
            move |s| s.accepted_at < time,
        ),
        case(
            ListFilter {
                parent_execution_id: Some(parent),
                ..any()
            },
            move |s| s.parent_execution_id == Some(parent),
        ),
    ];
    for state in [StoredState::Queued, StoredState::Running, StoredState::Settled] {
        cases.push(case(
            ListFilter {
                state: Some(state),
                ..any()
            },
            move |s| s.state == state,
        ));
    }
    for names in [
        &["billing"][..],
        &["default"],
        &["billing", "default"],
        &["agents", "absent"],
        &["absent"],
        &[],
    ] {
        let namespaces: Vec<Namespace> = names.iter().filter_map(|name| Namespace::parse(name)).collect();
        let filter = ListFilter {
            namespaces: Some(namespaces.clone()),
            ..any()
        };
        cases.push(case(filter, move |s| namespaces.contains(&s.namespace)));
    }
    for status in 0..=4 {
        cases.push(case(
            ListFilter {
                status: Some(status),
                ..any()
            },
            move |s| s.status == status,
        ));
    }
    for tag in ["all", "tag 2", "ünï 🏷️", "ünï", "al", ""] {
        let filter = ListFilter {
            tag: Some(tag.to_owned()),
            ..any()
        };
        cases.push(case(filter, move |s| {
            s.tags.iter().any(|candidate| candidate == tag)
        }));
    }
    cases
}

/// Filters together.
fn joined_filters(all: &[StoredSummary]) -> Vec<Case> {
    let (time, parent) = (all[12].accepted_at, all[0].execution_id);
    let nested = ListFilter {
        parent_execution_id: Some(parent),
        state: Some(StoredState::Queued),
        ..ListFilter::default()
    };
    let ended = ListFilter {
        state: Some(StoredState::Settled),
        tag: Some("all".into()),
        status: Some(1),
        ..ListFilter::default()
    };
    let asked = ListFilter {
        user_id: Some("user 0".into()),
        plan_name: Some("plan 2".into()),
        accepted_after: Some(time - 5),
        accepted_before: Some(time + 12),
        ..ListFilter::default()
    };
    vec![
        case(nested, move |s| {
            s.parent_execution_id == Some(parent) && s.state == StoredState::Queued
        }),
        case(ended, |s| s.status == 1 && s.tags.iter().any(|tag| tag == "all")),
        case(asked, move |s| {
            s.user_id.as_deref() == Some("user 0")
                && s.plan_name == "plan 2"
                && (time - 5..time + 12).contains(&s.accepted_at)
        }),
    ]
}

pub(super) fn every_filter_shows_exactly_what_it_says(make: Make<'_>) {
    let mut subject = make();
    let all = furnish(&mut *subject);
    let reader = reader(&mut *subject);
    let mut n_matches = 0;
    for (filter, proof) in single_filters(&all).into_iter().chain(joined_filters(&all)) {
        let expected: Vec<StoredSummary> = all.iter().rev().filter(|s| proof(s)).cloned().collect();
        n_matches += expected.len();
        for limit in [2, 1000] {
            assert_eq!(
                pages(&*reader, &filter, limit),
                expected,
                "{filter:?} with pages of {limit}"
            );
        }
    }
    assert!(
        n_matches > all.len(),
        "the cases match too little to prove anything"
    );
}

pub(super) fn unsettled_executions_page_oldest_first(make: Make<'_>) {
    let mut subject = make();
    let all = furnish(&mut *subject);
    let reader = reader(&mut *subject);
    let expected: Vec<&StoredSummary> = all.iter().filter(|s| s.state != StoredState::Settled).collect();
    for limit in [1, 4, 1000] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = reader.unsettled(after, limit).expect("a healthy store reads");
            assert!(
                page.len() <= limit,
                "a page of {} where {limit} were asked for",
                page.len()
            );
            let Some(last) = page.last() else { break };
            let summaries = reader
                .unsettled_summaries(after, limit)
                .expect("a healthy store reads");
            assert!(
                summaries
                    .iter()
                    .eq(page.iter().map(|execution| &execution.summary)),
                "the same without records"
            );
            after = Some(last.summary.number);
            found.extend(page);
        }
        assert_eq!(
            found
                .iter()
                .map(|execution| &execution.summary)
                .collect::<Vec<_>>(),
            expected
        );
        for execution in found {
            let id = execution.summary.execution_id;
            assert_eq!(
                reader.execution(id).expect("reads"),
                Some(execution),
                "records differ"
            );
        }
    }
}

pub(super) fn counts_follow_every_write(make: Make<'_>) {
    let mut subject = make();
    let (queued, running) = (Sample::new(200), Sample::new(201).running());
    let counts_are = |subject: &mut dyn ReopenableStore, queued, running, settled| {
        let counts = reader(subject).counts().expect("a healthy store counts");
        assert_eq!(
            counts,
            Counts {
                queued,
                running,
                settled,
                removed: 0,
            }
        );
        assert_eq!(counts.accepted(), queued + running + settled);
    };
    counts_are(&mut *subject, 0, 0, 0);
    commit(&mut *subject, &[queued.accept(), running.accept()]);
    counts_are(&mut *subject, 1, 1, 0);
    commit(&mut *subject, &[queued.accept(), running.start()]);
    counts_are(&mut *subject, 1, 1, 0);
    commit(&mut *subject, &[queued.start()]);
    counts_are(&mut *subject, 0, 2, 0);
    commit(&mut *subject, &[queued.settle(1), queued.settle(1)]);
    counts_are(&mut *subject, 0, 1, 1);
    commit(&mut *subject, &[running.settle(3)]);
    counts_are(&mut *subject, 0, 0, 2);
    let unstarted = Sample::new(202);
    commit(&mut *subject, &[unstarted.accept(), unstarted.settle(3)]);
    counts_are(&mut *subject, 0, 0, 3);
    subject.reopen();
    counts_are(&mut *subject, 0, 0, 3);
}
