//! `AccessService`: who a caller is. Judges nobody.

use crate::grpc::Edge;
use escapement_codec::principal::{attempt, principal};
use escapement_wire::v1;
use escapement_wire::v1::access_service_server::AccessService;
use tonic::{Request, Response, Status};

/// The service.
#[derive(Debug)]
pub(crate) struct Access {
    edge: Edge,
}

impl Access {
    pub(crate) fn new(edge: Edge) -> Self {
        Self { edge }
    }
}

#[tonic::async_trait]
impl AccessService for Access {
    async fn who_am_i(
        &self,
        request: Request<v1::WhoAmIRequest>,
    ) -> Result<Response<v1::WhoAmIResponse>, Status> {
        let caller = self.edge.caller(request.extensions(), request.metadata()).await?;
        let principal = Some(match caller.attempt() {
            Some(own) => attempt(caller.principal(), own.execution_id, &own.of),
            None => principal(caller.principal()),
        });
        Ok(Response::new(v1::WhoAmIResponse { principal }))
    }
}
