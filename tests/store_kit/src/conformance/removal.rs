//! Stories about executions that are removed on purpose. Damages nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::restarts::RaiseAtEnd;
use super::{Make, ReopenableStore, Sample, commit, reader, stored};
use escapement_store::{
    Conflict, Counts, Held, ListFilter, Outcome, REMOVED_PER_STEP_MAX, Reader, Removal, Removed,
    RemovedExecution, StoredState, Write,
};

/// Removes by number alone.
fn newest(count: u64) -> Removal {
    Removal {
        keep_settled_count: Some(count),
        ..Removal::default()
    }
}

/// Removes by age alone.
fn younger_than(keep_ms: u64) -> Removal {
    Removal {
        keep_settled_ms: Some(keep_ms),
        ..Removal::default()
    }
}

/// Steps until there is nothing more to do; what they did together.
fn remove_all(subject: &mut dyn ReopenableStore, policy: &Removal, now_unix_ms: i64) -> Removed {
    let mut sum = Removed::default();
    for _ in 0..1_000 {
        let removed = subject
            .store()
            .remove_settled(policy, now_unix_ms)
            .expect("a healthy store removes");
        sum.n_executions += removed.n_executions;
        sum.n_ids += removed.n_ids;
        if !removed.has_more {
            return sum;
        }
    }
    panic!("removal does not end");
}

/// Accepts and settles.
fn settled(subject: &mut dyn ReopenableStore, seeds: impl IntoIterator<Item = u64>) -> Vec<Sample> {
    let samples: Vec<Sample> = seeds.into_iter().map(Sample::new).collect();
    let batch: Vec<Write> = samples
        .iter()
        .flat_map(|sample| [sample.accept(), sample.settle(1)])
        .collect();
    commit(subject, &batch);
    samples
}

/// Those that are there, of these.
fn present(subject: &mut dyn ReopenableStore, samples: &[Sample]) -> Vec<usize> {
    let reader = reader(subject);
    let is_there = |sample: &Sample| {
        let execution = reader.execution(sample.execution_id()).expect("reads").is_some();
        let audit = reader.audit(sample.execution_id()).expect("reads").is_some();
        let removed = reader.removed(sample.execution_id()).expect("reads").is_some();
        assert_eq!((execution, audit), (!removed, !removed), "partly there");
        execution
    };
    (0..samples.len()).filter(|at| is_there(&samples[*at])).collect()
}

pub(super) fn what_lives_is_never_removed(make: Make<'_>) {
    let mut subject = make();
    let (queued, running) = (Sample::new(500), Sample::new(501).running());
    commit(&mut *subject, &[queued.accept(), running.accept()]);
    settled(&mut *subject, [502, 503]);
    let everything = Removal {
        keep_settled_ms: Some(0),
        keep_settled_count: Some(0),
        spare_younger_ms: 0,
        keep_ids_ms: None,
        held: None,
    };
    let removed = remove_all(&mut *subject, &everything, i64::MAX);
    assert_eq!((removed.n_executions, removed.n_ids), (2, 0));
    for _ in 0..2 {
        let reader = reader(&mut *subject);
        let unsettled = reader.unsettled(None, 10).expect("reads");
        assert_eq!(unsettled, [queued.accepted(1), running.accepted(2)]);
        subject.reopen();
    }
    let outcomes = commit(&mut *subject, &[queued.start(), running.settle(1)]);
    assert_eq!(
        outcomes,
        [Outcome::Done { number: 1 }, Outcome::Done { number: 2 }]
    );
}

pub(super) fn the_default_keeps_everything(make: Make<'_>) {
    let mut subject = make();
    let samples = settled(&mut *subject, 510..515);
    let removed = subject.store().remove_settled(&Removal::default(), i64::MAX);
    assert_eq!(removed.expect("a healthy store removes"), Removed::default());
    assert_eq!(present(&mut *subject, &samples), [0, 1, 2, 3, 4]);
}

