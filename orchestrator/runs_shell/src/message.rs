//! Defines the messages to the thread of runs, and its messages to the tasks that perform its effects.

use std::sync::Arc;

use escapement_model::{ExecutionId, Opaque, RunId};
use escapement_run::budget::Budget;
use escapement_run::journal::Doubt;
use escapement_run::plan::Plan;
use escapement_run::spec::ActionProfile;
use escapement_run::{Blobs, Input, Run};
use escapement_runs_host::{RunsHost, guarded};
use escapement_store::StoreFault;
use escapement_store::runs::{RunReader, RunStore};
use tokio::sync::oneshot;

use crate::aside::WorkOwner;
use crate::attempt::Attempt;
use crate::error::CallError;
use crate::evaluations::HeldBytes;
use crate::permits::Permit;
use crate::readers::of_fault;
use crate::rights::Origin;
use crate::wanted_plan::WantedPlan;

/// A message for the thread of runs, with its arrival time.
pub(crate) struct Received {
    // RUN-7.5
    /// Unix milliseconds of the clock of runs.
    pub(crate) at: i64,
    pub(crate) message: Message,
}

/// A message for the thread of runs.
pub(crate) enum Message {
    /// A call that may change something.
    Change(Box<dyn Change>, Room),
    /// A look at a run.
    Look(Box<dyn Look>, Room),
    /// Work on the store between two commits.
    Store(Box<dyn StoreWork>, Room),
    /// Something that left a run came back.
    Returned(Returned),
    /// The last message: end the thread.
    Stop,
}

/// Share of the queue that a call holds, released once it is answered.
#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) _place: Permit,
    pub(crate) _bytes: Permit,
}

/// What leaves the thread of runs.
#[derive(Debug)]
pub enum Outgoing {
    /// Submit this and return [`Input::Settled`].
    Submit(Attempt),
    /// List these actions and return [`Input::Catalogue`].
    Catalogue {
        /// Whose plan it is for.
        run_id: RunId,
        /// In whose name the plan calls actions.
        origin: Origin,
        /// Which one.
        generation: u32,
        /// The actions that are wanted; all that are offered if it is empty.
        allowed: Vec<String>,
        /// Actions that the run calls itself.
        own: Vec<String>,
    },
    /// Wait until something is known of the actions of a run, and return [`Input::ActionsKnown`].
    Actions {
        /// The run.
        run_id: RunId,
        /// The plan of the run.
        plan: Arc<Plan>,
        /// The actions that it calls besides those of its plan.
        own_actions: Vec<String>,
        /// Profiles from when it was made.
        known: Vec<ActionProfile>,
    },
    /// Evaluate this and return [`Input::Evaluated`].
    Evaluate {
        /// Whose expression it is.
        run_id: RunId,
        /// Owner of that run.
        owner: WorkOwner,
        /// Which one.
        evaluation: u32,
        /// The text.
        expression: String,
        /// What it is about.
        bindings: Opaque,
        /// To be dropped before its value is returned.
        held: HeldBytes,
    },
    /// Find the plan of a child run and return [`Returned::Plan`].
    FindPlan {
        /// Which plan.
        wanted: WantedPlan,
        /// For whom.
        child: Child,
    },
    /// There is no room for a child run: return this a while later.
    Later(Returned),
}

/// A run that another one waits for.
#[derive(Clone, Debug)]
pub struct Child {
    /// The run that asks.
    pub parent: RunId,
    /// The run that is to be made.
    pub run_id: RunId,
    /// Input.
    pub input: Opaque,
    /// What it may spend, if that is limited.
    pub budget: Option<Budget>,
    /// Effects that are in doubt when it begins.
    pub doubts: Vec<Doubt>,
}

/// What comes back.
#[derive(Debug)]
pub enum Returned {
    /// For a run.
    Input(RunId, Input),
    /// An attempt is accepted and has no outcome yet.
    UnderWay(ExecutionId),
    /// End of an attempt that was accepted with its intent.
    Ended(LinkedEnd),
    /// The plan of a child run with what is known of its actions, or why there is none.
    Plan(Child, Result<(Arc<Plan>, Vec<ActionProfile>), String>),
}

