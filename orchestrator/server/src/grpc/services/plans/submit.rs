//! `SubmitPlan` and `ExecutePlan`: plans that are handed in.

use super::Plans;
use crate::grpc::Edge;
use crate::grpc::caller::{Caller, Place};
use crate::host::handle::Lane;
use crate::status::Rejection;
use crate::storage::readers::ReadClass;
use escapement_codec::execution;
use escapement_codec::provenance::{Provenance, trace_context};
use escapement_codec::request as convert;
use escapement_engine::{Ended, Submitter};
use escapement_transport::CallClass;
use escapement_transport::response_budget::{Budgeted, with_room};
use escapement_wire::v1;
use tonic::metadata::MetadataMap;
use tonic::{Response, Status};

impl Plans {
    pub(super) async fn execute(
        &self,
        request: v1::ExecutePlanRequest,
        metadata: &MetadataMap,
        caller: &Caller,
    ) -> Result<Response<v1::ExecutePlanResponse>, Status> {
        let request = convert::submit_of_execute(request);
        let hand_in = self.edge.hand_in(request, trace(metadata), caller).await?;
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
        self.edge
            .accepted_before(caller, &handed_in, None, refusal)
            .await?;
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
        let (execution_id, live) = self.edge.accept(request, trace(metadata), caller).await?;
        if let Some(view) = live {
            let execution = Some(execution::live_execution(&view));
            return Ok(Response::new(v1::SubmitPlanResponse { execution }));
        }
        let execution = self.edge.stored_execution(execution_id, ReadClass::Submission);
        let Budgeted { value, room } = execution.await.map_err(Rejection::of_submission)?;
        let execution = Some(value);
        Ok(with_room(v1::SubmitPlanResponse { execution }, room))
    }
}

/// Returns the trace that a call belongs to.
fn trace(metadata: &MetadataMap) -> Option<v1::StoredTraceContext> {
    let text = |key| metadata.get(key).and_then(|value| value.to_str().ok());
    trace_context(text("traceparent"), text("tracestate"))
}
