//! Random batches of runs with their attempts on a disk that is full, busy or damaged at random. No attempt may be accepted without
//! its intent, and no outcome may be recorded without its end.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::committer::Committer;
use crate::fixtures::request;
use crate::host::{Batch, Host, Links, Output};
use crate::write_queue::{StoredBatch, WriteQueue};
use escapement_contract::{Moment, RequestDraft};
use escapement_engine::{CallerId, EngineConfig, NamespaceKey, Submitter, UntilDecided};
use escapement_model::BootId;
use escapement_store::runs::{
    BatchOutcome, DefinitionOutcome, DefinitionWrite, RunBatch, RunReader, RunRemoval, RunRemoved, RunStore,
    RunsRemoved,
};
use escapement_store::{JointStore, Outcome, Reader, Removal, Removed, Store, StoreFault, Together, Write};

#[derive(Debug)]
struct Test;

impl Links for Test {
    type Caller = ();
    type Session = ();
    type Attempt = ExecutionId;
    type RunBatch = Recorded;

    fn is_given_up(_: &()) -> bool {
        false
    }
}

/// Content of a batch of runs.
#[derive(Clone, Debug, Default)]
struct Recorded {
    intents: Vec<ExecutionId>,
    outcomes: Vec<ExecutionId>,
}

/// xorshift64: the same from the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// Durable state.
#[derive(Default)]
struct Durable {
    intents: BTreeSet<ExecutionId>,
    outcomes: BTreeSet<ExecutionId>,
    accepts: BTreeSet<ExecutionId>,
    settles: BTreeSet<ExecutionId>,
}

struct Disk {
    durable: Durable,
    dice: Dice,
    fails: bool,
    /// The batch of runs that is written next.
    recorded: Recorded,
}

impl Disk {
    fn fault(&mut self) -> Result<(), StoreFault> {
        match self.dice.roll(10) {
            0 | 1 if self.fails => Err(StoreFault::Full("no space".into())),
            2 if self.fails => Err(StoreFault::Busy("another has it".into())),
            _ => Ok(()),
        }
    }

    fn write(&mut self, writes: &[Write]) -> Vec<Outcome> {
        for write in writes {
            match write {
                Write::Accept(accept) => {
                    let id = accept.execution_id;
                    assert!(self.durable.intents.contains(&id), "an accept without its intent");
                    self.durable.accepts.insert(id);
                }
                Write::Settle { execution_id, .. } => {
                    self.durable.settles.insert(*execution_id);
                }
                _ => {}
            }
        }
        vec![Outcome::Done { number: 1 }; writes.len()]
    }

    fn record(&mut self) -> Result<BatchOutcome, StoreFault> {
        if self.fails && self.dice.roll(20) == 0 {
            let part = "journal";
            return Err(StoreFault::CorruptRun { number: 1, part });
        }
        let Recorded { intents, outcomes } = std::mem::take(&mut self.recorded);
        for id in &outcomes {
            assert!(self.durable.settles.contains(id), "an outcome without its end");
        }
        self.durable.intents.extend(intents);
        self.durable.outcomes.extend(outcomes);
        Ok(BatchOutcome::Done)
    }
}

impl Store for Disk {
    fn remove_settled(&mut self, _: &Removal, _: i64) -> Result<Removed, StoreFault> {
        unreachable!("nobody removes anything here")
    }

    fn commit(&mut self, batch: &[Write]) -> Result<Vec<Outcome>, StoreFault> {
        self.fault()?;
        Ok(self.write(batch))
    }

    fn reader(&self) -> Result<Box<dyn Reader>, StoreFault> {
        unreachable!("nobody reads here")
    }
}

impl RunStore for Disk {
    fn commit(&mut self, _: &RunBatch) -> Result<BatchOutcome, StoreFault> {
        self.fault()?;
        self.record()
    }

    fn remove_ended(&mut self, _: &RunRemoval, _: i64) -> Result<RunsRemoved, StoreFault> {
        unreachable!("nobody removes anything here")
    }

    fn remove_run(&mut self, _: escapement_model::RunId, _: i64) -> Result<RunRemoved, StoreFault> {
        unreachable!("nobody removes anything here")
    }

    fn discard_run(&mut self, _: escapement_model::RunId, _: u8, _: i64) -> Result<RunRemoved, StoreFault> {
        unreachable!("nobody removes anything here")
    }

    fn define(&mut self, _: &DefinitionWrite) -> Result<DefinitionOutcome, StoreFault> {
        unreachable!("nobody defines anything here")
    }

    fn reader(&self) -> Result<Box<dyn RunReader>, StoreFault> {
        unreachable!("nobody reads here")
    }
}

