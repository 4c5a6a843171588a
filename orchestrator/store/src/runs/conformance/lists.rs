//! Stories about lists. Changes nothing that it lists.

use escapement_model::Namespace;

use super::{Make, RunSample, commit, reader};
use crate::runs::{RunFilter, RunKey, RunOrder, RunReader, RunSummary};

/// All pages of a list, of so many runs each.
fn all(reader: &dyn RunReader, filter: &RunFilter, limit: usize) -> Vec<RunSummary> {
    let (mut found, mut behind) = (Vec::new(), None);
    loop {
        let page = reader.list(filter, behind, limit).expect("reads");
        assert!(page.runs.len() <= limit);
        found.extend(page.runs);
        behind = page.next;
        if behind.is_none() {
            return found;
        }
    }
}

/// Runs of the seeds 1 to 60, of which every third has ended.
fn filled(make: Make<'_>) -> (Box<dyn RunReader>, Vec<RunSummary>) {
    let mut subject = make();
    let samples: Vec<RunSample> = (1..=60).map(RunSample::new).collect();
    for chunk in samples.chunks(7) {
        commit(&mut *subject, chunk.iter().map(RunSample::create));
    }
    for (place, sample) in samples.iter().enumerate() {
        let write = match place % 3 {
            0 => sample.end(2),
            1 => sample.append(2, 1 + place as u64 % 4),
            _ => continue,
        };
        commit(&mut *subject, [write]);
    }
    let reader = reader(&mut *subject);
    let runs = samples.iter().map(|sample| reader.summary(sample.run_id()));
    let runs = runs.map(|run| run.expect("reads").expect("is there")).collect();
    (reader, runs)
}

pub(super) fn lists_are_in_order_and_page_without_gaps(make: Make<'_>) {
    let (reader, mut expected) = filled(make);
    expected.sort_by_key(|run| std::cmp::Reverse((run.created.priority, run.created.created_at, run.number)));
    for limit in [1, 7, 60, 100] {
        assert_eq!(all(&*reader, &RunFilter::default(), limit), expected, "{limit}");
    }
    let keys: Vec<RunKey> = expected.iter().map(RunSummary::key).collect();
    assert!(keys.is_sorted_by(|one, next| one > next));
}

pub(super) fn every_filter_shows_exactly_what_it_says(make: Make<'_>) {
    let (reader, mut runs) = filled(make);
    runs.sort_by_key(|run| std::cmp::Reverse(run.key()));
    let text = |text: &str| Some(text.to_owned());
    let parent = runs.iter().find_map(|run| run.created.parent);
    let filters = [
        RunFilter {
            states: vec![9],
            ..RunFilter::default()
        },
        RunFilter {
            owner: text("owner 1"),
            ..RunFilter::default()
        },
        RunFilter {
            plan: text("plan 2"),
            ..RunFilter::default()
        },
        RunFilter {
            goal: text("goal 2"),
            ..RunFilter::default()
        },
        RunFilter {
            trigger: text("nightly"),
            ..RunFilter::default()
        },
        RunFilter {
            session: text("session 3"),
            ..RunFilter::default()
        },
        RunFilter {
            parent,
            ..RunFilter::default()
        },
        RunFilter {
            states: vec![9],
            owner: text("owner 1"),
            plan: text("plan 2"),
            ..RunFilter::default()
        },
        RunFilter {
            states: vec![9, 2, 3],
            owner: text("owner 1"),
            ..RunFilter::default()
        },
        RunFilter {
            states: vec![1, 2, 3],
            owner: text("owner 2"),
            is_live: true,
            ..RunFilter::default()
        },
        RunFilter {
            states: vec![9, 2],
            namespaces: named(&["agents", "billing", "default"]),
            ..RunFilter::default()
        },
        RunFilter {
            owner: text("owner 2"),
            namespaces: named(&["billing", "default"]),
            is_live: true,
            ..RunFilter::default()
        },
        RunFilter {
            states: vec![9],
            plan: text("plan 2"),
            goal: text("goal 2"),
            ..RunFilter::default()
        },
        RunFilter {
            namespaces: named(&["billing"]),
            ..RunFilter::default()
        },
        RunFilter {
            namespaces: named(&["default"]),
            ..RunFilter::default()
        },
        RunFilter {
            namespaces: named(&["agents", "default"]),
            states: vec![9],
            ..RunFilter::default()
        },
        RunFilter {
            namespaces: named(&["agents"]),
            owner: text("owner 1"),
            ..RunFilter::default()
        },
        RunFilter {
            namespaces: named(&[]),
            ..RunFilter::default()
        },
    ];
    for (place, filter) in filters.iter().enumerate() {
        let expected: Vec<RunSummary> = runs.iter().filter(|run| is_shown(filter, run)).cloned().collect();
        assert_eq!(all(&*reader, filter, 4), expected, "{filter:?}");
        assert_eq!(expected.is_empty(), place == filters.len() - 1, "{filter:?}");
    }
}

fn is_shown(filter: &RunFilter, run: &RunSummary) -> bool {
    let created = &run.created;
    let namespaces = filter.namespaces.as_ref();
    namespaces.is_none_or(|these| these.contains(&created.namespace))
        && (filter.states.is_empty() || filter.states.contains(&run.progress.state))
        && (!filter.is_live || run.progress.ended_at.is_none())
        && (filter.owner.is_none() || created.owner == filter.owner)
        && (filter.plan.is_none() || created.plan == filter.plan)
        && (filter.goal.is_none() || created.goal == filter.goal)
        && (filter.trigger.is_none() || created.trigger == filter.trigger)
        && (filter.session.is_none() || created.session == filter.session)
        && (filter.parent.is_none() || created.parent == filter.parent)
}

fn named(names: &[&str]) -> Option<Vec<Namespace>> {
    Some(names.iter().filter_map(|name| Namespace::parse(name)).collect())
}

pub(super) fn a_queue_is_listed_from_its_front(make: Make<'_>) {
    let (reader, mut expected) = filled(make);
    expected.retain(|run| run.progress.state == 1);
    expected.sort_by_key(|run| {
        let RunKey {
            priority,
            created_at,
            number,
        } = run.key();
        (std::cmp::Reverse(priority), created_at, number)
    });
    assert!(expected.len() > 10);
    let queue = RunFilter {
        states: vec![1],
        order: RunOrder::OldestFirst,
        ..RunFilter::default()
    };
    for limit in [1, 3, 100] {
        assert_eq!(all(&*reader, &queue, limit), expected, "{limit}");
    }
}

pub(super) fn live_runs_page_oldest_first(make: Make<'_>) {
    let (reader, runs) = filled(make);
    let mut expected: Vec<RunSummary> = runs;
    expected.retain(|run| run.progress.ended_at.is_none());
    expected.sort_by_key(|run| run.number);
    for limit in [1, 9, 100] {
        let mut found: Vec<RunSummary> = Vec::new();
        loop {
            let page = reader.live(found.last().map(|run| run.number), limit);
            let page = page.expect("reads");
            if page.is_empty() {
                break;
            }
            found.extend(page);
        }
        assert_eq!(found, expected, "{limit}");
    }
}
