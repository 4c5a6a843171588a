//! Answers questions about executions of runs by the executor's own calls.

use escapement_wire::v1::ExplainExecutionResponse;
use tokio::sync::mpsc;

use crate::port::ReadExecution;
use crate::records::{ExecutionQuestion, ExecutionRecord, NoAnswer, ParentExecution, Question};

/// Answers such questions one after another. Ends once the last sender of questions is gone.
pub(super) async fn answer<C>(mut contract: C, mut asked: mpsc::Receiver<ExecutionQuestion>)
where
    C: ReadExecution<ExecutionRecord>
        + ReadExecution<Option<ExplainExecutionResponse>>
        + ReadExecution<Result<Option<ParentExecution>, NoAnswer>>
        + Send,
{
    while let Some(question) = asked.recv().await {
        match question {
            ExecutionQuestion::Records(records) => answer_one(&mut contract, records).await,
            ExecutionQuestion::Explanations(explanations) => answer_one(&mut contract, explanations).await,
            ExecutionQuestion::Parents(parents) => answer_one(&mut contract, parents).await,
        }
    }
}

/// Reads one execution after another, until the caller has gone.
async fn answer_one<A: Send>(contract: &mut (impl ReadExecution<A> + Send), question: Question<A>) {
    let Question { executions, answer } = question;
    let mut answers = Vec::with_capacity(executions.len());
    for execution_id in executions {
        if answer.is_closed() {
            return;
        }
        answers.push(contract.read(execution_id).await);
    }
    let _gone = answer.send(answers);
}
