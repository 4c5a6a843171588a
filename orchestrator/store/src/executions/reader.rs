//! Reads on a connection of its own, and checks every record against its checksum. Writes nothing.

use escapement_model::planted::{self, Bug};
use std::sync::LazyLock;

use bytes::Bytes;
use escapement_model::ExecutionId;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use super::columns::{
    BEHIND_SUMMARY, PART_INDEX, Progress, SUMMARY, accepted_checksum, audit_checksum, column_state,
    result_checksum, settlement_column, settlement_of, summary,
};
use super::list::{list_query, saturated, saturated_limit};
use super::operators;
use super::tally::ExecutionTally;
use super::tombstones;
use crate::database::connection::{reading, working};
use crate::database::values::{column_number, number_of};
use crate::tally_part::Part as _;
use crate::{
    ActionMemory, Counts, ListFilter, OperatorAction, OperatorFilter, Reader, RemovedExecution, SettledPage,
    StoreFault, StoredExecution, StoredState, StoredSummary,
};

/// Bytes of records at which a page of unsettled executions ends early.
const PAGE_BYTES_MAX: usize = 64 << 20;
/// Bytes of results at which a page of settled executions ends early.
const SETTLED_BYTES_MAX: usize = 1 << 20;

pub(crate) const PART_ACCEPTED: &str = "accepted record";
const PART_RESULT: &str = "result record";
pub(crate) const PART_AUDIT: &str = "audit record";

/// The statement that reads one execution whole.
static SELECT_EXECUTION: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {SUMMARY}, a.checksum, a.record, s.result_checksum, s.result, e.start_checksum \
         FROM execution e \
         LEFT JOIN accepted_record a ON a.number = e.number \
         LEFT JOIN settled_record s ON s.number = e.number WHERE e.number = ?1"
    )
});

/// A reader of the embedded store.
#[derive(Debug)]
pub(crate) struct EmbeddedReader {
    connection: Connection,
}

impl EmbeddedReader {
    pub(crate) fn new(connection: Connection) -> Self {
        Self { connection }
    }

    /// Returns the number of an execution, from the index alone, so that damage elsewhere can be told apart.
    fn number(&self, id: ExecutionId) -> Result<Option<u64>, StoreFault> {
        let found = self
            .connection
            .prepare_cached("SELECT number FROM execution WHERE execution_id = ?1")
            .and_then(|mut select| select.query_row([id.as_bytes()], |row| row.get(0)).optional())
            .map_err(working)?;
        found.map(number_of).transpose().map_err(working)
    }
}

/// One execution, whole; every damage is its own.
pub(crate) fn fetch(connection: &Connection, number: u64) -> Result<StoredExecution, StoreFault> {
    let damaged = |error| match error {
        rusqlite::Error::QueryReturnedNoRows => StoreFault::Corrupt {
            number,
            part: PART_INDEX,
        },
        error => reading(number, PART_ACCEPTED, error),
    };
    connection
        .prepare_cached(&SELECT_EXECUTION)
        .and_then(|mut select| select.query_row([column_number(number)], |row| Ok(execution(row))))
        .map_err(damaged)?
}

/// Returns a settled execution without its accepted record: its place in the order of settling and everything else of it, checked as
/// far as it has a checksum.
fn fetch_ending(connection: &Connection, number: u64) -> Result<(Option<u64>, StoredExecution), StoreFault> {
    let sql = format!(
        "SELECT {SUMMARY}, NULL, NULL, s.result_checksum, s.result, e.settlement FROM execution e \
         LEFT JOIN settled_record s ON s.number = e.number WHERE e.number = ?1"
    );
    let unreadable = |error| reading(number, PART_INDEX, error);
    let ending = |row: &Row<'_>| {
        let summary = summary(row)?;
        match ending(row, &summary)? {
            None => Err(StoreFault::Corrupt {
                number,
                part: PART_ACCEPTED,
            }),
            result => {
                let place = row
                    .get(BEHIND_SUMMARY + 4)
                    .map(settlement_of)
                    .map_err(unreadable)?;
                let execution = StoredExecution {
                    summary,
                    record: Bytes::new(),
                    result,
                };
                Ok((place, execution))
            }
        }
    };
    connection
        .prepare_cached(&sql)
        .and_then(|mut select| select.query_row([column_number(number)], |row| Ok(ending(row))))
        .map_err(|error| reading(number, PART_RESULT, error))?
}

