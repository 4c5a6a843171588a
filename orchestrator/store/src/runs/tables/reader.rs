//! Reads on a connection of its own. Writes nothing.

use bytes::Bytes;
use escapement_model::{InputRequestId, RunId};
use rusqlite::{Connection, params};

use super::columns::{PART_ROW, SUMMARY, corrupt, summary};
use super::rows;
use super::tally::RunTally;
use super::{definitions, endings, lists, notices, requests, tombstones};
use crate::StoreFault;
use crate::database::connection::working;
use crate::runs::RunReader;
use crate::runs::definitions::{
    Definition, DefinitionKey, DefinitionKind, DefinitionPage, Scope, StoredRevision,
};
use crate::runs::limits::PAGE_BYTES_MAX;
use crate::runs::notices::StoredNotice;
use crate::runs::stored::{
    EndedPage, InputRequestPage, JournalEntry, JournalPage, LastNumbers, ListCount, Listing, RemovedRun,
    RunCounts, RunFilter, RunKey, RunPage, RunSummary, StoredInputRequest, StoredRun,
};
use crate::tally_part::Part as _;

/// A reader of the embedded store of runs.
#[derive(Debug)]
pub(crate) struct EmbeddedRunReader {
    connection: Connection,
}

impl EmbeddedRunReader {
    pub(crate) fn new(connection: Connection) -> Self {
        Self { connection }
    }

    /// Reads at one moment.
    fn at_once<T>(&self, read: impl FnOnce(&Connection) -> Result<T, StoreFault>) -> Result<T, StoreFault> {
        let transaction = self.connection.unchecked_transaction().map_err(working)?;
        let found = read(&transaction);
        transaction.finish().map_err(working)?;
        found
    }
}

/// Entries from that number on, up to that many bytes; ends in front of damage.
fn stretch(
    connection: &Connection,
    run: &RunSummary,
    from: u64,
    bytes_max: usize,
) -> Result<Vec<JournalEntry>, StoreFault> {
    let (mut page, mut n_bytes) = (Vec::new(), 0);
    let read = rows::entries(connection, run, from, |entry| {
        n_bytes += entry.bytes.len();
        if n_bytes <= bytes_max || page.is_empty() {
            page.push(entry);
        }
        n_bytes < bytes_max
    });
    match read {
        Err(StoreFault::CorruptRun { .. }) if !page.is_empty() => Ok(page),
        read => read.map(|()| page),
    }
}

impl RunReader for EmbeddedRunReader {
    fn run(&self, id: RunId, bytes_max: usize) -> Result<Option<StoredRun>, StoreFault> {
        self.at_once(|connection| {
            let Some(summary) = rows::run(connection, &id)? else {
                return Ok(None);
            };
            let snapshot = rows::snapshot(connection, &summary)?;
            let tail = stretch(connection, &summary, summary.snapshot_seq + 1, bytes_max)?;
            Ok(Some(StoredRun {
                summary,
                snapshot,
                tail,
            }))
        })
    }

    fn summary(&self, id: RunId) -> Result<Option<RunSummary>, StoreFault> {
        self.at_once(|connection| rows::run(connection, &id))
    }

    fn journal(&self, id: RunId, from: u64, bytes_max: usize) -> Result<Option<JournalPage>, StoreFault> {
        self.at_once(|connection| {
            let Some(run) = rows::run(connection, &id)? else {
                return Ok(None);
            };
            Ok(Some(JournalPage {
                first_seq: run.first_seq,
                next_seq: run.next_seq,
                entries: stretch(connection, &run, from, bytes_max)?,
            }))
        })
    }

    fn live(&self, after: Option<u64>, limit: usize) -> Result<Vec<RunSummary>, StoreFault> {
        let sql = format!(
            "SELECT {SUMMARY} FROM run INDEXED BY run_live WHERE ended_at IS NULL AND number > ?1 \
             ORDER BY number LIMIT ?2"
        );
        let mut select = self.connection.prepare_cached(&sql).map_err(working)?;
        let bounds = params![after.map_or(0, lists::saturated), limited(limit)];
        let mut rows = select.query(bounds).map_err(working)?;
        let mut page = Vec::new();
        while let Some(row) = rows.next().map_err(working)? {
            let read = summary(row).and_then(|run| match run.progress.ended_at {
                None => Ok(run),
                Some(_) => Err(corrupt(run.number, PART_ROW)),
            });
            match read {
                Ok(run) => page.push(run),
                Err(StoreFault::CorruptRun { .. }) if !page.is_empty() => break,
                Err(fault) => return Err(fault),
            }
        }
        Ok(page)
    }

    fn list(&self, filter: &RunFilter, behind: Option<RunKey>, limit: usize) -> Result<RunPage, StoreFault> {
        self.at_once(|connection| {
            let stretches = lists::of_runs(filter);
            let (keys, next) = lists::keys(connection, &stretches, filter.order, behind, limit)?;
            let mut runs = Vec::new();
            for key in keys {
                match rows::row(connection, key.number) {
                    Ok(run) => runs.extend(run),
                    Err(StoreFault::CorruptRun { .. }) => {}
                    Err(fault) => return Err(fault),
                }
            }
            Ok(RunPage { runs, next })
        })
    }

