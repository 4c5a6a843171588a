//! `FleetService`: workers and actions for operators, and their way to take workers out of service. Decides nothing.

use crate::grpc::Edge;
use crate::grpc::caller::Caller;
use crate::host::handle::Lane;
use crate::status::Rejection;
use escapement_codec::execution::count;
use escapement_codec::fleet;
use escapement_engine::{
    ActionForgotten, ActionView, Input, Losses, SessionState, WorkerSelector, WorkersDrain,
};
use escapement_model::{InstanceId, limits};
use escapement_scaler::Source;
use escapement_transport::CallClass;
use escapement_wire::v1;
use escapement_wire::v1::fleet_service_server::{FleetService, SERVICE_NAME};
use serde_json::{Value, json};
use std::pin::Pin;
use tonic::{Extensions, Request, Response, Status};
use tracing::info;

/// The service.
#[derive(Debug)]
pub(crate) struct Fleet {
    edge: Edge,
}

impl Fleet {
    pub(crate) fn new(edge: Edge) -> Self {
        Self { edge }
    }

    /// Does something of an operator's, on record: the intent before it, the outcome behind it.
    async fn perform<T: Send + 'static>(
        &self,
        extensions: &Extensions,
        method: &str,
        asked: Value,
        act: impl Future<Output = Result<(T, Value), Status>> + Send + 'static,
    ) -> Result<Response<T>, Status> {
        let operators = self.edge.access.operators();
        let rpc = format!("{SERVICE_NAME}/{method}");
        let performed = operators.perform(extensions, &rpc, asked, act).await;
        performed.map(Response::new)
    }

    /// Refuses what would lose the steps of a worker that works.
    async fn refuse_if_alive(&self, instance_id: InstanceId) -> Result<(), Status> {
        let workers = self.edge.engine.call(Lane::Control, Input::ListWorkers).await?;
        let heard_ms_max = self.edge.greeting.heartbeat_interval_ms.saturating_mul(2);
        let alive = workers.iter().find(|worker| {
            worker.instance_id == instance_id
                && worker.state == SessionState::Active
                && worker.heartbeat_age_ms < heard_ms_max
        });
        match alive {
            Some(worker) => Err(Rejection::WorkerAlive(worker.heartbeat_age_ms).into()),
            None => Ok(()),
        }
    }
}

#[tonic::async_trait]
impl FleetService for Fleet {
    async fn list_workers(
        &self,
        _request: Request<v1::ListWorkersRequest>,
    ) -> Result<Response<v1::ListWorkersResponse>, Status> {
        let workers = self.edge.engine.call(Lane::Control, Input::ListWorkers).await?;
        let workers = workers.iter().map(fleet::worker).collect();
        self.edge
            .answers
            .answer(CallClass::Controls, v1::ListWorkersResponse { workers })
    }

    async fn list_actions(
        &self,
        request: Request<v1::ListActionsRequest>,
    ) -> Result<Response<v1::ListActionsResponse>, Status> {
        let actions = self.edge.actions(Lane::Control).await?;
        let caller = Caller::of(request.extensions());
        let permitted = actions
            .iter()
            .filter(|action| caller.principal().may_list(&action.name));
        let actions = permitted.map(fleet::action).collect();
        self.edge
            .answers
            .answer(CallClass::Controls, v1::ListActionsResponse { actions })
    }

