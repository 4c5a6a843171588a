//! Plans against stubbed outcomes, on a virtual clock. Stores nothing, and asks neither the engine nor the store.

use crate::grpc::Edge;
use crate::limits::{
    SIMULATION_BYTES_MAX, SIMULATION_INPUTS_MAX, SIMULATIONS_MAX, SIMULATIONS_PATIENCE, SIMULATIONS_QUEUE_MAX,
};
use crate::status::Rejection;
use escapement_codec::simulation as convert;
use escapement_contract::{Finding, Request as PlanRequest, default_deadline, validate_request};
use escapement_model::limits::VIOLATIONS_MAX;
use escapement_model::{ExecutionId, codes};
use escapement_simulator::{Stubs, simulate};
use escapement_transport::share::{NotFree, Share, SharePart, Tenant};
use escapement_transport::{CallClass, Refusal};
use escapement_wire::v1;
use prost::Message;
use std::sync::Arc;
use tonic::{Response, Status};

/// Room for simulations, and what the orchestrator adds to a request. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Simulations(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    running: Share,
    /// For those that run and those that wait.
    places: Share,
    server: Server,
}

/// What a simulation takes from the configuration.
#[derive(Clone, Copy, Debug)]
struct Server {
    max_concurrent_steps: u32,
    queue_allowance_ms: u64,
}

impl Simulations {
    pub(crate) fn new(max_concurrent_steps: u32, queue_allowance_ms: u64) -> Self {
        Self(Arc::new(Shared {
            running: Share::new(SIMULATIONS_MAX),
            places: Share::new(SIMULATIONS_QUEUE_MAX),
            server: Server {
                max_concurrent_steps,
                queue_allowance_ms,
            },
        }))
    }

    /// Waits for its turn, then simulates on a blocking thread. What was begun ends, even if its caller has gone.
    async fn simulate(
        &self,
        request: v1::SimulatePlanRequest,
        tenant: &Tenant,
    ) -> Result<v1::SimulatePlanResponse, Rejection> {
        let permits = self.permits(tenant).await?;
        let server = self.0.server;
        let simulating = tokio::task::spawn_blocking(move || {
            let _permits = permits;
            server.simulate(request)
        });
        match simulating.await {
            Ok(answer) => answer,
            // A defect of the core, and of this call alone.
            Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
            Err(_stopping) => Err(Rejection::Call(Refusal::Stopping)),
        }
    }

    async fn permits(&self, tenant: &Tenant) -> Result<[SharePart; 2], Rejection> {
        let not_free = |why: NotFree| Rejection::Call(Refusal::for_want(why, CallClass::Reads));
        let place = self.0.places.take(tenant, 1).map_err(not_free)?;
        let running = self.0.running.wait(tenant, 1, SIMULATIONS_PATIENCE).await;
        Ok([running.map_err(not_free)?, place])
    }
}

impl Server {
    fn simulate(self, request: v1::SimulatePlanRequest) -> Result<v1::SimulatePlanResponse, Rejection> {
        let (request, started_at, stubs) = self.read(request)?;
        let request = Arc::new(request);
        let plan = request.plan();
        let execution_id = ExecutionId::from_bytes(*plan.id().as_bytes());
        //
        let deadline = request
            .deadline_ms()
            .unwrap_or_else(|| default_deadline(started_at, plan, self.queue_allowance_ms));
        let simulation = simulate(
            Arc::clone(&request),
            execution_id.expect("the ids of plans and executions are of one kind"),
            started_at,
            deadline,
            &stubs,
            SIMULATION_INPUTS_MAX,
        )
        .map_err(Rejection::SimulationTooLong)?;
        let answer = convert::answer(plan, &simulation);
        match answer.encoded_len() {
            bytes if bytes > SIMULATION_BYTES_MAX => Err(Rejection::SimulationTooLarge { bytes }),
            _ => Ok(answer),
        }
    }

    /// Returns the request that is simulated, when it starts, and the stubs; or everything that is wrong, in document order.
    fn read(self, request: v1::SimulatePlanRequest) -> Result<(PlanRequest, i64, Stubs), Rejection> {
        let (stubs, of_stubs) = convert::stubs(request.stubs, request.plan.as_ref());
        let draft = convert::request_draft(
            request.plan,
            request.environment,
            request.options,
            request.deadline_ms,
        );
        let mut findings = Vec::new();
        let validated = validate_request(draft, self.max_concurrent_steps)
            .map_err(|violations| findings.extend(violations.iter().cloned()))
            .ok();
        findings.extend(request.started_at.and_then(before_time));
        findings.extend(of_stubs);
        //
        findings.truncate(VIOLATIONS_MAX);
        match validated {
            Some(valid) if findings.is_empty() => {
                let started_at = request.started_at.unwrap_or(valid.plan().created_at());
                Ok((valid, started_at, stubs))
            }
            Some(_) | None => Err(Rejection::Findings(findings)),
        }
    }
}

fn before_time(started_at: i64) -> Option<Finding> {
    (started_at < 1).then(|| Finding {
        field: "started_at".to_owned(),
        code: codes::INVALID_PAYLOAD,
        message: format!("Must be positive, is {started_at}."),
    })
}

impl Edge {
    pub(crate) async fn simulate_plan(
        &self,
        request: v1::SimulatePlanRequest,
        tenant: &Tenant,
    ) -> Result<Response<v1::SimulatePlanResponse>, Status> {
        let answer = self.simulations.simulate(request, tenant).await?;
        self.answers.answer(CallClass::Reads, answer)
    }
}
