//! What the contract has on record of executions of runs, asked for when somebody looks at evidence. Writes nothing down.

use escapement_model::ExecutionId;
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

/// A question about executions.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) executions: Vec<ExecutionId>,
    pub(crate) answer: oneshot::Sender<Vec<ExecutionRecord>>,
}
