//! Everything that an engine wants done. Does none of it.

use crate::answer::Reply;
use crate::keys::{CallerId, SessionKey, WriteId};
use crate::stored::ActionMemory;
use crate::worker::ToWorker;
use alloc::sync::Arc;
use alloc::vec::Vec;
use escapement_contract::{Evidence, Persisted, Request, Settlement};
use escapement_model::ExecutionId;

/// A thing to do. The shell carries effects out in the order in which it gets them.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Write to the store and report back with `Input::Stored`. Writes MUST be applied in this order.
    Write {
        /// Comes back with the outcome.
        write: WriteId,
        /// What.
        content: StoreWrite,
    },
    /// Read the request of a queued execution and report back with `Input::Loaded`.
    Load {
        /// Which.
        execution_id: ExecutionId,
    },
    /// Answer a call. Each caller gets one.
    Reply {
        /// Who.
        caller: CallerId,
        /// What.
        reply: Reply,
    },
    /// Send a message to a worker. None is larger than `limits::SESSION_MESSAGE_BYTES_MAX` on the wire.
    Send {
        /// On which stream.
        session: SessionKey,
        /// Its number on the stream: 1, 2, 3, ...
        seq: u64,
        /// What.
        message: ToWorker,
    },
    /// End a stream once what was sent is written.
    CloseSession(SessionKey),
    /// Tell the event sinks; best effort, never waits.
    EmitEvent(Persisted),
    /// Tell the error handler, if there is one; best effort, never waits.
    NotifyErrorHandler(Persisted),
    /// A worker is gone for good, and with it what it had. For the log.
    WorkerLost {
        /// Label.
        worker_id: Arc<str>,
        /// How it is known.
        evidence: Evidence,
        /// Attempts that had started.
        n_lost: u32,
        /// Attempts that had not, and wait for another worker.
        n_returned: u32,
    },
    /// Tell the operator, in the log.
    Note(Notice),
    /// The drain is over: the process may exit.
    Drained {
        /// Executions that still run when the grace is over; the restart settles them.
        n_unfinished: usize,
    },
    /// A record could not be written within bounds, and not for want of space: stop acknowledging and exit;
    /// the restart settles what is open.
    GiveUp {
        /// How many writes of it failed.
        attempts: u32,
    },
}

/// A write.
#[derive(Clone, Debug)]
pub enum StoreWrite {
    /// A new execution.
    Accept {
        /// Id.
        execution_id: ExecutionId,
        /// What was asked.
        request: Arc<Request>,
        /// Unix milliseconds.
        accepted_at: i64,
        /// Unix milliseconds.
        deadline_ms: i64,
        /// Unix milliseconds; present if it starts at once.
        started_at: Option<i64>,
    },
    /// An execution left the queue.
    Start {
        /// Which.
        execution_id: ExecutionId,
        /// Unix milliseconds.
        started_at: i64,
    },
    /// An execution ended.
    Settle {
        /// Result and record.
        settlement: Arc<Settlement>,
        /// What was asked. It is stored already; who reads the record needs it.
        request: Arc<Request>,
    },
    /// What is known of actions whose workers may be away. Losing it harms no execution that was accepted.
    RememberActions {
        /// Each name once; at most 1,024.
        memories: Vec<ActionMemory>,
    },
}

/// What operators should know though no call asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Executions begin to be held back, because no live worker offers the action.
    HeldBack {
        /// Name.
        action: Arc<str>,
    },
    /// A worker offers an action again for which executions were held back.
    Offered {
        /// Name.
        action: Arc<str>,
    },
    /// Actions that a worker registered after its hello were refused; once for each session.
    Refused {
        /// Label of the worker.
        worker_id: Arc<str>,
        /// Number of these actions.
        n_actions: usize,
        /// Reason for the first of them.
        reason: &'static str,
    },
    /// Steps ended with `ACTION_NOT_FOUND`.
    NotFound {
        /// The name of their action.
        action: Arc<str>,
        /// How many since that was said last.
        n_steps: u64,
    },
}
