//! Reason why an execution and its steps are in the states that they are in. Decides nothing.
//!
//! The engine explains what is live, and knows the place of what waits with its request in the store alone.
//! What is settled is explained by its records.

use super::lookup::{IN_DOUBT, damaged};
use crate::grpc::Edge;
use crate::host::handle::Lane;
use crate::status::Rejection;
use crate::storage::readers::ReadClass;
use escapement_codec::audit_from_wire;
use escapement_codec::explanation as convert;
use escapement_codec::stored::{self, Unreadable};
use escapement_contract::{AuditKind, Explanation, Plan, StepIndex, explain_queued, explain_settled};
use escapement_engine::{ExplainAnswer, Explained, ExplainedParked, Input};
use escapement_model::{ExecutionId, StepId};
use escapement_store::{Reader, StoreFault, StoredExecution, StoredState};
use escapement_transport::CallClass;
use escapement_wire::v1;
use escapement_wire::v1::execution::State;
use std::collections::BTreeSet;
use tonic::{Response, Status};

impl Edge {
    pub(crate) async fn explain_execution(
        &self,
        request: v1::ExplainExecutionRequest,
    ) -> Result<Response<v1::ExplainExecutionResponse>, Status> {
        let execution_id = crate::grpc::execution_id(&request.execution_id)?;
        let wanted = Wanted::parse(&request.step_ids)?;
        // An execution may go on between a question to the engine and one to the store.
        for _ in 0..QUESTIONS_MAX {
            let ask = |caller| Input::Explain { caller, execution_id };
            let parked = match self.engine.call(Lane::LongReads, ask).await? {
                ExplainAnswer::Live(explained) => {
                    return self.answers.answer(CallClass::Reads, live(&explained, &wanted)?);
                }
                ExplainAnswer::Parked(parked) => Some(parked),
                ExplainAnswer::NotLive => None,
            };
            let wanted = wanted.clone();
            let read = self.readers.read(ReadClass::Answer, move |reader| {
                let Some(stored) = reader.execution(execution_id)? else {
                    return Ok(Ok(Found::Nothing));
                };
                explain_stored(reader, &stored, parked.as_ref(), &wanted)
            });
            match read.await?? {
                Found::Explained(answer) => return self.answers.answer(CallClass::Reads, *answer),
                Found::Nothing => return Err(self.absent(execution_id, ReadClass::Answer).await?.into()),
                Found::NoRecord => return Err(self.lost(execution_id, ReadClass::Answer).await.into()),
                Found::GoneOn => {}
            }
        }
        Err(IN_DOUBT.into())
    }
}

/// What the store has of an execution.
enum Found {
    Explained(Box<v1::ExplainExecutionResponse>),
    Nothing,
    /// It is settled, and what led there is not there.
    NoRecord,
    /// It is live by now, or what the engine said of it has been overtaken.
    GoneOn,
}

