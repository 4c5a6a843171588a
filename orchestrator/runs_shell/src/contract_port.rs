//! The calls that runs make to the contract, and the meaning of a refused one.

mod joint;

use escapement_model::ExecutionId;
use escapement_wire::v1;

use crate::rights::Origin;
pub use joint::{JointWay, Leaving, LinkedAttempt};

/// The contract, by the calls that runs make to it. Cheap to clone.
///
/// Dropping a call ends the wait for its answer. A submitted attempt stays submitted.
pub trait ContractPort: Clone + Send + Sync + 'static {
    /// Submits an attempt in the name of the author of its run, and waits until it is durably accepted.
    fn submit(
        &self,
        request: v1::SubmitPlanRequest,
        origin: &Origin,
    ) -> impl Future<Output = Result<(), PortRefusal>> + Send;

    /// Returns a link that commits batches of runs together with the accepts of their attempts. `None` if each attempt is submitted
    /// once its intent is durable.
    fn joint_way(&self) -> Option<Box<dyn JointWay>> {
        None
    }

    /// Waits without a limit for the end of an execution.
    fn wait_for_end(
        &self,
        execution_id: ExecutionId,
    ) -> impl Future<Output = Result<EndedExecution, PortRefusal>> + Send;

    /// Finds an execution, with the certificate of its plan.
    fn look_up(
        &self,
        execution_id: ExecutionId,
    ) -> impl Future<Output = Result<v1::Execution, PortRefusal>> + Send;

    /// Returns the accepted request of an execution that has ended.
    fn accepted(
        &self,
        execution_id: ExecutionId,
    ) -> impl Future<Output = Result<v1::SubmitPlanRequest, PortRefusal>> + Send;

    /// Returns the label of the last worker with an attempt of the execution; `None` if no worker had one.
    fn last_worker(
        &self,
        execution_id: ExecutionId,
    ) -> impl Future<Output = Result<Option<String>, PortRefusal>> + Send;

    /// Explains why an execution and its steps are in their states.
    fn explain(
        &self,
        execution_id: ExecutionId,
    ) -> impl Future<Output = Result<v1::ExplainExecutionResponse, PortRefusal>> + Send;

    /// Returns all registered actions.
    fn actions(&self) -> impl Future<Output = Result<Vec<v1::Action>, PortRefusal>> + Send;
}

/// End of an execution.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedExecution {
    /// Result.
    pub result: v1::PlanResult,
    /// True if a worker had one of its attempts; `None` if only its stored record shows that.
    pub assigned: Option<bool>,
}

/// Refused call, by its meaning for an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortRefusal {
    /// The request was not accepted; it may be later.
    NotNow {
        /// The reason in the API of the contract.
        reason: String,
    },
    /// The call may have had its effect; the same call again finds out.
    NotKnown {
        /// The same.
        reason: String,
    },
    /// Not now and not later.
    Never {
        /// The same.
        reason: String,
        /// A sentence.
        message: String,
    },
    /// The request was executed, and its result was removed.
    Removed,
    /// Another request has the execution id.
    OtherRequest,
}

impl PortRefusal {
    /// Reads a refusal by its reason in the API of the contract, or else by the name of its gRPC code.
    pub fn new(code: &str, reason: Option<&str>, message: &str) -> Self {
        match (code, reason) {
            (_, Some("EXECUTION_REMOVED")) => Self::Removed,
            (_, Some("EXECUTION_ID_IN_USE")) | ("AlreadyExists", _) => Self::OtherRequest,
            // The contract first searches for an accepted request with this id.
            (
                _,
                Some(
                    reason @ ("QUEUE_FULL" | "NAMESPACE_QUOTA" | "STORE_FULL" | "DRAINING"
                    | "TOO_MANY_CHILDREN"),
                ),
            ) => Self::NotNow {
                reason: reason.to_owned(),
            },
            (
                "Unavailable" | "ResourceExhausted" | "DeadlineExceeded" | "Cancelled" | "Unknown"
                | "Internal" | "Aborted",
                reason,
            ) => Self::NotKnown {
                reason: reason.unwrap_or(message).to_owned(),
            },
            (code, reason) => Self::Never {
                reason: reason.unwrap_or(code).to_owned(),
                message: message.to_owned(),
            },
        }
    }
}
