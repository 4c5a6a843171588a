//! Classes of calls, each of which has bounds of its own: the class of a path, and what it means. Knows no limit of them.

use escapement_model::limits::{CALLER_MESSAGE_BYTES_MAX, SESSION_MESSAGE_BYTES_MAX};
use escapement_wire::v1::event_service_server;
use escapement_wire::v1::fleet_service_server;
use escapement_wire::v1::plan_execution_service_server;
use escapement_wire::worker::v1::worker_service_server;
use tonic::Code;

const PLANS: &str = plan_execution_service_server::SERVICE_NAME;
const EVENTS: &str = event_service_server::SERVICE_NAME;
const FLEET: &str = fleet_service_server::SERVICE_NAME;
const WORKERS: &str = worker_service_server::SERVICE_NAME;
const HEALTH: &str = "grpc.health.v1.Health";
const REFLECTION: &str = tonic_reflection::pb::v1::server_reflection_server::SERVICE_NAME;
const REFLECTION_ALPHA: &str = tonic_reflection::pb::v1alpha::server_reflection_server::SERVICE_NAME;

/// Kinds of calls, each of which has bounds of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallClass {
    /// Plans that are handed in.
    Writes,
    /// Plans that are handed in by callers who wait for the result.
    Executes,
    /// Questions that are answered at once.
    Reads,
    /// Callers that wait for a result.
    Waits,
    /// Callers that watch an execution.
    Watches,
    /// Subscribers to events.
    Subscriptions,
    /// Questions and orders of operators.
    Controls,
    /// Outcomes without a session.
    Reports,
    /// Sessions.
    Sessions,
    /// Questions for the health.
    Health,
    /// Questions for the API itself.
    Reflections,
}

impl CallClass {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            CallClass::Writes => "submissions",
            CallClass::Executes => "executing calls",
            CallClass::Reads => "reads",
            CallClass::Waits => "waiting calls",
            CallClass::Watches => "watches",
            CallClass::Subscriptions => "subscriptions",
            CallClass::Controls => "calls of operators",
            CallClass::Reports => "reports of outcomes",
            CallClass::Sessions => "new sessions",
            CallClass::Health => "health checks",
            CallClass::Reflections => "reflections",
        }
    }

    /// False for what workers, operators and supervisors ask.
    pub(crate) fn is_of_callers(self) -> bool {
        !matches!(
            self,
            CallClass::Sessions | CallClass::Reports | CallClass::Controls | CallClass::Health
        )
    }

    /// True for calls that hand a plan in.
    pub(crate) fn hands_in(self) -> bool {
        matches!(self, CallClass::Writes | CallClass::Executes)
    }

    /// Workers come back after UNAVAILABLE, as they do after a restart.
    pub(crate) fn overload_code(self) -> Code {
        match self {
            CallClass::Sessions | CallClass::Reports | CallClass::Health => Code::Unavailable,
            CallClass::Writes
            | CallClass::Executes
            | CallClass::Reads
            | CallClass::Waits
            | CallClass::Watches
            | CallClass::Subscriptions
            | CallClass::Controls
            | CallClass::Reflections => Code::ResourceExhausted,
        }
    }
}

/// Returns the class of the call that a path is for; what is no call counts as a read.
pub(crate) fn class_of(path: &str) -> CallClass {
    let call = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    match call {
        Some((WORKERS, "Session")) => CallClass::Sessions,
        Some((WORKERS, _)) => CallClass::Reports,
        Some((FLEET, _)) => CallClass::Controls,
        Some((HEALTH, _)) => CallClass::Health,
        Some((EVENTS, _)) => CallClass::Subscriptions,
        Some((REFLECTION | REFLECTION_ALPHA, _)) => CallClass::Reflections,
        Some((PLANS, "SubmitPlan")) => CallClass::Writes,
        Some((PLANS, "ExecutePlan")) => CallClass::Executes,
        Some((PLANS, "WaitExecution")) => CallClass::Waits,
        Some((PLANS, "WatchExecution")) => CallClass::Watches,
        Some(_) | None => CallClass::Reads,
    }
}

/// Bytes that one message to us may have.
pub(crate) fn message_bytes_max(class: CallClass) -> usize {
    if class.is_of_callers() {
        CALLER_MESSAGE_BYTES_MAX
    } else {
        SESSION_MESSAGE_BYTES_MAX
    }
}

#[cfg(test)]
mod tests;
