//! A commit with everything that may go wrong with it.

use std::collections::BTreeSet;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use escapement_model::RunId;
use escapement_store::StoreFault;
use escapement_store::runs::{
    BatchOutcome, DefinitionKind, DefinitionWrite, RunBatch, RunConflict, RunStore, RunWrite,
};
use tracing::{info, warn};

use super::leaving::attempt_of;
use super::{Ending, RunsLoop, Stop, longer};
use crate::children::{ChildEnd, parent_of};
use crate::error::CallError;
use crate::limits::{REFUSED_PAUSE, REFUSED_PAUSE_MAX};
use crate::message::{Message, Received, StoreWork};
use crate::run_log;
use crate::store_port::Joined;
use crate::tally::Happened;

/// What came of a commit.
pub(super) enum Committed {
    Done,
    /// A run of the batch is damaged, or builds on one that is; nothing was written.
    Damaged(String),
}

impl<S: RunStore> RunsLoop<S> {
    /// Writes what there is. Everything that is written when this returns is durable.
    pub(super) fn write(&mut self) -> Result<(), Stop> {
        if self.joint.is_none() {
            self.joint = self.joint_slot.take();
        }
        let Some(batch) = self.host.poll_batch() else {
            if let Some(joint) = &mut self.joint {
                joint.report();
            }
            return Ok(());
        };
        match self.commit_by(&batch, false, Self::commit_leaving)? {
            Committed::Done => self.tell_followers(&batch),
            Committed::Damaged(_) => self.write_alone(&batch)?,
        }
        self.host.handle_committed(BatchOutcome::Done);
        self.report_ended(&batch);
        for counted in self.host.poll_counted() {
            self.tally.tell(Happened::Counted(counted));
        }
        self.tally.tell(Happened::Stands(self.host.runs().census()));
        Ok(())
    }

    /// Logs and traces the runs that ended. Leaves out discarded runs, and runs that are too large to be read here.
    fn report_ended(&mut self, batch: &RunBatch) {
        let has_ended = |write: &&RunWrite| write.progress.ended_at.is_some() && !write.purges;
        for write in batch.writes().iter().filter(has_ended) {
            let Some((run, _)) = self.host.look(write.run_id) else {
                continue;
            };
            run_log::ended(write.run_id, run);
            if let Some(traces) = &self.traces {
                traces.ended(write.run_id, &run.state().spec);
            }
        }
    }

    /// Writes each run of a refused batch separately, and sets aside those that are damaged and those that
    /// build on them. Their parents are notified. New runs are complete, and are written with the definitions
    /// if possible. A run or definition that is too large for the store is left out, and the others continue.
    fn write_alone(&mut self, batch: &RunBatch) -> Result<(), Stop> {
        let batch = &without_large_definitions(batch);
        let (mut new, mut old) = (RunBatch::new(), RunBatch::new());
        for write in batch.writes() {
            let is_new = write.created.is_some();
            if is_new { &mut new } else { &mut old }.add(write.clone());
        }
        // RUN-14.4: sessions are as the runs made them, also those of runs that are set aside.
        for definition in batch.definitions() {
            new.define(definition.clone());
        }
        if !new.is_empty() {
            match self.commit(&new, false)? {
                Committed::Done => self.tell_followers(&new),
                Committed::Damaged(_) => {
                    let mut definitions = RunBatch::new();
                    // TRIG-1.2: the mapping from firings to these runs is not known here. A firing may not
                    // claim the start of a run that has not started. Its cause fires again, and finds the run
                    // if it exists.
                    let fires = |kind| matches!(kind, DefinitionKind::Trigger | DefinitionKind::Firing);
                    for definition in batch.definitions().iter().filter(|it| !fires(it.kind)) {
                        definitions.define(definition.clone());
                    }
                    self.commit(&definitions, false)?;
                    self.tell_followers(&definitions);
                    self.fail(&CallError::Store);
                    old = batch.clone();
                }
            }
        }
        let mut aside = BTreeSet::new();
        for write in old.writes() {
            if aside.contains(&write.run_id) {
                continue;
            }
            let mut alone = RunBatch::new();
            alone.add(write.clone());
            match self.commit(&alone, !aside.is_empty())? {
                Committed::Done => self.tell_followers(&alone),
                Committed::Damaged(why) => {
                    warn!(run_id = %write.run_id, why, "run is damaged and does not go on");
                    aside.insert(write.run_id);
                    self.set_aside(write);
                    // Which of the calls are about this run is not known here.
                    self.fail(&CallError::Store);
                }
            }
        }
        Ok(())
    }

