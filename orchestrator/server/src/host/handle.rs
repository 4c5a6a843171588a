//! The way from the edge to the engine and back: messages in, replies and session messages out.
//! Knows no gRPC and takes no lock; the host has the maps from callers to their channels.

mod lanes;

use escapement_engine::{Answer, Caller, CallerId, Input, Reply, SessionKey, ToWorker};
use escapement_host::Links;
use escapement_runs_shell::{LinkedAttempt, WaitingBatch};
use escapement_wire::worker::v1::session_response::Message as LastMessage;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

pub(crate) use self::lanes::{Lane, LaneReceivers};
use self::lanes::{Lanes, NotSent};
use crate::limits::SESSION_QUEUE_MAX;

/// What the engine's thread is told.
#[derive(Debug)]
pub(crate) enum Message {
    /// Something happened; the route says where answers go.
    Input(Input, Route),
    /// A worker said something. Its room in the queue is given back once it is handled.
    Said(Input, OwnedSemaphorePermit),
    /// The last message: end the thread.
    Stop,
}

/// Message of the thread of runs.
pub(crate) type FromRuns = escapement_host::FromRuns<LinkedAttempt, WaitingBatch>;

/// Where the engine's answers to an input go.
pub(crate) type Route = escapement_host::Route<Channels>;

/// The channels on which callers and workers wait.
#[derive(Debug)]
pub(crate) struct Channels;

impl Links for Channels {
    type Caller = Box<dyn AnswerSlot>;
    type Session = SessionLink;
    type Attempt = LinkedAttempt;
    type RunBatch = WaitingBatch;

    fn is_given_up(caller: &Self::Caller) -> bool {
        caller.is_given_up()
    }
}

/// Takes the one answer to a call.
pub(crate) trait AnswerSlot: Debug + Send {
    /// True if the caller does not wait any more.
    fn is_given_up(&self) -> bool;

    /// Hands the answer over, if the caller still waits.
    fn answer(self: Box<Self>, reply: Reply);
}

impl<A: Answer + Debug + Send> AnswerSlot for oneshot::Sender<A> {
    fn is_given_up(&self) -> bool {
        self.is_closed()
    }

    fn answer(self: Box<Self>, reply: Reply) {
        let answer = A::from_reply(reply).expect("the engine answers a `Caller<A>` with an `A`");
        // A caller that gave up meanwhile changes nothing.
        let _gave_up = self.send(answer);
    }
}

/// What goes to a worker.
#[derive(Debug)]
pub(crate) enum Outbound {
    /// The engine says so, and numbers it.
    Engine {
        /// 1, 2, 3, ... on each stream.
        seq: u64,
        /// What.
        message: ToWorker,
        /// What it takes of the queue; given back when it is sent.
        _room: OwnedSemaphorePermit,
    },
    /// The shell ends the stream with this, for a reason that the engine cannot see. It has the next number.
    Last(LastMessage),
}

/// The engine's end of a session. Dropping it ends the session's stream after what was sent.
#[derive(Debug)]
pub(crate) struct SessionLink {
    /// Bounded by credits, and by `SESSION_QUEUE_MAX` for a worker that does not read.
    pub(crate) outbound: mpsc::Sender<Outbound>,
    /// Bounds what all messages in `outbound` hold together: `SESSION_QUEUE_MAX` units.
    pub(crate) room: Arc<Semaphore>,
    /// Tells the session's reader that the engine is done with it, and why. Dropped if the engine itself ends.
    pub(crate) closed: oneshot::Sender<&'static str>,
}

impl SessionLink {
    /// An end with an empty queue.
    pub(crate) fn new(outbound: mpsc::Sender<Outbound>, closed: oneshot::Sender<&'static str>) -> Self {
        Self {
            outbound,
            room: Arc::new(Semaphore::new(SESSION_QUEUE_MAX)),
            closed,
        }
    }
}

/// The engine's thread has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EngineGone;

/// Reason why a call has no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallError {
    /// The engine's thread has ended.
    Gone,
    /// Too many wait for the engine; it has not heard of this call.
    Overloaded(Lane),
}

/// The receiving ends, for the engine's thread.
#[derive(Debug)]
pub(crate) struct EngineInbox {
    pub(crate) messages: LaneReceivers,
    pub(crate) gone: mpsc::UnboundedReceiver<CallerId>,
    pub(crate) from_runs: mpsc::UnboundedReceiver<FromRuns>,
}

/// The edge's way to the engine. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct EngineHandle(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    lanes: Lanes,
    /// Callers that gave up. Unbounded, because `drop` cannot wait, and yet bounded: at most one entry for each
    /// call that went through a lane, and every batch takes more of these than it takes calls from the lanes.
    gone: mpsc::UnboundedSender<CallerId>,
    /// Unbounded, and yet bounded: the thread of runs waits for each of its batches.
    from_runs: mpsc::UnboundedSender<FromRuns>,
    // Numbers are drawn here and not by the engine's thread, because a caller that gives up must know its
    // own.
    next_caller: AtomicU64,
    next_session: AtomicU64,
}

