//! Classes of calls, each of which has bounds of its own: the class of a path, and what it means. Enforces none of them.

use crate::limits::{
    OPEN_CALL_MESSAGE_BYTES_MAX, OPEN_CONTROLS_MAX, OPEN_EXECUTES_MAX, OPEN_HEALTH_MAX,
    OPEN_HEALTH_WATCHES_MAX, OPEN_READS_MAX, OPEN_REFLECTIONS_MAX, OPEN_REPORTS_MAX, OPEN_SUBSCRIPTIONS_MAX,
    OPEN_WAITS_MAX, OPEN_WATCHES_MAX, OPEN_WRITES_MAX,
};
use escapement_model::limits::{CALLER_MESSAGE_BYTES_MAX, SESSION_MESSAGE_BYTES_MAX};
use escapement_wire::externalscaler::external_scaler_server;
use escapement_wire::runs::v1::{
    action_service_server, artifact_service_server, goal_service_server, inbox_service_server,
    plan_service_server, run_service_server, session_service_server, trigger_service_server,
};
use escapement_wire::v1::access_service_server;
use escapement_wire::v1::event_service_server;
use escapement_wire::v1::fleet_service_server;
use escapement_wire::v1::plan_execution_service_server;
use escapement_wire::worker::v1::worker_service_server;
use tonic::Code;

const PLANS: &str = plan_execution_service_server::SERVICE_NAME;
const ACCESS: &str = access_service_server::SERVICE_NAME;
const EVENTS: &str = event_service_server::SERVICE_NAME;
const FLEET: &str = fleet_service_server::SERVICE_NAME;
const WORKERS: &str = worker_service_server::SERVICE_NAME;
const SCALER: &str = external_scaler_server::SERVICE_NAME;
const RUNS: &str = run_service_server::SERVICE_NAME;
const SAVED_PLANS: &str = plan_service_server::SERVICE_NAME;
const INBOX: &str = inbox_service_server::SERVICE_NAME;
const ACTIONS: &str = action_service_server::SERVICE_NAME;
const RUN_SESSIONS: &str = session_service_server::SERVICE_NAME;
const TRIGGERS: &str = trigger_service_server::SERVICE_NAME;
const ARTIFACTS: &str = artifact_service_server::SERVICE_NAME;
const GOALS: &str = goal_service_server::SERVICE_NAME;
const HEALTH: &str = "grpc.health.v1.Health";
const REFLECTION: &str = "grpc.reflection.v1.ServerReflection";
const REFLECTION_ALPHA: &str = "grpc.reflection.v1alpha.ServerReflection";

/// Classes of calls, each of which has bounds of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallClass {
    /// Submissions of plans.
    Writes,
    /// Submissions of plans by callers that wait for the result.
    Executes,
    /// Questions that are answered at once.
    Reads,
    /// Callers that wait for a result.
    Waits,
    /// Callers that watch an execution.
    Watches,
    /// Subscribers to events, and autoscalers.
    Subscriptions,
    /// Questions and orders of operators.
    Controls,
    /// Outcomes without a session.
    Reports,
    /// Sessions.
    Sessions,
    /// Health checks and `WhoAmI`, which are open to all.
    Health,
    /// Streams of the health, as it changes.
    HealthWatches,
    /// Questions for the API itself.
    Reflections,
}

/// Properties of a class of calls.
#[derive(Clone, Copy, Debug)]
pub struct ClassRow {
    /// Name of its calls in the message of a refusal.
    pub words: &'static str,
    /// Maximum of open calls, over all connections. `None` for sessions: those without a hello are bounded where they are
    /// served, the others by the engine.
    pub open_max: Option<usize>,
    /// Budget for the bytes of a request. `None` for a stream of messages, each of which has its own limit and which may stay
    /// open without a limit.
    pub budget: Option<BodyPool>,
    /// False for what workers, operators and supervisors ask.
    pub is_of_callers: bool,
    /// Workers come back after UNAVAILABLE, as they do after a restart.
    pub overload_code: Code,
}

/// Requests whose bytes count together while they are on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyPool {
    /// Submissions of plans.
    Plans,
    /// Questions of callers.
    Questions,
    /// Messages of workers, operators and supervisors.
    Workers,
    /// Requests of unauthenticated callers.
    Strangers,
}

impl CallClass {
    /// All of them, each at the index of its discriminant.
    pub(crate) const ALL: [Self; 12] = [
        Self::Writes,
        Self::Executes,
        Self::Reads,
        Self::Waits,
        Self::Watches,
        Self::Subscriptions,
        Self::Controls,
        Self::Reports,
        Self::Sessions,
        Self::Health,
        Self::HealthWatches,
        Self::Reflections,
    ];

