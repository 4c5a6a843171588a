//! The thread that owns runs and their store: takes what waits, commits what it led to, answers, lets effects leave.
//! Decides nothing, and lets nothing leave that is not durable.

mod committing;
mod leaving;
mod taking;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use escapement_model::{ExecutionId, RunId};
use escapement_run::Input;
use escapement_runs::{Config, NotHandled};
use escapement_runs_host::{Damaged, RunsHost, guarded, stop_mark};
use escapement_store::runs::{RunBatch, RunRemoval, RunStore};
use escapement_store::{FeedMark, StoreFault};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tracing::{info, warn};

use crate::caught_up::{Behind, CaughtUp};
use crate::children::{self, ChildEnd};
use crate::clock::Clock;
use crate::error::CallError;
use crate::evaluations::Evaluations;
use crate::follow::Follows;
use crate::handle::RunsHandle;
use crate::joint::{Joint, JointSlot};
use crate::learning::recall_said;
use crate::live::LiveRuns;
use crate::message::{Change, Look, Message, Outgoing, Received, Room, StoreWork};
use crate::readers::RunReaders;
use crate::retention::Retention;
use crate::tally::{Happened, Tally};
use crate::trace_runs::TraceRuns;

/// What the thread is started with.
pub struct Setup<S> {
    /// The store of runs.
    pub store: S,
    /// Limits of all runs together.
    pub config: Config,
    /// Which ended runs are kept.
    pub removal: RunRemoval,
    /// What of them readers of the endings have had.
    pub feed: FeedMark,
    /// The latest time that the store knows, Unix milliseconds.
    pub newest_ms: Option<i64>,
    /// Takes what leaves. Unbounded, and yet bounded: by what runs have in flight.
    pub outgoing: UnboundedSender<Outgoing>,
    /// Set once the results of before the start are read.
    pub caught_up: CaughtUp,
    /// Is told what happens.
    pub tally: Tally,
    /// Traces them. `None`: what the call that made a run said of its trace goes with what the run sends.
    pub traces: Option<Arc<dyn TraceRuns>>,
    /// Called if the thread cannot go on: nothing more may be acknowledged.
    pub cannot_go_on: Box<dyn Fn(Ending<'_>) + Send>,
}

impl<S> Setup<S> {
    /// Runs that are all kept, with nobody who reads their ends, counts what happens or traces them, of a store that is empty.
    pub fn new(
        store: S,
        config: Config,
        outgoing: UnboundedSender<Outgoing>,
        cannot_go_on: Box<dyn Fn(Ending<'_>) + Send>,
    ) -> Self {
        Self {
            store,
            config,
            removal: RunRemoval::default(),
            feed: FeedMark::default(),
            newest_ms: None,
            outgoing,
            caught_up: CaughtUp::default(),
            tally: Tally::default(),
            traces: None,
            cannot_go_on,
        }
    }
}

impl<S> std::fmt::Debug for Setup<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// Reason why the thread cannot go on.
#[derive(Debug)]
pub enum Ending<'a> {
    /// The store cannot be trusted any more.
    Store(&'a StoreFault),
    /// A defect: the thread panicked.
    Panic,
}

/// The thread. It ends, and gives the store back, after [`RunsHandle::stop`].
#[derive(Debug)]
pub struct RunsThread<S>(JoinHandle<S>);

impl<S> RunsThread<S> {
    /// Waits for its end.
    ///
    /// # Errors
    /// If it panicked.
    pub fn join(self) -> std::thread::Result<S> {
        self.0.join()
    }
}

/// Takes up what the store holds and starts the thread.
///
/// Runs that cannot be taken up do not stop the start; they are named in the log, and every call to them fails but the one that
/// discards them.
///
/// # Errors
/// [`StoreFault`] if the store as a whole cannot be read, or the operating system gives no thread.
pub fn start<S: RunStore + 'static>(setup: Setup<S>) -> Result<(RunsHandle, RunsThread<S>), StoreFault> {
    let Setup {
        store,
        config,
        removal,
        feed,
        newest_ms,
        outgoing,
        caught_up,
        tally,
        traces,
        cannot_go_on,
    } = setup;
    let clock = Clock::start();
    let (host, damaged) = RunsHost::open(&store, config, clock.now())?;
    tell_of(damaged);
    info!(live = host.runs().len(), "runs taken up");
    let (messages, received) = mpsc::channel();
    let follows = Follows::new();
    let live = LiveRuns::of(host.runs().ids());
    tally.tell(Happened::Stands(host.runs().census()));
    let readers = RunReaders::open(&store, host.durable_changes())?;
    let handle = RunsHandle::new(
        messages,
        clock,
        readers,
        follows.clone(),
        live.clone(),
        tally.clone(),
    );
    recall_said(host.reader(), handle.seen())?;
    let noted = handle.noted();
    let orphans = children::orphans(&host);
    let retention = Retention::new(removal, feed, newest_ms, clock.now());
    let mut runs = RunsLoop {
        host,
        store,
        retention,
        clock,
        seen_at: clock.now(),
        written_at: clock.now(),
        handed_at: clock.now(),
        messages: received,
        outgoing,
        behind: Behind::new(caught_up),
        follows,
        live,
        noted,
        evaluations: Evaluations::new(),
        own: VecDeque::new(),
        held: VecDeque::new(),
        works: VecDeque::new(),
        answers: Vec::new(),
        looks: Vec::new(),
        joint: None,
        joint_slot: handle.joint(),
        accepted: BTreeSet::new(),
        is_refusing: false,
        is_stopping: false,
        looked_at: Instant::now(),
        tally,
        traces,
        cannot_go_on,
    };
    for run_id in orphans {
        runs.cancel_child(run_id);
    }
    let thread = std::thread::Builder::new().name("runs".to_owned());
    let thread = thread.spawn(move || runs.run());
    let thread = thread.map_err(|source| StoreFault::Fatal(source.into()))?;
    Ok((handle, RunsThread(thread)))
}

struct RunsLoop<S> {
    host: RunsHost,
    store: S,
    retention: Retention,
    clock: Clock,
    /// Time at which the thread was last seen to make progress.
    seen_at: i64,
    /// Time of the last write.
    written_at: i64,
    /// Arrival time of the last submitted input.
    handed_at: i64,
    messages: Receiver<Received>,
    outgoing: UnboundedSender<Outgoing>,
    behind: Behind,
    follows: Follows,
    live: LiveRuns,
    /// Told of notices that are durable.
    noted: Arc<Notify>,
    evaluations: Evaluations,
    /// Inputs from runs to other runs, each with its time.
    own: VecDeque<(i64, RunId, Input)>,
    /// Inputs that arrived and were not submitted yet. They returned while the store took no writes, or ended
    /// a wait.
    held: VecDeque<Received>,
    /// Works on the store. Each takes a commit or two of its own, so that one is done between two batches.
    works: VecDeque<(Box<dyn StoreWork>, Room)>,
    /// Performed, and to be answered once durable.
    answers: Vec<(Box<dyn Change>, Room)>,
    /// Looks wait for the commit, so that they see nothing that is not durable.
    looks: Vec<(Box<dyn Look>, Room)>,
    /// Link by which attempts share commits with their runs.
    joint: Option<Joint>,
    joint_slot: JointSlot,
    /// Attempts that were accepted in the commit of their intents.
    accepted: BTreeSet<ExecutionId>,
    /// True after a commit that failed and may be tried again.
    is_refusing: bool,
    is_stopping: bool,
    /// Time of the last check of the store.
    looked_at: Instant,
    tally: Tally,
    traces: Option<Arc<dyn TraceRuns>>,
    cannot_go_on: Box<dyn Fn(Ending<'_>) + Send>,
}

/// The thread ends at once; what is not durable is not acknowledged.
struct Stop;

impl<S: RunStore> RunsLoop<S> {
    fn run(mut self) -> S {
        let guard = FollowersGuard {
            follows: self.follows.clone(),
        };
        let turned = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            // The reason for a stop at once is known to those who must know.
            let _stopped = self.serve();
        }));
        drop(guard);
        if let Err(panic) = turned {
            (self.cannot_go_on)(Ending::Panic);
            std::panic::resume_unwind(panic);
        }
        self.store
    }

    fn serve(&mut self) -> Result<(), Stop> {
        while !self.is_stopping {
            self.turn()?;
        }
        while !self.works.is_empty() {
            self.work()?;
        }
        // What was performed last is written and answered; what would leave is left to the next start.
        self.write()?;
        self.answer();
        self.note_stop();
        Ok(())
    }

    // RUN-9.5
    /// Marks this stop as orderly for the next start. Without the mark that start counts as one after a
    /// crash. This harms less than a stop that does not finish.
    fn note_stop(&mut self) {
        let mut batch = RunBatch::new();
        batch.define(stop_mark(self.clock.now()));
        if let Err(fault) = self.store.commit(&batch) {
            let error: &dyn std::error::Error = &fault;
            warn!(
                error,
                "the store of runs is not told that the process was stopped in order"
            );
        }
    }

    /// Group commit: what comes while a commit is under way makes the next one.
    fn turn(&mut self) -> Result<(), Stop> {
        let all_know = self.host.has_told_start();
        self.write()?;
        self.leave();
        self.behind.written(all_know);
        self.answer();
        self.leave_damaged();
        // A run that has just ended stays until its parent has its result. One that ended before the start
        // stays until all runs have received the start.
        if self.own.is_empty() && self.host.has_told_start() {
            self.remove_ended()?;
        }
        self.work()?;
        self.take()
    }

    /// A bounded step of removal, if one is due.
    fn remove_ended(&mut self) -> Result<(), Stop> {
        let now = self.clock.now();
        if self.retention.patience() == Some(Duration::ZERO) {
            self.host.forget_ended();
        }
        self.retention.turn(&mut self.store, now).map_err(|fault| {
            (self.cannot_go_on)(Ending::Store(&fault));
            Stop
        })
    }

    fn take_message(&mut self, received: Received) {
        let Received { at, message } = received;
        self.handed_at = at;
        match message {
            Message::Change(mut change, room) => {
                change.perform(&mut self.host, at);
                self.answers.push((change, room));
            }
            Message::Look(look, room) => self.looks.push((look, room)),
            Message::Store(work, room) => self.works.push_back((work, room)),
            Message::Returned(returned) => self.take_returned(returned),
            Message::Stop => self.is_stopping = true,
        }
    }

    /// Hands an input to a run that may have ended, at the time at which it came.
    fn input(&mut self, run_id: RunId, input: Input) {
        match self.host.handle(run_id, input, self.handed_at) {
            Ok(()) | Err(NotHandled::NotLive) => {}
            Err(NotHandled::Refused(refused)) => {
                warn!(%run_id, reason = refused.reason.as_str(), "run refused what came back");
            }
        }
    }

    /// Answers what is durable now.
    fn answer(&mut self) {
        for (change, _room) in self.answers.drain(..) {
            change.answer(Ok(()));
        }
        for (look, _room) in self.looks.drain(..) {
            let run_id = look.run_id();
            let looked = self.host.look(run_id);
            if let Err(why) = guarded(|| look.look(looked)) {
                self.host.lose(run_id, why);
            }
        }
    }

    /// Runs that could not be restored from their parked state, or lack a content, do not continue; their
    /// parents do.
    fn leave_damaged(&mut self) {
        let damaged = self.host.poll_damaged();
        for Damaged { run_id, parent, why } in &damaged {
            let Some(run_id) = *run_id else { continue };
            self.live.set_aside(run_id);
            if let Some(parent) = *parent {
                let why = format!("the child run is damaged: {why}");
                self.child_ended(parent, run_id, ChildEnd::unreadable(why));
            }
        }
        tell_of(damaged);
    }

    /// Calls that wait are told that it is not known what becomes of them.
    fn fail(&mut self, error: &CallError) {
        for (change, _room) in self.answers.drain(..) {
            change.answer(Err(error.clone()));
        }
    }
}

fn tell_of(damaged: Vec<Damaged>) {
    for Damaged { run_id, why, .. } in damaged {
        let run_id = run_id.map(|run_id| run_id.to_string());
        warn!(run_id, why, "run is damaged and is not taken up");
    }
}

/// Tells all who follow that nothing comes any more, however the thread ends.
struct FollowersGuard {
    follows: Follows,
}

impl Drop for FollowersGuard {
    fn drop(&mut self) {
        self.follows.stop();
    }
}

/// Returns the pause after one that did not help.
fn longer(pause: Duration, max: Duration) -> Duration {
    (pause * 2).min(max)
}
