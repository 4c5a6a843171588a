//! The runs that live, and the order among them.

mod course;
mod parking;
mod rows;

use crate::counted::{Census, States, counted};
use crate::open_requests::OpenRequests;
use crate::sessions::Sessions;
use crate::stalls::Stalls;
use crate::work::{NewFork, NewRun, Work};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use core::cmp::Reverse;
use escapement_model::planted::{self, Bug};
use escapement_run::ids::RunId;
use escapement_run::{Blobs, Commit, Input, Refused, Run, ShownState, Takes};
pub use parking::Lost;
use prost::Message;
use rows::{changed_requests, index_row, new_revisions, parent_of};

/// Limits of all runs together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Runs that are under way at a time; more wait in the queue. A run that waits for people, is paused, or waits for a
    /// child alone does not count.
    pub max_live_runs: usize,
    /// Runs that have not ended, those in the queue included.
    pub max_runs: usize,
}

/// Reason why a run was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotCreated {
    /// There are as many as there may be.
    Full,
    /// There is one with this id: its creator may attach to it.
    Exists,
}

/// Reason why a run was not forked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotForked {
    /// No new run is made.
    NotCreated(NotCreated),
    /// The run that is to be forked is neither given nor lives.
    NotLive,
    /// That run refused it.
    Refused(Refused),
}

/// Reason why an input was not taken in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotHandled {
    /// No run with this id lives: it has ended, or never was.
    NotLive,
    /// The run refused it.
    Refused(Refused),
}

/// What is durable: what runs refer to, and the runs themselves.
pub trait Durable {
    /// What they refer to by SHA-256.
    fn blobs(&self) -> &dyn Blobs;

    /// Decides something that may need a content.
    ///
    /// # Errors
    /// Says why a content that is needed cannot be had: every decision until then is void.
    fn whole(&self, decide: &mut dyn FnMut()) -> Result<(), String> {
        decide();
        Ok(())
    }

    /// Returns a run that lives, folded from its journal.
    ///
    /// # Errors
    /// What is wrong with it: it cannot go on.
    fn fold(&self, run_id: RunId) -> Result<Run, String>;
}

/// The runs that live. Those that rest are parked at times: what is left of them is their place among the others, and they are
/// folded from their journals when they are needed.
#[derive(Debug)]
pub struct Runs {
    config: Config,
    runs: BTreeMap<RunId, Live>,
    sessions: Sessions,
    stalls: Stalls,
    states: States,
    requests: OpenRequests,
    /// Those that wait for admission: the highest priority first, then the oldest.
    queue: BTreeSet<(Reverse<u32>, i64, RunId)>,
    /// When each run's time comes.
    due: BTreeSet<(i64, RunId)>,
    /// How many of them count as under way.
    n_under_way: usize,
    /// Those that have ended since they were last taken.
    ended: Vec<(RunId, Run)>,
    /// Those in memory that are not under way, by when they came to rest, each with about how many bytes it takes.
    resting: BTreeMap<u64, (RunId, usize)>,
    resting_bytes: usize,
    /// How often a run came to rest.
    n_rests: u64,
    /// Runs that could not be folded, or lacked a content, when they were needed.
    lost: Vec<Lost>,
}

#[derive(Debug)]
struct Live {
    /// `None` while it is parked.
    run: Option<Box<Run>>,
    /// May be empty.
    session_key: String,
    /// The run that waits for it.
    parent: Option<RunId>,
    /// `None` until it has its place.
    shown: Option<ShownState>,
    due_at: Option<i64>,
    /// Time at which the clock read the time of its last entry.
    updated_at: i64,
    queued: Option<(Reverse<u32>, i64, RunId)>,
    under_way: bool,
    /// Entries and bytes since the last snapshot, and the bytes of that.
    entries: usize,
    bytes: usize,
    snapshot_bytes: usize,
    /// About how many bytes it takes while it is in memory.
    weight: usize,
    /// Time at which it came to rest, if it rests in memory.
    rests: Option<u64>,
}

