//! The thread that writes the store, in virtual time: real commits of the real conversions, one after another.
//! Ends no process itself, and keeps nothing across one but the disk.

use crate::dice::Dice;
use crate::disk::{Disk, End, OpenStore};
use crate::replaying::Replayer;
use crate::shares::{Shares, SharesJudge};
use crate::turns::TurnsJudge;
use escapement_engine::{StoreWrite, WriteOutcome};
use escapement_host::recovery::{self, Unsettled};
use escapement_host::{Commit, Committer, Job, StoredBatch, WriteQueue};
use escapement_model::ExecutionId;
use escapement_store::{Reader, Store};
use std::collections::{BTreeMap, BTreeSet};

/// The disk, and what the running process has open on it.
#[derive(Debug)]
pub(crate) struct Storage {
    pub(crate) disk: Disk,
    open: Option<Open>,
    /// No space until then.
    pub(crate) full_until_ms: u64,
    /// Commits take long until then.
    pub(crate) slow_until_ms: u64,
    /// A write or a sync of it does.
    pub(crate) next_commit_fails: bool,
    /// The process ends while the next commit does its writes.
    pub(crate) next_commit_ends: Option<End>,
    /// A commit takes up to so long otherwise.
    commit_ms_max: u64,
    /// What commits have answered as durable. Outlives processes, as callers do.
    accepted: BTreeSet<ExecutionId>,
    settled: BTreeSet<ExecutionId>,
    /// The process that tried last to settle it. Where it has settled, that one did it.
    settled_by: BTreeMap<ExecutionId, u64>,
    pub(crate) n_commits: u64,
    pub(crate) replayer: Replayer,
    /// What namespaces may take, by the policy's file.
    pub(crate) shares: Shares,
    pub(crate) shares_judge: SharesJudge,
    pub(crate) turns_judge: TurnsJudge,
}

struct Open {
    boot: u64,
    committer: Committer<OpenStore>,
    reader: Box<dyn Reader>,
    waiting: WriteQueue,
    under_way: Option<UnderWay>,
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Open")
            .field("boot", &self.boot)
            .field("under_way", &self.under_way)
            .finish_non_exhaustive()
    }
}

/// A commit on its way.
#[derive(Debug)]
struct UnderWay {
    commit: Commit,
    /// When readers see it and the engine hears of it: at once, because lists read the store and all other questions go to
    /// the engine first. A process that ends between both has ended in a commit.
    ends_at_ms: u64,
}

/// What the writer has come to.
#[derive(Debug)]
pub(crate) enum Progress {
    Nothing,
    Answers(StoredBatch),
    /// The process was to end in this commit, and has.
    Ended(End),
    /// A fault behind which nothing more may be acknowledged.
    Died(String),
}

impl Storage {
    pub(crate) fn new(disk: Disk, commit_ms_max: u64, shares: Shares) -> Self {
        Self {
            disk,
            open: None,
            full_until_ms: 0,
            slow_until_ms: 0,
            next_commit_fails: false,
            next_commit_ends: None,
            commit_ms_max,
            accepted: BTreeSet::new(),
            settled: BTreeSet::new(),
            settled_by: BTreeMap::new(),
            n_commits: 0,
            replayer: Replayer::default(),
            shares,
            shares_judge: SharesJudge::default(),
            turns_judge: TurnsJudge::default(),
        }
    }

    /// These hold from now on.
    pub(crate) fn shares_change(&mut self, shares: Shares) {
        self.turns_judge.shares_change(&shares);
        self.shares = shares;
    }

    /// A new process opens what there is, and reads what is not settled.
    ///
    /// # Errors
    /// What the process would say before it exits.
    pub(crate) fn open(&mut self, now_ms: u64, boot: u64, in_memory_max: usize) -> Result<Unsettled, String> {
        assert!(self.open.is_none(), "one process has the store open");
        self.disk.set_full(now_ms < self.full_until_ms);
        let store = self.disk.open().map_err(|fault| kind(&fault))?;
        let reader = store.reader().map_err(|fault| kind(&fault))?;
        let recovered =
            recovery::unsettled(reader.as_ref(), false, in_memory_max).map_err(|fault| kind(&fault))?;
        let parked = recovered.parked.iter().flatten().map(|one| one.execution_id);
        let whole = recovered.whole.iter().map(|one| one.execution_id);
        let unsettled: Vec<ExecutionId> = whole.chain(parked).collect();
        self.turns_judge.begins(unsettled.iter().copied(), &self.shares);
        self.shares_judge.begins(unsettled);
        self.open = Some(Open {
            boot,
            committer: Committer::new(store),
            reader,
            waiting: WriteQueue::default(),
            under_way: None,
        });
        Ok(recovered)
    }

    /// Reads what the running process would read.
    pub(crate) fn reader(&self) -> &dyn Reader {
        self.open
            .as_ref()
            .expect("a process has the store open")
            .reader
            .as_ref()
    }

