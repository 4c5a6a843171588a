//! All services of the orchestrator and their message limits. Serves none of them.

pub(crate) mod access;
pub(crate) mod events;
pub(crate) mod fleet;
pub(crate) mod plans;

use self::access::Access;
use self::events::Events;
use self::fleet::Fleet;
use self::plans::Plans;
use super::Edge;
use crate::config::Config;
use crate::grpc::session::Sessions;
use escapement_runs_api::{Triggers, by_tenant};
use escapement_runs_shell::RunsHandle;
use escapement_scaler::Scaler;
use escapement_transport::answer_permits::counted;
use escapement_transport::call_class::{CallClass, message_bytes_max};
use escapement_transport::judged::judged_only;
use escapement_transport::response_budget::ResponseBudget;
use escapement_wire::DESCRIPTORS;
use escapement_wire::externalscaler::external_scaler_server::ExternalScalerServer;
use escapement_wire::runs::v1::action_service_server::ActionServiceServer;
use escapement_wire::runs::v1::artifact_service_server::ArtifactServiceServer;
use escapement_wire::runs::v1::goal_service_server::GoalServiceServer;
use escapement_wire::runs::v1::inbox_service_server::InboxServiceServer;
use escapement_wire::runs::v1::plan_service_server::PlanServiceServer;
use escapement_wire::runs::v1::run_service_server::RunServiceServer;
use escapement_wire::runs::v1::session_service_server::SessionServiceServer;
use escapement_wire::runs::v1::trigger_service_server::TriggerServiceServer;
use escapement_wire::v1::access_service_server::AccessServiceServer;
use escapement_wire::v1::event_service_server::EventServiceServer;
use escapement_wire::v1::fleet_service_server::FleetServiceServer;
use escapement_wire::v1::plan_execution_service_server::PlanExecutionServiceServer;
use escapement_wire::worker::v1::worker_service_server::WorkerServiceServer;
use std::sync::Arc;
use tonic::server::NamedService;
use tonic::service::{Routes, RoutesBuilder};
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use tonic_reflection::server::Builder;

type PlanServer = PlanExecutionServiceServer<Plans>;
type AccessServer = AccessServiceServer<Access>;
type EventServer = EventServiceServer<Events>;
type FleetServer = FleetServiceServer<Fleet>;
type ScalerServer = ExternalScalerServer<Scaler>;
type WorkerServer = WorkerServiceServer<Sessions>;

type RunServer = RunServiceServer<escapement_runs_api::Runs>;
type SavedPlanServer = PlanServiceServer<escapement_runs_api::Plans>;
type InboxServer = InboxServiceServer<escapement_runs_api::Inbox>;
type TriggerServer = TriggerServiceServer<Triggers>;
type ArtifactServer = ArtifactServiceServer<escapement_runs_api::Artifacts>;
type GoalServer = GoalServiceServer<escapement_runs_api::Goals>;
type ActionServer = ActionServiceServer<escapement_runs_api::Actions>;
type SessionServer = SessionServiceServer<escapement_runs_api::Sessions>;