    /// Returns the row of this class.
    pub const fn row(self) -> ClassRow {
        use BodyPool::{Plans, Questions, Strangers, Workers};
        match self {
            Self::Writes => of_callers("submissions", OPEN_WRITES_MAX, Some(Plans)),
            Self::Executes => of_callers("executing calls", OPEN_EXECUTES_MAX, Some(Plans)),
            Self::Reads => of_callers("reads", OPEN_READS_MAX, Some(Questions)),
            Self::Waits => of_callers("waiting calls", OPEN_WAITS_MAX, Some(Questions)),
            Self::Watches => of_callers("watches", OPEN_WATCHES_MAX, Some(Questions)),
            Self::Subscriptions => of_callers("subscriptions", OPEN_SUBSCRIPTIONS_MAX, Some(Questions)),
            Self::Reflections => of_callers("reflections", OPEN_REFLECTIONS_MAX, None),
            Self::Reports => of_others("reports of outcomes", Some(OPEN_REPORTS_MAX), Some(Workers)),
            Self::Sessions => of_others("new sessions", None, None),
            Self::Health => of_others("health checks", Some(OPEN_HEALTH_MAX), Some(Strangers)),
            Self::HealthWatches => of_others(
                "watches of the health",
                Some(OPEN_HEALTH_WATCHES_MAX),
                Some(Strangers),
            ),
            Self::Controls => ClassRow {
                overload_code: Code::ResourceExhausted,
                ..of_others("calls of operators", Some(OPEN_CONTROLS_MAX), Some(Workers))
            },
        }
    }

    /// Returns true for calls that may be open for long before they are answered.
    pub(crate) fn waits(self) -> bool {
        matches!(self, CallClass::Executes | CallClass::Waits)
    }

    /// Returns true for calls whose answers may have no end.
    pub(crate) fn streams(self) -> bool {
        matches!(self, CallClass::Watches | CallClass::Subscriptions)
    }

    /// Returns true for calls with one answer, which may be large.
    pub(crate) fn has_one_answer(self) -> bool {
        !self.streams() && !self.is_open_to_all() && self != CallClass::Sessions
    }

    /// Returns true for streams that are open to all, and for which therefore no caller answers: connections share them.
    pub(crate) fn is_of_connections(self) -> bool {
        matches!(self, CallClass::HealthWatches | CallClass::Reflections)
    }

    /// Returns true for calls that an unauthenticated caller may make.
    pub(crate) fn is_open_to_all(self) -> bool {
        matches!(
            self,
            CallClass::Health | CallClass::HealthWatches | CallClass::Reflections
        )
    }

    /// Returns true for calls after which something may be different.
    pub(crate) fn may_change(self) -> bool {
        self.hands_in() || matches!(self, CallClass::Controls | CallClass::Reports)
    }

    /// Returns true for calls that submit a plan.
    pub(crate) fn hands_in(self) -> bool {
        matches!(self, CallClass::Writes | CallClass::Executes)
    }
}

const fn of_callers(words: &'static str, open_max: usize, budget: Option<BodyPool>) -> ClassRow {
    ClassRow {
        words,
        open_max: Some(open_max),
        budget,
        is_of_callers: true,
        overload_code: Code::ResourceExhausted,
    }
}

const fn of_others(words: &'static str, open_max: Option<usize>, budget: Option<BodyPool>) -> ClassRow {
    ClassRow {
        words,
        open_max,
        budget,
        is_of_callers: false,
        overload_code: Code::Unavailable,
    }
}

/// Returns the class of the call that a path is for; an unknown path counts as a read.
pub fn class_of(path: &str) -> CallClass {
    let call = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    match call {
        Some((WORKERS, "Session")) => CallClass::Sessions,
        Some((WORKERS, _)) => CallClass::Reports,
        Some((ACCESS, "WhoAmI")) => CallClass::Health,
        Some((FLEET | ACCESS, _)) => CallClass::Controls,
        Some((HEALTH, "Watch")) => CallClass::HealthWatches,
        Some((HEALTH, _)) => CallClass::Health,
        Some((SCALER, "StreamIsActive")) => CallClass::Subscriptions,
        Some((SCALER, _)) => CallClass::Controls,
        Some((EVENTS, _)) => CallClass::Subscriptions,
        Some((REFLECTION | REFLECTION_ALPHA, _)) => CallClass::Reflections,
        Some((PLANS, "SubmitPlan")) => CallClass::Writes,
        Some((PLANS, "ExecutePlan")) => CallClass::Executes,
        Some((PLANS, "WaitExecution")) => CallClass::Waits,
        Some((PLANS, "WatchExecution")) => CallClass::Watches,
        Some((RUNS, "WaitRun")) => CallClass::Waits,
        Some((RUNS, "WatchRun" | "WatchNotices" | "ReadEvents") | (INBOX, "WatchInbox")) => {
            CallClass::Watches
        }
        Some((RUNS | SAVED_PLANS | INBOX | ACTIONS | RUN_SESSIONS | TRIGGERS | GOALS | ARTIFACTS, call))
            if !asks(call) =>
        {
            CallClass::Writes
        }
        Some(_) | None => CallClass::Reads,
    }
}

/// Returns true for the calls about runs that change nothing.
fn asks(call: &str) -> bool {
    let verbs = [
        "Get", "List", "Preview", "Explain", "Replay", "Diff", "Export", "Download",
    ];
    verbs.iter().any(|verb| call.starts_with(verb))
}

/// Returns the maximum of the bytes of one message to the orchestrator.
pub fn message_bytes_max(class: CallClass) -> usize {
    if class.is_open_to_all() {
        OPEN_CALL_MESSAGE_BYTES_MAX
    } else if class.row().is_of_callers {
        CALLER_MESSAGE_BYTES_MAX
    } else {
        SESSION_MESSAGE_BYTES_MAX
    }
}

#[cfg(test)]
mod tests;
