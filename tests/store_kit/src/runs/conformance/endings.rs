//! Stories about the order in which runs ended. The clock is what they say it is.

use super::{Make, ReopenableRuns, RunSample, commit, reader, refused};
use escapement_store::Held;
use escapement_store::runs::limits::RUNS_REMOVED_PER_STEP_MAX;
use escapement_store::runs::{EndedPage, RunConflict, RunRemoval, RunRemoved};

fn page(subject: &mut dyn ReopenableRuns, after: u64, limit: usize) -> EndedPage {
    let page = reader(subject).ended(after, limit).expect("reads");
    assert_eq!(page.damaged, None);
    page
}

/// Returns the seeds at the places behind that one.
fn behind(subject: &mut dyn ReopenableRuns, after: u64, seeds: &[u64]) -> Vec<(u64, u64)> {
    let seed_of = |run_id| {
        let found = seeds
            .iter()
            .find(|seed| RunSample::new(**seed).run_id() == run_id);
        *found.expect("the story wrote it")
    };
    let page = page(subject, after, 100);
    let places = page.runs.iter();
    places.map(|(place, run)| (*place, seed_of(run.run_id))).collect()
}

/// Creates runs that end at so many milliseconds, one after the other.
fn ended(subject: &mut dyn ReopenableRuns, runs: &[(u64, i64)]) {
    for (seed, ended_at) in runs {
        let mut write = RunSample::new(*seed).create();
        write.progress.ended_at = Some(*ended_at);
        commit(subject, [write]);
    }
}

pub(super) fn runs_have_places_in_the_order_of_ending(make: Make<'_>) {
    let mut subject = make();
    assert_eq!(page(&mut *subject, 0, 10), EndedPage::default());
    let seeds = [1, 2, 3, 4, 5];
    let samples = seeds.map(RunSample::new);
    commit(&mut *subject, samples.iter().map(RunSample::create));
    assert_eq!(page(&mut *subject, 0, 10).last, 0, "they live");
    // Not in the order of creation, and two in one batch, in its order.
    commit(&mut *subject, [samples[3].end(2)]);
    commit(
        &mut *subject,
        [samples[4].end(2), samples[0].append(2, 1), samples[1].end(2)],
    );
    let mut at_once = RunSample::new(6).create();
    at_once.progress.ended_at = Some(7);
    commit(&mut *subject, [at_once]);
    let expected = [(1, 4), (2, 5), (3, 2), (4, 6)];
    let seeds = [1, 2, 3, 4, 5, 6];
    assert_eq!(behind(&mut *subject, 0, &seeds), expected);
    assert_eq!(behind(&mut *subject, 2, &seeds), expected[2..]);
    assert_eq!(page(&mut *subject, 1, 2).runs.len(), 2);
    assert_eq!(behind(&mut *subject, 4, &seeds), []);
    assert_eq!(behind(&mut *subject, u64::MAX, &seeds), []);
    subject.reopen();
    assert_eq!(behind(&mut *subject, 0, &seeds), expected);
    commit(&mut *subject, [samples[0].end(3)]);
    assert_eq!(behind(&mut *subject, 4, &seeds), [(5, 1)]);
    let page = page(&mut *subject, 4, 1);
    let summary = reader(&mut *subject).summary(samples[0].run_id()).expect("reads");
    assert_eq!(page.runs, [(5, summary.expect("it is there"))]);
    assert_eq!((page.last, page.removed), (5, 0));
}

pub(super) fn a_batch_that_is_refused_gives_no_place(make: Make<'_>) {
    let mut subject = make();
    let [first, second] = [1, 2].map(RunSample::new);
    commit(&mut *subject, [first.create(), second.create()]);
    let conflict = refused(&mut *subject, [first.end(2), second.end(3)]);
    assert_eq!(conflict, RunConflict::WrongSequence { next_seq: 2 });
    assert_eq!(page(&mut *subject, 0, 10), EndedPage::default());
    commit(&mut *subject, [second.end(2)]);
    assert_eq!(behind(&mut *subject, 0, &[1, 2]), [(1, 2)]);
}

pub(super) fn what_a_policy_removes_is_known_by_the_places(make: Make<'_>) {
    let mut subject = make();
    ended(&mut *subject, &[(1, 10), (2, 20), (3, 30)]);
    let newest = |count| RunRemoval {
        keep_ended_count: Some(count),
        ..RunRemoval::default()
    };
    let removed = subject.store().remove_ended(&newest(1), 40).expect("removes");
    assert_eq!(removed.n_runs, 2);
    assert_eq!(behind(&mut *subject, 0, &[3]), [(3, 3)]);
    assert_eq!(
        (page(&mut *subject, 0, 1).last, page(&mut *subject, 0, 1).removed),
        (3, 2)
    );
    subject.store().remove_ended(&newest(0), 40).expect("removes");
    subject.reopen();
    let page = page(&mut *subject, 0, 10);
    assert_eq!((page.runs.len(), page.last, page.removed), (0, 3, 3));
    ended(&mut *subject, &[(4, 5)]);
    assert_eq!(
        behind(&mut *subject, 3, &[4]),
        [(4, 4)],
        "no place is given twice"
    );
}

pub(super) fn a_run_that_is_removed_by_its_name_leaves_its_place_empty(make: Make<'_>) {
    let mut subject = make();
    ended(&mut *subject, &[(1, 10), (2, 20), (3, 30)]);
    let removed = subject.store().remove_run(RunSample::new(2).run_id(), 40);
    assert_eq!(removed.expect("removes"), RunRemoved::Done);
    assert_eq!(behind(&mut *subject, 0, &[1, 3]), [(1, 1), (3, 3)]);
    assert_eq!(
        page(&mut *subject, 0, 1).removed,
        0,
        "what is in front of it is there"
    );
    // Whatever is damaged of it, if it lives.
    let living = RunSample::new(4);
    commit(&mut *subject, [living.create()]);
    let removed = subject.store().discard_run(living.run_id(), 9, 50);
    assert_eq!(removed.expect("removes"), RunRemoved::Done);
    assert_eq!(page(&mut *subject, 3, 10).last, 3, "it had no end of its own");
}

pub(super) fn what_readers_have_not_come_to_is_held_for_a_time(make: Make<'_>) {
    let mut subject = make();
    ended(&mut *subject, &[(1, 1_000), (2, 2_000), (3, 3_000)]);
    let policy = |behind| RunRemoval {
        keep_ended_count: Some(0),
        held: Some(Held { behind, for_ms: 500 }),
        ..RunRemoval::default()
    };
    let mut left = |behind, now| {
        subject
            .store()
            .remove_ended(&policy(behind), now)
            .expect("removes");
        let page = page(&mut *subject, 0, RUNS_REMOVED_PER_STEP_MAX);
        page.runs.iter().map(|(place, _)| *place).collect::<Vec<_>>()
    };
    assert_eq!(left(0, 1_500), [1, 2, 3]);
    assert_eq!(left(1, 1_500), [2, 3], "the readers have come to the first");
    assert_eq!(left(1, 2_501), [3], "it was held for as long as it is");
    assert_eq!(left(3, 2_501), [0; 0]);
}
