//! Plans against stubbed outcomes, on a virtual clock. Stores nothing.

use super::Edge;
use escapement_wire::v1;
use tonic::{Response, Status};

impl Edge {
    pub(crate) async fn simulate_plan(
        &self,
        _request: v1::SimulatePlanRequest,
    ) -> Result<Response<v1::SimulatePlanResponse>, Status> {
        Err(Status::unimplemented("simulate_plan"))
    }
}
