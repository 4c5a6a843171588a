//! `WatchExecution` and `ListAuditEntries`: the record of one execution, while it grows and after its end.
//! Shows nothing that the engine or the store did not give, and holds one piece of the record for a watcher, no more.

use super::answers::{Held, UntilTaken};
use super::connection::Cutter;
use super::settled::SettledPiece;
use super::{Answers, Edge};
use crate::convert::{answer, audit};
use crate::engine_link::Lane;
use crate::limits::{AUDIT_PAGE_BYTES_MAX, AUDIT_PAGE_MAX, WATCHED_BYTES_MAX, WATCHED_ENTRIES_MAX};
use crate::readers::Reading;
use crate::status::{Kind, Rejection};
use escapement_contract::{AuditEntry, Settlement};
use escapement_engine::{Input, IsAll, Piece, Reply, Watch};
use escapement_model::ExecutionId;
use escapement_wire::v1;
use futures_core::Stream;
use prost::Message;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::Status;

type WatchAnswer = Result<v1::WatchExecutionResponse, Status>;

impl Edge {
    /// Streams the record from a sequence number on, until its last entry.
    pub(crate) async fn watch(
        &self,
        execution_id: ExecutionId,
        from_sequence: u64,
        cutter: Option<Cutter>,
    ) -> Result<Answers<v1::WatchExecutionResponse>, Status> {
        let mut watcher = Watcher {
            edge: self.clone(),
            execution_id,
            next_sequence: from_sequence.max(1),
        };
        // What is wrong with the question is the answer to the call; so this waits for no entry.
        let ready = match watcher.ask(Reading::Answer, false).await? {
            Some(ready) => ready,
            None => Ready::Live(Arc::new([]), 0),
        };
        let last = match &ready {
            Ready::Last(held) => Some(held.room.clone().until_taken(cutter.clone())),
            Ready::Live(..) | Ready::Stored(_) => None,
        };
        Ok(Box::pin(WatchStream {
            ready,
            next: Next::Ask(watcher),
            cutter,
            last,
        }))
    }

    /// One page of the record.
    pub(crate) async fn audit_page(
        &self,
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
                piece,
                waits: false,
            })
        };
        match self.engine.call(Lane::Reads, look).await? {
            Reply::Entries(entries, IsAll(is_all)) => Ok(page(&entries, is_all)),
            Reply::NotLive => {
                let read = self.with_settled_record(execution_id, Reading::Answer, |record| {
                    record.piece(from_sequence, piece)
                });
                Ok(stored_page(read.await?))
            }
            other => unreachable!("a question for entries is not answered with {other:?}"),
        }
    }
}

/// A page of what the engine gave; it counts bytes only roughly.
fn page(entries: &[AuditEntry], is_all: bool) -> v1::ListAuditEntriesResponse {
    let listed = cut(entries, AUDIT_PAGE_BYTES_MAX);
    let has_more = listed.len() < entries.len() || !is_all;
    with_next(listed, has_more)
}

/// As many entries as fit. One fits, however large.
fn cut(entries: &[AuditEntry], bytes_max: usize) -> Vec<v1::AuditEntry> {
    let mut bytes = 0;
    let fits = |entry: &v1::AuditEntry| {
        let is_first = bytes == 0;
        bytes += entry.encoded_len() + 8;
        is_first || bytes <= bytes_max
    };
    entries.iter().map(audit::entry).take_while(fits).collect()
}

fn stored_page(piece: SettledPiece) -> v1::ListAuditEntriesResponse {
    with_next(piece.entries, piece.has_more)
}

fn with_next(entries: Vec<v1::AuditEntry>, has_more: bool) -> v1::ListAuditEntriesResponse {
    let next_sequence = match entries.last() {
        Some(last) if has_more => last.sequence.saturating_add(1),
        Some(_) | None => 0,
    };
    v1::ListAuditEntriesResponse {
        entries,
        next_sequence,
    }
}

/// Reads `page_size` of `ListAuditEntries`.
pub(crate) fn audit_page_size(page_size: Option<i32>) -> Result<usize, Rejection> {
    super::plans::page_size(page_size, AUDIT_PAGE_MAX, AUDIT_PAGE_MAX)
}

/// The answers to one watcher. Asks for the next piece of the record only when the last one is sent.
struct WatchStream {
    ready: Ready,
    next: Next,
    cutter: Option<Cutter>,
    /// The room for the result, once it is on its way.
    last: Option<UntilTaken>,
}

/// What is there to be sent.
enum Ready {
    /// Entries of a live execution, shared with its other watchers, and how many of them are sent.
    Live(Arc<[AuditEntry]>, usize),
    /// Entries of the store, and the end if it belongs to them.
    Stored(std::vec::IntoIter<v1::AuditEntry>),
    /// The last entry, with the result. Alone, so that no watcher that does not read holds a result.
    Last(Box<Held<v1::WatchExecutionResponse>>),
}

/// What comes when that is sent.
enum Next {
    Ask(Watcher),
    Asking(Pin<Box<dyn Future<Output = Asked> + Send>>),
    End,
}

/// The watcher again, and what it got.
type Asked = (Watcher, Result<Ready, Status>);

impl Stream for WatchStream {
    type Item = WatchAnswer;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<WatchAnswer>> {
        loop {
            if let Some(Held { value: answer, room }) = self.ready.next() {
                if answer.result.is_some() {
                    self.next = Next::End;
                    let cutter = self.cutter.take();
                    self.last.get_or_insert_with(|| room.until_taken(cutter));
                }
                return Poll::Ready(Some(Ok(answer)));
            }
            match std::mem::replace(&mut self.next, Next::End) {
                Next::Ask(watcher) => self.next = Next::Asking(Box::pin(watcher.next_piece())),
                Next::Asking(mut asking) => {
                    let Poll::Ready((watcher, asked)) = asking.as_mut().poll(cx) else {
                        self.next = Next::Asking(asking);
                        return Poll::Pending;
                    };
                    match asked {
                        Ok(ready) => {
                            self.ready = ready;
                            self.next = Next::Ask(watcher);
                        }
                        Err(status) => return Poll::Ready(Some(Err(status))),
                    }
                }
                Next::End => return Poll::Ready(None),
            }
        }
    }
}