    fn count(&self, listing: Listing<'_>) -> Result<ListCount, StoreFault> {
        self.at_once(|connection| lists::count(connection, listing))
    }

    fn ended(&self, after: u64, limit: usize) -> Result<EndedPage, StoreFault> {
        self.at_once(|connection| endings::page(connection, after, limited(limit)))
    }

    fn newest_run_of(&self, plan: &str) -> Result<Option<RunSummary>, StoreFault> {
        let sql = format!(
            "SELECT {SUMMARY} FROM run INDEXED BY run_by_plan_and_number WHERE plan = ?1 \
             ORDER BY number DESC LIMIT 1"
        );
        let mut select = self.connection.prepare_cached(&sql).map_err(working)?;
        let mut rows = select.query([plan]).map_err(working)?;
        match rows.next().map_err(working)?.map(summary).transpose()? {
            Some(run) if run.created.plan.as_deref() != Some(plan) => Err(corrupt(run.number, PART_ROW)),
            found => Ok(found),
        }
    }

    fn content(&self, digest: &[u8; 32]) -> Result<Option<Bytes>, StoreFault> {
        rows::content(&self.connection, digest)
    }

    fn revision(&self, digest: &[u8; 32], scopes: &[Scope]) -> Result<Option<StoredRevision>, StoreFault> {
        self.at_once(|connection| rows::revision(connection, digest, scopes))
    }

    fn content_of_revision(
        &self,
        digest: &[u8; 32],
        scopes: &[Scope],
    ) -> Result<Option<[u8; 32]>, StoreFault> {
        rows::content_of_revision(&self.connection, digest, scopes)
    }

    fn definition(&self, kind: DefinitionKind, name: &str) -> Result<Option<Definition>, StoreFault> {
        definitions::find(&self.connection, kind, name)
    }

    fn definitions(
        &self,
        kind: DefinitionKind,
        scopes: Option<&[Scope]>,
        before: Option<DefinitionKey>,
        limit: usize,
    ) -> Result<DefinitionPage, StoreFault> {
        self.at_once(|connection| definitions::list(connection, kind, scopes, before, limit))
    }

    fn definitions_by_name(
        &self,
        kind: DefinitionKind,
        after: Option<&str>,
        limit: usize,
    ) -> Result<DefinitionPage, StoreFault> {
        definitions::by_name(&self.connection, kind, after, limit)
    }

    fn n_definitions(&self, kind: DefinitionKind) -> Result<usize, StoreFault> {
        definitions::count(&self.connection, kind).map_err(working)
    }

    fn input_request(&self, id: InputRequestId) -> Result<Option<StoredInputRequest>, StoreFault> {
        let found = rows::input_request(&self.connection, &id)?;
        Ok(found.map(|(_, request)| request))
    }

    fn open_input_requests(
        &self,
        scopes: Option<&[Scope]>,
        after: Option<u64>,
        limit: usize,
    ) -> Result<InputRequestPage, StoreFault> {
        self.at_once(|connection| {
            let (places, reached) = lists::open_requests(connection, scopes, after, limit)?;
            let mut page = InputRequestPage::default();
            let mut n_bytes = 0;
            for place in places {
                match rows::input_request_at(connection, place) {
                    Ok(request) => page.requests.extend(request.map(|(_, request)| request)),
                    Err(StoreFault::CorruptRun { .. }) => continue,
                    Err(fault) => return Err(fault),
                }
                n_bytes += page.requests.last().map_or(0, |request| request.record.len());
                if n_bytes >= PAGE_BYTES_MAX {
                    page.next = Some(place);
                    return Ok(page);
                }
            }
            page.next = reached;
            Ok(page)
        })
    }

    fn notices(&self, stream: &str, after: u64, limit: usize) -> Result<Vec<StoredNotice>, StoreFault> {
        notices::page(&self.connection, stream, after, limit)
    }

    fn notices_until(&self, stream: &str, number: u64) -> Result<Option<u64>, StoreFault> {
        self.at_once(|connection| {
            let last = RunTally::load(connection).map_err(working)?.notice_last;
            match number <= last {
                true => notices::until(connection, stream, number, last).map_err(working),
                false => Ok(None),
            }
        })
    }

    fn last_numbers(&self) -> Result<LastNumbers, StoreFault> {
        let tally = RunTally::load(&self.connection).map_err(working)?;
        Ok(LastNumbers {
            notice: tally.notice_last,
            input_request: tally.input_request_last,
        })
    }

    fn created_by(&self, key: &str) -> Result<Option<(RunId, [u8; 32])>, StoreFault> {
        self.at_once(|connection| rows::created_by(connection, key))
    }

    fn answered(&self, key: &str) -> Result<Option<(RunId, [u8; 32])>, StoreFault> {
        let found = requests::by_key(&self.connection, key)?;
        Ok(found.map(|answered| (answered.run_id, answered.request.digest)))
    }

    fn removed(&self, id: RunId) -> Result<Option<RemovedRun>, StoreFault> {
        tombstones::find(&self.connection, &id)
    }

    fn counts(&self) -> Result<RunCounts, StoreFault> {
        let tally = RunTally::load(&self.connection).map_err(working)?;
        Ok(tally.counts())
    }
}

fn limited(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
