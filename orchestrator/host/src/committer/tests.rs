#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::fixtures::request;
use crate::write_queue::{Job, WriteQueue};
use escapement_contract::RequestDraft;
use escapement_engine::{StoreWrite, WriteId};
use escapement_model::ExecutionId;
use escapement_store::{Outcome, Reader};

/// Has room for so many writes in one commit, and for accepts only if it has room for all.
struct Narrow {
    room: usize,
    batches: Vec<usize>,
    /// With this one every conflict is damaged.
    damaged: Option<ExecutionId>,
}

impl Store for Narrow {
    fn remove_settled(
        &mut self,
        _policy: &escapement_store::Removal,
        _now_unix_ms: i64,
    ) -> Result<escapement_store::Removed, StoreFault> {
        unreachable!("nobody removes anything here")
    }

    fn commit(&mut self, batch: &[Write]) -> Result<Vec<Outcome>, StoreFault> {
        self.batches.push(batch.len());
        let is_damaged = |write: &Write| matches!(write, Write::Accept(accept) if Some(accept.execution_id) == self.damaged);
        if batch.iter().any(is_damaged) {
            return Err(StoreFault::Corrupt {
                number: 1,
                part: "execution",
            });
        }
        if batch.len() > self.room {
            return Err(StoreFault::Full("disk".into()));
        }
        Ok(vec![Outcome::Done { number: 1 }; batch.len()])
    }

    fn reader(&self) -> Result<Box<dyn Reader>, StoreFault> {
        Err(StoreFault::Fatal("no test reads".into()))
    }
}

fn commit(room: usize, jobs: &[Job]) -> (Vec<WriteOutcome>, Vec<usize>) {
    commit_to(room, None, jobs)
}

fn commit_to(room: usize, damaged: Option<ExecutionId>, jobs: &[Job]) -> (Vec<WriteOutcome>, Vec<usize>) {
    let batches = Vec::new();
    let mut committer = Committer::new(Narrow {
        room,
        batches,
        damaged,
    });
    let outcomes = committer.handle_commit(&together(jobs)).unwrap();
    let ids: Vec<WriteId> = outcomes.iter().map(|(write, _)| *write).collect();
    assert!(ids.iter().eq(jobs.iter().map(|job| &job.write)), "in their order");
    let outcomes = outcomes.into_iter().map(|(_, outcome)| outcome).collect();
    (outcomes, committer.into_store().batches)
}

const FULL: WriteOutcome = WriteOutcome::Failed(WriteFailure::Full);

//
#[test]
fn accepts_leave_the_last_space_to_what_was_accepted() {
    let id = ExecutionId::from_random([9; 16]);
    let jobs = [acceptance(1, id), job(2), acceptance(3, id), job(4)];
    let (outcomes, _) = commit(2, &jobs);
    assert_eq!(
        outcomes,
        [FULL, WriteOutcome::Durable, FULL, WriteOutcome::Durable]
    );
    let (outcomes, _) = commit(4, &jobs);
    assert_eq!(outcomes, [WriteOutcome::Durable; 4], "where all fit, all go in");
}

//
#[test]
fn one_write_that_is_too_large_does_not_keep_the_others_out() {
    let jobs: Vec<Job> = (1..=4).map(job).collect();
    assert_eq!(commit(1, &jobs).0, [WriteOutcome::Durable; 4]);
    assert_eq!(commit(0, &jobs).0, [FULL; 4]);
}

#[test]
fn accepts_that_do_not_fit_together_are_refused_with_one_commit() {
    let id = ExecutionId::from_random([9; 16]);
    let jobs: Vec<Job> = (1..=8).map(|number| acceptance(number, id)).collect();
    let (outcomes, batches) = commit(4, &jobs);
    assert_eq!(outcomes, [FULL; 8]);
    assert_eq!(batches, [8]);
}

#[test]
fn a_store_that_failed_for_good_acknowledges_nothing() {
    struct Dead;
    impl Store for Dead {
        fn remove_settled(
            &mut self,
            _policy: &escapement_store::Removal,
            _now_unix_ms: i64,
        ) -> Result<escapement_store::Removed, StoreFault> {
            unreachable!("nobody removes anything here")
        }

        fn commit(&mut self, _: &[Write]) -> Result<Vec<Outcome>, StoreFault> {
            Err(StoreFault::Fatal("sync".into()))
        }

        fn reader(&self) -> Result<Box<dyn Reader>, StoreFault> {
            Err(StoreFault::Fatal("sync".into()))
        }
    }
    let fault = Committer::new(Dead)
        .handle_commit(&together(&[job(1), job(2)]))
        .unwrap_err();
    assert!(matches!(fault, StoreFault::Fatal(_)));
}

#[test]
fn an_acceptance_that_meets_a_damaged_execution_fails_alone() {
    const BUSY: WriteOutcome = WriteOutcome::Failed(WriteFailure::Busy);
    let damaged = ExecutionId::from_random([9; 16]);
    let jobs = [
        job(1),
        job(2),
        acceptance(3, damaged),
        job(4),
        acceptance(5, damaged),
    ];
    let (outcomes, _) = commit_to(usize::MAX, Some(damaged), &jobs);
    let durable = WriteOutcome::Durable;
    assert_eq!(outcomes, [durable, durable, BUSY, durable, BUSY]);
}

fn together(jobs: &[Job]) -> Commit {
    let mut queue = WriteQueue::default();
    queue.handle_jobs(jobs.to_vec());
    let commit = queue.poll_commit();
    assert!(queue.is_empty(), "they fit into one commit");
    commit
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

fn acceptance(number: u64, execution_id: ExecutionId) -> Job {
    Job {
        write: WriteId(number),
        content: StoreWrite::Accept {
            execution_id,
            request: request(ExecutionId::from_random([4; 16]), RequestDraft::default()),
            accepted_at: 1,
            deadline_ms: 2,
            started_at: None,
        },
    }
}

#[test]
fn a_store_that_took_no_writes_is_tried_until_it_does_and_only_then() {
    let mut committer = Committer::new(Narrow {
        room: 0,
        batches: Vec::new(),
        damaged: None,
    });
    committer.look().unwrap();
    assert!(committer.takes_writes());
    committer.handle_commit(&together(&[job(1)])).unwrap();
    committer.look().unwrap();
    assert!(!committer.takes_writes(), "the try met no room either");
    committer.store_mut().room = 2;
    committer.look().unwrap();
    assert!(committer.takes_writes());
    committer.look().unwrap();
    assert_eq!(committer.into_store().batches, [0, 1, 2, 2, 0]);
}
