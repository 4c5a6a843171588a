//! Runs, and what of them is on its way to the store.

use std::collections::VecDeque;

use bytes::Bytes;
use escapement_model::RunId;
use escapement_model::planted::{self, Bug};
use escapement_run::{Blobs, Effect, Input, Refused};
use escapement_runs::{Config, NewFork, NewRun, NotHandled, Runs, Work};
use escapement_store::StoreFault;
use escapement_store::runs::{BatchOutcome, ClientRequest, RunBatch, RunReader, RunStore, RunSummary};

use crate::contents::Contents;
use crate::recovery::{Damaged, recover};
use crate::revisions::documents_below;
use crate::writes::{Coming, Links, Queued, Written, write_of};

/// A run that is to be made.
#[derive(Clone, Debug)]
pub struct Create {
    /// The run.
    pub run: NewRun,
    /// What its caller may repeat, and gets the same run for.
    pub request: Option<ClientRequest>,
    /// The saved plan that it is a run of. Of these, one lives at a time.
    pub saved_plan: Option<String>,
}

/// Why a run was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotCreated {
    /// There are as many as there may be.
    Full,
    /// The request has made this run before, or its id is used; with the digest of the request that made it.
    Exists(RunId, Option<[u8; 32]>),
    /// This run of the same saved plan lives.
    AlreadyRunning(RunId),
}

/// What came of an input that a request goes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handled {
    /// It was taken in.
    Done,
    /// The request was answered before, about that run; with its digest. Nothing changed.
    Before(RunId, [u8; 32]),
}

/// A run that is to go on where another one was.
#[derive(Debug)]
pub struct Fork<'a> {
    /// The run.
    pub run: NewFork<'a>,
    /// What its caller may repeat, and gets the same run for.
    pub request: Option<ClientRequest>,
}

/// Why a run was not forked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotForked {
    /// No new run is made.
    NotCreated(NotCreated),
    /// The run that is to be forked is neither given nor lives, or the store has it no more.
    NotThere,
    /// That run refused it.
    Refused(Refused),
}

/// A run that ended, durably, and whose parent may wait for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The run.
    pub run_id: RunId,
    /// The run that asked for it.
    pub parent: RunId,
    /// Its last entry, encoded.
    pub last_entry: Bytes,
}

/// Runs, and what of them is on its way to the store.
pub struct RunsHost {
    runs: Runs,
    contents: Contents,
    /// To be written, in order.
    queue: VecDeque<Queued>,
    /// Written, and not known to be durable.
    written: Vec<Written>,
    /// Ended with that, and their parents may wait for them.
    ending: Vec<Ended>,
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
    /// Takes up what the store holds. What is outstanding leaves once its entries are durable.
    ///
    /// # Errors
    /// [`StoreFault`] if the store as a whole cannot be read.
    pub fn open(store: &dyn RunStore, config: Config, now: i64) -> Result<(Self, Vec<Damaged>), StoreFault> {
        let (recovered, damaged) = recover(&*store.reader()?)?;
        let mut host = Self {
            runs: Runs::new(config),
            contents: Contents::new(store.reader()?),
            queue: VecDeque::new(),
            written: Vec::new(),
            ending: Vec::new(),
            ready: Vec::new(),
            ended: Vec::new(),
        };
        let ids: Vec<RunId> = recovered.iter().map(|(run_id, _)| *run_id).collect();
        for (run_id, run) in recovered {
            host.runs.recover(run_id, run);
        }
        for run_id in ids
            .into_iter()
            .filter(|_| !planted::is_on(Bug::RunRecoveryUnheard))
        {
            // Time comes after all of them: it may end a run that was not taken up yet.
            let work = host.runs.handle(run_id, Input::Recovered, now, &host.contents);
            if let Some(work) = work.expect("it was taken up just now") {
                host.push(work, None);
            }
        }
        host.time(now);
        Ok((host, damaged))
    }

    /// Makes a run. It is there for its caller once its entries are durable.
    ///
    /// # Errors
    /// [`NotCreated`]: nothing changed.
    ///
    /// # Panics
    /// As the store's reader fails.
    pub fn create(&mut self, create: Create, now: i64) -> Result<RunId, NotCreated> {
        self.create_linked(create, Links::default(), now)
    }

    /// As [`RunsHost::create`], for a run that lists find by its links, too.
    pub fn create_linked(&mut self, create: Create, links: Links, now: i64) -> Result<RunId, NotCreated> {
        let Create {
            run,
            request,
            saved_plan,
        } = create;
        let request = request.filter(|_| !planted::is_on(Bug::RunRequestForgotten));
        let run_id = run.run_id;
        self.require_new(run_id, request.as_ref())?;
        if let Some(live) = saved_plan.as_ref().and_then(|plan| self.live_run_of(plan)) {
            return Err(NotCreated::AlreadyRunning(live));
        }
        let created = self.runs.create(run, now, &self.contents);
        let work = created.map_err(|why| not_created(why, run_id))?;
        self.push(work, request);
        let queued = self.queue.back_mut().expect("it was pushed just now");
        (queued.coming.plan, queued.coming.links) = (saved_plan, links);
        self.admit(now);
        Ok(run_id)
    }

