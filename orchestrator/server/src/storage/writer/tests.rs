#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use escapement_engine::{StoreWrite, WriteConflict, WriteFailure, WriteId, WriteOutcome};
use escapement_host::COMMIT_WRITES_MAX;
use escapement_model::ExecutionId;
use escapement_model::RunId;
use escapement_runs_shell::StorePort;
use escapement_store::runs::{
    BatchOutcome, DefinitionOutcome, DefinitionWrite, RunBatch, RunReader, RunRemoval, RunRemoved, RunStore,
    RunsRemoved,
};
use escapement_store::{Conflict, Outcome, Reader, Removal, Removed, Store, StoreFault, Together, Write};
use std::collections::VecDeque;
use std::sync::mpsc::{channel, sync_channel};
use tokio::sync::mpsc::unbounded_channel;

/// Answers commits as it is told, then with success, and keeps the sizes of the batches.
#[derive(Default)]
struct Scripted {
    answers: VecDeque<Result<Vec<Outcome>, StoreFault>>,
    batches: Vec<usize>,
    /// Number of writes in the commit of each batch of runs; `None` for a commit of its own.
    run_batches: Vec<Option<usize>>,
}

impl Store for Scripted {
    fn remove_settled(&mut self, _policy: &Removal, _now_unix_ms: i64) -> Result<Removed, StoreFault> {
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

impl RunStore for Scripted {
    fn commit(&mut self, _batch: &RunBatch) -> Result<BatchOutcome, StoreFault> {
        self.run_batches.push(None);
        Ok(BatchOutcome::Done)
    }

    fn remove_ended(&mut self, _policy: &RunRemoval, _now_unix_ms: i64) -> Result<RunsRemoved, StoreFault> {
        unreachable!("nobody removes anything here")
    }

    fn remove_run(&mut self, _id: RunId, _now_unix_ms: i64) -> Result<RunRemoved, StoreFault> {
        Ok(RunRemoved::NotFound)
    }

    fn discard_run(&mut self, _id: RunId, _state: u8, _now_unix_ms: i64) -> Result<RunRemoved, StoreFault> {
        unreachable!("nobody removes anything here")
    }

    fn define(&mut self, _write: &DefinitionWrite) -> Result<DefinitionOutcome, StoreFault> {
        unreachable!("nobody defines anything here")
    }

    fn reader(&self) -> Result<Box<dyn RunReader>, StoreFault> {
        Err(StoreFault::Fatal("no test reads".into()))
    }
}

impl JointStore for Scripted {
    fn commit_together(
        &mut self,
        writes: &[Write],
        _batch: &RunBatch,
        dependent: &[Write],
    ) -> Result<Together, StoreFault> {
        assert!(dependent.is_empty(), "no attempt is accepted here");
        let outcomes = Store::commit(self, writes)?;
        self.run_batches.push(Some(writes.len()));
        Ok(Together {
            outcomes,
            of_runs: Ok(BatchOutcome::Done),
            dependent: Vec::new(),
        })
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

/// Runs a writer with these jobs and a batch of runs. Returns the store, and the outcomes of the jobs.
fn run_beside_runs(
    answers: Vec<Result<Vec<Outcome>, StoreFault>>,
    jobs: Vec<Job>,
) -> (Scripted, Vec<WriteOutcome>) {
    let store = Scripted {
        answers: answers.into(),
        ..Scripted::default()
    };
    let (to_writer, asked) = channel();
    let (stored, mut stored_rx) = unbounded_channel();
    let (answer, answered) = sync_channel(1);
    to_writer.send(ToWriter::Jobs(jobs)).unwrap();
    let batch = RunBatch::probe();
    let request = StoreRequest::Batch(WaitingBatch { batch, answer });
    to_writer.send(ToWriter::Runs(request)).unwrap();
    drop(to_writer);
    let writer = spawn(store, asked, stored, scribe(), keeping_everything(), (None, None)).unwrap();
    assert_eq!(answered.recv().unwrap().unwrap().outcome, BatchOutcome::Done);
    let store = writer.join().unwrap();
    let stored = stored_rx.try_recv().unwrap();
    (store, stored.into_iter().map(|(_, outcome)| outcome).collect())
}

#[test]
fn a_batch_of_runs_shares_the_commit_of_waiting_writes() {
    let (store, outcomes) = run_beside_runs(Vec::new(), vec![job(1), job(2)]);
    assert_eq!((store.batches, store.run_batches), (vec![2], vec![Some(2)]));
    assert_eq!(outcomes, [WriteOutcome::Durable; 2]);
}

#[test]
fn writes_that_do_not_fit_together_are_committed_one_by_one() {
    let full = Err(StoreFault::Full("no space".into()));
    let (store, outcomes) = run_beside_runs(vec![full], vec![job(1)]);
    assert_eq!((store.batches, store.run_batches), (vec![1, 1], vec![None]));
    assert_eq!(outcomes, [WriteOutcome::Durable]);
}

#[test]
fn the_writer_answers_the_thread_of_runs() {
    let (to_writer, asked) = channel();
    let (stored, _stored_rx) = unbounded_channel();
    let writer = spawn(
        Scripted::default(),
        asked,
        stored,
        scribe(),
        keeping_everything(),
        (None, None),
    )
    .unwrap();
    let mut port = StorePort::new(move |request| to_writer.send(ToWriter::Runs(request)).is_ok());
    assert_eq!(port.commit(&RunBatch::probe()).unwrap(), BatchOutcome::Done);
    assert_eq!(port.commit(&RunBatch::new()).unwrap(), BatchOutcome::Done);
    let run_id = RunId::from_random([1; 16]);
    assert_eq!(port.remove_run(run_id, 1).unwrap(), RunRemoved::NotFound);
    drop(port);
    assert_eq!(writer.join().unwrap().run_batches, [Some(0), None]);
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