impl JointStore for Disk {
    fn commit_together(
        &mut self,
        writes: &[Write],
        _: &RunBatch,
        dependent: &[Write],
    ) -> Result<Together, StoreFault> {
        self.fault()?;
        let outcomes = self.write(writes);
        let of_runs = self.record();
        let dependent = match of_runs {
            Ok(BatchOutcome::Done) => self.write(dependent),
            _ => Vec::new(),
        };
        Ok(Together {
            outcomes,
            of_runs,
            dependent,
        })
    }
}

/// Runs, by their attempts.
#[derive(Default)]
struct Runs {
    n_attempts: u64,
    /// Delivered ends, each with true if it was durable.
    inbox: VecDeque<(ExecutionId, bool)>,
    n_received: u64,
    n_told: u64,
    heard: BTreeSet<ExecutionId>,
    /// To be written.
    coming: Recorded,
    /// On its way to the store.
    waits_for: Option<Recorded>,
    /// Recorded in batches that were refused for good.
    lost: BTreeSet<ExecutionId>,
    /// Accepted with their intents.
    accepted: BTreeSet<ExecutionId>,
}

struct World {
    now_ms: u64,
    dice: Dice,
    host: Host<Test>,
    committer: Committer<Disk>,
    /// Requested writes that the next commit has no space for.
    asked: Vec<Job>,
    queue: WriteQueue,
    joint: Option<(Recorded, JointJobs)>,
    stored: Vec<StoredBatch>,
    said: Vec<FromRuns<ExecutionId, Recorded>>,
    runs: Runs,
    /// Ends that shared a commit with what their runs made of them.
    n_joint: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let disk = Disk {
            durable: Durable::default(),
            dice: Dice(seed * 77 + 1),
            fails: true,
            recorded: Recorded::default(),
        };
        let config = EngineConfig::new(BootId::new([1; 16]), [1; 32]);
        Self {
            now_ms: 0,
            dice: Dice(seed * 31 + 5),
            host: Host::new(config, moment(0)),
            committer: Committer::new(disk),
            asked: Vec::new(),
            queue: WriteQueue::default(),
            joint: None,
            stored: Vec::new(),
            said: Vec::new(),
            runs: Runs::default(),
            n_joint: 0,
        }
    }

    fn step(&mut self, makes_attempts: bool) {
        self.now_ms += self.dice.roll(60);
        if self.runs.waits_for.is_none() && self.dice.roll(3) > 0 {
            self.runs_turn(makes_attempts);
        }
        let mut batch = Batch {
            stored: std::mem::take(&mut self.stored),
            from_runs: std::mem::take(&mut self.said),
            ..Batch::default()
        };
        self.host
            .handle_batch(moment(self.now_ms), &mut batch, &mut |_| {});
        while let Some(output) = self.host.poll_output() {
            match output {
                Output::Write(jobs) => self.asked.extend(jobs),
                Output::Runs(ToRuns::Write { batch, jobs }) => {
                    assert!(self.joint.replace((batch, jobs)).is_none(), "one batch at a time");
                }
                Output::Runs(ToRuns::Refuse { batch, .. }) => self.runs.coming = batch,
                Output::Runs(ToRuns::Deliver {
                    attempt,
                    settlement,
                    is_durable,
                }) => {
                    assert_eq!(attempt, settlement.result.execution_id);
                    self.runs.inbox.push_back((attempt, is_durable));
                }
                Output::GiveUp { .. } => panic!("the disk is never busy for so long"),
                _ => {}
            }
        }
        if self.runs.coming.intents.len() + self.runs.coming.outcomes.len() > 0 {
            self.runs.waits_for = None;
        }
        if self.dice.roll(2) == 0 {
            self.commit();
        }
    }

    /// Hears ends, intends attempts, and sends what is to be written.
    fn runs_turn(&mut self, makes_attempts: bool) {
        for _ in 0..self.dice.roll(4) {
            let Some((id, is_durable)) = self.runs.inbox.pop_front() else {
                break;
            };
            self.runs.n_received += u64::from(!is_durable);
            assert!(self.runs.heard.insert(id), "each end is heard once");
            self.runs.coming.outcomes.push(id);
        }
        if makes_attempts {
            for _ in 0..self.dice.roll(3) {
                self.runs.n_attempts += 1;
                let id = id_of(self.runs.n_attempts);
                self.runs.coming.intents.push(id);
            }
        }
        let coming = std::mem::take(&mut self.runs.coming);
        if coming.intents.is_empty() && coming.outcomes.is_empty() {
            if self.runs.n_received > self.runs.n_told {
                self.runs.n_told = self.runs.n_received;
                self.said.push(FromRuns::Received(self.runs.n_received));
            }
            return;
        }
        let intents = coming.intents.iter().filter(|_| self.dice.roll(4) > 0);
        let attempts = intents.map(|id| (submission(*id, self.now_ms), *id)).collect();
        self.said.push(FromRuns::Commit(RunsCommit {
            batch: coming.clone(),
            n_received: self.runs.n_received,
            attempts,
        }));
        self.runs.waits_for = Some(coming);
    }

    fn commit(&mut self) {
        if self.dice.roll(2) == 0 {
            self.queue.handle_jobs(std::mem::take(&mut self.asked));
        }
        let mut commit = self.queue.poll_commit();
        let Some((recorded, jobs)) = self.joint.take() else {
            if !commit.jobs.is_empty() {
                let stored = self.committer.handle_commit(&commit).unwrap();
                self.stored.push(stored);
            }
            return;
        };
        let ends: BTreeSet<ExecutionId> = recorded.outcomes.iter().copied().collect();
        let is_of_it = |job: &&Job| match &job.content {
            StoreWrite::Settle { settlement, .. } => ends.contains(&settlement.result.execution_id),
            _ => false,
        };
        self.n_joint += jobs.settles.iter().filter(is_of_it).count();
        commit.join(jobs);
        self.committer.store_mut().recorded = recorded;
        let (stored, of_runs) = self
            .committer
            .handle_together(&commit, &RunBatch::probe())
            .unwrap();
        self.runs.accepted.extend(commit.accepted_with_runs(&stored));
        self.stored.push(stored);
        let waited = self.runs.waits_for.take().unwrap();
        match of_runs {
            Ok(outcome) => assert_eq!(outcome, BatchOutcome::Done),
            Err(StoreFault::CorruptRun { .. }) => {
                self.runs
                    .lost
                    .extend(waited.intents.into_iter().chain(waited.outcomes));
            }
            Err(_) => self.runs.coming = waited,
        }
    }
}

