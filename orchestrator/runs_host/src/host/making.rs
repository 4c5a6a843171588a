//! Creation of runs, new or forked, and the requests that created them.

use escapement_model::RunId;
use escapement_model::planted::{self, Bug};
use escapement_run::Refused;
use escapement_runs::{NewFork, NewRun, Work};
use escapement_store::StoreFault;
use escapement_store::runs::{ClientRequest, RunSummary, TooLarge};

use super::RunsHost;
use crate::writes::{Links, too_large};

/// A run that is to be made.
#[derive(Clone, Debug)]
pub struct Create {
    /// The run.
    pub run: NewRun,
    /// Request that its caller may repeat, with the same run as the answer.
    pub request: Option<ClientRequest>,
    /// The saved plan that it is a run of. At most one run of a saved plan is live.
    pub saved_plan: Option<String>,
}

/// Reason why a run was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotCreated {
    /// The limit of live runs is reached.
    Full,
    /// The request has made this run before, or its id is used; with the digest of the request that made it.
    Exists(RunId, Option<[u8; 32]>),
    /// This run of the same saved plan lives.
    AlreadyRunning(RunId),
    /// The store has damage in the run, in its request or in the run that it continues, for this reason.
    Damaged(String),
    /// First entries are larger than an entry may be.
    TooLarge(TooLarge),
}

/// A run that is to go on where another one was.
#[derive(Debug)]
pub struct Fork<'a> {
    /// The run.
    pub run: NewFork<'a>,
    /// Request that its caller may repeat, with the same run as the answer.
    pub request: Option<ClientRequest>,
}

/// Reason why a run was not forked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotForked {
    /// No new run is made.
    NotCreated(NotCreated),
    /// The run to fork is neither given nor live, or the store no longer has it.
    NotThere,
    /// That run refused it.
    Refused(Refused),
}

impl RunsHost {
    /// Makes a run. It is there for its caller once its entries are durable.
    ///
    /// # Errors
    /// [`NotCreated`]: nothing changed.
    ///
    /// # Panics
    /// If the store as a whole cannot be read.
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
        self.hold_session(&run.spec.session_key(), &run.spec.user_id);
        let plan = self.contents.plans().share(run.plan);
        let created = self.runs.create(NewRun { plan, ..run }, now, &self.contents);
        let work = created.map_err(|why| not_created(why, run_id))?;
        self.require_small(&work)?;
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
    /// If the store as a whole cannot be read.
    pub fn fork(&mut self, fork: Fork<'_>, now: i64) -> Result<RunId, NotForked> {
        let Fork { run, request } = fork;
        let (run_id, from) = (run.run_id, run.from);
        self.require_new(run_id, request.as_ref())
            .map_err(NotForked::NotCreated)?;
        // What is not durable yet is written before the fork.
        let (stored, is_live) = (
            self.summary(from).map_err(NotForked::NotCreated)?,
            self.runs.contains(from),
        );
        if stored.is_none() && !is_live {
            return Err(NotForked::NotThere);
        }
        let origin = stored.map(|from| from.created).unwrap_or_default();
        // At most one run of a saved plan is live.
        let plan = origin.plan.filter(|_| !is_live);
        if let Some(live) = plan.as_ref().and_then(|plan| self.live_run_of(plan)) {
            return Err(NotForked::NotCreated(NotCreated::AlreadyRunning(live)));
        }
        self.hold_session(&run.spec.session_key(), &run.spec.user_id);
        let forked = self.runs.fork(run, now, &self.contents);
        let work = forked.map_err(|why| match why {
            escapement_runs::NotForked::NotCreated(why) => NotForked::NotCreated(not_created(why, run_id)),
            escapement_runs::NotForked::NotLive => NotForked::NotThere,
            escapement_runs::NotForked::Refused(refused) => NotForked::Refused(refused),
        })?;
        self.require_small(&work).map_err(NotForked::NotCreated)?;
        self.push(work, request);
        let coming = &mut self.queue.back_mut().expect("it was pushed just now").coming;
        (coming.plan, coming.links.goal, coming.links.trigger) = (plan, origin.goal, origin.trigger);
        self.admit(now);
        Ok(run_id)
    }