/// End of an attempt that was accepted with its intent.
pub struct LinkedEnd {
    pub(crate) run_id: RunId,
    pub(crate) is_durable: bool,
    /// Reads the end.
    pub(crate) input: Box<dyn FnOnce() -> Input + Send>,
}

impl std::fmt::Debug for LinkedEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LinkedEnd")
            .field("run_id", &self.run_id)
            .finish_non_exhaustive()
    }
}

/// A call that may change something. Answered once what it changed is durable.
pub(crate) trait Change: Send {
    fn perform(&mut self, host: &mut RunsHost, now: i64);
    fn answer(self: Box<Self>, durable: Result<(), CallError>);
}

/// A change whose answer is a `T`.
pub(crate) struct ChangeOf<F, T> {
    pub(crate) change: Option<F>,
    pub(crate) done: Option<Result<T, CallError>>,
    pub(crate) answer: oneshot::Sender<Result<T, CallError>>,
}

impl<F, T> Change for ChangeOf<F, T>
where
    F: FnOnce(&mut RunsHost, i64) -> Result<T, CallError> + Send,
    T: Send,
{
    fn perform(&mut self, host: &mut RunsHost, now: i64) {
        let Some(change) = self.change.take() else {
            return;
        };
        let changed = guarded(|| change(host, now));
        self.done = Some(changed.unwrap_or_else(|why| Err(CallError::Damaged(why))));
    }

    fn answer(self: Box<Self>, durable: Result<(), CallError>) {
        let Self { done, answer, .. } = *self;
        let done = durable.and_then(|()| done.expect("a change is performed before it is durable"));
        // A caller that gave up meanwhile changes nothing.
        let _gave_up = answer.send(done);
    }
}

/// A look at a run.
pub(crate) trait Look: Send {
    fn run_id(&self) -> RunId;
    /// `None` if no run of this id lives.
    fn look(self: Box<Self>, run: Option<(&Run, &dyn Blobs)>);
}

/// What comes of a look.
pub(crate) enum Looked<F, T> {
    Done(T),
    /// No run of this id lives; the store may have it.
    NotLive(F),
}

/// A look that sees a `T`.
pub(crate) struct LookOf<F, T> {
    pub(crate) run_id: RunId,
    pub(crate) look: F,
    pub(crate) answer: oneshot::Sender<Looked<F, T>>,
}

impl<F, T> Look for LookOf<F, T>
where
    F: FnOnce(&Run, &dyn Blobs) -> T + Send,
    T: Send,
{
    fn run_id(&self) -> RunId {
        self.run_id
    }

    fn look(self: Box<Self>, run: Option<(&Run, &dyn Blobs)>) {
        if self.answer.is_closed() {
            return;
        }
        let looked = match run {
            Some((run, blobs)) => Looked::Done((self.look)(run, blobs)),
            None => Looked::NotLive(self.look),
        };
        let _gave_up = self.answer.send(looked);
    }
}

/// Work on the store between two commits.
pub(crate) trait StoreWork: Send {
    /// Performs the work. `reader` reads durable rows.
    fn work(self: Box<Self>, store: &mut dyn RunStore, reader: &dyn RunReader, now: i64);
    /// It is not done.
    fn refuse(self: Box<Self>, error: CallError);
}

/// Work whose answer is a `T`.
pub(crate) struct StoreWorkOf<F, T> {
    pub(crate) work: F,
    pub(crate) answer: oneshot::Sender<Result<T, CallError>>,
}

impl<F, T> StoreWork for StoreWorkOf<F, T>
where
    F: FnOnce(&mut dyn RunStore, &dyn RunReader, i64) -> Result<T, StoreFault> + Send,
    T: Send,
{
    fn work(self: Box<Self>, store: &mut dyn RunStore, reader: &dyn RunReader, now: i64) {
        let worked = (self.work)(store, reader, now).map_err(|fault| match fault {
            StoreFault::Full(_) => CallError::StoreFull,
            fault => of_fault(&fault),
        });
        let _gave_up = self.answer.send(worked);
    }

    fn refuse(self: Box<Self>, error: CallError) {
        let _gave_up = self.answer.send(Err(error));
    }
}