/// Makes both ends.
pub(crate) fn link() -> (EngineHandle, EngineInbox) {
    let (lanes, messages) = lanes::lanes();
    let (gone, gone_rx) = mpsc::unbounded_channel();
    let (from_runs, from_runs_rx) = mpsc::unbounded_channel();
    let shared = Shared {
        lanes,
        gone,
        from_runs,
        next_caller: AtomicU64::new(1),
        next_session: AtomicU64::new(1),
    };
    (
        EngineHandle(Arc::new(shared)),
        EngineInbox {
            messages,
            gone: gone_rx,
            from_runs: from_runs_rx,
        },
    )
}

impl EngineHandle {
    /// How many messages wait for the engine, by lane.
    pub(crate) fn lane_depths(&self) -> Vec<(&'static str, usize)> {
        self.0.lanes.depths()
    }

    /// Hands in a call and waits for its answer. Dropping the future tells the engine that nobody waits any more.
    ///
    /// # Errors
    /// [`CallError`] if the engine ends first, or its lane stays full.
    pub(crate) async fn call<A: Answer + Debug + Send + 'static>(
        &self,
        lane: Lane,
        input: impl FnOnce(Caller<A>) -> Input,
    ) -> Result<A, CallError> {
        let caller = self.new_caller();
        let (reply, reply_rx) = oneshot::channel();
        let message = Message::Input(input(caller.into()), Route::Caller(caller, Box::new(reply)));
        let sent = self.0.lanes.send(lane, message).await;
        sent.map_err(|not_sent| match not_sent {
            NotSent::Gone => CallError::Gone,
            NotSent::Full => CallError::Overloaded(lane),
        })?;
        let mut waiting = WaitingCall {
            reply: reply_rx,
            caller,
            link: self,
            is_answered: false,
        };
        let reply = (&mut waiting.reply).await;
        waiting.is_answered = true;
        reply.map_err(|_| CallError::Gone)
    }

    /// Tells the engine something that is not answered.
    ///
    /// # Errors
    /// [`EngineGone`] if the engine has ended.
    pub(crate) async fn tell(&self, lane: Lane, input: Input) -> Result<(), EngineGone> {
        self.send(lane, Message::Input(input, Route::None)).await
    }

    /// Tells the engine what a worker said.
    ///
    /// # Errors
    /// [`EngineGone`] if the engine has ended.
    pub(crate) async fn forward(&self, said: Input, room: OwnedSemaphorePermit) -> Result<(), EngineGone> {
        self.send(Lane::Workers, Message::Said(said, room)).await
    }

    /// Opens a session.
    ///
    /// # Errors
    /// [`EngineGone`] if the engine has ended.
    pub(crate) async fn open_session(
        &self,
        session_id: escapement_model::SessionId,
        link: SessionLink,
    ) -> Result<SessionKey, EngineGone> {
        let session = SessionKey(self.0.next_session.fetch_add(1, Ordering::Relaxed));
        let input = Input::SessionOpened { session, session_id };
        let opened = Message::Input(input, Route::Session(session, link));
        self.send(Lane::Workers, opened).await?;
        Ok(session)
    }

    /// Asks the thread to end after this batch. It may have ended already.
    /// Calls that still wait in a lane end as those that wait for a reply do.
    pub(crate) async fn stop(&self) {
        let _ended_already = self.send(Lane::Control, Message::Stop).await;
    }

    /// Sends a message of the thread of runs to the engine.
    ///
    /// # Errors
    /// [`EngineGone`] if the engine has ended.
    pub(crate) fn send_of_runs(&self, said: FromRuns) -> Result<(), EngineGone> {
        self.0.from_runs.send(said).map_err(|_| EngineGone)
    }

    pub(crate) fn new_caller(&self) -> CallerId {
        CallerId(self.0.next_caller.fetch_add(1, Ordering::Relaxed))
    }

    fn gave_up(&self, caller: CallerId) {
        // The engine's thread may have ended; then nobody needs to know.
        let _ended_already = self.0.gone.send(caller);
    }

    /// Of lanes that wait as long as it takes.
    async fn send(&self, lane: Lane, message: Message) -> Result<(), EngineGone> {
        self.0.lanes.send(lane, message).await.map_err(|_| EngineGone)
    }
}

/// A call that was handed in. The channel is closed before the engine is told, so that the engine's thread sees that nobody
/// waits, whichever of both messages it reads first.
struct WaitingCall<'a, A> {
    reply: oneshot::Receiver<A>,
    caller: CallerId,
    link: &'a EngineHandle,
    is_answered: bool,
}

impl<A> Drop for WaitingCall<'_, A> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.reply.close();
            self.link.gave_up(self.caller);
        }
    }
}
