//! `AccessService`: who a caller is. Judges nobody.

use crate::grpc::caller::Caller;
use escapement_codec::principal::principal;
use escapement_wire::v1;
use escapement_wire::v1::access_service_server::AccessService;
use tonic::{Request, Response, Status};

/// The service.
#[derive(Debug)]
pub(crate) struct Access;

#[tonic::async_trait]
impl AccessService for Access {
    async fn who_am_i(
        &self,
        request: Request<v1::WhoAmIRequest>,
    ) -> Result<Response<v1::WhoAmIResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let principal = Some(principal(caller.principal()));
        Ok(Response::new(v1::WhoAmIResponse { principal }))
    }
}
