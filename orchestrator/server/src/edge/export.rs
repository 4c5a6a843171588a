//! Everything that is recorded of a settled execution, as a file in pieces. Changes nothing.

use super::{Answers, Edge};
use escapement_wire::v1;
use tonic::{Response, Status};

impl Edge {
    pub(crate) async fn export_execution(
        &self,
        _request: &v1::ExportExecutionRequest,
    ) -> Result<Response<Answers<v1::ExportExecutionResponse>>, Status> {
        Err(Status::unimplemented("export_execution"))
    }
}
