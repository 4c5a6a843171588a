//! `FleetService`: workers and actions for operators, and their way to take workers out of service. Decides nothing.

use crate::grpc::Edge;
use crate::grpc::caller::Caller;
use crate::host::handle::Lane;
use crate::status::Rejection;
use escapement_codec::execution::count;
use escapement_codec::fleet;
use escapement_engine::{ActionForgotten, Input, Losses, SessionState, WorkerSelector, WorkersDrain};
use escapement_model::{InstanceId, limits};
use escapement_transport::CallClass;
use escapement_wire::v1;
use escapement_wire::v1::fleet_service_server::FleetService;
use tonic::{Request, Response, Status};
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
        let worker = selector(request.into_inner())?;
        let drain = |caller| Input::DrainWorker { caller, worker };
        let drained = self.edge.engine.call(Lane::Control, drain).await?;
        let WorkersDrain {
            workers,
            actions_without_worker,
        } = drained.ok_or(Rejection::NoSuchWorker)?;
        info!(
            workers = workers.len(),
            ?actions_without_worker,
            "operator drains workers"
        );
        Ok(Response::new(v1::DrainWorkerResponse {
            workers: workers.iter().map(fleet::worker).collect(),
            actions_without_worker: actions_without_worker.iter().map(ToString::to_string).collect(),
        }))
    }

    async fn declare_worker_dead(
        &self,
        request: Request<v1::DeclareWorkerDeadRequest>,
    ) -> Result<Response<v1::DeclareWorkerDeadResponse>, Status> {
        let v1::DeclareWorkerDeadRequest { instance_id, force } = request.into_inner();
        let instance_id = self::instance_id(&instance_id)?;
        if !force {
            self.refuse_if_alive(instance_id).await?;
        }
        let declare = |caller| Input::DeclareWorkerDead { caller, instance_id };
        let losses = self.edge.engine.call(Lane::Control, declare).await?;
        let Losses { n_lost, n_returned } = losses.ok_or(Rejection::NoSuchWorker)?;
        info!(%instance_id, n_lost, n_returned, "operator declares a worker dead");
        Ok(Response::new(v1::DeclareWorkerDeadResponse {
            attempts_lost: count(n_lost),
            attempts_returned: count(n_returned),
        }))
    }

    async fn forget_action(
        &self,
        request: Request<v1::ForgetActionRequest>,
    ) -> Result<Response<v1::ForgetActionResponse>, Status> {
        let name = request.into_inner().name;
        if !(1..=limits::ACTION_CHARS_MAX).contains(&name.chars().count()) {
            let message = format!("must have 1 to {} code points", limits::ACTION_CHARS_MAX);
            return Err(Rejection::InvalidField {
                field: "name",
                message,
            }
            .into());
        }
        let action = name.clone();
        let forget = |caller| Input::ForgetAction { caller, name };
        let forgotten = self.edge.engine.call(Lane::Control, forget).await?;
        let ActionForgotten { was_known, n_queued } = forgotten.ok_or(Rejection::ActionInUse)?;
        info!(action, was_known, n_queued, "operator forgets an action");
        Ok(Response::new(v1::ForgetActionResponse {
            known: was_known,
            queued_executions: i32::try_from(n_queued).unwrap_or(i32::MAX),
        }))
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