impl Ready {
    fn next(&mut self) -> Option<Held<v1::WatchExecutionResponse>> {
        let entry = match self {
            Ready::Live(entries, n_sent) => {
                let entry = audit::entry(entries.get(*n_sent)?);
                *n_sent += 1;
                entry
            }
            Ready::Stored(entries) => entries.next()?,
            Ready::Last(_) => {
                let Ready::Last(last) = std::mem::replace(self, Ready::Stored(Vec::new().into_iter())) else {
                    unreachable!("it was the last a line ago");
                };
                return Some(*last);
            }
        };
        Some(Held::small(v1::WatchExecutionResponse {
            entry: Some(entry),
            result: None,
        }))
    }
}

/// Who watches, and how far it has come.
struct Watcher {
    edge: Edge,
    execution_id: ExecutionId,
    next_sequence: u64,
}

impl Watcher {
    /// Waits for the next piece.
    async fn next_piece(mut self) -> Asked {
        loop {
            match self.ask(Reading::Open, true).await {
                Ok(Some(ready)) => return (self, Ok(ready)),
                Ok(None) => {}
                Err(status) => return (self, Err(status)),
            }
        }
    }

    /// The next piece by the engine where the execution is live, else by the store.
    /// `None` where there is no further entry yet.
    async fn ask(&mut self, reading: Reading, waits: bool) -> Result<Option<Ready>, Status> {
        let Self {
            execution_id,
            next_sequence: from_sequence,
            ..
        } = *self;
        let watch = |caller| {
            Input::Watch(Watch {
                caller,
                execution_id,
                from_sequence,
                piece: WATCHED,
                waits,
            })
        };
        let ready = match self.edge.engine.call(Lane::Open, watch).await? {
            Reply::Entries(entries, _) => {
                let n_entries = entries.len();
                self.next_sequence += n_entries as u64;
                return Ok((n_entries > 0).then_some(Ready::Live(entries, 0)));
            }
            Reply::Settled(settlement) => self.of_settlement(&settlement).await?,
            Reply::NotLive => self.of_store(reading).await?,
            other => unreachable!("a watcher is not answered with {other:?}"),
        };
        Ok(Some(ready))
    }

    /// The next of what an execution came to that has just settled.
    ///
    /// The settlement itself is not kept: a watcher that does not read would keep it for as long as it likes.
    async fn of_settlement(&mut self, settlement: &Settlement) -> Result<Ready, Rejection> {
        let last_sequence = settlement.audit.len() as u64;
        let seen = self.seen(last_sequence)?;
        let Some((last, before)) = settlement.audit[seen..].split_last() else {
            unreachable!("the last entry was not seen");
        };
        if before.is_empty() {
            let bytes = settlement.result.result_payload.len();
            let room = self.edge.answers.wait(Kind::Watches, bytes).await;
            let value = v1::WatchExecutionResponse {
                entry: Some(audit::entry(last)),
                result: Some(answer::result(&settlement.result)),
            };
            return Ok(Ready::Last(Box::new(Held { value, room })));
        }
        let entries = cut(
            &before[..before.len().min(WATCHED.entries_max)],
            WATCHED.bytes_max,
        );
        self.next_sequence += entries.len() as u64;
        Ok(Ready::Stored(entries.into_iter()))
    }

    /// The next of what the store has.
    async fn of_store(&mut self, reading: Reading) -> Result<Ready, Rejection> {
        let Self {
            execution_id,
            next_sequence,
            ..
        } = *self;
        let edge = self.edge.clone();
        let mut room = None;
        loop {
            let read = edge.with_settled_record(execution_id, reading, |record| {
                let mut piece = record.piece(next_sequence, WATCHED)?;
                self.seen(piece.n_entries)?;
                if piece.has_more || piece.entries.len() > 1 {
                    if !piece.has_more {
                        // The last one comes alone.
                        piece.entries.pop();
                    }
                    return Ok(Ok(Ready::Stored(piece.entries.into_iter())));
                }
                let Some(room) = room.take() else {
                    return Ok(Err(record.result_bytes()));
                };
                let value = v1::WatchExecutionResponse {
                    entry: piece.entries.pop(),
                    result: Some(record.result()?),
                };
                Ok(Ok(Ready::Last(Box::new(Held { value, room }))))
            });
            match read.await? {
                Ok(ready) => {
                    if let Ready::Stored(entries) = &ready {
                        self.next_sequence += entries.len() as u64;
                    }
                    return Ok(ready);
                }
                // Nothing of the record is held while this waits for room for the result.
                Err(bytes) => room = Some(edge.answers.wait(Kind::Watches, bytes).await),
            }
        }
    }

    /// Entries that are not wanted, of so many that there are. A watcher that waited for what never came learns it here.
    fn seen(&self, last_sequence: u64) -> Result<usize, Rejection> {
        if self.next_sequence > last_sequence {
            return Err(Rejection::BeyondEnd { last_sequence });
        }
        Ok(usize::try_from(self.next_sequence - 1).expect("not beyond the number of entries"))
    }
}

/// What is held for one watcher.
const WATCHED: Piece = Piece {
    entries_max: WATCHED_ENTRIES_MAX,
    bytes_max: WATCHED_BYTES_MAX,
};

#[cfg(test)]
mod tests;
