//! The way to the thread of runs: calls in, answers back. Knows no state of a run.

mod deciding;
mod discard;
mod forks;
mod questions;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, mpsc};

use escapement_model::RunId;
use escapement_run::{Blobs, Input, RefusedReason, Run};
use escapement_runs::NotHandled;
use escapement_runs_host::{Create, Links, NotCreated, RunsHost, StoredRunFault, look_at_stored};
use escapement_store::StoreFault;
use escapement_store::runs::{ClientRequest, RunReader, RunStore};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::timeout;

pub use deciding::Decided;
pub use discard::Discarded;
pub use forks::{Fork, KeepSteps};

use crate::clock::Clock;
use crate::error::CallError;
use crate::evaluator::Evaluator;
use crate::follow::{Follow, FollowAll, Follows};
use crate::joint::{Context, Joint, JointSlot};
use crate::limits::{ANSWER_PATIENCE, CALL_BYTES_MAX, CALL_PATIENCE, CALL_UNIT_BYTES, CALLS_MAX};
use crate::live::LiveRuns;
use crate::message::{ChangeOf, LookOf, Looked, Message, Received, Returned, Room, StoreWorkOf};
use crate::permits::Permits;
use crate::readers::{RunReaders, of_fault};
use crate::records::ExecutionQuestion;
use crate::rights::Rights;
use crate::seen::SeenActions;
use crate::tally::{Happened, Tally};
use crate::tenants::current_tenant;

/// The way to the thread of runs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RunsHandle(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Unbounded, and yet bounded: each call has its room, and what returns is bounded by what is in flight.
    messages: mpsc::Sender<Received>,
    clock: Clock,
    places: Permits,
    bytes: Permits,
    readers: RunReaders,
    follows: Follows,
    live: LiveRuns,
    seen: SeenActions,
    noted: Arc<Notify>,
    rights: OnceLock<Rights>,
    tally: Tally,
    records: OnceLock<tokio::sync::mpsc::Sender<ExecutionQuestion>>,
    evaluator: Evaluator,
    joint: JointSlot,
    is_closed: AtomicBool,
}

/// A run that was made, now or before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Created {
    /// The run.
    pub run_id: RunId,
    /// False if the same request has made it before.
    pub is_new: bool,
}

/// When an input is taken in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// Only if this is the run's last entry.
    pub last_sequence: Option<u64>,
    /// What its caller may repeat.
    pub request: Option<ClientRequest>,
}

impl RunsHandle {
    pub(crate) fn new(
        messages: mpsc::Sender<Received>,
        clock: Clock,
        readers: RunReaders,
        follows: Follows,
        live: LiveRuns,
        tally: Tally,
    ) -> Self {
        Self(Arc::new(Shared {
            messages,
            clock,
            places: Permits::shared(CALLS_MAX),
            bytes: Permits::shared(CALL_BYTES_MAX / CALL_UNIT_BYTES),
            readers,
            follows,
            live,
            seen: SeenActions::default(),
            noted: Arc::new(Notify::new()),
            rights: OnceLock::new(),
            tally,
            records: OnceLock::new(),
            evaluator: Evaluator::default(),
            joint: JointSlot::default(),
            is_closed: AtomicBool::new(false),
        }))
    }