    /// Makes a run that goes on where another one was. It is there for its caller once its entries are durable.
    ///
    /// # Errors
    /// [`NotForked`]: nothing changed.
    ///
    /// # Panics
    /// As the store's reader fails.
    pub fn fork(&mut self, fork: Fork<'_>, now: i64) -> Result<RunId, NotForked> {
        let Fork { run, request } = fork;
        let (run_id, from) = (run.run_id, run.from);
        self.require_new(run_id, request.as_ref())
            .map_err(NotForked::NotCreated)?;
        // What is not durable yet is written before the fork.
        let (stored, is_live) = (self.summary(from), self.runs.get(from).is_some());
        if stored.is_none() && !is_live {
            return Err(NotForked::NotThere);
        }
        let origin = stored.map(|from| from.created).unwrap_or_default();
        // One run of a saved plan lives at a time.
        let plan = origin.plan.filter(|_| !is_live);
        if let Some(live) = plan.as_ref().and_then(|plan| self.live_run_of(plan)) {
            return Err(NotForked::NotCreated(NotCreated::AlreadyRunning(live)));
        }
        let forked = self.runs.fork(run, now, &self.contents);
        let work = forked.map_err(|why| match why {
            escapement_runs::NotForked::NotCreated(why) => NotForked::NotCreated(not_created(why, run_id)),
            escapement_runs::NotForked::NotLive => NotForked::NotThere,
            escapement_runs::NotForked::Refused(refused) => NotForked::Refused(refused),
        })?;
        self.push(work, request);
        let coming = &mut self.queue.back_mut().expect("it was pushed just now").coming;
        (coming.plan, coming.links.goal, coming.links.trigger) = (plan, origin.goal, origin.trigger);
        self.admit(now);
        Ok(run_id)
    }

    /// Refuses a run that was made before.
    fn require_new(&self, run_id: RunId, request: Option<&ClientRequest>) -> Result<(), NotCreated> {
        if let Some(request) = request
            && let Some((run_id, digest)) = self.made_by(&request.key)
        {
            return Err(NotCreated::Exists(run_id, Some(digest)));
        }
        // A child that is asked for again after a restart may have ended, or have been removed.
        let removed = self.contents.reader().removed(run_id);
        let is_coming = self.coming().any(|coming| coming.run_id == run_id);
        if is_coming || self.summary(run_id).is_some() || removed.expect("the store is readable").is_some() {
            return Err(NotCreated::Exists(run_id, None));
        }
        Ok(())
    }

    fn summary(&self, run_id: RunId) -> Option<RunSummary> {
        let found = self.contents.reader().summary(run_id);
        found.expect("the store is readable")
    }

    /// The run of a saved plan that lives, durable or not.
    fn live_run_of(&self, plan: &str) -> Option<RunId> {
        let is_live = |run_id: &RunId| self.runs.get(*run_id).is_some();
        let coming = self.coming();
        let mut coming = coming.filter(|coming| coming.plan.as_deref() == Some(plan));
        let newest = || match self.contents.reader().newest_run_of(plan) {
            // A damaged run does not live.
            Err(StoreFault::CorruptRun { .. }) => None,
            newest => newest.expect("the store is readable").map(|run| run.run_id),
        };
        let coming = coming.find_map(|coming| Some(coming.run_id).filter(is_live));
        coming.or_else(newest).filter(is_live)
    }

    /// The run that a request of this key has made, durable or not.
    fn made_by(&self, key: &str) -> Option<(RunId, [u8; 32])> {
        self.coming_by(key, true).or_else(|| {
            self.contents
                .reader()
                .created_by(key)
                .expect("the store is readable")
        })
    }

    /// The run that a request of this key was about when it was answered, durably or not, and the digest of the request.
    ///
    /// # Panics
    /// As the store's reader fails.
    pub fn answered(&self, key: &str) -> Option<(RunId, [u8; 32])> {
        self.coming_by(key, false).or_else(|| {
            self.contents
                .reader()
                .answered(key)
                .expect("the store is readable")
        })
    }

    /// The run of a request that is not known to be durable.
    fn coming_by(&self, key: &str, creates: bool) -> Option<(RunId, [u8; 32])> {
        self.coming().find_map(|coming| {
            let request = coming.request.as_ref().filter(|request| request.key == key)?;
            (coming.creates == creates).then_some((coming.run_id, request.digest))
        })
    }

