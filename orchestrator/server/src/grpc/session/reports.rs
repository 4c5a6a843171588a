//! `WorkerService.ReportOutcomes`: outcomes that come without a session. The engine judges each.

use crate::grpc::Edge;
use crate::host::handle::Lane;
use crate::limits::REPORTED_OUTCOMES_MAX;
use crate::status::Rejection;
use bytes::Bytes;
use escapement_codec::session_in::{UnreadableToken, attempt_outcome};
use escapement_codec::session_out::ack_verdict;
use escapement_engine::{AckVerdict, AttemptReport, Input};
use escapement_model::AttemptToken;
use escapement_wire::worker::v1;
use tonic::Status;

/// Answers one call.
pub(crate) async fn report_outcomes(
    edge: &Edge,
    request: v1::ReportOutcomesRequest,
) -> Result<v1::ReportOutcomesResponse, Status> {
    let n_items = request.items.len();
    if n_items == 0 || n_items > REPORTED_OUTCOMES_MAX {
        return Err(Rejection::InvalidField {
            field: "items",
            message: format!("must have 1 to {REPORTED_OUTCOMES_MAX} entries and has {n_items}"),
        }
        .into());
    }
    let report = Report::read(request.items);
    let verdicts = if report.readable.is_empty() {
        Vec::new()
    } else {
        let items = report.readable;
        let report = |caller| Input::ReportOutcomes { caller, items };
        edge.engine.call(Lane::Workers, report).await?
    };
    Ok(answer(report.tokens, verdicts))
}

/// The items of one call.
struct Report {
    /// Every item's token as given, and whether the engine can be asked about it.
    tokens: Vec<(Bytes, bool)>,
    readable: Vec<(AttemptToken, AttemptReport)>,
}

impl Report {
    fn read(items: Vec<v1::AttemptOutcome>) -> Self {
        let mut tokens = Vec::with_capacity(items.len());
        let mut readable = Vec::with_capacity(items.len());
        for item in items {
            match attempt_outcome(item) {
                Ok((token, report)) => {
                    tokens.push((Bytes::copy_from_slice(token.as_bytes()), true));
                    readable.push((token, report));
                }
                Err(UnreadableToken(token)) => tokens.push((token, false)),
            }
        }
        Self { tokens, readable }
    }
}

/// One answer for each item, in the order of the items.
fn answer(
    tokens: Vec<(Bytes, bool)>,
    verdicts: Vec<(AttemptToken, AckVerdict)>,
) -> v1::ReportOutcomesResponse {
    let mut verdicts = verdicts.into_iter();
    let items = tokens
        .into_iter()
        .map(|(attempt_token, is_readable)| {
            let verdict = if is_readable {
                let (token, verdict) = verdicts.next().expect("the engine answers every item");
                assert_eq!(token.as_bytes().as_slice(), attempt_token, "in their order");
                verdict
            } else {
                AckVerdict::Unknown
            };
            v1::OutcomeAck {
                attempt_token,
                verdict: ack_verdict(verdict) as i32,
            }
        })
        .collect();
    v1::ReportOutcomesResponse { items }
}

#[cfg(test)]
mod tests;
