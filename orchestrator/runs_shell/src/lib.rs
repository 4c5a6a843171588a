//! The shell of runs: the thread that they live on, the way to it, and what leaves them.
//! Decides nothing about a run: the law is the crate `run`, the order among many is `runs`, and what is written together is
//! `runs_host`. Knows no API of runs.
//!
//! A call is answered once what it changed is durable; what comes while a commit is under way makes the next one.

#![warn(clippy::too_many_lines)]

pub mod limits;
mod live;

mod rights;

mod attempt;
mod contract_port;
mod slots;

mod error;

mod tenants;
mod turns;

mod permits;

mod aside;
mod evaluations;
mod evaluator;

mod clock;

mod follow;

mod readers;

mod seen;

mod store_port;
mod tally;

mod message;
mod wanted_plan;

mod handle;

mod caught_up;
mod children;

pub mod catalogue;

mod learning;

mod retention;

mod run_log;

mod trace_runs;

mod runs_loop;

pub mod saved;

mod planner;
mod port;

mod records;

mod wanted;

mod effects;
mod joint;

pub use aside::WorkOwner;
pub use attempt::Attempt;
pub use caught_up::CaughtUp;
pub use clock::Clock;
pub use contract_port::{ContractPort, EndedExecution, JointWay, Leaving, LinkedAttempt, PortRefusal};
pub use effects::{EffectsConfig, perform};
pub use error::CallError;
pub use evaluations::HeldBytes;
pub use evaluator::Evaluator;
pub use follow::{Follow, FollowAll};
pub use handle::{Condition, Created, Decided, Discarded, Fork, KeepSteps, RunsHandle};
pub use message::{Child, LinkedEnd, Outgoing, Returned};
pub use readers::RunReaders;
pub use records::{ExecutionRecord, ParentExecution};
pub use rights::{Origin, Rights, StillPermits};
pub use runs_loop::{Ending, RunsThread, Setup, start};
pub use seen::SeenActions;
pub use store_port::{Joined, StorePort, StoreRequest, WaitingBatch};
pub use tally::{Happened, Tally};
pub use tenants::{as_tenant, current_tenant};
pub use trace_runs::TraceRuns;
pub use wanted_plan::WantedPlan;