pub(super) fn settled_executions_are_removed_by_age(make: Make<'_>) {
    let mut subject = make();
    let samples = settled(&mut *subject, 520..530);
    // One settled a moment later than the other, in the order of their seeds.
    let now = samples[4].settled_at() + 1000;
    assert_eq!(
        remove_all(&mut *subject, &younger_than(1000), now).n_executions,
        4
    );
    assert_eq!(present(&mut *subject, &samples), [4, 5, 6, 7, 8, 9]);
    subject.reopen();
    assert_eq!(
        remove_all(&mut *subject, &younger_than(1000), now).n_executions,
        0
    );
    assert_eq!(
        remove_all(&mut *subject, &younger_than(1000), now + 1).n_executions,
        1
    );
    assert_eq!(present(&mut *subject, &samples), [5, 6, 7, 8, 9]);
    // What was accepted early and ended late is kept with the young ones.
    let mut late = Sample::new(530);
    late.accept.accepted_at = 1;
    let end = Write::Settle {
        execution_id: late.execution_id(),
        status: 1,
        started_at: None,
        settled_at: now + 500,
        outline: late.outline(),
        result: late.result.clone(),
        audit: late.audit.clone(),
    };
    commit(&mut *subject, &[late.accept(), end]);
    assert_eq!(
        remove_all(&mut *subject, &younger_than(0), now + 500).n_executions,
        5
    );
    assert_eq!(present(&mut *subject, &[late]), [0]);
}

pub(super) fn a_clock_that_was_ahead_keeps_nothing_else(make: Make<'_>) {
    let mut subject = make();
    // Accepted while the clock was a year ahead: one settled then, one that goes on.
    let year_ms = 365 * 86_400_000;
    let (mut ahead, mut lives) = (Sample::new(531), Sample::new(532));
    ahead.accept.accepted_at += year_ms;
    lives.accept.accepted_at += year_ms;
    commit(&mut *subject, &[ahead.accept(), ahead.settle(1), lives.accept()]);
    let behind = settled(&mut *subject, 533..538);
    let now = behind[2].settled_at() + 1000;
    let removed = remove_all(&mut *subject, &younger_than(1000), now);
    assert_eq!(removed.n_executions, 2);
    assert_eq!(present(&mut *subject, &behind), [2, 3, 4]);
    assert_eq!(present(&mut *subject, std::slice::from_ref(&ahead)), [0]);
    // What comes behind them later is no different, and neither is the clock that was behind.
    let mut early = Sample::new(539);
    early.accept.accepted_at = 1;
    commit(&mut *subject, &[early.accept(), early.settle(1)]);
    let late = settled(&mut *subject, 540..542);
    for (now, n_removed) in [(now, 1), (late[1].settled_at() + 1000, 4)] {
        let removed = remove_all(&mut *subject, &younger_than(1000), now);
        assert_eq!(removed.n_executions, n_removed, "at {now}");
        subject.reopen();
    }
    assert_eq!(present(&mut *subject, &[ahead.clone(), early]), [0]);
    assert_eq!(present(&mut *subject, &late), [1]);
    let removed = remove_all(&mut *subject, &younger_than(1000), ahead.settled_at() + 1001);
    assert_eq!(removed.n_executions, 2);
    assert_eq!(stored(&mut *subject, &lives), lives.accepted(2));
}

pub(super) fn the_number_spares_young_executions(make: Make<'_>) {
    let mut subject = make();
    let samples = settled(&mut *subject, 700..710);
    // One settled a moment later than the other, in the order of their seeds.
    let now = samples[4].settled_at() + 1000;
    let policy = Removal {
        spare_younger_ms: 1000,
        ..newest(2)
    };
    assert_eq!(remove_all(&mut *subject, &policy, now).n_executions, 4);
    assert_eq!(present(&mut *subject, &samples), [4, 5, 6, 7, 8, 9]);
    // By age they go all the same.
    let older = Removal {
        keep_settled_ms: Some(999),
        ..policy
    };
    assert_eq!(remove_all(&mut *subject, &older, now).n_executions, 1);
    assert_eq!(remove_all(&mut *subject, &policy, now + 100_000).n_executions, 3);
    assert_eq!(
        present(&mut *subject, &samples),
        [8, 9],
        "the newest ones are kept"
    );
}