    /// The run does not go on: who follows it looks again, and a parent does not wait for it any more.
    fn set_aside(&mut self, write: &RunWrite) {
        let run_id = write.run_id;
        let parent = self.host.run(run_id).and_then(|(run, _)| parent_of(run));
        self.host.set_aside(run_id);
        self.live.set_aside(run_id);
        self.follows.run_moved(run_id, write.seq_behind() - 1);
        if let Some(parent) = parent {
            let why = "the child run is damaged".to_owned();
            self.child_ended(parent, run_id, ChildEnd::unreadable(why));
        }
    }

    /// Tries until the store takes the batch. `after_damage`: a run on which it may build was set aside.
    pub(super) fn commit(&mut self, batch: &RunBatch, after_damage: bool) -> Result<Committed, Stop> {
        self.commit_by(batch, after_damage, Self::commit_once)
    }

    /// Commits a batch together with the ends that it builds on.
    fn commit_once(&mut self, batch: &RunBatch) -> Result<BatchOutcome, StoreFault> {
        match &mut self.joint {
            Some(joint) if joint.owes() => Ok(joint.commit(batch, Vec::new())?.outcome),
            _ => self.store.commit(batch),
        }
    }

    // RUN-4.2
    /// Commits the last polled batch. Its attempts are accepted in the same commit if possible.
    fn commit_leaving(&mut self, batch: &RunBatch) -> Result<BatchOutcome, StoreFault> {
        // Until then an attempt may have been accepted before the start.
        let Some(joint) = self.joint.as_mut().filter(|_| self.host.has_told_start()) else {
            return self.commit_once(batch);
        };
        let effects: Vec<_> = self
            .host
            .leaving()
            .map(|(id, effect)| (id, effect.clone()))
            .collect();
        let attempts = effects.into_iter().filter_map(|(run_id, effect)| {
            let (run, _) = self.host.run(run_id)?;
            attempt_of(self.traces.as_deref(), run_id, run, effect)
        });
        let leaving = joint.leaving(attempts);
        if leaving.is_empty() {
            return self.commit_once(batch);
        }
        let Joined { outcome, accepted } = joint.commit(batch, leaving)?;
        self.accepted.extend(accepted);
        Ok(outcome)
    }

    fn commit_by(
        &mut self,
        batch: &RunBatch,
        after_damage: bool,
        commit: fn(&mut Self, &RunBatch) -> Result<BatchOutcome, StoreFault>,
    ) -> Result<Committed, Stop> {
        let mut pause = REFUSED_PAUSE;
        loop {
            let began = Instant::now();
            match commit(self, batch) {
                Ok(BatchOutcome::Refused { run_id, conflict }) => {
                    return Ok(Committed::Damaged(why_refused(run_id, &conflict, after_damage)));
                }
                Ok(BatchOutcome::DefinitionTooLarge { bound, .. }) => {
                    return Ok(Committed::Damaged(format!("a definition is too large: {bound}")));
                }
                Ok(BatchOutcome::Done) => {
                    self.tally.tell(Happened::Committed(began.elapsed()));
                    if std::mem::take(&mut self.is_refusing) {
                        // Since when it took none nobody knows.
                        self.seen_at = self.seen_at.min(self.written_at);
                        info!("store of runs takes writes again");
                        self.tally.tell(Happened::TakesWrites(true));
                    }
                    self.written_at = self.clock.now();
                    return Ok(Committed::Done);
                }
                Err(fault @ (StoreFault::Full(_) | StoreFault::Busy(_))) => {
                    self.note_refusal(&fault);
                    self.fail(&CallError::Store);
                    let refusal = match fault {
                        StoreFault::Full(_) => CallError::StoreFull,
                        _ => CallError::Store,
                    };
                    self.refuse_for(pause, &refusal, batch)?;
                    pause = longer(pause, REFUSED_PAUSE_MAX);
                }
                Err(fault @ StoreFault::CorruptRun { .. }) => {
                    return Ok(Committed::Damaged(fault.to_string()));
                }
                Err(fault) => {
                    (self.cannot_go_on)(Ending::Store(&fault));
                    return Err(Stop);
                }
            }
        }
    }