fn explain_stored(
    reader: &dyn Reader,
    stored: &StoredExecution,
    parked: Option<&ExplainedParked>,
    wanted: &Wanted,
) -> Result<Result<Found, Rejection>, StoreFault> {
    let execution_id = stored.summary.execution_id;
    let unreadable = |unreadable: Unreadable| damaged(execution_id, &unreadable);
    let accepted = || stored::decode_accepted(&stored.record).map_err(unreadable);
    let explained = match (stored.summary.state, parked, &stored.result) {
        (StoredState::Queued, Some(parked), _) => accepted().and_then(|request| {
            let explanation = Explanation {
                execution: parked.execution.clone(),
                steps: explain_queued(request.plan(), parked.execution.ends_in_ms),
            };
            let (state, at) = (State::Queued, parked.at_unix_ms);
            response(execution_id, request.plan(), state, at, &explanation, wanted)
        }),
        (StoredState::Settled, _, Some(result)) => {
            let Some(audit) = reader.audit(execution_id)? else {
                return Ok(Ok(Found::NoRecord));
            };
            accepted().and_then(|request| {
                let result = stored::decode_result(result).map_err(unreadable)?;
                let status =
                    audit_from_wire::status(result.status()).map_err(|_| Rejection::RecordDamaged)?;
                let entries = stored::decode_audit(&audit).map_err(unreadable)?;
                // What an entry of another version says explains nothing.
                let kinds = entries
                    .into_iter()
                    .filter_map(|entry| audit_from_wire::kind(entry.event?).ok());
                let kinds: Vec<AuditKind> = kinds.collect();
                let error = result.error.map(audit_from_wire::error).transpose();
                let error = error.map_err(|_| Rejection::RecordDamaged)?;
                let explanation = explain_settled(request.plan(), kinds.iter(), status, error.as_ref());
                let (state, at) = (State::Settled, result.completed_at);
                response(execution_id, request.plan(), state, at, &explanation, wanted)
            })
        }
        (StoredState::Queued | StoredState::Running | StoredState::Settled, _, _) => {
            return Ok(Ok(Found::GoneOn));
        }
    };
    Ok(explained.map(|answer| Found::Explained(Box::new(answer))))
}

fn live(explained: &Explained, wanted: &Wanted) -> Result<v1::ExplainExecutionResponse, Rejection> {
    let state = if explained.has_started {
        State::Running
    } else {
        State::Queued
    };
    response(
        explained.execution_id,
        explained.request.plan(),
        state,
        explained.at_unix_ms,
        &explained.explanation,
        wanted,
    )
}

fn response(
    execution_id: ExecutionId,
    plan: &Plan,
    state: State,
    at_unix_ms: i64,
    explanation: &Explanation,
    wanted: &Wanted,
) -> Result<v1::ExplainExecutionResponse, Rejection> {
    let wanted = wanted.steps_of(plan)?;
    let steps = explanation.steps.iter();
    let steps = steps.filter(|facts| wanted.as_ref().is_none_or(|wanted| wanted.contains(&facts.step)));
    Ok(v1::ExplainExecutionResponse {
        execution: Some(convert::execution(
            execution_id,
            state,
            at_unix_ms,
            &explanation.execution,
        )),
        steps: steps.map(|facts| convert::step(plan, facts)).collect(),
    })
}

/// The steps that a caller asks for; empty for all of them.
#[derive(Clone, Debug)]
struct Wanted(Vec<StepId>);

impl Wanted {
    fn parse(step_ids: &[String]) -> Result<Self, Rejection> {
        let step_ids = step_ids.iter().enumerate().map(|(index, text)| {
            text.parse()
                .map_err(|invalid: escapement_model::InvalidId| Rejection::InvalidItem {
                    list: STEP_IDS,
                    index,
                    message: invalid.to_string(),
                })
        });
        Ok(Self(step_ids.collect::<Result<_, _>>()?))
    }

    /// `None` for all.
    fn steps_of(&self, plan: &Plan) -> Result<Option<BTreeSet<StepIndex>>, Rejection> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let canonical = plan.canonical_order().iter();
        let mut by_id: Vec<(StepId, StepIndex)> =
            canonical.map(|step| (plan.step(*step).id(), *step)).collect();
        by_id.sort_unstable_by_key(|(id, _)| *id);
        let find = |(index, step_id): (usize, &StepId)| {
            let place = by_id.binary_search_by_key(step_id, |(id, _)| *id);
            place
                .map(|place| by_id[place].1)
                .map_err(|_| Rejection::InvalidItem {
                    list: STEP_IDS,
                    index,
                    message: format!("the plan has no step {step_id}"),
                })
        };
        self.0
            .iter()
            .enumerate()
            .map(find)
            .collect::<Result<_, _>>()
            .map(Some)
    }
}

const STEP_IDS: &str = "step_ids";
/// How often engine and store are asked before the answer is that it is not known.
const QUESTIONS_MAX: u32 = 3;
