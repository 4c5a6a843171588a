//! Questions to the contract about executions of runs.

use escapement_model::ExecutionId;
use escapement_wire::v1::ExplainExecutionResponse;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::RunsHandle;
use crate::error::CallError;
use crate::limits::RECORD_PATIENCE;
use crate::records::{ExecutionQuestion, ExecutionRecord, ParentExecution, Question};

impl RunsHandle {
    /// Returns the contract's records of these executions, in their order. Empty if it does not answer in
    /// time.
    pub async fn records_of(&self, executions: Vec<ExecutionId>) -> Vec<ExecutionRecord> {
        self.ask(executions, ExecutionQuestion::Records).await
    }

    /// Returns why each of these executions has not ended, in their order; `None` for one that has ended or is not known.
    /// Empty if the contract does not answer in time.
    pub async fn explanations_of(
        &self,
        executions: Vec<ExecutionId>,
    ) -> Vec<Option<ExplainExecutionResponse>> {
        self.ask(executions, ExecutionQuestion::Explanations).await
    }

    /// Returns the execution that a run names as its parent; `None` if it does not exist.
    ///
    /// # Errors
    /// [`CallError::Overloaded`] if the contract does not answer in time.
    pub async fn parent_execution(
        &self,
        execution_id: ExecutionId,
    ) -> Result<Option<ParentExecution>, CallError> {
        let answer = self
            .ask(vec![execution_id], ExecutionQuestion::Parents)
            .await
            .pop();
        let answered = answer.and_then(Result::ok);
        answered.ok_or(CallError::Overloaded)
    }

    async fn ask<A>(
        &self,
        executions: Vec<ExecutionId>,
        question: impl FnOnce(Question<A>) -> ExecutionQuestion,
    ) -> Vec<A> {
        let Some(records) = self.0.records.get().filter(|_| !executions.is_empty()) else {
            return Vec::new();
        };
        let (answer, answered) = oneshot::channel();
        let asked = async {
            records
                .send(question(Question { executions, answer }))
                .await
                .ok()?;
            answered.await.ok()
        };
        timeout(RECORD_PATIENCE, asked)
            .await
            .ok()
            .flatten()
            .unwrap_or_default()
    }

    /// Sets the channel for queries about records of executions; the first one counts.
    pub(crate) fn ask_for_records_by(&self, records: tokio::sync::mpsc::Sender<ExecutionQuestion>) {
        let _first = self.0.records.set(records);
    }
}