pub(super) fn what_a_reader_has_not_come_to_is_held_for_a_while(make: Make<'_>) {
    for policy in [newest(2), younger_than(500)] {
        let mut subject = make();
        let samples = settled(&mut *subject, 720..730);
        let held = |behind| Removal {
            held: Some(Held {
                behind,
                for_ms: 1_000,
            }),
            ..policy
        };
        // Old enough for the policy, each of them; the first five are older than what is held.
        let now = samples[5].settled_at() + 1_000;
        assert_eq!(remove_all(&mut *subject, &held(3), now).n_executions, 5);
        assert_eq!(present(&mut *subject, &samples), [5, 6, 7, 8, 9]);
        assert_eq!(remove_all(&mut *subject, &held(7), now).n_executions, 2);
        assert_eq!(present(&mut *subject, &samples), [7, 8, 9]);
        let page = reader(&mut *subject)
            .settled(7, 10)
            .expect("the store is healthy");
        let places: Vec<u64> = page.executions.iter().map(|(place, _)| *place).collect();
        assert_eq!((page.removed, places), (7, vec![8, 9, 10]));
        // Nobody waits for it for ever.
        let late = samples[9].settled_at() + 1_001;
        let n_kept = usize::try_from(policy.keep_settled_count.unwrap_or(0)).expect("it is small");
        assert_eq!(
            remove_all(&mut *subject, &held(7), late).n_executions,
            3 - n_kept as u64
        );
        assert_eq!(present(&mut *subject, &samples).len(), n_kept);
    }
}

pub(super) fn settled_executions_are_removed_by_number(make: Make<'_>) {
    let mut subject = make();
    let oldest = Sample::new(540);
    commit(&mut *subject, &[oldest.accept()]);
    let samples = settled(&mut *subject, 541..551);
    assert_eq!(remove_all(&mut *subject, &newest(10), 7).n_executions, 0);
    assert_eq!(remove_all(&mut *subject, &newest(4), 7).n_executions, 6);
    assert_eq!(present(&mut *subject, &samples), [6, 7, 8, 9]);
    // The first one ends last: it is the newest.
    commit(&mut *subject, &[oldest.settle(1)]);
    assert_eq!(remove_all(&mut *subject, &newest(4), 7).n_executions, 1);
    assert_eq!(present(&mut *subject, &[oldest]), [0]);
    assert_eq!(present(&mut *subject, &samples), [7, 8, 9]);
    subject.reopen();
    assert_eq!(remove_all(&mut *subject, &newest(0), 7).n_executions, 4);
}

pub(super) fn ids_of_removed_executions_stay_used(make: Make<'_>) {
    let mut subject = make();
    let samples = settled(&mut *subject, [560, 561]);
    remove_all(&mut *subject, &newest(0), 77);
    let gone = &samples[0];
    let other_request = {
        let mut other = gone.clone();
        other.accept.request_digest = [9; 32];
        other
    };
    let live = Sample::new(562);
    commit(&mut *subject, &[live.accept()]);
    let live_with_that_plan = live.clone().with_plan_of(gone);
    let batch = [
        gone.accept(),
        other_request.accept(),
        Sample::new(563).with_plan_of(gone).accept(),
        live_with_that_plan.accept(),
        gone.start(),
        gone.settle(1),
        Sample::new(564).start(),
    ];
    let used = |sample: &Sample| Conflict::ExecutionIdUsed {
        request_digest: sample.accept.request_digest,
    };
    let expected = [
        used(gone),
        used(gone),
        Conflict::PlanIdUsed {
            execution_id: gone.execution_id(),
        },
        used(&live),
        Conflict::AlreadySettled,
        Conflict::AlreadySettled,
        Conflict::NotFound,
    ];
    for _ in 0..2 {
        assert_eq!(commit(&mut *subject, &batch), expected.map(Outcome::Conflict));
        let left = RemovedExecution {
            number: 1,
            execution_id: gone.execution_id(),
            plan_id: gone.accept.plan_id,
            request_digest: gone.accept.request_digest,
            settled_at: gone.settled_at(),
            removed_at: 77,
        };
        let reader = reader(&mut *subject);
        assert_eq!(reader.removed(gone.execution_id()).expect("reads"), Some(left));
        assert_eq!(reader.removed(live.execution_id()).expect("reads"), None);
        subject.reopen();
    }
}

pub(super) fn forgotten_ids_can_be_used_again(make: Make<'_>) {
    let mut subject = make();
    let samples = settled(&mut *subject, [570, 571]);
    let policy = Removal {
        keep_ids_ms: Some(100),
        ..newest(0)
    };
    assert_eq!(remove_all(&mut *subject, &policy, 1000).n_ids, 0);
    assert_eq!(remove_all(&mut *subject, &policy, 1100).n_ids, 0);
    let refused = commit(&mut *subject, &[samples[0].accept()]);
    assert!(matches!(refused[0], Outcome::Conflict(_)), "{refused:?}");
    assert_eq!(remove_all(&mut *subject, &policy, 1101).n_ids, 2);
    let reader = reader(&mut *subject);
    assert_eq!(reader.removed(samples[0].execution_id()).expect("reads"), None);
    drop(reader);
    subject.reopen();
    let outcomes = commit(&mut *subject, &[samples[0].accept()]);
    assert_eq!(outcomes, [Outcome::Done { number: 3 }], "a number is used once");
    subject.reopen();
    assert_eq!(stored(&mut *subject, &samples[0]), samples[0].accepted(3));
}

