//! Many executions at once: who is admitted when, which worker gets which attempt, what every timer means.
//! One single-threaded state machine over one input stream.
//! Does no I/O, takes no lock, reads no clock, draws no random number: time, ids and keys come in as arguments.
//!
//! The shell calls [`Engine::handle`] for each input of a batch, then [`Engine::finish_batch`],
//! then carries out what [`Engine::poll_effect`] gives, in order, and wakes it at [`Engine::next_due_ms`].
#![no_std]

extern crate alloc;

mod admission;
mod answers;
mod by_need;
mod cancel;
mod clock;
mod config;
mod cut;
mod deaf;
mod dispatch;
mod drain;
mod effect;
mod engine;
mod explain;
mod fleet;
mod flush;
mod hello;
mod input;
mod lease;
mod limits;
mod live;
mod need;
mod offer;
mod operator;
mod parked;
mod parking;
mod pump;
mod refusal;
mod registration;
mod report;
mod session;
mod session_end;
mod show;
mod snapshot;
mod stored;
mod submit;
mod timers;
mod watch;
mod worker;

pub use config::EngineConfig;
pub use effect::{
    ActionMemory, ActionView, Effect, ExecutionView, Notice, Refusal, Reply, SessionState, StoreWrite,
    WorkerView,
};
pub use engine::Engine;
pub use explain::{Explained, ExplainedParked};
pub use input::{
    CallerId, Input, LoadOutcome, Piece, Recovered, RecoveredParked, SessionKey, Submission, UntilDecided,
    WaitFor, Watch, WorkerSelector, WriteConflict, WriteFailure, WriteId, WriteOutcome,
};
pub use watch::IsAll;
pub use worker::{
    AckVerdict, ActionRefusal, ActionSpec, Assignment, AttemptReport, Cancel, CancelReason, FromWorker,
    Hello, InFlight, InFlightPhase, KeepOrStop, RejectReason, ReleaseReason, SessionErrorCode, ToWorker,
    Welcome,
};
