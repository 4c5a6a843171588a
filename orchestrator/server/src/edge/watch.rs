//! `WatchExecution` and `ListAuditEntries`: the record of one execution, while it grows and after its end.
//! Shows nothing that the engine or the store did not give.

use super::lookup::SettledRecord;
use super::{Answers, Edge};
use crate::convert::{answer, audit};
use crate::engine_link::{Watch, Watched};
use crate::limits::{AUDIT_PAGE_BYTES_MAX, AUDIT_PAGE_MAX};
use crate::status::Rejection;
use escapement_contract::{AuditEntry, Settlement};
use escapement_engine::{Refusal, Reply};
use escapement_model::ExecutionId;
use escapement_wire::v1;
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

type WatchAnswer = Result<v1::WatchExecutionResponse, Status>;

impl Edge {
    /// Streams the record from a sequence number on, until its last entry.
    pub(crate) async fn watch(
        &self,
        execution_id: ExecutionId,
        from_sequence: u64,
    ) -> Result<Answers<v1::WatchExecutionResponse>, Status> {
        let Some(watch) = self.live_watch(execution_id).await? else {
            let record = self.settled_record(execution_id).await?;
            return Ok(Box::pin(tokio_stream::iter(settled_answers(
                record,
                from_sequence,
            )?)));
        };
        // The watcher's queue is the engine's; one place more is only the hand-over.
        let (answers, answers_rx) = mpsc::channel(1);
        tokio::spawn(forward(watch, from_sequence, answers));
        Ok(Box::pin(ReceiverStream::new(answers_rx)))
    }

    /// One page of the record.
    pub(crate) async fn audit_page(
        &self,
        execution_id: ExecutionId,
        from_sequence: u64,
        page_size: usize,
    ) -> Result<v1::ListAuditEntriesResponse, Status> {
        let entries = match self.live_watch(execution_id).await? {
            Some(mut watch) => live_entries(&mut watch, from_sequence).await?,
            None => self.settled_record(execution_id).await?.entries,
        };
        let skipped = usize::try_from(from_sequence.max(1) - 1).unwrap_or(usize::MAX);
        Ok(page(entries, skipped, page_size))
    }

    /// A watch of an execution that the engine holds; `None` where it does not.
    async fn live_watch(&self, execution_id: ExecutionId) -> Result<Option<Watch>, Status> {
        let mut watch = self.engine.watch(execution_id).await?;
        match watch.next().await {
            Some(Watched::Reply(Reply::Watching)) => Ok(Some(watch)),
            Some(Watched::Reply(Reply::NotLive)) => Ok(None),
            Some(Watched::Reply(Reply::Refused(refusal))) => Err(Rejection::Refused(refusal).into()),
            Some(other) => unreachable!("a watch does not begin with {other:?}"),
            None => Err(Rejection::Refused(Refusal::Draining).into()),
        }
    }
}

/// What there is now. A live execution has its first entry from the start, so this does not wait long;
/// where its outcome is being made durable, it waits for that.
async fn live_entries(watch: &mut Watch, from_sequence: u64) -> Result<Vec<v1::AuditEntry>, Rejection> {
    match watch.next().await {
        Some(Watched::Entries(entries, _)) => {
            let unwanted = |entry: &&AuditEntry| entry.sequence < from_sequence;
            // Skipped entries keep their places, unconverted, so that a page counts positions alike
            // everywhere.
            let n_unwanted = entries.iter().take_while(unwanted).count();
            let mut list = vec![v1::AuditEntry::default(); n_unwanted];
            list.extend(entries[n_unwanted..].iter().map(audit::entry));
            Ok(list)
        }
        Some(Watched::Reply(Reply::Refused(refusal))) => Err(Rejection::Refused(refusal)),
        // An empty page would say that there are no entries.
        Some(Watched::Reply(_)) | None => Err(Rejection::Refused(Refusal::Draining)),
    }
}

