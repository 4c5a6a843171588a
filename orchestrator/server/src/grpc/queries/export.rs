//! Everything that is recorded of a settled execution, as a file in pieces. Changes nothing.
//! Holds the record as it is stored and one piece of the file.

use crate::grpc::{Answers, Edge, execution_id};
use escapement_codec::archive::file::{Pieces, pieces};
use escapement_transport::Recipient;
use escapement_transport::response_budget::{Budgeted, ResponsePermit, TakeDeadline, with_room};
use escapement_wire::v1;
use futures_core::Stream;
use std::pin::Pin;
use std::task::{Context, Poll};
use tonic::{Response, Status};

impl Edge {
    pub(crate) async fn export_execution(
        &self,
        request: &v1::ExportExecutionRequest,
        recipient: &Recipient,
    ) -> Result<Response<Answers<v1::ExportExecutionResponse>>, Status> {
        let execution_id = execution_id(&request.execution_id)?;
        let Budgeted { value: record, room } = self.record(execution_id).await?;
        let file: Answers<_> = Box::pin(Export {
            _until_taken: recipient.take_over(room)?,
            pieces: pieces(record),
        });
        // The record counts.
        Ok(with_room(file, ResponsePermit::default()))
    }
}

/// The file on its way. The room is given back, and the limit of time ends, when it is dropped.
struct Export {
    pieces: Pieces,
    _until_taken: TakeDeadline,
}

impl Stream for Export {
    type Item = Result<v1::ExportExecutionResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let piece = self.pieces.next();
        Poll::Ready(piece.map(|data| Ok(v1::ExportExecutionResponse { data: data.into() })))
    }
}