    /// What is on its way to the store: queued, or written and not known to be durable.
    fn coming(&self) -> impl Iterator<Item = &Coming> {
        let queued = self.queue.iter().map(|queued| &queued.coming);
        queued.chain(self.written.iter().map(|written| &written.coming))
    }

    /// Hands an input to a run.
    ///
    /// # Errors
    /// [`NotHandled`]: nothing changed.
    pub fn handle(&mut self, run_id: RunId, input: Input, now: i64) -> Result<(), NotHandled> {
        self.time(now);
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
    /// As the store's reader fails.
    pub fn handle_once(
        &mut self,
        run_id: RunId,
        input: Input,
        request: ClientRequest,
        now: i64,
    ) -> Result<Handled, NotHandled> {
        if let Some((run_id, digest)) = self.answered(&request.key) {
            return Ok(Handled::Before(run_id, digest));
        }
        self.time(now);
        if let Some(work) = self.runs.handle(run_id, input, now, &self.contents)? {
            self.push(work, Some(request));
        }
        self.admit(now);
        Ok(Handled::Done)
    }

    /// Hands time to the runs whose time has come.
    pub fn time(&mut self, now: i64) {
        loop {
            let works = self.runs.time(now, RUNS_PER_STEP, &self.contents);
            if works.is_empty() {
                break;
            }
            works.into_iter().for_each(|work| self.push(work, None));
        }
        self.admit(now);
    }

    fn admit(&mut self, now: i64) {
        let works = self.runs.admit(now, &self.contents);
        works.into_iter().for_each(|work| self.push(work, None));
    }

    fn push(&mut self, mut work: Work, request: Option<ClientRequest>) {
        for (digest, bytes) in &work.blobs {
            self.contents.come(*digest, Bytes::clone(bytes));
        }
        for row in &work.revisions {
            let below = documents_below(self.contents.reader(), &row.sub_plans);
            work.pinned.extend(below);
        }
        self.queue.push_back(Queued::new(work, request));
    }

    /// When time is due next, in Unix milliseconds.
    pub fn due_at(&self) -> Option<i64> {
        self.runs.due_at()
    }

    /// Everything that is to be written, to be committed together; `None` if there is nothing.
    ///
    /// # Panics
    /// If the batch before is not answered yet.
    pub fn poll_batch(&mut self) -> Option<RunBatch> {
        assert!(self.written.is_empty(), "one batch after another");
        let mut batch = RunBatch::new();
        for queued in self.queue.drain(..) {
            self.ending.extend(ended(&queued.work));
            if batch.is_empty() || !planted::is_on(Bug::RunWriteDropped) {
                batch.add(write_of(&queued));
            }
            self.written.push(queued.written());
            if planted::is_on(Bug::RunEffectsEarly) {
                let early = self
                    .written
                    .iter_mut()
                    .map(|it| (it.coming.run_id, core::mem::take(&mut it.effects)));
                let early =
                    early.flat_map(|(run_id, effects)| effects.into_iter().map(move |it| (run_id, it)));
                self.ready.extend(early);
            }
        }
        (!batch.is_empty()).then_some(batch)
    }

    // RUN-9.3
    /// The batch is durable: what it held back may leave.
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
        for Written { coming, effects } in self.written.drain(..) {
            let effects = effects.into_iter().map(|effect| (coming.run_id, effect));
            self.ready.extend(effects);
        }
        self.ended.append(&mut self.ending);
    }

    /// Forgets a run of the batch that was polled last: the store has lost what its write builds on.
    pub fn set_aside(&mut self, run_id: RunId) {
        self.runs.set_aside(run_id);
        self.written.retain(|written| written.coming.run_id != run_id);
        self.ending.retain(|ended| ended.run_id != run_id);
    }

    /// What may leave, in the order in which it was decided.
    pub fn poll_effects(&mut self) -> Vec<(RunId, Effect)> {
        core::mem::take(&mut self.ready)
    }

    /// Runs that have ended, durably, and whose parents may wait for them.
    pub fn poll_ended(&mut self) -> Vec<Ended> {
        core::mem::take(&mut self.ended)
    }

    /// What runs refer to by SHA-256.
    pub fn blobs(&self) -> &dyn Blobs {
        &self.contents
    }

    /// The runs that live.
    pub fn runs(&self) -> &Runs {
        &self.runs
    }

    /// What is durable.
    pub fn reader(&self) -> &dyn RunReader {
        self.contents.reader()
    }
}

fn not_created(why: escapement_runs::NotCreated, run_id: RunId) -> NotCreated {
    match why {
        escapement_runs::NotCreated::Full => NotCreated::Full,
        escapement_runs::NotCreated::Exists => NotCreated::Exists(run_id, None),
    }
}

/// What the work says of a run that ended with it and has a parent.
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

/// Runs that time is handed to before what they decided is queued.
const RUNS_PER_STEP: usize = 256;
