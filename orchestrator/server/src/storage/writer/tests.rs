#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use escapement_engine::{StoreWrite, WriteConflict, WriteFailure, WriteId, WriteOutcome};
use escapement_host::COMMIT_WRITES_MAX;
use escapement_model::ExecutionId;
use escapement_store::{Conflict, Outcome, Reader, Removal, StoreFault, Write};
use std::collections::VecDeque;
use std::sync::mpsc::channel;
use tokio::sync::mpsc::unbounded_channel;

/// Answers commits as it is told, then with success, and keeps the sizes of the batches.
#[derive(Default)]
struct Scripted {
    answers: VecDeque<Result<Vec<Outcome>, StoreFault>>,
    batches: Vec<usize>,
}

impl Store for Scripted {
    fn remove_settled(
        &mut self,
        _policy: &escapement_store::Removal,
        _now_unix_ms: i64,
    ) -> Result<escapement_store::Removed, StoreFault> {
        unreachable!("nobody removes anything here")
    }

    fn commit(&mut self, batch: &[Write]) -> Result<Vec<Outcome>, StoreFault> {
        self.batches.push(batch.len());
        let success = || Ok(vec![Outcome::Done { number: 1 }; batch.len()]);
        self.answers.pop_front().unwrap_or_else(success)
    }

    fn reader(&self) -> Result<Box<dyn Reader>, StoreFault> {
        Err(StoreFault::Fatal("no test reads".into()))
    }
}

fn keeping_everything() -> Maintenance {
    Maintenance::new(
        Removal::default(),
        crate::clock::Clock::start(),
        None,
        Default::default(),
    )
}

fn scribe() -> Scribe {
    Scribe {
        boot_id: escapement_model::BootId::new([1; 16]),
        keep_ms: None,
    }
}

fn job(number: u64) -> Job {
    let execution_id = ExecutionId::from_random([1; 16]);
    Job {
        write: WriteId(number),
        content: StoreWrite::Start {
            execution_id,
            started_at: 1,
        },
    }
}

/// Runs a writer over these batches of jobs; gives the sizes of its commits and all outcomes in order.
fn run(
    answers: Vec<Result<Vec<Outcome>, StoreFault>>,
    batches: Vec<Vec<Job>>,
) -> (Vec<usize>, Vec<(WriteId, WriteOutcome)>) {
    let store = Scripted {
        answers: answers.into(),
        ..Scripted::default()
    };
    let (jobs, jobs_rx) = channel();
    let (stored, mut stored_rx) = unbounded_channel();
    for batch in batches {
        jobs.send(ToWriter::Jobs(batch)).unwrap();
    }
    drop(jobs);
    let store = spawn(
        store,
        jobs_rx,
        stored,
        scribe(),
        keeping_everything(),
        (None, None),
    )
    .unwrap()
    .join()
    .unwrap();
    let mut outcomes = Vec::new();
    while let Ok(stored) = stored_rx.try_recv() {
        outcomes.extend(stored);
    }
    (store.batches, outcomes)
}

#[test]
fn what_waits_is_committed_together_and_answered_in_order() {
    let (commits, outcomes) = run(Vec::new(), vec![vec![job(1), job(2)], vec![job(3)], vec![job(4)]]);
    assert_eq!(commits, [4]);
    let expected: Vec<_> = (1..=4)
        .map(|number| (WriteId(number), WriteOutcome::Durable))
        .collect();
    assert_eq!(outcomes, expected);
}

#[test]
fn a_commit_takes_no_more_writes_than_its_limit_and_loses_none() {
    let n_jobs = COMMIT_WRITES_MAX + 10;
    let (commits, outcomes) = run(Vec::new(), vec![(0..n_jobs as u64).map(job).collect()]);
    assert_eq!(commits, [COMMIT_WRITES_MAX, 10]);
    assert!(outcomes.iter().map(|(write, _)| write.0).eq(0..n_jobs as u64));
}

#[test]
fn a_store_that_is_busy_fails_each_write_of_the_batch_and_the_next_one_goes_on() {
    let n_first = COMMIT_WRITES_MAX as u64;
    let busy = || Err(StoreFault::Busy("lock".into()));
    let (commits, outcomes) = run(
        vec![busy()],
        vec![(0..n_first).map(job).collect(), vec![job(n_first)]],
    );
    assert_eq!(commits, [COMMIT_WRITES_MAX, 1]);
    let (last, first) = outcomes.split_last().unwrap();
    assert!(
        first
            .iter()
            .all(|(_, outcome)| *outcome == WriteOutcome::Failed(WriteFailure::Busy))
    );
    assert_eq!(*last, (WriteId(n_first), WriteOutcome::Durable));
}

#[test]
fn each_conflict_is_reported_for_its_own_write() {
    let other = ExecutionId::from_random([2; 16]);
    let table = [
        (
            Conflict::ExecutionIdUsed {
                request_digest: [3; 32],
            },
            WriteConflict::ExecutionIdUsed {
                request_digest: [3; 32],
            },
        ),
        (
            Conflict::PlanIdUsed { execution_id: other },
            WriteConflict::PlanIdUsed { execution_id: other },
        ),
        (Conflict::NotFound, WriteConflict::NotFound),
        (Conflict::AlreadyStarted, WriteConflict::AlreadyThere),
        (Conflict::AlreadySettled, WriteConflict::AlreadyThere),
    ];
    for (conflict, expected) in table {
        let answer = vec![Outcome::Done { number: 1 }, Outcome::Conflict(conflict)];
        let (_, outcomes) = run(vec![Ok(answer)], vec![vec![job(1), job(2)]]);
        assert_eq!(outcomes[0].1, WriteOutcome::Durable);
        assert_eq!(outcomes[1].1, WriteOutcome::Conflict(expected));
    }
}
