//! Stories about lists. Changes nothing that it lists.

use escapement_model::{Namespace, RunId};

use super::{Make, RunSample, commit, reader};
use escapement_store::runs::{ListCount, Listing, RunFilter, RunKey, RunOrder, RunReader, RunSummary, Scope};

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
    let parent = runs.iter().find_map(|run| run.created.parent);
    let filters = [by_link(parent), by_place()].concat();
    for (place, filter) in filters.iter().enumerate() {
        let expected: Vec<RunSummary> = runs.iter().filter(|run| is_shown(filter, run)).cloned().collect();
        assert_eq!(all(&*reader, filter, 4), expected, "{filter:?}");
        let count = reader.count(Listing::Runs(filter)).expect("reads");
        assert_eq!(count, exactly(expected.len()), "{filter:?}");
        assert_eq!(expected.is_empty(), place == filters.len() - 1, "{filter:?}");
    }
}

/// Returns the count of a list of that length.
pub(super) fn exactly(n: usize) -> ListCount {
    ListCount {
        n: n as u64,
        is_at_least: false,
    }
}

fn only(change: impl FnOnce(&mut RunFilter)) -> RunFilter {
    let mut filter = RunFilter::default();
    change(&mut filter);
    filter
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// Filters by what runs belong to.
fn by_link(parent: Option<RunId>) -> Vec<RunFilter> {
    vec![
        only(|filter| filter.plan = text("plan 2")),
        only(|filter| filter.goal = text("goal 2")),
        only(|filter| filter.trigger = text("nightly")),
        only(|filter| filter.session = text("session 3")),
        only(|filter| filter.parent = parent),
        only(|filter| {
            (filter.states, filter.plan) = (vec![9], text("plan 2"));
            filter.scopes = Scope::each(Some("owner 1"), None);
        }),
        only(|filter| {
            (filter.states, filter.plan, filter.goal) = (vec![9], text("plan 2"), text("goal 2"));
        }),
    ]
}

/// Filters by state, owner and namespace; the last one lets nothing through.
fn by_place() -> Vec<RunFilter> {
    vec![
        only(|filter| filter.states = vec![9]),
        only(|filter| filter.scopes = Scope::each(Some("owner 1"), None)),
        only(|filter| {
            (filter.states, filter.scopes) = (vec![9, 2, 3], Scope::each(Some("owner 1"), None));
        }),
        only(|filter| {
            (filter.states, filter.scopes) = (vec![1, 2, 3], Scope::each(Some("owner 2"), None));
            filter.is_live = true;
        }),
        only(|filter| {
            filter.states = vec![9, 2];
            filter.scopes = named(None, &["agents", "billing", "default"]);
        }),
        only(|filter| {
            filter.scopes = named(Some("owner 2"), &["billing", "default"]);
            filter.is_live = true;
        }),
        only(|filter| filter.scopes = named(None, &["billing"])),
        only(|filter| filter.scopes = named(None, &["default"])),
        only(|filter| {
            (filter.states, filter.scopes) = (vec![9], named(None, &["agents", "default"]));
        }),
        only(|filter| filter.scopes = named(Some("owner 1"), &["agents"])),
        // Another owner in each namespace, and all owners in one of them.
        only(|filter| filter.scopes = several(&[("billing", Some("owner 1")), ("default", Some("owner 2"))])),
        only(|filter| {
            filter.scopes = several(&[
                ("billing", Some("owner 1")),
                ("billing", None),
                ("agents", Some("owner 0")),
            ]);
            filter.states = vec![9, 2];
        }),
        only(|filter| {
            filter.scopes = several(&[("default", Some("owner 1")), ("default", Some("owner 2"))]);
            filter.plan = text("plan 2");
        }),
        only(|filter| filter.scopes = named(None, &[])),
    ]
}

fn is_shown(filter: &RunFilter, run: &RunSummary) -> bool {
    let created = &run.created;
    let is_in = |scope: &Scope| {
        scope
            .namespace
            .as_ref()
            .is_none_or(|name| *name == created.namespace)
            && (scope.owner.is_none() || scope.owner == created.owner)
    };
    let scopes = filter.scopes.as_ref();
    scopes.is_none_or(|scopes| scopes.iter().any(is_in))
        && (filter.states.is_empty() || filter.states.contains(&run.progress.state))
        && (!filter.is_live || run.progress.ended_at.is_none())
        && (filter.plan.is_none() || created.plan == filter.plan)
        && (filter.goal.is_none() || created.goal == filter.goal)
        && (filter.trigger.is_none() || created.trigger == filter.trigger)
        && (filter.session.is_none() || created.session == filter.session)
        && (filter.parent.is_none() || created.parent == filter.parent)
}

fn named(owner: Option<&str>, names: &[&str]) -> Option<Vec<Scope>> {
    let pairs: Vec<(&str, Option<&str>)> = names.iter().map(|name| (*name, owner)).collect();
    several(&pairs)
}

fn several(pairs: &[(&str, Option<&str>)]) -> Option<Vec<Scope>> {
    let scope = |(name, owner): &(&str, Option<&str>)| Scope {
        namespace: Namespace::parse(name),
        owner: owner.map(str::to_owned),
    };
    Some(pairs.iter().map(scope).collect())
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
