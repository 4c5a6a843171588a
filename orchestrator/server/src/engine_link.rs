//! The way from the edge to the engine and back: messages in, replies, entries and session messages out.
//! Knows no gRPC and takes no lock; the maps from callers to their channels live on the engine's thread.

use escapement_contract::{AuditEntry, Persisted};
use escapement_engine::{CallerId, Input, Reply, SessionKey, ToWorker};
use escapement_model::ExecutionId;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::limits::{ENGINE_QUEUE_MAX, SESSION_QUEUE_MAX, WATCHER_QUEUE_MAX};

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

/// Where the engine's answers to an input go.
#[derive(Debug)]
pub(crate) enum Route {
    /// Nowhere.
    None,
    /// To a caller, once.
    Caller(CallerId, oneshot::Sender<Reply>),
    /// To a watcher: a reply, then entries.
    Watcher(CallerId, mpsc::Sender<Watched>),
    /// To a worker, until either side closes.
    Session(SessionKey, SessionLink),
}

/// What a watcher gets.
#[derive(Debug)]
pub(crate) enum Watched {
    /// First and once.
    Reply(Reply),
    /// In order, without gaps; `settled` with the last ones.
    Entries(Vec<AuditEntry>, Option<Persisted>),
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
    /// The shell ends the stream, because the worker broke the protocol in a way that the engine cannot see.
    Violation {
        /// For people.
        detail: String,
    },
}

/// The engine's end of a session. Dropping it ends the session's stream after what was sent.
#[derive(Debug)]
pub(crate) struct SessionLink {
    /// Bounded by credits, and by `SESSION_QUEUE_MAX` for a worker that does not read.
    pub(crate) outbound: mpsc::Sender<Outbound>,
    /// Bounds what all messages in `outbound` hold together: `SESSION_QUEUE_MAX` units.
    pub(crate) room: Arc<Semaphore>,
    /// Tells the session's reader that the engine is done with it, and why. Dropped where the engine itself ends.
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

/// The receiving ends, for the engine's thread.
#[derive(Debug)]
pub(crate) struct EngineEnd {
    pub(crate) messages: mpsc::Receiver<Message>,
    pub(crate) gone: mpsc::UnboundedReceiver<CallerId>,
}

/// The edge's way to the engine. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct EngineLink(Arc<Ends>);

#[derive(Debug)]
struct Ends {
    messages: mpsc::Sender<Message>,
    /// Callers that gave up. Unbounded, because `drop` cannot wait, and yet bounded: at most one entry for
    /// each open
    /// call, and open calls are bounded by connections and streams.
    gone: mpsc::UnboundedSender<CallerId>,
    // Numbers are drawn here and not by the engine's thread, because a caller that gives up must know its
    // own.
    next_caller: AtomicU64,
    next_session: AtomicU64,
}

/// Makes both ends.
pub(crate) fn link() -> (EngineLink, EngineEnd) {
    let (messages, messages_rx) = mpsc::channel(ENGINE_QUEUE_MAX);
    let (gone, gone_rx) = mpsc::unbounded_channel();
    let ends = Ends {
        messages,
        gone,
        next_caller: AtomicU64::new(1),
        next_session: AtomicU64::new(1),
    };
    (
        EngineLink(Arc::new(ends)),
        EngineEnd {
            messages: messages_rx,
            gone: gone_rx,
        },
    )
}

impl EngineLink {
    /// Hands in a call and waits for its reply. Dropping the future tells the engine that nobody waits any
    /// more.
    ///
    /// # Errors
    /// [`EngineGone`] where the engine ends first.
    pub(crate) async fn call(&self, input: impl FnOnce(CallerId) -> Input) -> Result<Reply, EngineGone> {
        let caller = self.new_caller();
        let (reply, reply_rx) = oneshot::channel();
        self.send(Message::Input(input(caller), Route::Caller(caller, reply)))
            .await?;
        let mut waiting = WaitingCall {
            reply: reply_rx,
            caller,
            link: self,
            is_answered: false,
        };
        let reply = (&mut waiting.reply).await;
        waiting.is_answered = true;
        reply.map_err(|_| EngineGone)
    }

