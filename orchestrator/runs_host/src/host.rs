//! Runs, and what of them is on its way to the store.

use std::collections::VecDeque;

use bytes::Bytes;
use escapement_model::RunId;
use escapement_run::{Effect, Input};
use escapement_runs::{Config, NewRun, NotHandled, Runs, Work};
use escapement_store::StoreFault;
use escapement_store::runs::{BatchOutcome, ClientRequest, RunBatch, RunReader, RunStore};

use crate::contents::Contents;
use crate::recovery::{Damaged, recover};
use crate::writes::write_of;

/// A run that is to be made.
#[derive(Clone, Debug)]
pub struct Create {
    /// The run.
    pub run: NewRun,
    /// What its caller may repeat, and gets the same run for.
    pub request: Option<ClientRequest>,
}

/// Why a run was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotCreated {
    /// There are as many as there may be.
    Full,
    /// The request has made this run before, or its id is used; with the digest of the request that made it.
    Exists(RunId, Option<[u8; 32]>),
}

/// Runs, and what of them is on its way to the store.
pub struct RunsHost {
    runs: Runs,
    contents: Contents,
    /// To be written, in order.
    queue: VecDeque<(Work, Option<ClientRequest>)>,
    /// Written, and not known to be durable.
    written: Vec<(RunId, Vec<Effect>)>,
    /// May leave.
    ready: Vec<(RunId, Effect)>,
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
        let (recovered, damaged) = recover(store.reader()?)?;
        let mut host = Self {
            runs: Runs::new(config),
            contents: Contents::new(store.reader()?),
            queue: VecDeque::new(),
            written: Vec::new(),
            ready: Vec::new(),
        };
        let ids: Vec<RunId> = recovered.iter().map(|(run_id, _)| *run_id).collect();
        for (run_id, run) in recovered {
            host.runs.recover(run_id, run);
        }
        for run_id in ids {
            host.handle(run_id, Input::Recovered, now)
                .expect("it was taken up just now");
        }
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
        let Create { run, request } = create;
        if let Some(request) = &request
            && let Some(found) = self.made_by(&request.key)
        {
            return Err(NotCreated::Exists(found.0, Some(found.1)));
        }
        let run_id = run.run_id;
        // A child that is asked for again after a restart may have ended, or have been removed.
        let reader = self.contents.reader();
        if reader.summary(run_id).expect("the store is readable").is_some()
            || reader.removed(run_id).expect("the store is readable").is_some()
        {
            return Err(NotCreated::Exists(run_id, None));
        }
        let work = self
            .runs
            .create(run, now, &self.contents)
            .map_err(|why| match why {
                escapement_runs::NotCreated::Full => NotCreated::Full,
                escapement_runs::NotCreated::Exists => NotCreated::Exists(run_id, None),
            })?;
        self.push(work, request);
        self.admit(now);
        Ok(run_id)
    }

    /// The run that a request of this key has made, durable or not.
    fn made_by(&self, key: &str) -> Option<(RunId, [u8; 32])> {
        let mut coming = self.queue.iter();
        let coming = coming.find_map(|(work, request)| {
            let request = request.as_ref().filter(|request| request.key == key)?;
            Some((work.run_id, request.digest))
        });
        coming.or_else(|| {
            self.contents
                .reader()
                .created_by(key)
                .expect("the store is readable")
        })
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

    fn push(&mut self, work: Work, request: Option<ClientRequest>) {
        for (digest, bytes) in &work.blobs {
            self.contents.come(*digest, Bytes::clone(bytes));
        }
        self.queue.push_back((work, request));
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
        for (work, request) in self.queue.drain(..) {
            batch.add(write_of(&work, request));
            self.written.push((work.run_id, work.persisted()));
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
        for (run_id, effects) in self.written.drain(..) {
            self.ready
                .extend(effects.into_iter().map(|effect| (run_id, effect)));
        }
    }

    /// What may leave, in the order in which it was decided.
    pub fn poll_effects(&mut self) -> Vec<(RunId, Effect)> {
        core::mem::take(&mut self.ready)
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

/// Runs that time is handed to before what they decided is queued.
const RUNS_PER_STEP: usize = 256;