    /// Makes a run. It is durable when this answers. A request that made a run before has the same answer.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn create(&self, create: Create) -> Result<Created, CallError> {
        let (created, _) = self.create_and_look(create, Links::default(), |_, _| ()).await?;
        Ok(created)
    }

    /// As [`RunsHandle::create`], for a run that lists find by its links, too. Also what is seen of the run as it was made; `None`
    /// if the same request has made it before, or it has ended with that.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn create_and_look<T: Send + 'static>(
        &self,
        create: Create,
        links: Links,
        look: impl FnOnce(&Run, &dyn Blobs) -> T + Send + 'static,
    ) -> Result<(Created, Option<T>), CallError> {
        let spec = &create.run.spec;
        let bytes = spec.input.len() + spec.environment.len() + create.run.plan.document.len();
        let change = move |host: &mut RunsHost, now| {
            let digest = create.request.as_ref().map(|request| request.digest);
            match host.create_linked(create, links, now) {
                Ok(run_id) => Ok((new(run_id), host.run(run_id).map(|(run, blobs)| look(run, blobs)))),
                Err(why) => Ok((attached(why, digest)?, None)),
            }
        };
        self.change(bytes, change).await
    }

    /// Hands an input to a run. What it changes is durable when this answers. A request that was answered before changes
    /// nothing and has the same answer.
    ///
    /// # Errors
    /// [`CallError`]; [`CallError::Refused`] with `RUN_ENDED` if the run has ended.
    pub async fn input(&self, run_id: RunId, condition: Condition, input: Input) -> Result<(), CallError> {
        let bytes = match &input {
            Input::Answer(answer) | Input::ApproveEdited { answer, .. } => answer.value.len(),
            Input::Checkpoint { data } => data.len(),
            Input::Upload(upload) => upload.content.len(),
            _ => 0,
        };
        let change = move |host: &mut RunsHost, now| {
            if let Some(request) = &condition.request
                && let Some(before) = host.answered(&request.key).map_err(CallError::Damaged)?
            {
                return match before == (run_id, request.digest) {
                    true => Ok(true),
                    false => Err(CallError::RequestIdReused),
                };
            }
            // What is due may change the run before the condition is looked at.
            host.catch_up(run_id, now);
            let last = host.run(run_id).map(|(run, _)| run.state().sequence);
            match (last, condition.last_sequence) {
                (None, _) => return Ok(false),
                (Some(last), Some(wanted)) if last != wanted => return Err(CallError::EtagMismatch),
                (Some(_), _) => {}
            }
            let handled = match condition.request {
                Some(request) => host.handle_once(run_id, input, request, now).map(|_| ()),
                None => host.handle(run_id, input, now),
            };
            match handled {
                Ok(()) => Ok(true),
                Err(NotHandled::NotLive) => Ok(false),
                Err(NotHandled::Refused(refused)) => Err(refused.into()),
            }
        };
        match self.change(bytes, change).await? {
            true => Ok(()),
            false => Err(self.why_not_live(run_id).await?),
        }
    }

    /// Changes something in the turn of the other changes. What it changes is durable when this answers.
    ///
    /// `bytes`: about what the change holds.
    ///
    /// # Errors
    /// [`CallError`], that of the change included.
    pub async fn change<T: Send + 'static>(
        &self,
        bytes: usize,
        change: impl FnOnce(&mut RunsHost, i64) -> Result<T, CallError> + Send + 'static,
    ) -> Result<T, CallError> {
        if self.0.is_closed.load(Ordering::Acquire) {
            return Err(CallError::Stopping);
        }
        let (answer, answered) = oneshot::channel();
        let change = ChangeOf {
            change: Some(change),
            done: None,
            answer,
        };
        let room = self.room(bytes).await?;
        self.send(Message::Change(Box::new(change), room))?;
        answer_of(answered).await?
    }

    /// Tells those who count what became of causes of triggers, once it is durable.
    pub fn fired(&self, kind: &'static str, outcome: &'static str, n: u32) {
        self.0.tally.tell(Happened::Fired { kind, outcome, n });
    }

    /// Works on the store between two commits. The reader is there already: to open one takes as long as a commit.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn with_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn RunStore, &dyn RunReader, i64) -> Result<T, StoreFault> + Send + 'static,
    ) -> Result<T, CallError> {
        let (answer, answered) = oneshot::channel();
        let room = self.room(0).await?;
        self.send(Message::Store(Box::new(StoreWorkOf { work, answer }), room))?;
        answer_of(answered).await?
    }

    /// Looks at a run as it durably is: on the thread of runs while it lives, so be short; from the store once it has ended.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn look<T: Send + 'static>(
        &self,
        run_id: RunId,
        look: impl FnOnce(&Run, &dyn Blobs) -> T + Send + 'static,
    ) -> Result<T, CallError> {
        let (answer, answered) = oneshot::channel();
        let room = self.room(0).await?;
        let look = Box::new(LookOf { run_id, look, answer });
        self.send(Message::Look(look, room))?;
        match answer_of(answered).await? {
            Looked::Done(seen) => Ok(seen),
            Looked::NotLive(look) => self.look_at_stored(run_id, look).await,
        }
    }

    async fn look_at_stored<T: Send + 'static>(
        &self,
        run_id: RunId,
        look: impl FnOnce(&Run, &dyn Blobs) -> T + Send + 'static,
    ) -> Result<T, CallError> {
        let read = move |reader: &dyn RunReader| match look_at_stored(reader, run_id, look) {
            Ok(Some(seen)) => Ok(seen),
            Ok(None) => Err(is_removed(reader, run_id)?),
            Err(StoredRunFault::Damaged(why)) => Err(CallError::Damaged(why)),
            Err(StoredRunFault::Store(fault)) => Err(of_fault(&fault)),
        };
        self.0.readers.with_reader(read).await
    }

    /// Why no run of this id took the input.
    async fn why_not_live(&self, run_id: RunId) -> Result<CallError, CallError> {
        let read = move |reader: &dyn RunReader| {
            let summary = reader.summary(run_id).map_err(|fault| of_fault(&fault))?;
            Ok(match summary {
                None => is_removed(reader, run_id)?,
                Some(run) if run.progress.ended_at.is_some() => {
                    CallError::Refused(RefusedReason::RunEnded, "the run has ended".to_owned())
                }
                Some(_) => CallError::Damaged("it could not be taken up".to_owned()),
            })
        };
        self.0.readers.with_reader(read).await
    }

    /// The clock of runs.
    pub fn clock(&self) -> Clock {
        self.0.clock
    }

    /// Readers of what is durable.
    pub fn readers(&self) -> &RunReaders {
        &self.0.readers
    }

    /// Where expressions and filters are evaluated.
    pub fn evaluator(&self) -> &Evaluator {
        &self.0.evaluator
    }

    /// Returns the actions that workers have offered since the start.
    pub fn seen(&self) -> &SeenActions {
        &self.0.seen
    }

    /// Says what runs may call in the names of their authors. Before anything leaves runs, and once; without it there is no policy.
    pub fn judge_by(&self, rights: Rights) {
        let is_first = self.0.rights.set(rights).is_ok();
        assert!(is_first, "there is one policy");
    }

    /// What runs may call in the names of their authors.
    pub fn rights(&self) -> Rights {
        self.0.rights.get().cloned().unwrap_or_default()
    }

    /// Wakes one who waits once further notices for triggers are durable.
    pub fn noted(&self) -> Arc<Notify> {
        Arc::clone(&self.0.noted)
    }

    /// Tells when further entries of the run are durable. Follow first, then look.
    pub fn follow(&self, run_id: RunId) -> Follow {
        self.0.follows.follow(run_id)
    }

    /// Tells when requests of any run were opened or closed. Follow first, then look.
    pub fn follow_requests(&self) -> FollowAll {
        self.0.follows.follow_requests()
    }

    /// Tells when users were told something of any run. Follow first, then look.
    pub fn follow_notices(&self) -> FollowAll {
        self.0.follows.follow_notices()
    }

    /// Counts the runs that ended durably since the start; closed once the process stops. Subscribe first, then look.
    pub fn endings(&self) -> watch::Receiver<u64> {
        self.0.follows.endings()
    }

    /// Returns true if the run durably lives. No longer so once followers are told of its end.
    pub fn is_live(&self, run_id: RunId) -> bool {
        self.0.live.contains(run_id)
    }

    /// Hands in what came back of what left a run. There is no answer.
    pub fn returned(&self, returned: Returned) {
        // The thread may have ended; then the next start asks again.
        let _ended = self.send(Message::Returned(returned));
    }

    /// Adds the link by which attempts share commits with their runs.
    pub(crate) fn join_by(&self, joint: impl FnOnce(Context) -> Joint) {
        let runs = self.clone();
        self.0.joint.set(joint(Context {
            clock: self.clock(),
            rights: self.rights(),
            seen: self.seen().clone(),
            back: Arc::new(move |returned| runs.returned(returned)),
        }));
    }

    /// Returns the slot of that link.
    pub(crate) fn joint(&self) -> JointSlot {
        self.0.joint.clone()
    }

    /// Waits until the thread has ended.
    pub async fn ended(&self) {
        let mut endings = self.endings();
        while endings.changed().await.is_ok() {}
    }

    /// Refuses further calls that change something. What is under way goes on.
    pub fn close(&self) {
        self.0.is_closed.store(true, Ordering::Release);
    }

    /// Asks the thread to end after its batch. Calls that wait are told, and so is everybody who follows.
    pub fn stop(&self) {
        self.close();
        let _ended = self.send(Message::Stop);
    }

    async fn room(&self, bytes: usize) -> Result<Room, CallError> {
        let (tenant, units) = (current_tenant(), bytes / CALL_UNIT_BYTES + 1);
        let take = async {
            Room {
                _place: self.0.places.acquire(&tenant, 1).await,
                _bytes: self.0.bytes.acquire(&tenant, units).await,
            }
        };
        timeout(CALL_PATIENCE, take)
            .await
            .map_err(|_| CallError::Overloaded)
    }

    fn send(&self, message: Message) -> Result<(), CallError> {
        let at = self.0.clock.now();
        let sent = self.0.messages.send(Received { at, message });
        sent.map_err(|_| CallError::Stopping)
    }
}

