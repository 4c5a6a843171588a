//! Stories about removal. The clock is what they say it is.

use super::sample::content;
use super::{Make, ReopenableRuns, RunSample, commit, reader, refused};
use escapement_store::runs::limits::RUNS_REMOVED_PER_STEP_MAX;
use escapement_store::runs::{RunConflict, RunCounts, RunRemoval, RunRemoved, RunsRemoved};

const HOUR: u64 = 3_600_000;

fn keep(ended_ms: u64) -> RunRemoval {
    RunRemoval {
        keep_ended_ms: Some(ended_ms),
        ..RunRemoval::default()
    }
}

fn remove(subject: &mut dyn ReopenableRuns, policy: &RunRemoval, now: i64) -> RunsRemoved {
    subject.store().remove_ended(policy, now).expect("removes")
}

/// Creates runs that end at so many milliseconds.
fn ended(subject: &mut dyn ReopenableRuns, runs: &[(u64, i64)]) {
    for (seed, ended_at) in runs {
        let sample = RunSample::new(*seed);
        let mut write = sample.create();
        write.progress.ended_at = Some(*ended_at);
        commit(subject, [write]);
    }
}

fn is_there(subject: &mut dyn ReopenableRuns, seed: u64) -> bool {
    let found = reader(subject).summary(RunSample::new(seed).run_id());
    found.expect("reads").is_some()
}

pub(super) fn live_runs_are_never_removed(make: Make<'_>) {
    let mut subject = make();
    let sample = RunSample::new(1);
    commit(&mut *subject, [sample.create()]);
    ended(&mut *subject, &[(2, 10)]);
    let everything = RunRemoval {
        keep_ended_ms: Some(0),
        keep_ended_count: Some(0),
        keep_ids_ms: Some(0),
        held: None,
    };
    assert_eq!(remove(&mut *subject, &everything, i64::MAX).n_runs, 1);
    assert_eq!(remove(&mut *subject, &everything, i64::MAX).n_runs, 0);
    assert!(is_there(&mut *subject, 1));
    commit(&mut *subject, [sample.append(2, 1)]);
    assert_eq!(
        remove(&mut *subject, &RunRemoval::default(), i64::MAX),
        RunsRemoved::default(),
        "the default keeps everything"
    );
}

pub(super) fn ended_runs_are_removed_by_age(make: Make<'_>) {
    let mut subject = make();
    // Not in the order of creation.
    ended(&mut *subject, &[(1, 5_000), (2, 1_000), (3, 9_000), (4, 1_000)]);
    let now = 2_000 + HOUR as i64;
    let removed = remove(&mut *subject, &keep(HOUR), now);
    assert_eq!(
        removed,
        RunsRemoved {
            n_runs: 2,
            n_ids: 0,
            has_more: false
        }
    );
    let there = [1, 2, 3, 4].map(|seed| is_there(&mut *subject, seed));
    assert_eq!(there, [true, false, true, false]);
    let counts = RunCounts {
        live: 0,
        ended: 2,
        removed: 2,
    };
    assert_eq!(reader(&mut *subject).counts().expect("reads"), counts);

    let sample = RunSample::new(2);
    let left = reader(&mut *subject).removed(sample.run_id()).expect("reads");
    let left = left.expect("it was removed");
    assert_eq!((left.number, left.ended_at, left.removed_at), (2, 1_000, now));
    assert_eq!((left.last_seq, left.created_at), (1, sample.created.created_at));
    assert_eq!(left.request, sample.created.request);
    let alive = reader(&mut *subject).removed(RunSample::new(1).run_id());
    assert_eq!(alive.expect("reads"), None);
    subject.reopen();
    assert_eq!(reader(&mut *subject).counts().expect("reads"), counts);
}

pub(super) fn ended_runs_are_removed_by_number(make: Make<'_>) {
    let mut subject = make();
    ended(&mut *subject, &[(1, 5_000), (2, 1_000), (3, 9_000), (4, 1_000)]);
    let count = |count| RunRemoval {
        keep_ended_count: Some(count),
        ..RunRemoval::default()
    };
    assert_eq!(remove(&mut *subject, &count(4), i64::MAX), RunsRemoved::default());
    assert_eq!(remove(&mut *subject, &count(3), 0).n_runs, 1, "whatever its age");
    let there = [1, 2, 3, 4].map(|seed| is_there(&mut *subject, seed));
    assert_eq!(
        there,
        [true, false, true, true],
        "the first of those that ended first"
    );
    let both = RunRemoval {
        keep_ended_ms: Some(0),
        ..count(2)
    };
    assert_eq!(
        remove(&mut *subject, &both, 5_001).n_runs,
        2,
        "either is a reason"
    );
    assert!(is_there(&mut *subject, 3));
}

