//! `ExportRun`: everything that is recorded of a run that has ended, as a file in pieces.

use super::Runs;
use super::discarding::purged;
use crate::errors::Rejection;
use crate::fields;
use crate::journal::absent;
use crate::watching::{self, AnswerStream, End, Teller};
use escapement_model::RunId;
use escapement_runs_host::{ExportFault, RunExport};
use escapement_runs_shell::{CallError, RunsHandle};
use escapement_store::StoreFault;
use escapement_transport::Recipient;
use escapement_transport::response_budget::{ResponsePermit, with_room};
use escapement_wire::runs::v1;
use tonic::Response;

impl Runs {
    pub(super) async fn export(
        &self,
        request: v1::ExportRunRequest,
        recipient: Recipient,
    ) -> Result<Response<AnswerStream<v1::ExportRunResponse>>, Rejection> {
        let run_id: RunId = fields::id("run_id", &request.run_id)?;
        let begun = self.runs.readers().read(move |reader| {
            let Some(summary) = reader.summary(run_id)? else {
                return Ok(Err(Rejection::OfRun(run_id, absent(reader, run_id)?)));
            };
            if summary.progress.ended_at.is_none() {
                return Ok(Err(not_ended(run_id)));
            }
            if let Some(purged) = purged(reader, run_id)? {
                return Ok(Err(purged));
            }
            let begun = RunExport::begin(reader, run_id)?;
            Ok(begun.ok_or(Rejection::OfRun(run_id, CallError::NotFound)))
        });
        let export = begun.await.map_err(|error| Rejection::OfRun(run_id, error))??;
        let runs = self.runs.clone();
        let answers = watching::start(recipient.clone(), async move |teller| {
            match write(runs, run_id, export, &recipient, &teller).await {
                Ok(()) => End::Quiet,
                Err(end) => end,
            }
        });
        // Each piece has a permit of its own.
        Ok(with_room(answers, ResponsePermit::default()))
    }
}

/// Reads a piece only if there is room for it, and for what is read with it.
async fn write(
    runs: RunsHandle,
    run_id: RunId,
    mut export: RunExport,
    recipient: &Recipient,
    teller: &Teller<v1::ExportRunResponse>,
) -> Result<(), End> {
    loop {
        let turn = teller.turn().await;
        let room = recipient.wait(HELD_BYTES).await?;
        let read = runs.readers().read(move |reader| {
            Ok(match export.next_piece(reader) {
                Ok(piece) => Ok((piece, export)),
                Err(ExportFault::Store(fault)) => return Err::<_, StoreFault>(fault),
                Err(ExportFault::Gone) => Err(absent(reader, run_id)?),
                Err(fault @ ExportFault::Unreadable { .. }) => Err(CallError::Damaged(fault.to_string())),
            })
        });
        let read = read.await.and_then(|read| read);
        let (piece, rest) = read.map_err(|error| Rejection::OfRun(run_id, error))?;
        let Some(data) = piece else {
            return Ok(());
        };
        export = rest;
        teller
            .give(turn, vec![v1::ExportRunResponse { data }], room)
            .await?;
    }
}

/// The run lives.
pub(super) fn not_ended(run_id: RunId) -> Rejection {
    Rejection::failed("RUN_NOT_ENDED", format!("Run {run_id} has not ended."))
}

/// Bytes that are held between two pieces, about: the entries of one read, with their contents.
const HELD_BYTES: usize = 1 << 20;