fn page(entries: Vec<v1::AuditEntry>, skipped: usize, page_size: usize) -> v1::ListAuditEntriesResponse {
    let n_entries = entries.len();
    let mut bytes = 0;
    let fits = |entry: &v1::AuditEntry| {
        let is_first = bytes == 0;
        bytes += entry.encoded_len() + 8;
        is_first || bytes <= AUDIT_PAGE_BYTES_MAX
    };
    let entries: Vec<_> = entries
        .into_iter()
        .skip(skipped)
        .take(page_size)
        .take_while(fits)
        .collect();
    let end = skipped.saturating_add(entries.len());
    let next_sequence = if end < n_entries {
        i64::try_from(end + 1).unwrap_or(i64::MAX)
    } else {
        0
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

fn settled_answers(record: SettledRecord, from_sequence: u64) -> Result<Vec<WatchAnswer>, Rejection> {
    let last_sequence = record.entries.len() as u64;
    let from_sequence = from_sequence.max(1);
    if from_sequence > last_sequence {
        return Err(Rejection::BeyondEnd { last_sequence });
    }
    let skipped = usize::try_from(from_sequence - 1).expect("not beyond the number of entries");
    let wanted = record.entries.into_iter().skip(skipped);
    let mut answers: Vec<_> = wanted
        .map(|entry| v1::WatchExecutionResponse {
            entry: Some(entry),
            result: None,
        })
        .collect();
    if let Some(last) = answers.last_mut() {
        last.result = Some(record.result);
    }
    Ok(answers.into_iter().map(Ok).collect())
}

/// Passes on what the engine gives, from the wanted entry on; says why where it ends early.
async fn forward(mut watch: Watch, from_sequence: u64, answers: mpsc::Sender<WatchAnswer>) {
    let mut last_sequence = 0;
    // Biased: a watcher that went away is noticed before it is served.
    while let Some(item) = tokio::select! {
        biased;
        () = answers.closed() => return,
        item = watch.next() => item,
    } {
        let Watched::Entries(entries, settled) = item else {
            continue;
        };
        last_sequence = entries.last().map_or(last_sequence, |entry| entry.sequence);
        if send_entries(
            &entries,
            settled.as_deref().map(AsRef::as_ref),
            from_sequence,
            &answers,
        )
        .await
        .is_err()
        {
            return;
        }
        if let Some(settlement) = settled {
            end(&settlement, from_sequence, &answers).await;
            return;
        }
    }
    let rejection = if watch.engine_is_gone() {
        Rejection::Refused(Refusal::Draining)
    } else {
        Rejection::WatcherTooSlow {
            next_sequence: from_sequence.max(last_sequence + 1),
        }
    };
    // The watcher may have gone meanwhile.
    let _gone = answers.send(Err(rejection.into())).await;
}

async fn send_entries(
    entries: &[AuditEntry],
    settled: Option<&Settlement>,
    from_sequence: u64,
    answers: &mpsc::Sender<WatchAnswer>,
) -> Result<(), mpsc::error::SendError<WatchAnswer>> {
    for (index, entry) in entries.iter().enumerate() {
        if entry.sequence < from_sequence {
            continue;
        }
        let is_last = index + 1 == entries.len();
        let result = settled
            .filter(|_| is_last)
            .map(|settlement| answer::result(&settlement.result));
        let entry = Some(audit::entry(entry));
        answers
            .send(Ok(v1::WatchExecutionResponse { entry, result }))
            .await?;
    }
    Ok(())
}

/// A watcher that waited for what never came learns it at the end.
async fn end(settlement: &Settlement, from_sequence: u64, answers: &mpsc::Sender<WatchAnswer>) {
    let last_sequence = settlement.audit.len() as u64;
    if from_sequence > last_sequence {
        // The watcher may have gone meanwhile.
        let _gone = answers
            .send(Err(Rejection::BeyondEnd { last_sequence }.into()))
            .await;
    }
}

#[cfg(test)]
mod tests;
