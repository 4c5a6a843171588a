//! Many executions at once: which is admitted when, which worker gets which attempt, what every timer means.
//! One single-threaded state machine over one input stream.
//! Does no I/O, takes no lock, reads no clock, draws no random number: time, ids and keys come in as arguments.
//!
//! The shell calls [`Engine::handle`] for each input of a batch, then [`Engine::finish_batch`],
//! then carries out what [`Engine::poll_effect`] gives, in order, and wakes it at [`Engine::next_due_ms`].
//!
//! | question | where it is decided |
//! |---|---|
//! | what comes in and goes out, and as which types | `input`, `effect`, `answer`, `stored`, `worker` |
//! | which owner gets an input, and what one owner's answer means for another | `engine` |
//! | what an execution, its writes and its callers wait for | `executions` |
//! | which namespace is next, and which execution starts, is held back, or is parked | `queue` |
//! | which worker is alive, what it offers and has, which step it gets | `fleet` |
//! | what a stop lets finish | `drain` |
//!
//! Each owner has private state, timers of its own and tests of its own; values pass between them, through `engine` alone.
#![no_std]
#![warn(clippy::too_many_lines)]

extern crate alloc;

mod config;
mod limits;

mod answer;
mod arrivals;
mod durable;
mod effect;
mod input;
mod keys;
mod stored;
mod worker;

mod engine;

mod drain;
mod executions;
mod fleet;
mod queue;

mod clock;
mod timers;
mod turn;

#[cfg(test)]
mod fixtures;

pub use answer::{
    ActionForgotten, ActionView, Answer, AttemptHolder, AttemptStanding, Caller, Ended, ExecutionView,
    ExplainAnswer, Explained, ExplainedParked, ForgetAnswer, IsAll, Losses, Refusal, Reply, SessionState,
    Submitted, Watched, WorkerView, WorkersDrain,
};
pub use config::EngineConfig;
pub use durable::DurableAccept;
pub use effect::{Effect, Notice, StoreWrite};
pub use engine::{Census, Engine};
pub use input::{Input, NamespaceShare, Piece, Submission, Submitter, UntilDecided, Watch, WorkerSelector};
pub use keys::{CallerId, NamespaceKey, SessionKey, WriteId};
pub use stored::{
    ActionMemory, LoadOutcome, Recovered, RecoveredParked, WriteConflict, WriteFailure, WriteOutcome,
};
pub use worker::{
    AckVerdict, ActionRefusal, ActionSpec, Assignment, AttemptReport, Cancel, CancelReason, FromWorker,
    Hello, InFlight, InFlightPhase, KeepOrStop, RejectReason, ReleaseReason, SessionErrorCode, ToWorker,
    Welcome,
};
