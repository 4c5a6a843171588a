//! Serves calls as those of their tenants, so that each tenant has its share of the calls that wait for runs.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use escapement_runs_shell::as_tenant;
use escapement_transport::share::CallTenant;
use hyper::{Request, Response};
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::service::{AxumBody, AxumRouter, Routes};

/// Returns the routes whose calls are served as those of their tenants.
pub fn by_tenant(routes: Routes) -> Routes {
    Routes::from(AxumRouter::new().fallback_service(ByTenant { routes }))
}

#[derive(Clone, Debug)]
struct ByTenant {
    routes: Routes,
}

impl Service<Request<AxumBody>> for ByTenant {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<AxumBody>) -> Self::Future {
        let tenant = CallTenant::of(request.extensions());
        Box::pin(as_tenant(tenant, self.routes.call(request)))
    }
}