/// Returns the audit of one execution, checked; the inner `None` if it is not settled, the outer one if no such
/// execution is there.
pub(crate) fn fetch_audit(connection: &Connection, number: u64) -> Result<Option<Option<Bytes>>, StoreFault> {
    let sql = "SELECT e.state, s.audit_checksum, s.audit FROM execution e \
               LEFT JOIN settled_record s ON s.number = e.number WHERE e.number = ?1";
    let found: Option<(i64, Option<i64>, Option<Bytes>)> = connection
        .prepare_cached(sql)
        .and_then(|mut select| {
            let found = select.query_row([column_number(number)], |row| {
                let audit = row.get_ref(2)?.as_blob_or_null()?.map(Bytes::copy_from_slice);
                Ok((row.get(0)?, row.get(1)?, audit))
            });
            found.optional()
        })
        .map_err(|error| reading(number, PART_AUDIT, error))?;
    match found {
        None => Ok(None),
        Some((state, None, None)) if state != column_state(StoredState::Settled) => Ok(Some(None)),
        Some((_, Some(sum), Some(audit))) if sum == audit_checksum(number, &audit) => Ok(Some(Some(audit))),
        Some(_) => Err(StoreFault::Corrupt {
            number,
            part: PART_AUDIT,
        }),
    }
}

/// Reads and checks the row of [`fetch`].
fn execution(row: &Row<'_>) -> Result<StoredExecution, StoreFault> {
    let summary = summary(row)?;
    let number = summary.number;
    let failed = |part| move |error| reading(number, part, error);
    let corrupt = |part| StoreFault::Corrupt { number, part };
    let progress = Progress {
        state: summary.state,
        status: summary.status,
        started_at: summary.started_at,
        settled_at: summary.settled_at,
        start_sum: row.get(BEHIND_SUMMARY + 4).map_err(failed(PART_INDEX))?,
    };
    if !progress.is_sound(number, &summary.execution_id) {
        return Err(corrupt(PART_INDEX));
    }

    let sum: Option<i64> = row.get(BEHIND_SUMMARY).map_err(failed(PART_ACCEPTED))?;
    let record = row.get_ref(BEHIND_SUMMARY + 1).map_err(failed(PART_ACCEPTED))?;
    let expected = accepted_checksum(row, record).map_err(failed(PART_INDEX))?;
    if sum != Some(expected) && !planted::is_on(Bug::ChecksumIgnored) {
        return Err(corrupt(PART_ACCEPTED));
    }

    let result = ending(row, &summary)?;
    let ValueRef::Blob(record) = record else {
        return Err(corrupt(PART_ACCEPTED));
    };
    Ok(StoredExecution {
        summary,
        record: Bytes::copy_from_slice(record),
        result,
    })
}

/// Returns the result in the row of [`fetch`], checked; `None` if it is not settled.
fn ending(row: &Row<'_>, summary: &StoredSummary) -> Result<Option<Bytes>, StoreFault> {
    let number = summary.number;
    let failed = |error| reading(number, PART_RESULT, error);
    let corrupt = StoreFault::Corrupt {
        number,
        part: PART_RESULT,
    };
    let sum: Option<i64> = row.get(BEHIND_SUMMARY + 2).map_err(failed)?;
    let result = row.get_ref(BEHIND_SUMMARY + 3).map_err(failed)?;
    match (summary.state, summary.settled_at, result) {
        (StoredState::Queued | StoredState::Running, None, ValueRef::Null) => Ok(None),
        (StoredState::Settled, Some(settled_at), ValueRef::Blob(result)) => {
            let StoredSummary {
                execution_id,
                status,
                started_at,
                ..
            } = summary;
            let expected = result_checksum(number, execution_id, *status, *started_at, settled_at, result);
            if sum != Some(expected) && !planted::is_on(Bug::ChecksumIgnored) {
                return Err(corrupt);
            }
            Ok(Some(Bytes::copy_from_slice(result)))
        }
        _ => Err(corrupt),
    }
}

