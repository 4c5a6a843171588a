//! The runs that live, and the order among them.

use crate::sessions::{Sessions, hand};
use crate::work::{Asked, IndexRow, NewFork, NewRun, RequestRow, RevisionRow, Work};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use core::cmp::Reverse;
use escapement_model::planted::{self, Bug};
use escapement_run::ids::{InputRequestId, RunId};
use escapement_run::journal::{Event, InputRequest, PlanCreated, RequestState};
use escapement_run::plan::SubPlan;
use escapement_run::{Blobs, Commit, Input, Refused, Run, ShownState};
use prost::Message;

/// Limits of all runs together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Runs that are under way at a time; more wait in the queue. A run that waits for people, is paused, or waits for a
    /// child alone does not count.
    pub max_live_runs: usize,
    /// Runs that have not ended, those in the queue included.
    pub max_runs: usize,
}

/// Why a run was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotCreated {
    /// There are as many as there may be.
    Full,
    /// There is one with this id: its creator may attach to it.
    Exists,
}

/// Why a run was not forked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotForked {
    /// No new run is made.
    NotCreated(NotCreated),
    /// The run that is to be forked is neither given nor lives.
    NotLive,
    /// That run refused it.
    Refused(Refused),
}

/// Why an input was not taken in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotHandled {
    /// No run with this id lives: it has ended, or never was.
    NotLive,
    /// The run refused it.
    Refused(Refused),
}

/// The runs that live.
#[derive(Debug)]
pub struct Runs {
    config: Config,
    runs: BTreeMap<RunId, Live>,
    sessions: Sessions,
    /// Those that wait for admission: the highest priority first, then the oldest.
    queue: BTreeSet<(Reverse<u32>, i64, RunId)>,
    /// When each run's time comes.
    due: BTreeSet<(i64, RunId)>,
    /// How many of them count as under way.
    n_under_way: usize,
    /// Those that have ended since they were last taken.
    ended: Vec<(RunId, Run)>,
}

#[derive(Debug)]
struct Live {
    run: Run,
    due_at: Option<i64>,
    queued: Option<(Reverse<u32>, i64, RunId)>,
    under_way: bool,
    /// Entries and bytes since the last snapshot, and the bytes of that.
    entries: usize,
    bytes: usize,
    snapshot_bytes: usize,
}