    async fn drain_worker(
        &self,
        request: Request<v1::DrainWorkerRequest>,
    ) -> Result<Response<v1::DrainWorkerResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let asked = json!({"worker_id": request.worker_id, "instance_id": request.instance_id});
        let worker = selector(request)?;
        let engine = self.edge.engine.clone();
        let drain = async move {
            let drain = |caller| Input::DrainWorker { caller, worker };
            let drained = engine.call(Lane::Control, drain).await?;
            let WorkersDrain {
                workers,
                actions_without_worker,
            } = drained.ok_or(Rejection::NoSuchWorker)?;
            info!(
                workers = workers.len(),
                ?actions_without_worker,
                "operator drains workers"
            );
            let said = json!({"workers": workers.len()});
            let answer = v1::DrainWorkerResponse {
                workers: workers.iter().map(fleet::worker).collect(),
                actions_without_worker: actions_without_worker.iter().map(ToString::to_string).collect(),
            };
            Ok((answer, said))
        };
        self.perform(&extensions, "DrainWorker", asked, drain).await
    }

    async fn declare_worker_dead(
        &self,
        request: Request<v1::DeclareWorkerDeadRequest>,
    ) -> Result<Response<v1::DeclareWorkerDeadResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let v1::DeclareWorkerDeadRequest { instance_id, force } = request;
        let asked = json!({"instance_id": instance_id, "force": force});
        let instance_id = self::instance_id(&instance_id)?;
        if !force {
            self.refuse_if_alive(instance_id).await?;
        }
        let engine = self.edge.engine.clone();
        let declare = async move {
            let declare = |caller| Input::DeclareWorkerDead { caller, instance_id };
            let losses = engine.call(Lane::Control, declare).await?;
            let Losses { n_lost, n_returned } = losses.ok_or(Rejection::NoSuchWorker)?;
            info!(%instance_id, n_lost, n_returned, "operator declares a worker dead");
            let answer = v1::DeclareWorkerDeadResponse {
                attempts_lost: count(n_lost),
                attempts_returned: count(n_returned),
            };
            let said = json!({"attempts_lost": n_lost, "attempts_returned": n_returned});
            Ok((answer, said))
        };
        self.perform(&extensions, "DeclareWorkerDead", asked, declare)
            .await
    }

    async fn forget_action(
        &self,
        request: Request<v1::ForgetActionRequest>,
    ) -> Result<Response<v1::ForgetActionResponse>, Status> {
        let (_, extensions, v1::ForgetActionRequest { name }) = request.into_parts();
        if !(1..=limits::ACTION_CHARS_MAX).contains(&name.chars().count()) {
            let message = format!("must have 1 to {} code points", limits::ACTION_CHARS_MAX);
            return Err(Rejection::InvalidField {
                field: "name",
                message,
            }
            .into());
        }
        let asked = json!({"name": name});
        let engine = self.edge.engine.clone();
        let forget = async move {
            let action = name.clone();
            let forget = |caller| Input::ForgetAction { caller, name };
            let forgotten = engine
                .call(Lane::Control, forget)
                .await?
                .ok_or(Rejection::ActionInUse)?;
            let ActionForgotten { was_known, n_queued } = forgotten.map_err(Rejection::Refused)?;
            info!(action, was_known, n_queued, "operator forgets an action");
            let answer = v1::ForgetActionResponse {
                known: was_known,
                queued_executions: i32::try_from(n_queued).unwrap_or(i32::MAX),
            };
            Ok((answer, json!({"known": was_known, "queued_executions": n_queued})))
        };
        self.perform(&extensions, "ForgetAction", asked, forget).await
    }
}

impl Source for Edge {
    fn actions(&self) -> Pin<Box<dyn Future<Output = Result<Vec<ActionView>, Status>> + Send + '_>> {
        Box::pin(async { Ok(Edge::actions(self, Lane::Control).await?) })
    }
}

fn selector(request: v1::DrainWorkerRequest) -> Result<WorkerSelector, Rejection> {
    match (request.instance_id.as_str(), request.worker_id.as_str()) {
        ("", "") => Err(Rejection::InvalidField {
            field: "worker_id",
            message: "must be given, or instance_id; ListWorkers shows both".to_owned(),
        }),
        ("", worker_id) if !worker_id.is_empty() => Ok(WorkerSelector::WorkerId(worker_id.into())),
        (instance_id, "") => self::instance_id(instance_id).map(WorkerSelector::Instance),
        _ => Err(Rejection::InvalidField {
            field: "worker_id",
            message: "must be empty where instance_id is given".to_owned(),
        }),
    }
}

fn instance_id(text: &str) -> Result<InstanceId, Rejection> {
    InstanceId::from_hex(text).ok_or_else(|| Rejection::InvalidField {
        field: "instance_id",
        message: "must have 32 hexadecimal digits, as ListWorkers shows it".to_owned(),
    })
}