    pub(crate) fn write(&mut self, jobs: Vec<Job>) {
        let open = self.open.as_mut().expect("a process has the store open");
        for job in &jobs {
            self.replayer.written(&job.content);
            self.shares_judge.decided(&job.content, &self.shares);
            self.turns_judge.decided(&job.content);
            if let StoreWrite::Settle { settlement, .. } = &job.content {
                self.settled_by.insert(settlement.result.execution_id, open.boot);
            }
        }
        open.waiting.handle_jobs(jobs);
    }

    /// When there is something to do, at the earliest. `None`: nothing, or it can be done at once.
    pub(crate) fn next_at_ms(&self, now_ms: u64) -> Option<u64> {
        let open = self.open.as_ref()?;
        match &open.under_way {
            Some(under_way) => Some(under_way.ends_at_ms),
            None => (!open.waiting.is_empty()).then_some(now_ms),
        }
    }

    /// Does the next thing that is due. Group commit: what waits is written together, once the commit before is over.
    pub(crate) fn progress(&mut self, now_ms: u64, dice: &mut Dice) -> Progress {
        let (is_slow, is_full) = (now_ms < self.slow_until_ms, now_ms < self.full_until_ms);
        let Some(open) = self.open.as_mut() else {
            return Progress::Nothing;
        };
        if open.under_way.is_none() && !open.waiting.is_empty() {
            let ms = dice.roll(self.commit_ms_max + 1) + if is_slow { dice.between(200, 2_000) } else { 0 };
            open.under_way = Some(UnderWay {
                commit: open.waiting.poll_commit(),
                ends_at_ms: now_ms + ms,
            });
        }
        let is_over = |under_way: &mut UnderWay| under_way.ends_at_ms <= now_ms;
        let Some(UnderWay { commit, .. }) = open.under_way.take_if(is_over) else {
            return Progress::Nothing;
        };
        self.disk.set_full(is_full);
        open.committer.store_mut().set_full(is_full);
        self.n_commits += 1;
        if let Some(end) = self.next_commit_ends.take() {
            self.disk.break_off_next_commit(dice);
            let _nobody_hears = open.committer.handle_commit(&commit);
            return Progress::Ended(end);
        }
        if std::mem::take(&mut self.next_commit_fails) {
            self.disk.fail_next_commit(dice);
        }
        let answers = match open.committer.handle_commit(&commit) {
            Ok(answers) => answers,
            Err(fault) => return Progress::Died(kind(&fault)),
        };
        for (job, (_, outcome)) in commit.jobs.iter().zip(&answers) {
            let is_durable = *outcome == WriteOutcome::Durable;
            self.turns_judge.answered(&job.content, is_durable);
            if is_durable {
                self.shares_judge.written(&job.content);
                match &job.content {
                    StoreWrite::Accept { execution_id, .. } => self.accepted.insert(*execution_id),
                    StoreWrite::Settle { settlement, .. } => {
                        self.settled.insert(settlement.result.execution_id)
                    }
                    StoreWrite::Start { .. } | StoreWrite::RememberActions { .. } => false,
                };
            }
        }
        Progress::Answers(answers)
    }

    /// The process ends. `in_a_commit`: while the next commit, or the one that is under way, does its writes.
    /// True if that was so.
    pub(crate) fn end(&mut self, end: End, in_a_commit: bool, dice: &mut Dice) -> bool {
        let Some(mut open) = self.open.take() else {
            return false;
        };
        let not_applied = match open.under_way.take() {
            Some(under_way) => under_way.commit,
            None => open.waiting.poll_commit(),
        };
        let mut is_in_a_commit = false;
        if end == End::Exits {
            // The writer writes what it was given before it ends.
            let _full = open.committer.handle_commit(&not_applied);
            let _full = open.committer.handle_commit(&open.waiting.poll_commit());
        } else if in_a_commit && !not_applied.jobs.is_empty() {
            is_in_a_commit = true;
            self.disk.break_off_next_commit(dice);
            let _nobody_hears = open.committer.handle_commit(&not_applied);
        }
        if end == End::Exits {
            drop(open);
            self.disk.after(end, dice);
        } else {
            // Whatever the handles would do at their end, the process is gone before it.
            self.disk.after(end, dice);
            drop(open);
        }
        is_in_a_commit
    }

    /// Some commit has answered that it is accepted.
    pub(crate) fn is_accepted(&self, id: ExecutionId) -> bool {
        self.accepted.contains(&id)
    }

    /// Some commit has answered that it is settled.
    pub(crate) fn is_settled(&self, id: ExecutionId) -> bool {
        self.settled.contains(&id)
    }

    pub(crate) fn settled_by(&self, id: ExecutionId) -> Option<u64> {
        self.settled_by.get(&id).copied()
    }
}

/// What a fault is, without the number of the disk wherever a path has it: that depends on what else the process did.
fn kind(fault: &impl std::fmt::Debug) -> String {
    let text = format!("{fault:?}");
    let mut pieces = text.split("/disk-");
    let before = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(before, |text, rest| {
        text + "/disk" + rest.trim_start_matches(|character: char| character.is_ascii_digit())
    })
}
