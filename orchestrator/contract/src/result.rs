//! The terminal outcome and what is written with it. Never changes once it is made.

use crate::audit::AuditEntry;
use crate::error::ExecutionError;
use crate::input_log::InputLog;
use alloc::boxed::Box;
use alloc::vec::Vec;
use escapement_model::{ExecutionId, Opaque, PlanId};

/// How an execution ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Every step completed.
    Success,
    /// At least one step completed, at least one did not, and nothing was fatal.
    Partial,
    /// A fatal error, a halt, a limit that ran out, or nothing completed.
    Failure,
}

impl Status {
    /// Returns the contract's spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Success => "success",
            Status::Partial => "partial",
            Status::Failure => "failure",
        }
    }

    /// Returns the type of the terminal event.
    pub fn event_type(self) -> &'static str {
        //
        match self {
            Status::Success => "plan_execution_success",
            Status::Partial => "plan_execution_partial",
            Status::Failure => "plan_execution_failure",
        }
    }
}

/// The terminal outcome of one execution.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanResult {
    /// The plan.
    pub plan_id: PlanId,
    /// The execution.
    pub execution_id: ExecutionId,
    /// How it ended.
    pub status: Status,
    /// Unix milliseconds, never before the start.
    pub completed_at: i64,
    /// Milliseconds, not negative.
    pub duration_ms: i64,
    /// Steps that completed.
    pub steps_executed: u32,
    /// Steps of the plan.
    pub steps_total: u32,
    /// From step id to output; completed steps only, canonical order.
    pub result_payload: Opaque,
    /// `None` exactly when the status is `success`.
    pub error: Option<ExecutionError>,
}

/// What is written in one atomic write when an execution ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Settlement {
    /// The result.
    pub result: PlanResult,
    /// Unix milliseconds; the moment of settling if the execution never started.
    pub started_at_unix_ms: i64,
    /// The whole record, `Settled` last.
    pub audit: Vec<AuditEntry>,
    /// Everything that led there.
    pub inputs: InputLog,
    /// Same as in the request; see [`Request::provenance`](crate::Request::provenance).
    pub provenance: Box<[u8]>,
}
