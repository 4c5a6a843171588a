//! `SubmitPlan` and `ExecutePlan`: plans that are handed in. What is handed in counts until it is decided, also if its
//! caller has left.

use super::Plans;
use crate::clock;
use crate::grpc::Edge;
use crate::grpc::caller::{Caller, Place};
use crate::host::handle::Lane;
use crate::status::Rejection;
use crate::storage::readers::ReadClass;
use escapement_codec::provenance::Provenance;
use escapement_codec::request as convert;
use escapement_codec::{execution, namespaces};
use escapement_contract::{Request as PlanRequest, validate_request};
use escapement_engine::{Ended, Input, Refusal, Submission, Submitted, Submitter, UntilDecided};
use escapement_model::{ExecutionId, Namespace};
use escapement_transport::CallClass;
use escapement_transport::response_budget::{Budgeted, with_room};
use escapement_wire::v1;
use std::sync::Arc;
use tonic::metadata::MetadataMap;
use tonic::{Response, Status};

/// A valid request, before it is handed in.
struct HandIn {
    request: Arc<PlanRequest>,
    namespace: Namespace,
    may_nest: bool,
    fresh_id: ExecutionId,
    until_decided: UntilDecided,
}

/// What is known of a request that was handed in.
struct HandedIn {
    namespace: Namespace,
    /// Under which the execution goes.
    execution_id: ExecutionId,
    /// The digest of a request that names its execution id.
    named: Option<[u8; 32]>,
}

impl Plans {
    pub(super) async fn execute(
        &self,
        request: v1::ExecutePlanRequest,
        metadata: &MetadataMap,
        caller: &Caller,
    ) -> Result<Response<v1::ExecutePlanResponse>, Status> {
        let hand_in = self
            .hand_in(convert::submit_of_execute(request), metadata, caller)
            .await?;
        let handed_in = hand_in.handed_in();
        // The engine has the plan alone: it gives up those that wait in the queue.
        let ask = |caller| hand_in.by(Submitter::ForEnd(caller));
        let refusal = match self.edge.engine.call(Lane::Writes, ask).await? {
            Ended::Settled(settlement) => {
                let accepted = Place::of(Provenance::known(&settlement.provenance));
                Edge::require_same_place(caller, &handed_in.namespace, &accepted)?;
                let bytes = settlement.result.result_payload.len();
                let room = self.edge.answers.take(CallClass::Executes, bytes)?;
                let result = Some(execution::result(&settlement.result));
                return Ok(with_room(v1::ExecutePlanResponse { result }, room));
            }
            Ended::NotLive => None,
            Ended::Refused(refusal) => Some(refusal),
        };
        self.accepted_before(caller, &handed_in, None, refusal).await?;
        let result = self
            .edge
            .stored_result(handed_in.execution_id, ReadClass::Submission);
        let Budgeted { value, room } = result.await.map_err(Rejection::of_submission)?;
        Ok(with_room(v1::ExecutePlanResponse { result: Some(value) }, room))
    }

    pub(super) async fn submit(
        &self,
        request: v1::SubmitPlanRequest,
        metadata: &MetadataMap,
        caller: &Caller,
    ) -> Result<Response<v1::SubmitPlanResponse>, Status> {
        let hand_in = self.hand_in(request, metadata, caller).await?;
        let (handed_in, request) = (hand_in.handed_in(), Arc::clone(&hand_in.request));
        let ask = |caller| hand_in.by(Submitter::ForAccept(caller));
        let refusal = match self.edge.engine.call(Lane::Writes, ask).await? {
            Submitted::Accepted(view) => {
                let accepted = Place::of(Provenance::known(view.request.provenance()));
                Edge::require_same_place(caller, &handed_in.namespace, &accepted)?;
                let execution = Some(execution::live_execution(&view));
                return Ok(Response::new(v1::SubmitPlanResponse { execution }));
            }
            Submitted::NotLive => None,
            Submitted::Refused(refusal) => Some(refusal),
        };
        self.accepted_before(caller, &handed_in, Some(&request), refusal)
            .await?;
        let execution = self
            .edge
            .stored_execution(handed_in.execution_id, ReadClass::Submission);
        let Budgeted { value, room } = execution.await.map_err(Rejection::of_submission)?;
        let execution = Some(value);
        Ok(with_room(v1::SubmitPlanResponse { execution }, room))
    }

    async fn hand_in(
        &self,
        request: v1::SubmitPlanRequest,
        metadata: &MetadataMap,
        caller: &Caller,
    ) -> Result<HandIn, Status> {
        let parent = request.parent_execution_id.as_deref();
        caller.check_parent(parent)?;
        let (asked, may_nest) = self
            .edge
            .namespace_asked(caller, &request.namespace, parent)
            .await?;
        caller.check_plan(&asked, request.plan.as_ref())?;
        let provenance = caller.provenance(asked, metadata);
        let room = self.edge.reserve(&request, &caller.tenant)?;
        let draft = convert::request_draft(request);
        let request =
            validate_request(draft, self.edge.max_concurrent_steps).map_err(Rejection::Violations)?;
        Ok(HandIn {
            request: Arc::new(request.with_provenance(provenance.encode())),
            namespace: provenance.namespace,
            may_nest,
            fresh_id: crate::grpc::fresh_execution_id(clock::unix_ms()),
            until_decided: UntilDecided::hold(room),
        })
    }

    /// Fails unless the same request was accepted before; then the store has its answer.
    ///
    /// `refusal`: what the engine says, `None` if it knows the request. `request`: to find the field that differs.
    async fn accepted_before(
        &self,
        caller: &Caller,
        handed_in: &HandedIn,
        request: Option<&PlanRequest>,
        refusal: Option<Refusal>,
    ) -> Result<(), Rejection> {
        let execution_id = handed_in.execution_id;
        match refusal {
            None => {}
            Some(Refusal::ExecutionIdUsed) => {
                return Err(self.edge.told_of_id(caller, request, execution_id).await);
            }
            Some(refusal) => {
                let named = handed_in.named.map(|digest| (execution_id, digest));
                let decided = self.edge.decided_before(named, refusal).await;
                if let (Err(_), Refusal::NamespaceQuota { max_live_executions }) = (&decided, refusal) {
                    let namespace = handed_in.namespace.clone();
                    return Err(Rejection::NamespaceQuota {
                        namespace,
                        max_live_executions,
                    });
                }
                if let Err(Rejection::Refused(refusal)) = decided {
                    return Err(self.edge.told(caller, refusal).await);
                }
                decided?;
            }
        }
        match self.edge.stored_place(execution_id).await? {
            Some(accepted) => Edge::require_same_place(caller, &handed_in.namespace, &accepted),
            // It has been removed: what follows says so.
            None => Ok(()),
        }
    }
}

impl HandIn {
    fn handed_in(&self) -> HandedIn {
        let named = self.request.execution_id();
        HandedIn {
            namespace: self.namespace.clone(),
            execution_id: named.unwrap_or(self.fresh_id),
            named: named.map(|_| *self.request.digest()),
        }
    }

    fn by(self, submitter: Submitter) -> Input {
        Input::Submit(Submission {
            namespace: namespaces::key(&self.namespace),
            submitter,
            request: self.request,
            fresh_id: self.fresh_id,
            may_nest: self.may_nest,
            until_decided: self.until_decided,
        })
    }
}