pub(super) fn lists_and_counts_work_across_gaps(make: Make<'_>) {
    let mut subject = make();
    let mut kept = Vec::new();
    for number in 1..=40u64 {
        let sample = Sample::new(600 + number);
        // Every fourth one lives on, and so do the last ones.
        let lives = number % 4 == 0 || number > 35;
        commit(&mut *subject, &[sample.accept()]);
        if lives {
            kept.push(sample.accepted(number).summary);
        } else {
            commit(&mut *subject, &[sample.settle(1)]);
        }
    }
    assert_eq!(remove_all(&mut *subject, &newest(0), 7).n_executions, 27);
    let last = Sample::new(700);
    commit(&mut *subject, &[last.accept(), last.settle(2)]);
    kept.push(last.settled(last.accepted(41), 2).summary);
    kept.reverse();
    for _ in 0..2 {
        let reader = reader(&mut *subject);
        let expected = Counts {
            queued: 13,
            running: 0,
            settled: 1,
            removed: 27,
        };
        let counts = reader.counts().expect("counts");
        assert_eq!((counts, counts.accepted()), (expected, 41));
        for limit in [1, 3, 100] {
            let mut all = Vec::new();
            loop {
                let before = all
                    .last()
                    .map(|summary: &escapement_store::StoredSummary| summary.number);
                let page = reader.list(&ListFilter::default(), before, limit);
                let page = page.expect("lists");
                if page.is_empty() {
                    break;
                }
                all.extend(page);
            }
            assert_eq!(all, kept, "with pages of {limit}");
        }
        let queued = ListFilter {
            state: Some(StoredState::Queued),
            ..ListFilter::default()
        };
        assert_eq!(reader.list(&queued, None, 100).expect("lists").len(), 13);
        assert_eq!(reader.unsettled(Some(20), 100).expect("reads").len(), 8);
        drop(reader);
        subject.reopen();
    }
}

pub(super) fn a_step_is_bounded(make: Make<'_>) {
    let mut subject = make();
    let n_all = 2 * REMOVED_PER_STEP_MAX as u64 + 5;
    settled(&mut *subject, 10_000..10_000 + n_all);
    let mut sizes = Vec::new();
    loop {
        let removed = subject
            .store()
            .remove_settled(&newest(0), 7)
            .expect("a healthy store removes");
        sizes.push(removed.n_executions);
        if !removed.has_more {
            break;
        }
    }
    assert!(
        sizes.iter().all(|size| *size <= REMOVED_PER_STEP_MAX as u64),
        "{sizes:?}"
    );
    assert_eq!(sizes.iter().sum::<u64>(), n_all);
}

pub(super) fn a_reader_sees_an_execution_whole_or_removed(make: Make<'_>) {
    let mut subject = make();
    let samples = settled(&mut *subject, 20_000..20_400);
    let reader = reader(&mut *subject);
    let over = &AtomicBool::new(false);
    let watched = &samples;
    thread::scope(|scope| {
        let watching = scope.spawn(move || {
            while !over.load(Ordering::Acquire) {
                for sample in watched {
                    see(&*reader, sample);
                }
            }
        });
        let end = RaiseAtEnd(over);
        for keep in (0..samples.len() as u64).rev().step_by(5) {
            remove_all(&mut *subject, &newest(keep), 7);
        }
        drop(end);
        if let Err(panic) = watching.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// One look at an execution that may be removed at any time.
fn see(reader: &dyn Reader, sample: &Sample) {
    let id = sample.execution_id();
    let seen = reader.execution(id).expect("reads while another thread removes");
    if let Some(execution) = seen {
        assert_eq!(execution.result, Some(sample.result.clone()));
    } else {
        let removed = reader.removed(id).expect("reads while another thread removes");
        assert!(removed.is_some(), "neither there nor removed");
    }
    let audit = reader.audit(id).expect("reads while another thread removes");
    if audit.is_none() {
        assert_eq!(reader.execution(id).expect("reads"), None, "it came back");
    }
}