pub(super) fn ids_of_removed_runs_stay_used_until_they_are_forgotten(make: Make<'_>) {
    let mut subject = make();
    ended(&mut *subject, &[(1, 10), (2, 10)]);
    let policy = RunRemoval {
        keep_ended_ms: Some(100),
        keep_ids_ms: Some(1000),
        ..RunRemoval::default()
    };
    assert_eq!(remove(&mut *subject, &policy, 200).n_runs, 2);
    subject.reopen();
    let sample = RunSample::new(1);
    assert_eq!(refused(&mut *subject, [sample.create()]), RunConflict::RunIdUsed);
    assert_eq!(remove(&mut *subject, &policy, 1200).n_ids, 0);
    assert_eq!(remove(&mut *subject, &policy, 1201).n_ids, 2);
    commit(&mut *subject, [sample.create()]);
    let counts = reader(&mut *subject).counts().expect("reads");
    assert_eq!((counts.live, counts.removed), (1, 2), "they stay counted");
    subject.reopen();
    let run = reader(&mut *subject).summary(sample.run_id()).expect("reads");
    assert_eq!(run.expect("is there").number, 3);
}

pub(super) fn what_others_refer_to_stays(make: Make<'_>) {
    let mut subject = make();
    let (goes, stays) = (RunSample::new(1), RunSample::new(2));
    let (shared, own) = (content(1), content(2));
    let mut first = goes.create();
    first.contents = vec![shared.clone(), own.clone()];
    first.opened = vec![goes.input_request(1)];
    let mut second = stays.create();
    second.contents = vec![shared.clone()];
    second.opened = vec![stays.input_request(1)];
    commit(&mut *subject, [first, second]);
    commit(&mut *subject, [goes.end(2)]);
    assert_eq!(remove(&mut *subject, &keep(0), i64::MAX).n_runs, 1);

    let reader = reader(&mut *subject);
    assert_eq!(reader.content(&own.digest()).expect("reads"), None);
    let found = reader.content(&shared.digest()).expect("reads");
    assert_eq!(found.as_ref(), Some(shared.bytes()));
    assert_eq!(
        reader.input_request(goes.input_request(1).id).expect("reads"),
        None
    );
    let open = reader.open_input_requests(None, None, 10).expect("reads");
    assert_eq!(open.requests.len(), 1);
}

pub(super) fn a_step_is_bounded(make: Make<'_>) {
    let mut subject = make();
    let n_runs = RUNS_REMOVED_PER_STEP_MAX as u64 + 3;
    let runs: Vec<(u64, i64)> = (1..=n_runs).map(|seed| (seed, 10)).collect();
    ended(&mut *subject, &runs);
    let first = remove(&mut *subject, &keep(0), 100);
    assert_eq!(
        (first.n_runs, first.has_more),
        (RUNS_REMOVED_PER_STEP_MAX as u64, true)
    );
    let second = remove(&mut *subject, &keep(0), 100);
    assert_eq!((second.n_runs, second.has_more), (3, false));
}

pub(super) fn one_run_is_removed(make: Make<'_>) {
    let mut subject = make();
    let sample = RunSample::new(1);
    commit(&mut *subject, [sample.create()]);
    let mut removes = |now| subject.store().remove_run(sample.run_id(), now).expect("removes");
    assert_eq!(removes(5), RunRemoved::Live);
    commit(&mut *subject, [sample.end(2)]);
    let mut removes = |now| subject.store().remove_run(sample.run_id(), now).expect("removes");
    assert_eq!(removes(6), RunRemoved::Done);
    assert_eq!(removes(7), RunRemoved::NotFound);
    let left = reader(&mut *subject).removed(sample.run_id()).expect("reads");
    let left = left.expect("it was removed");
    assert_eq!((left.removed_at, left.last_seq), (6, 2));
}

pub(super) fn a_run_is_discarded_whether_it_has_ended_or_not(make: Make<'_>) {
    let mut subject = make();
    let (live, ended, other) = (RunSample::new(1), RunSample::new(2), RunSample::new(3));
    let (own, shared) = (content(1), content(2));
    let mut first = live.create();
    first.contents = vec![own.clone(), shared.clone()];
    first.opened = vec![live.input_request(1)];
    let mut third = other.create();
    third.contents = vec![shared.clone()];
    commit(&mut *subject, [first, ended.create(), third]);
    commit(&mut *subject, [ended.end(2)]);
    let mut discards = |run_id, now| subject.store().discard_run(run_id, 7, now).expect("discards");
    assert_eq!(discards(live.run_id(), 5), RunRemoved::Done);
    assert_eq!(discards(ended.run_id(), 6), RunRemoved::Done);
    assert_eq!(discards(live.run_id(), 7), RunRemoved::NotFound);

    subject.reopen();
    let reader = reader(&mut *subject);
    let left = |run_id| reader.removed(run_id).expect("reads").expect("it was removed");
    let of_live = left(live.run_id());
    assert_eq!(
        (
            of_live.state,
            of_live.ended_at,
            of_live.removed_at,
            of_live.last_seq
        ),
        (7, 5, 5, 1)
    );
    let of_ended = left(ended.run_id());
    assert_eq!((of_ended.state, of_ended.removed_at), (ended.ended(2).state, 6));
    let counts = reader.counts().expect("reads");
    assert_eq!((counts.live, counts.ended, counts.removed), (1, 0, 2));
    assert_eq!(reader.content(&own.digest()).expect("reads"), None);
    let found = reader.content(&shared.digest()).expect("reads");
    assert_eq!(found.as_ref(), Some(shared.bytes()));
    let open = reader.open_input_requests(None, None, 10).expect("reads");
    assert_eq!(open.requests, []);
    drop(reader);
    let conflict = refused(&mut *subject, [live.create()]);
    assert_eq!(conflict, RunConflict::RunIdUsed, "its id stays used");
}
