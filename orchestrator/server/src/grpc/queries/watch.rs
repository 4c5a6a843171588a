//! `WatchExecution` and `ListAuditEntries`: the record of one execution, while it grows and after its end.
//! Shows nothing that the engine or the store did not give. Holds for a watcher one piece of the record while it grows, and
//! afterwards the whole of it for a bounded time, within a bound for all watchers.

use super::settled::KeptRecord;
use crate::grpc::{Answers, Edge};
use crate::host::handle::Lane;
use crate::limits::{AUDIT_PAGE_BYTES_MAX, WATCHED_BYTES_MAX, WATCHED_ENTRIES_MAX};
use crate::status::Rejection;
use escapement_codec::stored::audit_trail::{Place, Placed};
use escapement_codec::{audit, audit_pages};
use escapement_contract::{AuditEntry, Persisted};
use escapement_engine::{Input, IsAll, Piece, Watch, Watched};
use escapement_model::ExecutionId;
use escapement_transport::Recipient;
use escapement_transport::response_budget::{Budgeted, TakeDeadline};
use escapement_transport::share::Tenant;
use escapement_wire::v1;
use futures_core::Stream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::Status;

type WatchAnswer = Result<v1::WatchExecutionResponse, Status>;

impl Edge {
    /// Streams the record from a sequence number on, until its last entry.
    ///
    /// `after_hash`: of the entry before, if the caller has seen it.
    pub(crate) async fn watch(
        &self,
        execution_id: ExecutionId,
        from_sequence: u64,
        after_hash: Option<[u8; 32]>,
        recipient: Recipient,
    ) -> Result<Answers<v1::WatchExecutionResponse>, Status> {
        let watcher = Watcher {
            edge: self.clone(),
            recipient: recipient.clone(),
            execution_id,
            next_sequence: from_sequence.max(1),
            after_hash,
        };
        Ok(Box::pin(WatchStream {
            // What is wrong with the question is the answer to the call; so this waits for no entry.
            state: watcher.ask(false).await?,
            recipient,
            last: None,
        }))
    }

    /// One page of the record.
    pub(crate) async fn audit_page(
        &self,
        tenant: &Tenant,
        execution_id: ExecutionId,
        from_sequence: u64,
        page_size: usize,
    ) -> Result<v1::ListAuditEntriesResponse, Status> {
        let from_sequence = from_sequence.max(1);
        let piece = Piece {
            entries_max: page_size,
            bytes_max: AUDIT_PAGE_BYTES_MAX,
        };
        let look = |caller| {
            Input::Watch(Watch {
                caller,
                execution_id,
                from_sequence,
                after_hash: None,
                piece,
                waits: false,
            })
        };
        match self.engine.call(Lane::Reads, look).await? {
            Watched::Entries(entries, IsAll(is_all)) => {
                Ok(audit_pages::page(&entries, is_all, AUDIT_PAGE_BYTES_MAX))
            }
            Watched::NotLive | Watched::Settled(_) => {
                let piece = self.settled_piece(tenant, execution_id, from_sequence, piece);
                Ok(audit_pages::stored_page(piece.await?))
            }
            Watched::Rewritten => Err(Rejection::RecordRewritten.into()),
        }
    }
}

/// The answers to one watcher. Asks for the next piece of the record only when the last one is sent.
struct WatchStream {
    state: WatchState,
    recipient: Recipient,
    /// The room for the result, once it is on its way.
    last: Option<TakeDeadline>,
}

/// What is there to be sent.
enum WatchState {
    /// Entries of a live execution, shared with its other watchers, and how many of them are sent.
    Live(Watcher, Arc<[AuditEntry]>, usize),
    /// The record of a settled execution from a place on.
    Settled(Watcher, KeptRecord, Place),
    /// The last entry, with the result. Alone, so that no watcher that does not read holds a result.
    Last(Box<Budgeted<v1::WatchExecutionResponse>>),
    /// Nothing yet.
    Asking(Pin<Box<dyn Future<Output = Result<WatchState, Status>> + Send>>),
    /// Nothing any more.
    End,
}

