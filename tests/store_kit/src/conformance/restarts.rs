//! Stories about what lasts, and what readers see meanwhile. Breaks no disk.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::{Make, Sample, commit, reader, stored};
use escapement_store::{ActionMemory, Conflict, ListFilter, Outcome, Write};

pub(super) fn what_was_acknowledged_is_there_after_a_restart(make: Make<'_>) {
    let mut subject = make();
    let (queued, running, settled) = (Sample::new(300), Sample::new(301), Sample::new(302));
    commit(&mut *subject, &[queued.accept(), running.accept()]);
    subject.reopen();
    commit(&mut *subject, &[running.start(), settled.accept()]);
    subject.reopen();
    commit(&mut *subject, &[settled.settle(2)]);
    for _ in 0..2 {
        subject.reopen();
        assert_eq!(stored(&mut *subject, &queued), queued.accepted(1));
        assert_eq!(stored(&mut *subject, &running), running.started(2));
        assert_eq!(
            stored(&mut *subject, &settled),
            settled.settled(settled.accepted(3), 2)
        );
        let audit = reader(&mut *subject)
            .audit(settled.execution_id())
            .expect("reads");
        assert_eq!(audit.as_ref(), Some(&settled.audit));
        assert_eq!(reader(&mut *subject).unsettled(None, 10).expect("reads").len(), 2);
    }
}

pub(super) fn actions_are_remembered_until_they_are_forgotten(make: Make<'_>) {
    let memory = |name: &str, left_ms| ActionMemory {
        name: name.to_owned(),
        left_ms,
    };
    let mut subject = make();
    let sample = Sample::new(330);
    let first = vec![
        memory("b", Some(7)),
        memory("a", Some(0)),
        memory("gone", None),
        memory("\u{e9}", Some(u64::from(u32::MAX))),
    ];
    let outcomes = commit(&mut *subject, &[Write::RememberActions(first), sample.accept()]);
    assert_eq!(
        outcomes,
        [Outcome::Done { number: 0 }, Outcome::Done { number: 1 }]
    );
    subject.reopen();
    let changed = vec![memory("b", Some(3)), memory("a", None)];
    commit(&mut *subject, &[Write::RememberActions(changed)]);
    let expected = [memory("b", Some(3)), memory("\u{e9}", Some(u64::from(u32::MAX)))];
    for _ in 0..2 {
        let remembered = reader(&mut *subject).remembered_actions().expect("reads");
        assert_eq!(remembered, expected);
        assert_eq!(reader(&mut *subject).counts().expect("reads").accepted(), 1);
        subject.reopen();
    }
}

pub(super) fn numbers_go_on_after_a_restart(make: Make<'_>) {
    let mut subject = make();
    for number in 1..=5 {
        let sample = Sample::new(310 + number);
        let outcomes = commit(&mut *subject, &[sample.accept(), sample.settle(1)]);
        assert_eq!(outcomes, [Outcome::Done { number }; 2]);
        subject.reopen();
    }
}

pub(super) fn ids_stay_used_after_a_restart(make: Make<'_>) {
    let mut subject = make();
    let sample = Sample::new(320);
    commit(&mut *subject, &[sample.accept(), sample.settle(1)]);
    subject.reopen();
    let same_plan = Sample::new(321).with_plan_of(&sample);
    let batch = [
        sample.accept(),
        same_plan.accept(),
        sample.start(),
        sample.settle(2),
    ];
    let request_digest = sample.accept.request_digest;
    let execution_id = sample.execution_id();
    let expected = [
        Conflict::ExecutionIdUsed { request_digest },
        Conflict::PlanIdUsed { execution_id },
        Conflict::AlreadySettled,
        Conflict::AlreadySettled,
    ];
    assert_eq!(commit(&mut *subject, &batch), expected.map(Outcome::Conflict));
}

/// Ends the watching thread even if the writing one panics.
pub(super) struct RaiseAtEnd<'a>(pub(super) &'a AtomicBool);

impl Drop for RaiseAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

pub(super) fn a_reader_sees_whole_batches(make: Make<'_>) {
    const BATCHES: u64 = 60;
    const EACH: u64 = 7;
    let mut subject = make();
    let reader = reader(&mut *subject);
    let over = &AtomicBool::new(false);
    thread::scope(|scope| {
        let watching = scope.spawn(move || {
            let mut last = 0;
            while !over.load(Ordering::Acquire) {
                let counts = reader.counts().expect("reads while another thread writes");
                assert_eq!(
                    counts.accepted() % EACH,
                    0,
                    "part of a batch was visible: {counts:?}"
                );
                assert!(counts.accepted() >= last, "what was visible is gone");
                last = counts.accepted();
                let listed = reader.list(&ListFilter::default(), None, 1000).expect("lists");
                assert_eq!(listed.len() as u64 % EACH, 0, "part of a batch was listed");
                let unsettled = reader.unsettled(None, 1000).expect("reads");
                assert_eq!(unsettled.len() as u64 % EACH, 0, "part of a batch was unsettled");
                for execution in unsettled {
                    let found = reader.execution(execution.summary.execution_id).expect("reads");
                    let found = found.expect("what was unsettled exists");
                    assert!(found.summary.state >= execution.summary.state, "a state fell");
                }
            }
        });
        let end = RaiseAtEnd(over);
        for batch in 0..BATCHES {
            let samples: Vec<Sample> = (0..EACH).map(|n| Sample::new(1000 + batch * EACH + n)).collect();
            let accepts: Vec<Write> = samples.iter().map(Sample::accept).collect();
            commit(&mut *subject, &accepts);
            let settles: Vec<Write> = samples.iter().map(|sample| sample.settle(1)).collect();
            commit(&mut *subject, &settles);
        }
        drop(end);
        if let Err(panic) = watching.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

pub(super) fn a_reader_sees_what_was_acknowledged(make: Make<'_>) {
    let mut subject = make();
    let reader = reader(&mut *subject);
    for seed in 2000..2020 {
        let sample = Sample::new(seed);
        commit(&mut *subject, &[sample.accept()]);
        let found = reader.execution(sample.execution_id()).expect("reads");
        assert!(
            found.is_some(),
            "an acknowledged accept was not visible to an older reader"
        );
        commit(&mut *subject, &[sample.settle(1)]);
        let audit = reader.audit(sample.execution_id()).expect("reads");
        assert_eq!(
            audit,
            Some(sample.audit),
            "an acknowledged end was not visible to an older reader"
        );
    }
}