async fn answer_of<T>(answered: oneshot::Receiver<T>) -> Result<T, CallError> {
    match timeout(ANSWER_PATIENCE, answered).await {
        Ok(Ok(answer)) => Ok(answer),
        // The thread ends only when the process does.
        Ok(Err(_)) => Err(CallError::Stopping),
        Err(_elapsed) => Err(CallError::Store),
    }
}

fn new(run_id: RunId) -> Created {
    Created { run_id, is_new: true }
}

/// Returns the run that the same request has made before.
fn attached(why: NotCreated, digest: Option<[u8; 32]>) -> Result<Created, CallError> {
    match why {
        NotCreated::Full => Err(CallError::Full),
        NotCreated::AlreadyRunning(run_id) => Err(CallError::AlreadyRunning(run_id)),
        NotCreated::Damaged(why) => Err(CallError::Damaged(why)),
        NotCreated::TooLarge(bound) => Err(CallError::TooLarge(bound.to_string())),
        NotCreated::Exists(_, known) if known != digest => Err(CallError::RequestIdReused),
        NotCreated::Exists(run_id, _) => Ok(Created {
            run_id,
            is_new: false,
        }),
    }
}

fn is_removed(reader: &dyn RunReader, run_id: RunId) -> Result<CallError, CallError> {
    let removed = reader.removed(run_id).map_err(|fault| of_fault(&fault))?;
    Ok(match removed {
        Some(removed) => CallError::Removed(Box::new(removed)),
        None => CallError::NotFound,
    })
}