impl Reader for EmbeddedReader {
    fn execution(&self, id: ExecutionId) -> Result<Option<StoredExecution>, StoreFault> {
        let Some(number) = self.number(id)? else {
            return Ok(None);
        };
        match fetch(&self.connection, number) {
            Ok(found) if found.summary.execution_id != id => Err(StoreFault::Corrupt {
                number,
                part: PART_INDEX,
            }),
            Err(StoreFault::Corrupt { part: PART_INDEX, .. }) if self.number(id)?.is_none() => Ok(None),
            fetched => fetched.map(Some),
        }
    }

    fn execution_or_ending(&self, id: ExecutionId) -> Result<Option<StoredExecution>, StoreFault> {
        match self.execution(id) {
            Err(
                fault @ StoreFault::Corrupt {
                    number,
                    part: PART_ACCEPTED,
                },
            ) => match fetch_ending(&self.connection, number) {
                Ok((_, found)) if found.summary.execution_id == id => Ok(Some(found)),
                // The damage that was met first.
                Ok(_) | Err(StoreFault::Corrupt { .. }) => Err(fault),
                Err(fault) => Err(fault),
            },
            read => read,
        }
    }

    fn audit(&self, id: ExecutionId) -> Result<Option<Bytes>, StoreFault> {
        let Some(number) = self.number(id)? else {
            return Ok(None);
        };
        if let Some(audit) = fetch_audit(&self.connection, number)? {
            let row = self
                .connection
                .prepare_cached("SELECT execution_id FROM execution WHERE number = ?1")
                .and_then(|mut select| {
                    let same = |row: &Row<'_>| Ok(row.get_ref(0)?.as_blob()? == id.as_bytes());
                    select.query_row([column_number(number)], same).optional()
                })
                .map_err(|error| reading(number, PART_INDEX, error))?;
            return match row {
                Some(true) => Ok(audit),
                Some(false) => Err(StoreFault::Corrupt {
                    number,
                    part: PART_INDEX,
                }),
                None => Ok(None),
            };
        }
        // Removed since its number was looked up, or else the index names a row that is not there.
        match self.number(id)? {
            None => Ok(None),
            Some(number) => Err(StoreFault::Corrupt {
                number,
                part: PART_INDEX,
            }),
        }
    }

    fn removed(&self, id: ExecutionId) -> Result<Option<RemovedExecution>, StoreFault> {
        tombstones::find(&self.connection, &id)
    }

