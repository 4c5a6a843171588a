//! A collector of traces that counts spans and throws them away. Reads nothing of them.

use bytes::Bytes;
use escapement_tests::Fault;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use tokio::task::AbortHandle;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

/// Stops on drop.
pub(super) struct Collector {
    address: SocketAddr,
    counting: Counting,
    serving: AbortHandle,
}

impl Collector {
    /// Serves on a free port of loopback.
    ///
    /// # Errors
    /// There is no port.
    pub(super) fn serve() -> Result<Self, Fault> {
        let incoming = TcpIncoming::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let address = incoming.local_addr()?;
        let counting = Counting::default();
        let server = Server::builder().add_service(counting.clone());
        let serving = tokio::spawn(server.serve_with_incoming(incoming)).abort_handle();
        Ok(Self {
            address,
            counting,
            serving,
        })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Spans that came.
    pub(super) fn n_spans(&self) -> u64 {
        self.counting.0.load(Ordering::Relaxed)
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

// As much of OTLP as tells where one span ends.

#[derive(Clone, PartialEq, prost::Message)]
struct Export {
    #[prost(message, repeated, tag = "1")]
    resources: Vec<OfResource>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct OfResource {
    #[prost(message, repeated, tag = "2")]
    scopes: Vec<OfScope>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct OfScope {
    #[prost(bytes = "bytes", repeated, tag = "2")]
    spans: Vec<Bytes>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Taken {}

#[derive(Clone, Default)]
struct Counting(Arc<AtomicU64>);

impl NamedService for Counting {
    const NAME: &'static str = "opentelemetry.proto.collector.trace.v1.TraceService";
}

type Answer<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl Service<http::Request<Body>> for Counting {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answer<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let counting = self.clone();
        Box::pin(async move { Ok(Grpc::new(ProstCodec::default()).unary(counting, request).await) })
    }
}

impl UnaryService<Export> for Counting {
    type Response = Taken;
    type Future = std::future::Ready<Result<Response<Taken>, Status>>;

    fn call(&mut self, request: Request<Export>) -> Self::Future {
        let scopes = request.get_ref().resources.iter().flat_map(|of| &of.scopes);
        let n_spans: usize = scopes.map(|scope| scope.spans.len()).sum();
        self.0.fetch_add(n_spans as u64, Ordering::Relaxed);
        std::future::ready(Ok(Response::new(Taken {})))
    }
}
