//! Runs, and what of them is on its way to the store.

mod defining;
mod making;
mod pace;

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use escapement_model::RunId;
use escapement_model::planted::{self, Bug};
use escapement_run::{Blobs, Effect, Input, Run};
use escapement_runs::{Config, Counted, Durable, NotHandled, Runs, Work};
use escapement_store::StoreFault;
use escapement_store::runs::{BatchOutcome, ClientRequest, RunBatch, RunReader, RunStore, Scope};

pub use making::{Create, Fork, NotCreated, NotForked};

use crate::contents::Contents;
use crate::definitions::Definitions;
use crate::limits::{RESTING_BYTES_MAX, RESTING_MAX};
use crate::recent::RecentRuns;
use crate::recovery::{Damaged, recover};
use crate::revisions::KnownRevisions;
use crate::writes::{Coming, Queued, Written, write_of};

/// Result of an input that comes with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handled {
    /// The input was applied.
    Done,
    /// The request was answered before, about that run; with its digest. Nothing changed.
    Before(RunId, [u8; 32]),
    /// The stored request is damaged, for this reason. Nothing changed.
    Damaged(String),
}

/// A run that ended, durably, and whose parent may wait for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The run.
    pub run_id: RunId,
    /// The run that asked for it.
    pub parent: RunId,
    /// Last entry, encoded.
    pub last_entry: Bytes,
}

/// Runs, and what of them is on its way to the store.
pub struct RunsHost {
    pub(crate) runs: Runs,
    /// Sessions that are gone with the next batch.
    pub(crate) deleted_sessions: Vec<String>,
    /// Unix milliseconds of the last change.
    pub(crate) now: i64,
    contents: Contents,
    revisions: KnownRevisions,
    /// To be written, in order.
    queue: VecDeque<Queued>,
    /// Bytes of them, about.
    queue_bytes: usize,
    /// Runs that continued without an input since the last polled batch: by timers, by admission, or by the start.
    n_own: usize,
    /// Runs that have not heard of the start yet. Nothing else comes before that.
    unheard: BTreeSet<RunId>,
    /// True if the stop before this start was asked for and came to its end.
    stopped_orderly: bool,
    pub(crate) definitions: Definitions,
    /// Written, and not known to be durable.
    written: Vec<Written>,
    /// Ended with that, and their parents may wait for them.
    ending: Vec<Ended>,
    /// Ended with that.
    ending_runs: Vec<(RunId, Run)>,
    /// Ended, durably, a moment ago.
    recent: RecentRuns,
    /// Events for metrics of the batch that became durable last.
    counted: Vec<Counted>,
    /// May leave.
    ready: Vec<(RunId, Effect)>,
    /// Ended, and their parents may wait for them.
    ended: Vec<Ended>,
}

impl core::fmt::Debug for RunsHost {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RunsHost")
            .field("runs", &self.runs)
            .finish_non_exhaustive()
    }
}

impl RunsHost {
    /// Takes up what the store holds. [`RunsHost::time`] tells each run of the start, before anything else; what it has
    /// outstanding leaves once its entries are durable.
    ///
    /// # Errors
    /// [`StoreFault`] if the store as a whole cannot be read.
    pub fn open(store: &dyn RunStore, config: Config, now: i64) -> Result<(Self, Vec<Damaged>), StoreFault> {
        let contents = Contents::new(store.reader()?);
        let mut runs = Runs::new(config);
        let damaged = recover(contents.reader(), contents.plans(), &mut runs)?;
        let mut definitions = Definitions::open(contents.reader())?;
        let stopped_orderly = definitions.take_stop_mark(contents.reader())?;
        let mut host = Self {
            unheard: runs.ids().collect(),
            stopped_orderly,
            runs,
            deleted_sessions: Vec::new(),
            now,
            contents,
            revisions: KnownRevisions::default(),
            queue: VecDeque::new(),
            queue_bytes: 0,
            n_own: 0,
            definitions,
            written: Vec::new(),
            ending: Vec::new(),
            ending_runs: Vec::new(),
            recent: RecentRuns::default(),
            counted: Vec::new(),
            ready: Vec::new(),
            ended: Vec::new(),
        };
        if planted::is_on(Bug::RunRecoveryUnheard) {
            host.unheard.clear();
        }
        host.time(now);
        Ok((host, damaged))
    }

    /// Returns the changes that are queued, or written and not known to be durable.
    fn coming(&self) -> impl Iterator<Item = &Coming> {
        let queued = self.queue.iter().map(|queued| &queued.coming);
        queued.chain(self.written.iter().map(|written| &written.coming))
    }