    /// Watches an execution from its first entry. Dropping the watch tells the engine.
    ///
    /// # Errors
    /// [`EngineGone`] where the engine has ended.
    pub(crate) async fn watch(&self, execution_id: ExecutionId) -> Result<Watch, EngineGone> {
        let caller = self.new_caller();
        let (items, items_rx) = mpsc::channel(WATCHER_QUEUE_MAX);
        // Always from the first entry: the engine says nothing to a watcher that waits beyond the end.
        let input = Input::Watch {
            caller,
            execution_id,
            from_sequence: 1,
        };
        self.send(Message::Input(input, Route::Watcher(caller, items)))
            .await?;
        Ok(Watch {
            items: items_rx,
            caller,
            link: self.clone(),
        })
    }

    /// Tells the engine something that is not answered.
    ///
    /// # Errors
    /// [`EngineGone`] where the engine has ended.
    pub(crate) async fn tell(&self, input: Input) -> Result<(), EngineGone> {
        self.send(Message::Input(input, Route::None)).await
    }

    /// Tells the engine what a worker said.
    ///
    /// # Errors
    /// [`EngineGone`] where the engine has ended.
    pub(crate) async fn pass_on(&self, said: Input, room: OwnedSemaphorePermit) -> Result<(), EngineGone> {
        self.send(Message::Said(said, room)).await
    }

    /// Opens a session.
    ///
    /// # Errors
    /// [`EngineGone`] where the engine has ended.
    pub(crate) async fn open_session(
        &self,
        session_id: escapement_model::SessionId,
        link: SessionLink,
    ) -> Result<SessionKey, EngineGone> {
        let session = SessionKey(self.0.next_session.fetch_add(1, Ordering::Relaxed));
        let input = Input::SessionOpened { session, session_id };
        self.send(Message::Input(input, Route::Session(session, link)))
            .await?;
        Ok(session)
    }

    /// Asks the thread to end after what was sent before. It may have ended already.
    pub(crate) async fn stop(&self) {
        let _ended_already = self.send(Message::Stop).await;
    }

    /// True once the thread has ended.
    pub(crate) fn is_gone(&self) -> bool {
        self.0.messages.is_closed()
    }

    fn new_caller(&self) -> CallerId {
        CallerId(self.0.next_caller.fetch_add(1, Ordering::Relaxed))
    }

    fn gave_up(&self, caller: CallerId) {
        // The engine's thread may have ended; then nobody needs to know.
        let _ended_already = self.0.gone.send(caller);
    }

    async fn send(&self, message: Message) -> Result<(), EngineGone> {
        self.0.messages.send(message).await.map_err(|_| EngineGone)
    }
}

/// A call that was handed in. The channel is closed before the engine is told, so that whichever of both
/// messages
/// the engine's thread reads first, it sees that nobody waits.
struct WaitingCall<'a> {
    reply: oneshot::Receiver<Reply>,
    caller: CallerId,
    link: &'a EngineLink,
    is_answered: bool,
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.reply.close();
            self.link.gave_up(self.caller);
        }
    }
}

/// An execution that is being watched.
#[derive(Debug)]
pub(crate) struct Watch {
    items: mpsc::Receiver<Watched>,
    caller: CallerId,
    link: EngineLink,
}

impl Watch {
    /// The next item; `None` where the watch was ended from the other side.
    pub(crate) async fn next(&mut self) -> Option<Watched> {
        self.items.recv().await
    }

    /// True where the watch ended because the engine did.
    pub(crate) fn engine_is_gone(&self) -> bool {
        self.link.is_gone()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.items.close();
        self.link.gave_up(self.caller);
    }
}