    // RUN-9.6
    /// Forgets a run that was made just now if the store could not hold it.
    fn require_small(&mut self, work: &Work) -> Result<(), NotCreated> {
        let Some(bound) = too_large(work) else {
            return Ok(());
        };
        self.runs.set_aside(work.run_id);
        Err(NotCreated::TooLarge(bound))
    }

    /// Refuses a run that was made before.
    fn require_new(&self, run_id: RunId, request: Option<&ClientRequest>) -> Result<(), NotCreated> {
        if let Some(request) = request
            && let Some((run_id, digest)) = self.made_by(&request.key)?
        {
            return Err(NotCreated::Exists(run_id, Some(digest)));
        }
        // A child that is asked for again after a restart may have ended, or have been removed.
        let removed = whole(self.contents.reader().removed(run_id)).map_err(NotCreated::Damaged)?;
        let is_coming = self.coming().any(|coming| coming.run_id == run_id);
        if is_coming || self.summary(run_id)?.is_some() || removed.is_some() {
            return Err(NotCreated::Exists(run_id, None));
        }
        Ok(())
    }

    fn summary(&self, run_id: RunId) -> Result<Option<RunSummary>, NotCreated> {
        whole(self.contents.reader().summary(run_id)).map_err(NotCreated::Damaged)
    }

    /// Returns the run of a saved plan that lives, durable or not.
    fn live_run_of(&self, plan: &str) -> Option<RunId> {
        let is_live = |run_id: &RunId| self.runs.contains(*run_id);
        let coming = self.coming();
        let mut coming = coming.filter(|coming| coming.plan.as_deref() == Some(plan));
        // A damaged run does not live.
        let newest = || whole(self.contents.reader().newest_run_of(plan)).ok().flatten();
        let newest = || newest().map(|run| run.run_id);
        let coming = coming.find_map(|coming| Some(coming.run_id).filter(is_live));
        let live = coming.or_else(newest).filter(is_live);
        live.filter(|_| !planted::is_on(Bug::RunPlanTwice))
    }

    /// Returns the run that a request of this key has made, durable or not.
    fn made_by(&self, key: &str) -> Result<Option<(RunId, [u8; 32])>, NotCreated> {
        match self.coming_by(key, true) {
            Some(coming) => Ok(Some(coming)),
            None => whole(self.contents.reader().created_by(key)).map_err(NotCreated::Damaged),
        }
    }

    /// Returns the run that a request of this key was about when it was answered, durably or not, and the digest of the request.
    ///
    /// # Errors
    /// What is wrong with it, if what the store has of the request is damaged.
    ///
    /// # Panics
    /// If the store as a whole cannot be read.
    pub fn answered(&self, key: &str) -> Result<Option<(RunId, [u8; 32])>, String> {
        match self.coming_by(key, false) {
            Some(coming) => Ok(Some(coming)),
            None => whole(self.contents.reader().answered(key)),
        }
    }

    /// Returns the run of a request that is not known to be durable.
    fn coming_by(&self, key: &str, creates: bool) -> Option<(RunId, [u8; 32])> {
        self.coming().find_map(|coming| {
            let request = coming.request.as_ref().filter(|request| request.key == key)?;
            (coming.creates == creates).then_some((coming.run_id, request.digest))
        })
    }
}

/// Returns the value, or the damage of one row of the store; all others are whole.
///
/// # Panics
/// If the store as a whole cannot be read.
fn whole<T>(read: Result<T, StoreFault>) -> Result<T, String> {
    match read {
        Err(fault @ StoreFault::CorruptRun { .. }) => Err(fault.to_string()),
        read => Ok(read.expect("the store is readable")),
    }
}

fn not_created(why: escapement_runs::NotCreated, run_id: RunId) -> NotCreated {
    match why {
        escapement_runs::NotCreated::Full => NotCreated::Full,
        escapement_runs::NotCreated::Exists => NotCreated::Exists(run_id, None),
    }
}