    /// Hands an input to a run.
    ///
    /// # Errors
    /// [`NotHandled`]: nothing changed.
    pub fn handle(&mut self, run_id: RunId, input: Input, now: i64) -> Result<(), NotHandled> {
        self.catch_up(run_id, now);
        if let Some(work) = self.runs.handle(run_id, input, now, &self.contents)? {
            self.push(work, None);
        }
        self.admit(now);
        Ok(())
    }

    /// Hands an input to a run, once for that request of a caller. One that changes nothing is not remembered.
    ///
    /// # Errors
    /// [`NotHandled`]: nothing changed.
    ///
    /// # Panics
    /// If the store as a whole cannot be read.
    pub fn handle_once(
        &mut self,
        run_id: RunId,
        input: Input,
        request: ClientRequest,
        now: i64,
    ) -> Result<Handled, NotHandled> {
        match self.answered(&request.key) {
            Ok(None) => {}
            Ok(Some((run_id, digest))) => return Ok(Handled::Before(run_id, digest)),
            Err(why) => return Ok(Handled::Damaged(why)),
        }
        self.catch_up(run_id, now);
        if let Some(work) = self.runs.handle(run_id, input, now, &self.contents)? {
            self.push(work, Some(request));
        }
        self.admit(now);
        Ok(Handled::Done)
    }

    fn push(&mut self, mut work: Work, request: Option<ClientRequest>) {
        self.definitions.note(&work);
        for (digest, bytes) in &work.blobs {
            self.contents.come(*digest, Bytes::clone(bytes));
        }
        for row in &work.revisions {
            let scope = Scope::of(&work.index.namespace, &work.index.user_id);
            let below = self
                .revisions
                .below(self.contents.reader(), &scope, &row.sub_plans);
            work.pinned.extend(below);
        }
        self.queue_bytes += bytes_of(&work);
        self.queue.push_back(Queued::new(work, request));
    }

    /// Returns everything that is to be written, to be committed together; `None` if there is nothing.
    ///
    /// # Panics
    /// If the batch before is not answered yet.
    pub fn poll_batch(&mut self) -> Option<RunBatch> {
        assert!(self.written.is_empty(), "one batch after another");
        let mut batch = RunBatch::new();
        // RUN-14.4
        for write in self.session_writes() {
            batch.define(write);
        }
        (self.queue_bytes, self.n_own) = (0, 0);
        self.ending_runs = self.runs.take_ended();
        for queued in self.queue.drain(..) {
            self.ending.extend(ended(&queued.work));
            if batch.writes().is_empty() || !planted::is_on(Bug::RunWriteDropped) {
                batch.add(write_of(&queued));
            }
            self.written.push(queued.written());
            if planted::is_on(Bug::RunEffectsEarly) || planted::is_on(Bug::RunAcceptEarly) {
                let early = self
                    .written
                    .iter_mut()
                    .map(|it| (it.coming.run_id, core::mem::take(&mut it.effects)));
                let early =
                    early.flat_map(|(run_id, effects)| effects.into_iter().map(move |it| (run_id, it)));
                self.ready.extend(early);
            }
        }
        self.definitions.write(&mut batch);
        (!batch.is_empty()).then_some(batch)
    }

    // RUN-9.3
    /// Returns the effects of the last polled batch. They may become durable in the same atomic write, and leave once that is
    /// durable.
    pub fn leaving(&self) -> impl Iterator<Item = (RunId, &Effect)> {
        let written = self.written.iter();
        written.flat_map(|written| {
            let effects = written.effects.iter();
            effects.map(|effect| (written.coming.run_id, effect))
        })
    }

    // RUN-9.3
    /// Releases the effects of a batch that is durable.
    ///
    /// # Panics
    /// If the store refused it: the host and the store do not agree on what was written.
    pub fn handle_committed(&mut self, outcome: BatchOutcome) {
        assert_eq!(
            outcome,
            BatchOutcome::Done,
            "host and store agree on what was written"
        );
        if self.queue.is_empty() {
            self.contents.arrived();
        }
        self.runs.sessions_mut().let_go();
        self.definitions.written();
        self.counted.clear();
        for Written {
            coming,
            counted,
            effects,
        } in self.written.drain(..)
        {
            self.counted.extend(counted);
            let effects = effects.into_iter().map(|effect| (coming.run_id, effect));
            self.ready.extend(effects);
        }
        self.ended.append(&mut self.ending);
        for (run_id, run) in self.ending_runs.drain(..) {
            // What a discarded run refers to is gone: it is looked at as the store has it.
            if !run.state().is_discarded() {
                self.recent.keep(run_id, run);
            }
        }
        self.park(RESTING_MAX);
    }