impl Runs {
    /// No run yet.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            runs: BTreeMap::new(),
            sessions: Sessions::default(),
            queue: BTreeSet::new(),
            due: BTreeSet::new(),
            n_under_way: 0,
            ended: Vec::new(),
        }
    }

    /// Makes a run. It is queued; [`Runs::admit`] lets it go on.
    ///
    /// # Errors
    /// [`NotCreated`]: nothing changed.
    pub fn create(&mut self, new: NewRun, now: i64, blobs: &dyn Blobs) -> Result<Work, NotCreated> {
        self.require_room(new.run_id)?;
        let NewRun {
            run_id,
            spec,
            plan,
            profiles,
        } = new;
        let (run, commit) = Run::create(run_id, spec, plan, profiles, now, blobs);
        self.insert(run_id, run);
        Ok(self.work(run_id, commit))
    }

    // RUN-8.8
    /// Makes a run that goes on where another one was. It is queued.
    ///
    /// # Errors
    /// [`NotForked`]: nothing changed.
    pub fn fork(&mut self, new: NewFork<'_>, now: i64, blobs: &dyn Blobs) -> Result<Work, NotForked> {
        let run_id = new.run_id;
        self.require_room(run_id).map_err(NotForked::NotCreated)?;
        let other = match new.ended {
            Some(ended) => ended,
            None => self.get(new.from).ok_or(NotForked::NotLive)?,
        };
        let forked = Run::fork(other, run_id, new.spec, new.keep, new.edited, now, blobs);
        let (run, commit) = forked.map_err(NotForked::Refused)?;
        let mut pinned = run.state().contents();
        for (digest, _) in &commit.blobs {
            pinned.remove(digest);
        }
        self.insert(run_id, run);
        let work = self.work(run_id, commit);
        Ok(Work {
            pinned: pinned.into_iter().collect(),
            ..work
        })
    }

    /// Forgets a run that cannot go on, because the store has lost what it is made of.
    pub fn set_aside(&mut self, run_id: RunId) {
        let Some(live) = self.runs.remove(&run_id) else {
            return;
        };
        self.sessions.run_ends(&live.run.state().spec.session_id);
        if let Some(queued) = live.queued {
            self.queue.remove(&queued);
        }
        if let Some(due) = live.due_at {
            self.due.remove(&(due, run_id));
        }
        self.n_under_way -= usize::from(live.under_way);
    }

    fn require_room(&self, run_id: RunId) -> Result<(), NotCreated> {
        if self.runs.contains_key(&run_id) {
            return Err(NotCreated::Exists);
        }
        if self.runs.len() >= self.config.max_runs {
            return Err(NotCreated::Full);
        }
        Ok(())
    }

    /// Takes a run up that was folded from its journal. What it has outstanding follows from [`Input::Recovered`].
    pub fn recover(&mut self, run_id: RunId, run: Run) {
        if !run.state().stage().is_end() {
            self.insert(run_id, run);
        }
    }

    /// Hands an input to a run. An empty commit is `None`.
    ///
    /// # Errors
    /// [`NotHandled`]: nothing changed.
    pub fn handle(
        &mut self,
        run_id: RunId,
        input: Input,
        now: i64,
        blobs: &dyn Blobs,
    ) -> Result<Option<Work>, NotHandled> {
        let live = self.runs.get_mut(&run_id).ok_or(NotHandled::NotLive)?;
        let handed = hand(&self.sessions, &mut live.run, input, now, blobs);
        let commit = handed.map_err(NotHandled::Refused)?;
        if commit.entries.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.work(run_id, commit)))
    }

    /// Lets queued runs go on while there is room: the highest priority first, then the oldest.
    pub fn admit(&mut self, now: i64, blobs: &dyn Blobs) -> Vec<Work> {
        let mut admitted = Vec::new();
        while self.n_under_way < self.config.max_live_runs
            && let Some((_, _, run_id)) = self.queue.first().copied()
        {
            let live = self
                .runs
                .get_mut(&run_id)
                .expect("the queue holds runs that live");
            let commit = hand(&self.sessions, &mut live.run, Input::Admit, now, blobs)
                .expect("it waits for admission");
            admitted.push(self.work(run_id, commit));
        }
        admitted
    }

    /// When time is due next, in Unix milliseconds.
    pub fn due_at(&self) -> Option<i64> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Hands time to the runs whose time has come, the earliest first, at most `max` of them.
    pub fn time(&mut self, now: i64, max: usize, blobs: &dyn Blobs) -> Vec<Work> {
        let mut done = Vec::new();
        while done.len() < max
            && let Some((due, run_id)) = self.due.first().copied()
            && due <= now
        {
            let live = self
                .runs
                .get_mut(&run_id)
                .expect("times are those of runs that live");
            let commit =
                hand(&self.sessions, &mut live.run, Input::Time, now, blobs).expect("time is never refused");
            assert!(!commit.entries.is_empty(), "what is due changes something");
            done.push(self.work(run_id, commit));
        }
        done
    }

    /// The sessions that are in use.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// The sessions that are in use, for those who change them.
    pub fn sessions_mut(&mut self) -> &mut Sessions {
        &mut self.sessions
    }

    /// The run, if it lives.
    pub fn get(&self, run_id: RunId) -> Option<&Run> {
        self.runs.get(&run_id).map(|live| &live.run)
    }

    /// Ids of the runs that live, ascending.
    pub fn ids(&self) -> impl Iterator<Item = RunId> {
        self.runs.keys().copied()
    }

    /// How many runs live.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// True if no run lives.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// How many runs wait for admission.
    pub fn n_queued(&self) -> usize {
        self.queue.len()
    }

    /// How many runs count as under way.
    pub fn n_under_way(&self) -> usize {
        self.n_under_way
    }

    fn insert(&mut self, run_id: RunId, run: Run) {
        let live = Live {
            run,
            due_at: None,
            queued: None,
            under_way: false,
            entries: 0,
            bytes: 0,
            snapshot_bytes: 0,
        };
        self.sessions.run_begins(&live.run);
        self.runs.insert(run_id, live);
        self.place(run_id);
    }

    /// Puts the run where its state belongs.
    fn place(&mut self, run_id: RunId) {
        let live = self.runs.get_mut(&run_id).expect("the run lives");
        let (state, shown) = (live.run.state(), live.run.shown());
        let paused = state.pause_wanted && !planted::is_on(Bug::RunPausedAdmitted);
        let admissible = shown == ShownState::Queued && !paused;
        let queued = admissible.then_some((Reverse(state.spec.priority), state.created_at, run_id));
        if live.queued != queued {
            if let Some(old) = live.queued.take() {
                self.queue.remove(&old);
            }
            self.queue.extend(queued);
            live.queued = queued;
        }
        let due_at = live.run.due_at();
        if live.due_at != due_at {
            let forgets = live.due_at.is_some() && planted::is_on(Bug::RunTimerForgotten);
            if let Some(old) = live.due_at.take() {
                self.due.remove(&(old, run_id));
            }
            self.due
                .extend(due_at.filter(|_| !forgets).map(|due| (due, run_id)));
            live.due_at = due_at;
        }
        let under_way = matches!(
            shown,
            ShownState::Planning | ShownState::Running | ShownState::Pausing
        ) && !state.waits_for_children_alone();
        self.n_under_way += usize::from(under_way);
        self.n_under_way -= usize::from(live.under_way);
        live.under_way = under_way;
        if state.stage().is_end()
            && let Some(ended) = self.runs.remove(&run_id)
        {
            self.sessions.run_ends(&ended.run.state().spec.session_id);
            self.ended.push((run_id, ended.run));
        }
    }

    /// The runs that have ended since they were last taken.
    pub fn take_ended(&mut self) -> Vec<(RunId, Run)> {
        core::mem::take(&mut self.ended)
    }

    /// What is to be written for the run, and its place among the others.
    fn work(&mut self, run_id: RunId, mut commit: Commit) -> Work {
        let requests = changed_requests(&commit);
        let live = self.runs.get_mut(&run_id).expect("the run lives");
        let revisions = new_revisions(&live.run, &commit);
        self.sessions.learn(&live.run, &commit);
        let notices = crate::notices::of(&live.run, &commit);
        let entries = core::mem::take(&mut commit.entries);
        let blobs = core::mem::take(&mut commit.blobs);
        // `Work` holds them back in its turn.
        let effects = commit.persisted();
        live.entries += entries.len();
        live.bytes += entries.iter().map(|entry| entry.bytes.len()).sum::<usize>();
        let state = live.run.state();
        let wanted = live.entries >= SNAPSHOT_ENTRIES || live.bytes >= SNAPSHOT_BYTES;
        // A snapshot is paid for by what was written since the one before. Without one, more of the journal is read at a start.
        let is_due = wanted && live.bytes >= live.snapshot_bytes / 2 && !state.stage().is_end();
        let snapshot = is_due.then(|| state.encoded_len()).and_then(|n_bytes| {
            (live.entries, live.bytes, live.snapshot_bytes) = (0, 0, n_bytes);
            (n_bytes <= SNAPSHOT_BYTES_MAX).then(|| Bytes::from(state.encode_to_vec()))
        });
        let work = Work {
            run_id,
            first_sequence: state.sequence + 1 - entries.len() as u64,
            entries,
            blobs,
            pinned: Vec::new(),
            revisions,
            index: index_row(&live.run),
            requests,
            notices,
            snapshot,
            effects,
        };
        self.place(run_id);
        work
    }
}