    /// Says it once, until a commit goes through.
    fn note_refusal(&mut self, fault: &StoreFault) {
        if !std::mem::replace(&mut self.is_refusing, true) {
            self.tally.tell(Happened::TakesWrites(false));
            warn!(
                error = fault as &dyn std::error::Error,
                "store of runs takes no writes now"
            );
        }
    }

    /// While the store takes no writes: changes are refused, looks see what is durable, what comes back is kept.
    fn refuse_for(&mut self, pause: Duration, refusal: &CallError, batch: &RunBatch) -> Result<(), Stop> {
        let n_pinned: usize = batch.writes().iter().map(|write| write.pinned.len()).sum();
        for (look, _room) in self.looks.drain(..) {
            look.look(None);
        }
        for (work, _room) in std::mem::take(&mut self.works) {
            self.work_or_refuse(work, n_pinned, refusal);
        }
        let until = Instant::now() + pause;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let received = self.messages.recv_timeout(left);
            match received.map(|Received { at, message }| (at, message)) {
                Ok((_, Message::Change(change, _room))) => change.answer(Err(refusal.clone())),
                Ok((_, Message::Look(look, _room))) => look.look(None),
                Ok((_, Message::Store(work, _room))) => self.work_or_refuse(work, n_pinned, refusal),
                Ok((at, message @ Message::Returned(_))) => {
                    self.held.push_back(Received { at, message });
                }
                Ok((_, Message::Stop)) | Err(RecvTimeoutError::Disconnected) => return Err(Stop),
                Err(RecvTimeoutError::Timeout) => return Ok(()),
            }
        }
    }

    /// Works on a store that takes no writes. That may free space, or remove what the batch refers to.
    fn work_or_refuse(&mut self, work: Box<dyn StoreWork>, n_pinned: usize, refusal: &CallError) {
        if n_pinned > 0 {
            return work.refuse(refusal.clone());
        }
        let now = self.clock.now();
        work.work(&mut self.store, self.host.reader(), now);
        self.host.forget_ended();
    }

    fn tell_followers(&self, batch: &RunBatch) {
        let is_event = |write: &DefinitionWrite| write.kind == DefinitionKind::Event;
        if batch.definitions().iter().any(is_event) {
            self.noted.notify_one();
        }
        let writes = batch.writes();
        self.live.written(writes);
        for write in writes {
            self.follows.run_moved(write.run_id, write.seq_behind() - 1);
        }
        if writes
            .iter()
            .any(|write| !write.opened.is_empty() || !write.closed.is_empty())
        {
            self.follows.requests_moved();
        }
        if writes.iter().any(|write| !write.notices.is_empty()) {
            self.follows.notices_moved();
        }
        let n_ended = writes
            .iter()
            .filter(|write| write.progress.ended_at.is_some())
            .count();
        if n_ended > 0 {
            self.follows.runs_ended(n_ended as u64);
        }
    }
}

/// Returns the reason why a run cannot be written alone. `after_damage`: a run on which it may build was set
/// aside.
fn why_refused(run_id: RunId, conflict: &RunConflict, after_damage: bool) -> String {
    match conflict {
        RunConflict::ContentMissing { .. } => {
            format!("the write of run {run_id} builds on what the store has lost: {conflict:?}")
        }
        // RUN-9.13
        RunConflict::TooLarge(bound) => format!("the write of run {run_id} is too large: {bound}"),
        conflict => {
            assert!(
                after_damage,
                "host and store agree on what was written: {conflict:?}"
            );
            format!("the write of run {run_id} builds on a run that does not go on: {conflict:?}")
        }
    }
}

/// Returns the same batch without the definitions that exceed the limits of every store.
fn without_large_definitions(batch: &RunBatch) -> RunBatch {
    let mut held = RunBatch::new();
    for write in batch.writes() {
        held.add(write.clone());
    }
    for write in batch.definitions() {
        match write.check_bounds() {
            Ok(()) => held.define(write.clone()),
            Err(bound) => warn!(kind = ?write.kind, %bound, "definition is too large and is not written"),
        }
    }
    held
}
