//! Whether the core decides again what is recorded of a settled execution. Changes nothing.

use super::Edge;
use escapement_wire::v1;
use tonic::{Response, Status};

impl Edge {
    pub(crate) async fn replay_execution(
        &self,
        _request: &v1::ReplayExecutionRequest,
    ) -> Result<Response<v1::ReplayExecutionResponse>, Status> {
        Err(Status::unimplemented("replay_execution"))
    }
}