fn index_row(run: &Run) -> IndexRow {
    let state = run.state();
    let parent: Option<[u8; 16]> = state.spec.parent_run_id[..].try_into().ok();
    IndexRow {
        state: run.shown(),
        user_id: String::from(&state.spec.user_id),
        priority: state.spec.priority,
        created_at: state.created_at,
        updated_at: state.updated_at,
        due_at: run.due_at(),
        parent_run_id: parent.and_then(RunId::from_bytes),
        session_id: Some(&state.spec.session_id).filter(|id| !id.is_empty()).cloned(),
    }
}

/// The revisions that the entries bring.
fn new_revisions(run: &Run, commit: &Commit) -> Vec<RevisionRow> {
    let created = commit.events.iter().filter_map(|entry| match &entry.event {
        Some(Event::PlanCreated(created)) => Some(created),
        _ => None,
    });
    let row = |created: &PlanCreated| RevisionRow {
        digest: created.digest[..].try_into().expect("a digest has 32 bytes"),
        document: created.document.clone(),
        sub_plans: run.plan().sub_plans().filter_map(SubPlan::revision).collect(),
    };
    created.map(row).collect()
}

/// The requests that the entries are about, in their order.
fn changed_requests(commit: &Commit) -> Vec<RequestRow> {
    let mut changed: Vec<RequestRow> = Vec::new();
    for entry in &commit.events {
        let (id, state, asked) = match entry.event.as_ref() {
            Some(Event::InputRequested(request)) => (&request.id, RequestState::Open, Some(asked(request))),
            Some(Event::InputReceived(answer)) => (&answer.id, RequestState::Answered, None),
            Some(Event::InputExpired(request)) => (&request.id, RequestState::Expired, None),
            Some(Event::InputClosed(request)) => (&request.id, RequestState::Closed, None),
            _ => continue,
        };
        let id: [u8; 16] = id[..].try_into().expect("an id has 16 bytes");
        let request_id = InputRequestId::from_bytes(id).expect("it was an id");
        match changed.iter_mut().find(|row| row.request_id == request_id) {
            Some(row) => row.state = state,
            None => changed.push(RequestRow {
                request_id,
                state,
                asked,
            }),
        }
    }
    changed
}

fn asked(request: &InputRequest) -> Asked {
    Asked {
        kind: request.kind(),
        expires_at: request.expires_at,
        record: Bytes::from(request.encode_to_vec()),
    }
}

/// Bytes of the largest snapshot that is made.
pub const SNAPSHOT_BYTES_MAX: usize = 16 << 20;
/// Entries after which a snapshot is due.
const SNAPSHOT_ENTRIES: usize = 256;
/// Bytes of entries after which a snapshot is due.
const SNAPSHOT_BYTES: usize = 1 << 20;