fn id_of(number: u64) -> ExecutionId {
    let mut bytes = [7; 16];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    ExecutionId::from_random(bytes)
}

/// Returns a submission that no worker takes. It ends at its deadline.
fn submission(execution_id: ExecutionId, now_ms: u64) -> Submission {
    let draft = RequestDraft {
        execution_id: Some(execution_id.to_string()),
        deadline_ms: Some(moment(now_ms + 50).unix_ms),
        ..RequestDraft::default()
    };
    Submission {
        namespace: NamespaceKey::default(),
        submitter: Submitter::ForAccept(CallerId(1_000 + now_ms).into()),
        request: request(execution_id, draft),
        fresh_id: execution_id,
        may_nest: true,
        until_decided: UntilDecided::default(),
    }
}

fn moment(now_ms: u64) -> Moment {
    Moment {
        monotonic_ms: now_ms,
        unix_ms: 1_763_700_000_000 + i64::try_from(now_ms).unwrap(),
    }
}

// RUN-4.2, RUN-9.3, R-9.2
#[test]
fn no_write_is_durable_before_the_writes_that_it_needs() {
    let (mut n_joint, mut n_outcomes, mut n_lost) = (0, 0, 0);
    for seed in 1..=300 {
        let mut world = World::new(seed);
        for _ in 0..150 {
            world.step(true);
        }
        world.committer.store_mut().fails = false;
        for _ in 0..600 {
            world.step(false);
        }
        assert!(world.runs.waits_for.is_none(), "seed {seed}: a batch waits");
        assert!(world.runs.inbox.is_empty(), "seed {seed}");
        let durable = &world.committer.store_mut().durable;
        for id in &durable.accepts {
            assert!(durable.settles.contains(id), "seed {seed}: {id} has no end");
        }
        for id in &world.runs.accepted {
            assert!(
                world.runs.heard.contains(id),
                "seed {seed}: the end of {id} was not delivered"
            );
        }
        for id in &world.runs.heard {
            let is_known = durable.outcomes.contains(id) || world.runs.lost.contains(id);
            assert!(is_known, "seed {seed}: the outcome of {id} is not durable");
        }
        n_joint += world.n_joint;
        n_outcomes += durable.outcomes.len();
        n_lost += world.runs.lost.len();
    }
    assert!(n_outcomes > 5_000 && n_lost > 100, "{n_outcomes}, {n_lost}");
    assert!(
        n_joint * 2 > n_outcomes,
        "{n_joint} of {n_outcomes} shared a commit"
    );
}
