//! `WorkerService.ReportOutcomes`: outcomes that come without a session. The engine judges each.

use crate::grpc::Edge;
use crate::grpc::caller::Caller;
use crate::host::handle::Lane;
use crate::limits::REPORTED_OUTCOMES_MAX;
use crate::status::Rejection;
use escapement_codec::outcome_reports::OutcomeReports;
use escapement_engine::{AttemptStanding, Input};
use escapement_model::AttemptToken;
use escapement_wire::worker::v1;
use tonic::Status;

/// Answers one call.
pub(crate) async fn report_outcomes(
    edge: &Edge,
    request: v1::ReportOutcomesRequest,
    caller: &Caller,
) -> Result<v1::ReportOutcomesResponse, Status> {
    let n_items = request.items.len();
    if n_items == 0 || n_items > REPORTED_OUTCOMES_MAX {
        return Err(Rejection::InvalidField {
            field: "items",
            message: format!("must have 1 to {REPORTED_OUTCOMES_MAX} entries and has {n_items}"),
        }
        .into());
    }
    let mut reports = OutcomeReports::read(request.items);
    reports.retain(&permitted(edge, caller, reports.asked()).await?);
    let (items, answers) = reports.ask();
    let verdicts = if items.is_empty() {
        Vec::new()
    } else {
        let report = |caller| Input::ReportOutcomes { caller, items };
        edge.engine.call(Lane::Workers, report).await?
    };
    Ok(answers.with(verdicts))
}

/// Whether the caller may report on each: an attempt on itself, and a worker's principal on what its workers have.
/// What no worker has any more cannot be changed by anybody.
async fn permitted(edge: &Edge, caller: &Caller, tokens: Vec<AttemptToken>) -> Result<Vec<bool>, Status> {
    if let Some(attempt) = caller.attempt() {
        return Ok(tokens.iter().map(|token| *token == attempt.token).collect());
    }
    let find = |caller| Input::FindAttempts { caller, tokens };
    let standings = edge.engine.call(Lane::Workers, find).await?;
    let owners = edge.places.owners();
    let may = |standing: AttemptStanding| match standing {
        AttemptStanding::UnderWay(holder) => owners.is_of(holder.instance_id, caller.principal()),
        AttemptStanding::Over(instance_id) => owners.is_of(instance_id, caller.principal()),
        AttemptStanding::Ended | AttemptStanding::Unknown => true,
    };
    Ok(standings.into_iter().map(may).collect())
}
