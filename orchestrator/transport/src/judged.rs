//! Routes that serve only calls which a connection has judged.

use crate::refusal::of_denial;
use escapement_access::{Denial, Principal};
use std::sync::Arc;
use tonic::service::{InterceptorLayer, Routes};
use tonic::{Request, Status};

/// Returns the routes with a refusal of calls without a principal.
/// Services treat such a call as one of the process itself, which may do everything.
pub fn judged_only(routes: Routes) -> Routes {
    let judged = InterceptorLayer::new(require_judged);
    Routes::from(routes.into_axum_router().layer(judged))
}

fn require_judged(request: Request<()>) -> Result<Request<()>, Status> {
    match request.extensions().get::<Arc<Principal>>() {
        Some(_) => Ok(request),
        None => Err(of_denial(&Denial::CredentialsMissing)),
    }
}
