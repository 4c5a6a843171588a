//! Answers questions about records of executions. Asks nobody but the contract.

use tokio::sync::mpsc;
use tonic::client::GrpcService;
use tonic::codegen::{Body, StdError};

use crate::port::Contract;
use crate::records::Asked;

/// Answers such questions one after another. Ends once nobody can ask any more.
pub(super) async fn answer<T>(mut contract: Contract<T>, mut asked: mpsc::Receiver<Asked>)
where
    T: GrpcService<tonic::body::Body> + Clone + Send + 'static,
    T::Error: Into<StdError>,
    T::Future: Send,
    T::ResponseBody: Body<Data = bytes::Bytes> + Send + 'static,
    <T::ResponseBody as Body>::Error: Into<StdError> + Send,
{
    while let Some(Asked { executions, answer }) = asked.recv().await {
        let mut records = Vec::with_capacity(executions.len());
        for execution_id in executions {
            // Nobody waits any more.
            if answer.is_closed() {
                break;
            }
            records.push(contract.record_of(execution_id).await);
        }
        let _gone = answer.send(records);
    }
}
