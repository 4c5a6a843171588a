//! Questions to the contract about executions of runs: what is on record of them, and why they have not ended.

use escapement_model::{ExecutionId, Namespace};
use escapement_wire::v1::ExplainExecutionResponse;
use tokio::sync::oneshot;

/// What the contract has on record of an execution. Everything is empty once the contract has removed it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecutionRecord {
    /// `sha256:` and 64 hexadecimal digits: the digest of the content of its plan.
    pub plan_digest: String,
    /// The label of the worker that had its attempt last; empty if none had.
    pub worker_id: String,
    /// `completed`, or the code of its error; empty until it has ended.
    pub outcome: String,
}

/// Execution that a run names as its parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentExecution {
    /// Namespace that it belongs to.
    pub namespace: Namespace,
    /// Submitter, or that of the outermost execution above it; `None` if none was verified.
    pub owner: Option<String>,
    /// True while its steps run.
    pub runs: bool,
}

/// The contract does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoAnswer;

/// A question about executions, which is answered in their order.
#[derive(Debug)]
pub(crate) enum ExecutionQuestion {
    /// Their records.
    Records(Question<ExecutionRecord>),
    /// Explanations of those that have not ended; `None` for any other.
    Explanations(Question<Option<ExplainExecutionResponse>>),
    /// Executions as parents of runs; `None` for an unknown one.
    Parents(Question<Result<Option<ParentExecution>, NoAnswer>>),
}

/// Executions, and where the answer goes.
#[derive(Debug)]
pub(crate) struct Question<T> {
    pub(crate) executions: Vec<ExecutionId>,
    pub(crate) answer: oneshot::Sender<Vec<T>>,
}