/// The services of runs of which health can be asked, if there are runs.
const RUN_SERVICES: [&str; 8] = [
    RunServer::NAME,
    SavedPlanServer::NAME,
    InboxServer::NAME,
    ActionServer::NAME,
    SessionServer::NAME,
    TriggerServer::NAME,
    GoalServer::NAME,
    ArtifactServer::NAME,
];
/// The services of which health can be asked in any case; the empty name stands for the whole orchestrator.
const SERVICES: [&str; 7] = [
    "",
    AccessServer::NAME,
    PlanServer::NAME,
    EventServer::NAME,
    FleetServer::NAME,
    ScalerServer::NAME,
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

/// Returns everything that can be called, and the switch of its health. Healthy from the start.
pub(crate) async fn build(edge: &Edge, runs: Option<RunsSetup>) -> (Routes, HealthReporter) {
    let (health, health_server) = tonic_health::server::health_reporter();
    set_health(&health, ServingStatus::Serving, runs.is_some()).await;
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
            AccessServer::new(Access::new(edge.clone()))
                .max_decoding_message_size(message_bytes_max(CallClass::Controls)),
        )
        .add_service(
            ScalerServer::new(Scaler::new(Arc::new(edge.clone()), edge.closing.clone()))
                .max_decoding_message_size(message_bytes_max(CallClass::Controls)),
        )
        .add_service(
            WorkerServer::new(Sessions::new(edge.clone()))
                .max_decoding_message_size(message_bytes_max(CallClass::Sessions)),
        )
        .add_service(health_server)
        .add_service(
            reflection()
                .build_v1()
                .expect(built_in)
                .max_decoding_message_size(message_bytes_max(CallClass::Reflections)),
        )
        .add_service(
            reflection()
                .build_v1alpha()
                .expect(built_in)
                .max_decoding_message_size(message_bytes_max(CallClass::Reflections)),
        );
    if let Some(runs) = runs {
        add_runs(&mut routes, runs, &edge.answers);
    }
    let routes = counted(by_tenant(judged_only(routes.routes())), &edge.answers);
    (routes.prepare(), health)
}

/// What the services of runs are made from.
#[derive(Clone, Debug)]
pub(crate) struct RunsSetup {
    handle: RunsHandle,
    runs: escapement_runs_api::Runs,
    /// Fires by itself once somebody serves it.
    pub(crate) triggers: Triggers,
}

impl RunsSetup {
    /// Creates the setup; `answers` is the budget of unread answers, which all services share.
    pub(crate) fn new(handle: RunsHandle, config: &Config, answers: ResponseBudget) -> Self {
        let runs = escapement_runs_api::Runs::new(handle.clone(), config.runs(), answers);
        let runs = runs
            .with_settings(&config.run_settings)
            .with_event_source(&config.events.event_source);
        Self {
            triggers: Triggers::new(runs.clone()),
            handle,
            runs,
        }
    }
}

/// Runs, saved plans, what people are asked, and what operators say of actions.
fn add_runs(routes: &mut RoutesBuilder, setup: RunsSetup, answers: &ResponseBudget) {
    let RunsSetup {
        handle,
        runs,
        triggers,
    } = setup;
    let bytes_max = message_bytes_max(CallClass::Writes);
    let plans = triggers.in_samples_of(escapement_runs_api::Plans::new(handle.clone()));
    let inbox = escapement_runs_api::Inbox::new(handle.clone(), answers.clone());
    let goals = escapement_runs_api::Goals::new(handle.clone());
    let actions = escapement_runs_api::Actions::new(handle.clone());
    let artifacts = escapement_runs_api::Artifacts::new(handle.clone(), answers.clone());
    let sessions = escapement_runs_api::Sessions::new(handle);
    routes
        .add_service(RunServer::new(runs).max_decoding_message_size(bytes_max))
        .add_service(SavedPlanServer::new(plans).max_decoding_message_size(bytes_max))
        .add_service(InboxServer::new(inbox).max_decoding_message_size(bytes_max))
        .add_service(ActionServer::new(actions).max_decoding_message_size(bytes_max))
        .add_service(TriggerServer::new(triggers).max_decoding_message_size(bytes_max))
        .add_service(GoalServer::new(goals).max_decoding_message_size(bytes_max))
        .add_service(ArtifactServer::new(artifacts).max_decoding_message_size(bytes_max))
        .add_service(SessionServer::new(sessions).max_decoding_message_size(bytes_max));
}

/// Answers health checks.
pub(crate) async fn set_health(health: &HealthReporter, status: ServingStatus, has_runs: bool) {
    let run_services: &[&str] = if has_runs { &RUN_SERVICES } else { &[] };
    for service in SERVICES.iter().chain(run_services) {
        health.set_service_status(service, status).await;
    }
}

#[cfg(test)]
mod tests;