impl Stream for WatchStream {
    type Item = WatchAnswer;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<WatchAnswer>> {
        loop {
            let entry = match std::mem::replace(&mut self.state, WatchState::End) {
                WatchState::Live(watcher, entries, n_sent) => {
                    let Some(entry) = entries.get(n_sent).map(audit::entry) else {
                        self.state = WatchState::Asking(Box::pin(watcher.next_piece()));
                        continue;
                    };
                    self.state = WatchState::Live(watcher, entries, n_sent + 1);
                    entry
                }
                WatchState::Settled(watcher, record, place) => match record.look(|record| record.at(place)) {
                    Some(Ok(Placed {
                        entry,
                        next: Some(next),
                    })) => {
                        self.state = WatchState::Settled(watcher, record, next);
                        entry
                    }
                    Some(Ok(Placed { next: None, .. })) => {
                        self.state = WatchState::Asking(Box::pin(watcher.last(record, place)));
                        continue;
                    }
                    Some(Err(rejection)) => return Poll::Ready(Some(Err(rejection.into()))),
                    // It read too slowly; it goes on where it was.
                    None => {
                        self.state = WatchState::Asking(Box::pin(watcher.settled(None, Some(place))));
                        continue;
                    }
                },
                WatchState::Last(last) => {
                    let Budgeted { value, room } = *last;
                    self.last = Some(self.recipient.until_taken(room));
                    return Poll::Ready(Some(Ok(value)));
                }
                WatchState::Asking(mut asking) => {
                    let Poll::Ready(asked) = asking.as_mut().poll(cx) else {
                        self.state = WatchState::Asking(asking);
                        return Poll::Pending;
                    };
                    match asked {
                        Ok(state) => self.state = state,
                        Err(status) => return Poll::Ready(Some(Err(status))),
                    }
                    continue;
                }
                WatchState::End => return Poll::Ready(None),
            };
            return Poll::Ready(Some(Ok(v1::WatchExecutionResponse {
                entry: Some(entry),
                result: None,
            })));
        }
    }
}

/// Who watches, and how far it has come.
struct Watcher {
    edge: Edge,
    recipient: Recipient,
    execution_id: ExecutionId,
    next_sequence: u64,
    /// What the caller says the hash of the entry before is, until that is judged.
    after_hash: Option<[u8; 32]>,
}

impl Watcher {
    /// Waits for the next piece.
    async fn next_piece(self) -> Result<WatchState, Status> {
        self.ask(true).await
    }

    /// Returns the next piece by the engine if the execution is live, else by the store. `waits`: until there is one.
    async fn ask(mut self, waits: bool) -> Result<WatchState, Status> {
        let Self {
            execution_id,
            next_sequence: from_sequence,
            after_hash,
            ..
        } = self;
        let watch = |caller| {
            Input::Watch(Watch {
                caller,
                execution_id,
                from_sequence,
                after_hash,
                piece: WATCHED,
                waits,
            })
        };
        match self.edge.engine.call(Lane::Open, watch).await? {
            Watched::Entries(entries, _) => {
                self.next_sequence += entries.len() as u64;
                self.after_hash = None;
                Ok(WatchState::Live(self, entries, 0))
            }
            Watched::Settled(settlement) => self.settled(Some(settlement), None).await,
            Watched::NotLive => self.settled(None, None).await,
            Watched::Rewritten => Err(Rejection::RecordRewritten.into()),
        }
    }

    /// Returns the record of an execution that has settled, from a place on if that is known.
    async fn settled(
        self,
        mut settlement: Option<Persisted>,
        place: Option<Place>,
    ) -> Result<WatchState, Status> {
        loop {
            let record = self
                .edge
                .keep_record(self.recipient.tenant(), self.execution_id, settlement.take())
                .await?;
            let after_hash = self.after_hash.as_ref().map(|hash| hash.as_slice());
            let find = || record.look(|record| record.find(self.next_sequence, after_hash));
            if let Some(place) = place.map(Ok).or_else(find) {
                return Ok(WatchState::Settled(self, record, place?));
            }
        }
    }

    /// The last entry, with the result, once there is room for that.
    async fn last(self, mut record: KeptRecord, place: Place) -> Result<WatchState, Status> {
        let mut room = None;
        loop {
            let last = record.look(|record| {
                let Some(room) = room.take() else {
                    return Ok(Err(record.result_bytes()));
                };
                let value = v1::WatchExecutionResponse {
                    entry: Some(record.at(place)?.entry),
                    result: Some(record.result()?),
                };
                Ok(Ok(WatchState::Last(Box::new(Budgeted { value, room }))))
            });
            match last.transpose()? {
                Some(Ok(last)) => return Ok(last),
                Some(Err(bytes)) => {
                    room = Some(self.recipient.wait(bytes).await?);
                }
                // The room took longer than the record is kept.
                None => {
                    let keep = self
                        .edge
                        .keep_record(self.recipient.tenant(), self.execution_id, None);
                    record = keep.await?;
                }
            }
        }
    }
}

/// What is held of a live execution for one watcher.
const WATCHED: Piece = Piece {
    entries_max: WATCHED_ENTRIES_MAX,
    bytes_max: WATCHED_BYTES_MAX,
};

#[cfg(test)]
mod tests;