    /// Forgets a run of the batch that was polled last: the store has lost what its write builds on.
    pub fn set_aside(&mut self, run_id: RunId) {
        self.runs.set_aside(run_id);
        self.written.retain(|written| written.coming.run_id != run_id);
        self.ending.retain(|ended| ended.run_id != run_id);
        self.ending_runs.retain(|(ended, _)| *ended != run_id);
    }

    /// Returns the effects that may leave, in the order of their decisions.
    pub fn poll_effects(&mut self) -> Vec<(RunId, Effect)> {
        core::mem::take(&mut self.ready)
    }

    /// Returns the events for metrics of the batch that became durable last.
    pub fn poll_counted(&mut self) -> Vec<Counted> {
        core::mem::take(&mut self.counted)
    }

    /// Runs that have ended, durably, and whose parents may wait for them.
    pub fn poll_ended(&mut self) -> Vec<Ended> {
        core::mem::take(&mut self.ended)
    }

    /// Returns the contents of runs, by SHA-256.
    pub fn blobs(&self) -> &dyn Blobs {
        &self.contents
    }

    // RUN-9.9
    /// Parks runs that rest until at most so many are in memory, if nothing is on its way to the store. They are folded from
    /// their journals when they are needed. Returns how many were parked.
    pub fn park(&mut self, max_runs: usize) -> usize {
        let is_durable = self.queue.is_empty() && self.written.is_empty();
        if !is_durable && !planted::is_on(Bug::RunParkedEarly) {
            return 0;
        }
        self.runs.park(max_runs, RESTING_BYTES_MAX)
    }

    /// Returns the run, if it lives, with what it refers to.
    ///
    /// # Panics
    /// As the store's reader fails.
    pub fn run(&mut self, run_id: RunId) -> Option<(&Run, &dyn Blobs)> {
        self.park(RESTING_MAX);
        let run = self.runs.get(run_id, &self.contents)?;
        Some((run, &self.contents))
    }

    /// Returns the run as it durably is, if it lives or has ended a moment ago, with what it refers to. Nothing may be on its way to the
    /// store.
    ///
    /// # Panics
    /// As the store's reader fails.
    pub fn look(&mut self, run_id: RunId) -> Option<(&Run, &dyn Blobs)> {
        self.park(RESTING_MAX);
        let live = self.runs.get(run_id, &self.contents);
        let run = live.or_else(|| self.recent.get(run_id))?;
        Some((run, &self.contents))
    }

    // RUN-9.9
    /// Returns a view of a run, if it lives. A parked run stays parked: for callers that read many runs.
    ///
    /// # Panics
    /// As the store's reader fails.
    pub fn peek<T>(&self, run_id: RunId, peek: impl FnOnce(&Run) -> T) -> Option<T> {
        if !self.runs.contains(run_id) {
            return None;
        }
        match self.runs.in_memory(run_id) {
            Some(run) => Some(peek(run)),
            None => self.contents.fold(run_id).ok().map(|run| peek(&run)),
        }
    }

    /// Returns parked runs that could not be loaded. They do not continue.
    pub fn poll_damaged(&mut self) -> Vec<Damaged> {
        let lost = self.runs.take_lost().into_iter();
        let damaged = lost.map(|lost| Damaged {
            run_id: Some(lost.run_id),
            parent: lost.parent,
            why: lost.why,
        });
        damaged.collect()
    }

    /// Stops the run because one of its contents is lost. Used for a loss that is found outside of an input.
    pub fn lose(&mut self, run_id: RunId, why: String) {
        self.runs.lose(run_id, why);
    }

    /// Forgets the runs that have ended: the store may have removed some of them.
    pub fn forget_ended(&mut self) {
        self.recent.clear();
    }

    /// Returns the live runs.
    pub fn runs(&self) -> &Runs {
        &self.runs
    }

    /// Returns a reader of the durable state.
    pub fn reader(&self) -> &dyn RunReader {
        self.contents.reader()
    }
}

/// Returns the approximate number of bytes that the work writes.
fn bytes_of(work: &Work) -> usize {
    let entries: usize = work.entries.iter().map(|entry| entry.bytes.len()).sum();
    let blobs: usize = work.blobs.iter().map(|(_, bytes)| bytes.len()).sum();
    entries + blobs + work.snapshot.as_ref().map_or(0, bytes::Bytes::len)
}

/// Returns the run that ended with this work, if it has a parent.
fn ended(work: &Work) -> Option<Ended> {
    if work.index.due_at.is_some() {
        return None;
    }
    Some(Ended {
        run_id: work.run_id,
        parent: work.index.parent_run_id?,
        last_entry: work.entries.last()?.bytes.clone(),
    })
}