    fn list(
        &self,
        filter: &ListFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<StoredSummary>, StoreFault> {
        let (sql, parameters) = list_query(filter, before);
        let mut select = self.connection.prepare_cached(&sql).map_err(working)?;
        let mut rows = select.query(params_from_iter(parameters)).map_err(working)?;
        let mut page = Vec::new();
        while page.len() < limit {
            let Some(row) = rows.next().map_err(working)? else {
                break;
            };
            match summary(row) {
                Ok(summary) => {
                    // SQL only looked for the bytes of the tag; here it must be one of the tags.
                    if filter.tag.as_ref().is_none_or(|tag| summary.tags.contains(tag)) {
                        page.push(summary);
                    }
                }
                Err(StoreFault::Corrupt { .. }) if !page.is_empty() => break,
                Err(fault) => return Err(fault),
            }
        }
        Ok(page)
    }

    fn unsettled(&self, after: Option<u64>, limit: usize) -> Result<Vec<StoredExecution>, StoreFault> {
        // One read transaction, so that the numbers and the executions are of one moment.
        let transaction = self.connection.unchecked_transaction().map_err(working)?;
        let after = after.map_or(0, saturated);
        let mut select = transaction
            .prepare_cached(
                "SELECT number FROM execution INDEXED BY execution_unsettled \
                 WHERE state < 2 AND number > ?1 ORDER BY number LIMIT ?2",
            )
            .map_err(working)?;
        let mut numbers = select
            .query(params![after, saturated_limit(limit)])
            .map_err(working)?;
        let (mut page, mut n_bytes) = (Vec::new(), 0);
        while n_bytes < PAGE_BYTES_MAX {
            let Some(row) = numbers.next().map_err(working)? else {
                break;
            };
            let number = row.get(0).and_then(number_of).map_err(working)?;
            match fetch(&self.connection, number) {
                // The index says that it is unsettled, its row and its result that it is not.
                Ok(execution) if execution.summary.state == StoredState::Settled => {
                    if !page.is_empty() {
                        break;
                    }
                    return Err(StoreFault::Corrupt {
                        number: execution.summary.number,
                        part: PART_INDEX,
                    });
                }
                Ok(execution) => {
                    n_bytes += execution.record.len();
                    page.push(execution);
                }
                Err(StoreFault::Corrupt { .. }) if !page.is_empty() => break,
                Err(fault) => return Err(fault),
            }
        }
        Ok(page)
    }

    fn unsettled_summaries(
        &self,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<StoredSummary>, StoreFault> {
        let sql = format!(
            "SELECT {SUMMARY} FROM execution e INDEXED BY execution_unsettled \
             WHERE e.state < 2 AND e.number > ?1 ORDER BY e.number LIMIT ?2"
        );
        let mut select = self.connection.prepare_cached(&sql).map_err(working)?;
        let after = after.map_or(0, saturated);
        let mut rows = select
            .query(params![after, saturated_limit(limit)])
            .map_err(working)?;
        let mut page = Vec::new();
        while let Some(row) = rows.next().map_err(working)? {
            match summary(row) {
                Ok(summary) => page.push(summary),
                Err(StoreFault::Corrupt { .. }) if !page.is_empty() => break,
                Err(fault) => return Err(fault),
            }
        }
        Ok(page)
    }

    fn settled(&self, after: u64, limit: usize) -> Result<SettledPage, StoreFault> {
        // One read transaction, so that the places and the executions are of one moment.
        let transaction = self.connection.unchecked_transaction().map_err(working)?;
        let tally = ExecutionTally::load(&transaction).map_err(working)?;
        let mut page = SettledPage {
            last: tally.settlements_last,
            removed: tally.settlements_removed,
            ..SettledPage::default()
        };
        let mut select = transaction
            .prepare_cached(
                "SELECT settlement, number FROM execution INDEXED BY execution_by_settlement \
                 WHERE settlement IS NOT NULL AND settlement > ?1 ORDER BY settlement LIMIT ?2",
            )
            .map_err(working)?;
        let mut places = select
            .query(params![settlement_column(after), saturated_limit(limit)])
            .map_err(working)?;
        let mut n_bytes = 0;
        while n_bytes < SETTLED_BYTES_MAX {
            let Some(row) = places.next().map_err(working)? else {
                break;
            };
            let place = row.get(0).map(u64::from_be_bytes).map_err(working)?;
            let number = row.get(1).and_then(number_of).map_err(working)?;
            match fetch_ending(&transaction, number) {
                Ok((stands_at, execution)) if stands_at == Some(place) => {
                    n_bytes += execution.result.as_ref().map_or(0, Bytes::len);
                    page.executions.push((place, execution));
                }
                Ok(_) | Err(StoreFault::Corrupt { .. }) => {
                    page.damaged = Some(place);
                    break;
                }
                Err(fault) => return Err(fault),
            }
        }
        Ok(page)
    }

    fn remembered_actions(&self) -> Result<Vec<ActionMemory>, StoreFault> {
        let select = "SELECT name, left_ms FROM action_memory ORDER BY name";
        let mut select = self.connection.prepare_cached(select).map_err(working)?;
        let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        let rows: Vec<(String, i64)> = rows.and_then(Iterator::collect).map_err(working)?;
        let memories = rows.into_iter().filter_map(|(name, left_ms)| {
            let left_ms = u64::try_from(left_ms).ok()?;
            Some(ActionMemory {
                name,
                left_ms: Some(left_ms),
            })
        });
        Ok(memories.collect())
    }

    fn operator_actions(
        &self,
        filter: &OperatorFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<OperatorAction>, StoreFault> {
        operators::actions(&self.connection, filter, before, limit)
    }

    fn counts(&self) -> Result<Counts, StoreFault> {
        ExecutionTally::load(&self.connection)
            .map(|tally| tally.counts())
            .map_err(working)
    }
}
