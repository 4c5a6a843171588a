//! Why an execution and its steps are in the states that they are in. Decides nothing.

use super::Edge;
use escapement_wire::v1;
use tonic::{Response, Status};

impl Edge {
    pub(crate) async fn explain_execution(
        &self,
        _request: v1::ExplainExecutionRequest,
    ) -> Result<Response<v1::ExplainExecutionResponse>, Status> {
        Err(Status::unimplemented("explain_execution"))
    }
}
