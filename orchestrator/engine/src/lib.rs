//! Many executions at once: who is admitted when, which worker gets which attempt, what every timer means.
//! One single-threaded state machine over one input stream.
//! Does no I/O, takes no lock, reads no clock, draws no random number: time, ids and keys come in as arguments.
//!
//! The shell calls [`Engine::handle`] for each input of a batch, then [`Engine::finish_batch`],
//! then carries out what [`Engine::poll_effect`] gives, in order, and wakes it at [`Engine::next_due_ms`].
#![no_std]

extern crate alloc;

mod answer;
mod clock;
mod config;
mod drain;
mod durable;
mod effect;
mod engine;
mod executions;
#[cfg(test)]
mod fixtures;
mod fleet;
mod input;
mod keys;
mod limits;
mod queue;
mod timers;
mod turn;
mod worker;

pub use answer::{
    ActionForgotten, ActionView, Answer, Caller, Ended, ExecutionView, ExplainAnswer, Explained,
    ExplainedParked, IsAll, Losses, Refusal, Reply, SessionState, Submitted, Watched, WorkerView,
    WorkersDrain,
};
pub use config::EngineConfig;
pub use durable::DurableAccept;
pub use effect::{Effect, Notice, StoreWrite};
pub use engine::Engine;
pub use input::{
    ActionMemory, CallerId, Input, LoadOutcome, Piece, Recovered, RecoveredParked, SessionKey, Submission,
    Submitter, UntilDecided, Watch, WorkerSelector, WriteConflict, WriteFailure, WriteId, WriteOutcome,
};
pub use worker::{
    AckVerdict, ActionRefusal, ActionSpec, Assignment, AttemptReport, Cancel, CancelReason, FromWorker,
    Hello, InFlight, InFlightPhase, KeepOrStop, RejectReason, ReleaseReason, SessionErrorCode, ToWorker,
    Welcome,
};
