//! The message that carries spans or log records to a collector. Looks into none of them.
//!
//! It has the shape of the generated messages, with bytes in the place of spans and records: on the wire that is the same, and
//! what is encoded is not taken apart again.

use crate::service::Service;
use crate::signal::Signal;
use crate::waiting::Encoded;
// That of logs has the same shape.
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

/// `ExportTraceServiceRequest` and `ExportLogsServiceRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ExportRequest {
    #[prost(message, repeated, tag = "1")]
    resources: Vec<OfResource>,
}

/// `ResourceSpans` and `ResourceLogs`.
#[derive(Clone, PartialEq, prost::Message)]
struct OfResource {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scopes: Vec<OfScope>,
}

/// `ScopeSpans` and `ScopeLogs`.
#[derive(Clone, PartialEq, prost::Message)]
struct OfScope {
    #[prost(message, optional, tag = "1")]
    scope: Option<InstrumentationScope>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    encoded: Vec<Encoded>,
}

impl ExportRequest {
    pub(crate) fn new(service: &Service, encoded: Vec<Encoded>) -> Self {
        Self {
            resources: vec![OfResource {
                resource: Some(service.resource()),
                scopes: vec![OfScope {
                    scope: Some(service.scope()),
                    encoded,
                }],
            }],
        }
    }
}

/// Sends spans or log records to the collector.
///
/// # Errors
/// What the collector refuses the message for, or why it does not get there.
pub(crate) async fn export(
    channel: &Channel,
    signal: Signal,
    request: Request<ExportRequest>,
) -> Result<Response<ExportTraceServiceResponse>, Status> {
    let path = match signal {
        Signal::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
        Signal::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
        Signal::Metrics => unreachable!("figures are not handed in; `Push` has them"),
    };
    let mut client = Grpc::new(channel.clone());
    let ready = client.ready().await;
    ready.map_err(|error| Status::unavailable(error.to_string()))?;
    let codec = ProstCodec::<ExportRequest, ExportTraceServiceResponse>::default();
    client
        .unary(request, PathAndQuery::from_static(path), codec)
        .await
}
