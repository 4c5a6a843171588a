//! `ExportRun`: everything that is recorded of a run that has ended, as a file in pieces.

use super::discarding::purged;
use super::{Answers, Runs};
use crate::errors::Rejection;
use crate::fields;
use crate::journal::absent;
use escapement_model::RunId;
use escapement_runs_host::{ExportFault, RunExport};
use escapement_runs_shell::{CallError, RunsHandle};
use escapement_store::StoreFault;
use escapement_wire::runs::v1;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

impl Runs {
    pub(super) async fn export(
        &self,
        request: v1::ExportRunRequest,
    ) -> Result<Answers<v1::ExportRunResponse>, Rejection> {
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
        let (pieces, received) = mpsc::channel(PIECES_AHEAD);
        let runs = self.runs.clone();
        tokio::spawn(async move {
            if let Err(rejection) = write(runs, run_id, export, &pieces).await {
                // A caller that has left hears nothing.
                let _left = pieces.send(Err(rejection.into())).await;
            }
        });
        Ok(Box::pin(ReceiverStream::new(received)))
    }
}

type Pieces = mpsc::Sender<Result<v1::ExportRunResponse, tonic::Status>>;

/// Reads a piece only if there is room for it.
async fn write(
    runs: RunsHandle,
    run_id: RunId,
    mut export: RunExport,
    pieces: &Pieces,
) -> Result<(), Rejection> {
    loop {
        let Ok(room) = pieces.reserve().await else {
            return Ok(());
        };
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
        room.send(Ok(v1::ExportRunResponse { data }));
    }
}

/// The run lives.
pub(super) fn not_ended(run_id: RunId) -> Rejection {
    Rejection::failed("RUN_NOT_ENDED", format!("Run {run_id} has not ended."))
}

/// Pieces that wait for a caller.
const PIECES_AHEAD: usize = 4;