impl Runs {
    /// No run yet.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            runs: BTreeMap::new(),
            sessions: Sessions::default(),
            stalls: Stalls::default(),
            states: States::default(),
            requests: OpenRequests::default(),
            queue: BTreeSet::new(),
            due: BTreeSet::new(),
            n_under_way: 0,
            ended: Vec::new(),
            resting: BTreeMap::new(),
            resting_bytes: 0,
            n_rests: 0,
            lost: Vec::new(),
        }
    }

    /// Makes a run. It is queued; [`Runs::admit`] lets it go on.
    ///
    /// # Errors
    /// [`NotCreated`]: nothing changed.
    pub fn create(&mut self, new: NewRun, now: i64, durable: &dyn Durable) -> Result<Work, NotCreated> {
        self.require_room(new.run_id)?;
        let NewRun {
            run_id,
            spec,
            plan,
            profiles,
        } = new;
        let (run, commit) = Run::create(run_id, spec, plan, profiles, now, durable.blobs());
        self.insert(run_id, run);
        Ok(self.work(run_id, commit))
    }

    // RUN-8.8
    /// Makes a run that goes on where another one was. It is queued.
    ///
    /// # Errors
    /// [`NotForked`]: nothing changed.
    pub fn fork(&mut self, new: NewFork<'_>, now: i64, durable: &dyn Durable) -> Result<Work, NotForked> {
        let run_id = new.run_id;
        self.require_room(run_id).map_err(NotForked::NotCreated)?;
        let other = match new.ended {
            Some(ended) => ended,
            None => self.get(new.from, durable).ok_or(NotForked::NotLive)?,
        };
        let takes = Takes {
            keep: new.keep,
            edited: new.edited,
            allow_repeat_effects: new.allow_repeat_effects,
            doubts_of_children: new.doubts_of_children,
        };
        let (mut given, mut forked) = (Some((new.spec, takes)), None);
        let whole = durable.whole(&mut || {
            if let Some((spec, takes)) = given.take() {
                forked = Some(Run::fork(other, run_id, spec, takes, now, durable.blobs()));
            }
        });
        let forked = match (whole, forked) {
            (Ok(()), Some(forked)) => forked,
            (whole, _) => {
                self.lose(new.from, whole.err().unwrap_or_default());
                return Err(NotForked::NotLive);
            }
        };
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
        durable: &dyn Durable,
    ) -> Result<Option<Work>, NotHandled> {
        let handed = self
            .hand(run_id, input, now, durable)
            .ok_or(NotHandled::NotLive)?;
        let commit = handed.map_err(NotHandled::Refused)?;
        if commit.entries.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.work(run_id, commit)))
    }

    /// Returns the sessions that are in use.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Returns the sessions that are in use, for those who change them.
    pub fn sessions_mut(&mut self) -> &mut Sessions {
        &mut self.sessions
    }

    /// Returns true if the run lives.
    pub fn contains(&self, run_id: RunId) -> bool {
        self.runs.contains_key(&run_id)
    }

    /// Ids of the runs that live, ascending.
    pub fn ids(&self) -> impl Iterator<Item = RunId> {
        self.runs.keys().copied()
    }

    /// The runs that live and were made by another one, each with that one.
    pub fn children(&self) -> impl Iterator<Item = (RunId, RunId)> {
        self.runs
            .iter()
            .filter_map(|(run_id, live)| Some((*run_id, live.parent?)))
    }

    /// How many runs live.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Returns true if no run lives.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns the number of runs that wait for admission.
    pub fn n_queued(&self) -> usize {
        self.queue.len()
    }

    /// How many runs count as under way.
    pub fn n_under_way(&self) -> usize {
        self.n_under_way
    }

    /// How many runs stand where, and what people are asked.
    pub fn census(&self) -> Census {
        self.requests.add_to(self.states.census(self.config.max_runs))
    }

    fn insert(&mut self, run_id: RunId, run: Run) {
        self.sessions.run_begins(&run);
        self.requests.run_begins(run_id, &run);
        let live = Live {
            session_key: run.state().spec.session_key().into_owned(),
            parent: parent_of(&run),
            weight: weight(&run),
            rests: None,
            run: Some(Box::new(run)),
            shown: None,
            due_at: None,
            updated_at: 0,
            queued: None,
            under_way: false,
            entries: 0,
            bytes: 0,
            snapshot_bytes: 0,
        };
        self.runs.insert(run_id, live);
        self.place(run_id);
    }

    /// Puts the run where its state belongs.
    fn place(&mut self, run_id: RunId) {
        let live = self.runs.get_mut(&run_id).expect("the run lives");
        let run = live.run.as_ref().expect("what changes is not parked");
        let (state, shown) = (run.state(), run.shown());
        self.states.change(live.shown.replace(shown), Some(shown));
        let paused = state.pause_wanted && !planted::is_on(Bug::RunPausedAdmitted);
        let admissible = shown == ShownState::Queued && !paused && !state.waits_for_actions();
        let queued = admissible.then_some((Reverse(state.spec.priority), state.created_at, run_id));
        if live.queued != queued {
            if let Some(old) = live.queued.take() {
                self.queue.remove(&old);
            }
            self.queue.extend(queued);
            live.queued = queued;
        }
        live.updated_at = run.clock_time(state.updated_at);
        let due_at = run.due_at();
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
        let has_ended = state.stage().is_end();
        self.rises(run_id);
        if !has_ended {
            return self.rests(run_id);
        }
        if let Some(ended) = self.runs.remove(&run_id) {
            self.sessions.run_ends(&ended.session_key);
            self.requests.run_ends(run_id);
            self.ended.extend(ended.run.map(|run| (run_id, *run)));
        }
    }

    /// The runs that have ended since they were last taken.
    pub fn take_ended(&mut self) -> Vec<(RunId, Run)> {
        core::mem::take(&mut self.ended)
    }

    /// What is to be written for the run, and its place among the others.
    fn work(&mut self, run_id: RunId, mut commit: Commit) -> Work {
        let live = self.runs.get_mut(&run_id).expect("the run lives");
        let run = live.run.as_ref().expect("what changes is not parked");
        let requests = changed_requests(run, &commit);
        self.requests.changed(run_id, &requests, run.state().updated_at);
        let revisions = new_revisions(run, &commit);
        self.sessions.learn(run, &commit);
        let notices = crate::notices::of(run, &commit);
        let counted = counted(run, &commit);
        let entries = core::mem::take(&mut commit.entries);
        let blobs = core::mem::take(&mut commit.blobs);
        // `Work` holds them back in its turn.
        let effects = commit.persisted();
        live.entries += entries.len();
        let n_bytes = entries.iter().map(|entry| entry.bytes.len()).sum::<usize>();
        live.bytes += n_bytes;
        live.weight += n_bytes;
        let state = run.state();
        let wanted = live.entries >= SNAPSHOT_ENTRIES || live.bytes >= SNAPSHOT_BYTES;
        // A snapshot is paid for by what was written since the one before. Without one, more of the journal is read at a start.
        let is_due = wanted && live.bytes >= live.snapshot_bytes / 2 && !state.stage().is_end();
        let snapshot = is_due.then(|| state.encoded_len()).and_then(|n_bytes| {
            (live.entries, live.bytes, live.snapshot_bytes) = (0, 0, n_bytes);
            live.weight = weight(run);
            (n_bytes <= SNAPSHOT_BYTES_MAX).then(|| Bytes::from(state.encode_to_vec()))
        });
        let work = Work {
            run_id,
            first_sequence: state.sequence + 1 - entries.len() as u64,
            entries,
            blobs,
            pinned: Vec::new(),
            revisions,
            index: index_row(run),
            requests,
            notices,
            snapshot,
            is_discarded: state.is_discarded(),
            counted,
            effects,
        };
        self.place(run_id);
        work
    }
}

/// About how many bytes a run takes.
fn weight(run: &Run) -> usize {
    run.state().encoded_len()
}

/// Bytes of the largest snapshot.
pub const SNAPSHOT_BYTES_MAX: usize = 80 << 20;
/// Entries after which a snapshot is due.
const SNAPSHOT_ENTRIES: usize = 256;
/// Bytes of entries after which a snapshot is due.
const SNAPSHOT_BYTES: usize = 1 << 20;
