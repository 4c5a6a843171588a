//! The law of one execution: what a valid plan is, in which order its steps run, when they are repeated, and
//! how it ends.
//! Does no I/O, reads no clock, draws no random number, waits for nothing, logs nothing: it is `no_std`, and
//! the compiler checks it.
//!
//! `CONTRACT.md` beside the manifest holds the rules; a comment such as `// R-2.3` stands where the rule is
//! enforced.
// `no_std` takes clocks, randomness, I/O and logging out of reach.
#![no_std]
#![warn(clippy::too_many_lines)]

extern crate alloc;

mod audit;
mod certificate;
mod chain;
mod digest;
mod draft;
mod error;
mod execution;
mod explain;
mod input_log;
mod outcome;
mod plan;
mod replay;
mod request;
mod result;
mod retry;
mod settlement_actions;
mod spelled;
mod time;
mod trace;
mod validate;

pub use audit::{AUDIT_ENTRIES_MAX, AuditEntry, AuditKind, NotCompleted};
pub use certificate::{CERTIFICATE_REVISION, Certificate, CriticalStep, DurationBound};
pub use chain::{ChainHash, chain_seed};
pub use draft::{PlanDraft, RequestDraft, RetryPolicyDraft, StepDraft};
pub use error::{CAUSE_DEPTH_MAX, ExecutionError};
#[cfg(feature = "explore")]
pub use execution::{AbstractState, AbstractStep};
pub use execution::{
    Delivery, Effect, Evidence, Execution, Input, Interruption, Persisted, Phase, Progress, Refused,
    StepState, WithdrawReason,
};
pub use explain::{
    AdmissionFacts, COUNTED_MAX, DEPENDENCIES_LISTED_MAX, End, EndedBy, ExecutionFacts, ExecutionReason,
    Explanation, HeldBackFacts, OpenDependencies, QueueFacts, QuotaFacts, StepFacts, StepReason, WorkerFacts,
    WriteFacts, explain_queued, explain_settled,
};
pub use input_log::{InputLog, LoggedInput};
pub use outcome::{Outcome, Reported};
pub use plan::{OnFailure, Plan, RetryPolicy, Step, StepIndex};
pub use replay::{ReplayRefused, Replayed, replay};
pub use request::Request;
pub use result::{PlanResult, Settlement, Status};
pub use settlement_actions::{MandatoryAction, RuleSet, SettlementAction};
pub use time::{Moment, NO_DEADLINE, default_deadline, due_at_unix};
pub use validate::{
    Finding, Violations, looks_like_seconds, validate_concurrency, validate_plan, validate_request,
};
