//! `FleetService`: workers and actions for operators. Changes nothing.

use super::Edge;
use crate::convert::fleet;
use escapement_engine::{Input, Reply};
use escapement_wire::v1;
use escapement_wire::v1::fleet_service_server::FleetService;
use tonic::{Request, Response, Status};

/// The service.
#[derive(Debug)]
pub(crate) struct Fleet {
    edge: Edge,
}

impl Fleet {
    pub(crate) fn new(edge: Edge) -> Self {
        Self { edge }
    }
}

#[tonic::async_trait]
impl FleetService for Fleet {
    async fn list_workers(
        &self,
        _request: Request<v1::ListWorkersRequest>,
    ) -> Result<Response<v1::ListWorkersResponse>, Status> {
        let Reply::Workers(workers) = self.edge.engine.call(Input::ListWorkers).await? else {
            unreachable!("a question for the workers is answered with the workers");
        };
        let workers = workers.iter().map(fleet::worker).collect();
        Ok(Response::new(v1::ListWorkersResponse { workers }))
    }

    async fn list_actions(
        &self,
        _request: Request<v1::ListActionsRequest>,
    ) -> Result<Response<v1::ListActionsResponse>, Status> {
        let actions = self.edge.actions().await?;
        let actions = actions.iter().map(fleet::action).collect();
        Ok(Response::new(v1::ListActionsResponse { actions }))
    }
}
