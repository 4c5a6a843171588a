//! Answers questions about executions of runs with calls of the contract.

use escapement_model::ExecutionId;
use tokio::sync::mpsc;

use crate::contract_port::ContractPort;
use crate::port;
use crate::records::{ExecutionQuestion, Question};

/// Answers such questions one after another. Ends once the last sender of questions is gone.
pub(super) async fn answer(contract: impl ContractPort, mut asked: mpsc::Receiver<ExecutionQuestion>) {
    let contract = &contract;
    while let Some(question) = asked.recv().await {
        match question {
            ExecutionQuestion::Records(records) => {
                answer_one(records, |execution_id| port::record(contract, execution_id)).await;
            }
            ExecutionQuestion::Explanations(explanations) => {
                answer_one(explanations, |execution_id| {
                    port::explanation(contract, execution_id)
                })
                .await;
            }
            ExecutionQuestion::Parents(parents) => {
                answer_one(parents, |execution_id| port::parent(contract, execution_id)).await;
            }
        }
    }
}

/// Reads one execution after another, until the caller has gone.
async fn answer_one<A, F: Future<Output = A>>(question: Question<A>, read: impl Fn(ExecutionId) -> F) {
    let Question { executions, answer } = question;
    let mut answers = Vec::with_capacity(executions.len());
    for execution_id in executions {
        if answer.is_closed() {
            return;
        }
        answers.push(read(execution_id).await);
    }
    let _gone = answer.send(answers);
}
