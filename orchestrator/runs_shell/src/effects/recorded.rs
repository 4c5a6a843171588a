//! Answers questions about executions of runs by the contract's own calls.

use bytes::Bytes;
use tokio::sync::mpsc;
use tonic::client::GrpcService;
use tonic::codegen::{Body, StdError};

use crate::port::Contract;
use crate::records::{ExecutionQuestion, Question};

/// Answers such questions one after another. Ends once the last sender of questions is gone.
pub(super) async fn answer<T>(mut contract: Contract<T>, mut asked: mpsc::Receiver<ExecutionQuestion>)
where
    T: GrpcService<tonic::body::Body> + Clone + Send + 'static,
    T::Error: Into<StdError>,
    T::Future: Send,
    T::ResponseBody: Body<Data = Bytes> + Send + 'static,
    <T::ResponseBody as Body>::Error: Into<StdError> + Send,
{
    while let Some(question) = asked.recv().await {
        match question {
            ExecutionQuestion::Records(Question { executions, answer }) => {
                let mut records = Vec::with_capacity(executions.len());
                for execution_id in executions {
                    // The caller has gone.
                    if answer.is_closed() {
                        break;
                    }
                    records.push(contract.record_of(execution_id).await);
                }
                let _gone = answer.send(records);
            }
            ExecutionQuestion::Explanations(Question { executions, answer }) => {
                let mut explanations = Vec::with_capacity(executions.len());
                for execution_id in executions {
                    if answer.is_closed() {
                        break;
                    }
                    explanations.push(contract.explanation_of(execution_id).await);
                }
                let _gone = answer.send(explanations);
            }
        }
    }
}
