//! All services of the orchestrator and their message limits. Serves none of them.

pub(crate) mod events;
pub(crate) mod fleet;
pub(crate) mod plans;

use self::events::Events;
use self::fleet::Fleet;
use self::plans::Plans;
use super::Edge;
use crate::grpc::session::Sessions;
use crate::limits::REFLECTION_MESSAGE_BYTES_MAX;
use escapement_transport::call_class::{CallClass, message_bytes_max};
use escapement_wire::DESCRIPTORS;
use escapement_wire::v1::event_service_server::EventServiceServer;
use escapement_wire::v1::fleet_service_server::FleetServiceServer;
use escapement_wire::v1::plan_execution_service_server::PlanExecutionServiceServer;
use escapement_wire::worker::v1::worker_service_server::WorkerServiceServer;
use tonic::server::NamedService;
use tonic::service::{Routes, RoutesBuilder};
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use tonic_reflection::server::Builder;

type PlanServer = PlanExecutionServiceServer<Plans>;
type EventServer = EventServiceServer<Events>;
type FleetServer = FleetServiceServer<Fleet>;
type WorkerServer = WorkerServiceServer<Sessions>;

/// The services of which health can be asked; the empty name stands for the whole orchestrator.
const SERVICES: [&str; 5] = [
    "",
    PlanServer::NAME,
    EventServer::NAME,
    FleetServer::NAME,
    WorkerServer::NAME,
];

/// Handing plans in and asking about executions.
fn plans(edge: &Edge) -> PlanServer {
    PlanServer::new(Plans::new(edge.clone()))
        .max_decoding_message_size(message_bytes_max(CallClass::Executes))
}

/// Looking at workers and ordering them about.
fn fleet(edge: &Edge) -> FleetServer {
    FleetServer::new(Fleet::new(edge.clone()))
        .max_decoding_message_size(message_bytes_max(CallClass::Controls))
}

/// What runs call of the contract, in this process and without a connection.
pub(crate) fn contract(edge: &Edge) -> Routes {
    let mut routes = RoutesBuilder::default();
    routes.add_service(plans(edge)).add_service(fleet(edge));
    routes.routes().prepare()
}

/// Everything that can be called, and the switch of its health. Healthy from the start.
pub(crate) async fn build(edge: &Edge) -> (Routes, HealthReporter) {
    let (health, health_server) = tonic_health::server::health_reporter();
    set_health(&health, ServingStatus::Serving).await;
    let reflection = || {
        Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            // With these, grpcurl shows the details of an error as JSON.
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
    };
    let built_in = "the descriptors are compiled in";
    let mut routes = RoutesBuilder::default();
    routes
        .add_service(plans(edge))
        .add_service(
            EventServer::new(Events::new(edge.clone()))
                .max_decoding_message_size(message_bytes_max(CallClass::Subscriptions)),
        )
        .add_service(fleet(edge))
        .add_service(
            WorkerServer::new(Sessions::new(edge.clone()))
                .max_decoding_message_size(message_bytes_max(CallClass::Sessions)),
        )
        .add_service(health_server)
        .add_service(
            reflection()
                .build_v1()
                .expect(built_in)
                .max_decoding_message_size(REFLECTION_MESSAGE_BYTES_MAX),
        )
        .add_service(
            reflection()
                .build_v1alpha()
                .expect(built_in)
                .max_decoding_message_size(REFLECTION_MESSAGE_BYTES_MAX),
        );
    (routes.routes().prepare(), health)
}

/// Answers health checks.
pub(crate) async fn set_health(health: &HealthReporter, status: ServingStatus) {
    for service in SERVICES {
        health.set_service_status(service, status).await;
    }
}

#[cfg(test)]
mod tests;
