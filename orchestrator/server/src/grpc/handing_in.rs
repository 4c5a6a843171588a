//! Submitted plans, from their request until they are accepted. A submission counts until it is decided, also if its caller has left.

use super::Edge;
use super::caller::{Caller, Place};
use crate::clock;
use crate::host::handle::Lane;
use crate::status::Rejection;
use escapement_codec::namespaces;
use escapement_codec::provenance::Provenance;
use escapement_codec::request as convert;
use escapement_contract::{Request as PlanRequest, validate_request};
use escapement_engine::{ExecutionView, Input, Refusal, Submission, Submitted, Submitter, UntilDecided};
use escapement_model::{ExecutionId, Namespace};
use escapement_wire::v1;
use std::sync::Arc;
use tonic::Status;

/// A valid request, before it is submitted.
pub(crate) struct HandIn {
    request: Arc<PlanRequest>,
    namespace: Namespace,
    may_nest: bool,
    fresh_id: ExecutionId,
    until_decided: UntilDecided,
}

/// A submitted request.
pub(crate) struct HandedIn {
    pub(crate) namespace: Namespace,
    /// Id of its execution.
    pub(crate) execution_id: ExecutionId,
    /// The digest of a request that names its execution id.
    named: Option<[u8; 32]>,
}

impl Edge {
    /// Checks a request by the policy and by the rules of the contract.
    pub(crate) async fn hand_in(
        &self,
        request: v1::SubmitPlanRequest,
        trace: Option<v1::StoredTraceContext>,
        caller: &Caller,
    ) -> Result<HandIn, Status> {
        let parent = request.parent_execution_id.as_deref();
        caller.check_parent(parent)?;
        let (asked, may_nest) = self.namespace_asked(caller, &request.namespace, parent).await?;
        caller.check_plan(&asked, request.plan.as_ref())?;
        let provenance = caller.provenance(asked, trace);
        let room = self.reserve(&request, &caller.tenant)?;
        let draft = convert::request_draft(request);
        let request = validate_request(draft, self.max_concurrent_steps).map_err(Rejection::Violations)?;
        Ok(HandIn {
            request: Arc::new(request.with_provenance(provenance.encode())),
            namespace: provenance.namespace,
            may_nest,
            fresh_id: super::fresh_execution_id(clock::unix_ms()),
            until_decided: UntilDecided::hold(room),
        })
    }

    /// Submits a request and waits until it is accepted. Returns the id of the execution, and its view if the engine holds it.
    /// Otherwise the store has it, or had it.
    pub(crate) async fn accept(
        &self,
        request: v1::SubmitPlanRequest,
        trace: Option<v1::StoredTraceContext>,
        caller: &Caller,
    ) -> Result<(ExecutionId, Option<ExecutionView>), Status> {
        let hand_in = self.hand_in(request, trace, caller).await?;
        let (handed_in, request) = (hand_in.handed_in(), Arc::clone(&hand_in.request));
        let ask = |caller| hand_in.by(Submitter::ForAccept(caller));
        let refusal = match self.engine.call(Lane::Writes, ask).await? {
            Submitted::Accepted(view) => {
                let accepted = Place::of(Provenance::known(view.request.provenance()));
                Edge::require_same_place(caller, &handed_in.namespace, &accepted)?;
                return Ok((handed_in.execution_id, Some(view)));
            }
            Submitted::NotLive => None,
            Submitted::Refused(refusal) => Some(refusal),
        };
        self.accepted_before(caller, &handed_in, Some(&request), refusal)
            .await?;
        Ok((handed_in.execution_id, None))
    }

    /// Checks that the same request was accepted before. Then the store has its answer.
    ///
    /// `refusal`: the answer of the engine, `None` if it knows the request. `request`: to find the field that differs.
    pub(crate) async fn accepted_before(
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
                return Err(self.told_of_id(caller, request, execution_id).await);
            }
            Some(refusal) => {
                let named = handed_in.named.map(|digest| (execution_id, digest));
                let decided = self.decided_before(named, refusal).await;
                if let (Err(_), Refusal::NamespaceQuota { max_live_executions }) = (&decided, refusal) {
                    let namespace = handed_in.namespace.clone();
                    return Err(Rejection::NamespaceQuota {
                        namespace,
                        max_live_executions,
                    });
                }
                if let Err(Rejection::Refused(refusal)) = decided {
                    return Err(self.told(caller, refusal).await);
                }
                decided?;
            }
        }
        match self.stored_place(execution_id).await? {
            Some(accepted) => Edge::require_same_place(caller, &handed_in.namespace, &accepted),
            // It has been removed, which the caller of this reports.
            None => Ok(()),
        }
    }
}

impl HandIn {
    pub(crate) fn handed_in(&self) -> HandedIn {
        let named = self.request.execution_id();
        HandedIn {
            namespace: self.namespace.clone(),
            execution_id: named.unwrap_or(self.fresh_id),
            named: named.map(|_| *self.request.digest()),
        }
    }

    pub(crate) fn by(self, submitter: Submitter) -> Input {
        Input::Submit(self.submission(submitter))
    }

    pub(crate) fn submission(self, submitter: Submitter) -> Submission {
        Submission {
            namespace: namespaces::key(&self.namespace),
            submitter,
            request: self.request,
            fresh_id: self.fresh_id,
            may_nest: self.may_nest,
            until_decided: self.until_decided,
        }
    }
}
