//! The pages of an examination that are about executions, what is left of removed ones, and operators. Remembers nothing.

use escapement_model::ExecutionId;
use rusqlite::{Connection, OptionalExtension, ToSql, params};

use crate::database::connection::{is_damage, working};
use crate::database::values::{column_number, number_of};
use crate::examination::Link;
use crate::examination::{ExaminedPage, Finding, Next, PAGE_BYTES_MAX, PAGE_MAX};
use crate::executions::operators;
use crate::executions::reader::{fetch, fetch_audit};
use crate::executions::tally::ExecutionTally;
use crate::executions::tombstones::{self, Placed};
use crate::tally_part::Part as _;
use crate::{RemovedExecution, StoreFault, StoredSummary};

/// One page of executions.
pub(crate) fn executions(connection: &Connection, after: u64) -> Result<(ExaminedPage, Next), StoreFault> {
    let mut page = ExaminedPage::default();
    let mut end = after;
    let (numbers, is_sure) = numbers_behind(connection, after)?;
    let n_listed = numbers.len();
    for number in numbers {
        if page.n_bytes >= PAGE_BYTES_MAX {
            return Ok((page, Next::Executions { after: end }));
        }
        end = number;
        if is_sure || is_there(connection, number) {
            page.n_executions += 1;
            examine(connection, number, &mut page)?;
        }
    }
    let next = if n_listed < PAGE_MAX {
        Next::Removed { after: 0 }
    } else {
        Next::Executions { after: end }
    };
    Ok((page, next))
}

/// Returns the next numbers. If the table does not list them for damage, all that there could be, and false.
pub(crate) fn numbers_behind(connection: &Connection, after: u64) -> Result<(Vec<u64>, bool), StoreFault> {
    let sql = "SELECT number FROM execution NOT INDEXED WHERE number > ?1 ORDER BY number LIMIT ?2";
    let listed = connection.prepare_cached(sql).and_then(|mut select| {
        select
            .query_map(params![column_number(after), PAGE_MAX as i64], |row| {
                row.get(0).and_then(number_of)
            })?
            .collect::<rusqlite::Result<Vec<u64>>>()
    });
    match listed {
        Ok(numbers) => Ok((numbers, true)),
        Err(error) if is_damage(&error) => {
            let last = ExecutionTally::load(connection).map_err(working)?.number_last;
            Ok(((after + 1..=last).take(PAGE_MAX).collect(), false))
        }
        Err(error) => Err(working(error)),
    }
}

/// Returns true if there is a row, or if damage hides whether there is.
pub(crate) fn is_there(connection: &Connection, number: u64) -> bool {
    let sql = "SELECT 1 FROM execution NOT INDEXED WHERE number = ?1";
    let found = lookup(connection, sql, &column_number(number));
    !matches!(found, Ok(None))
}

fn examine(connection: &Connection, number: u64, page: &mut ExaminedPage) -> Result<(), StoreFault> {
    let mut parts = Vec::new();
    let mut execution_id = None;
    match fetch(connection, number) {
        Ok(execution) => {
            execution_id = Some(execution.summary.execution_id);
            let result = execution.result.map_or(0, |result| result.len());
            page.n_bytes += (execution.record.len() + result) as u64;
            for (part, sql, key) in lookups(&execution.summary) {
                match lookup(connection, sql, &key) {
                    Ok(Some(found)) if found == column_number(number) => {}
                    Ok(_) => parts.push(part),
                    Err(error) if is_damage(&error) => parts.push(part),
                    Err(error) => return Err(working(error)),
                }
            }
        }
        Err(StoreFault::Corrupt { part, .. }) => parts.push(part),
        Err(fault) => return Err(fault),
    }
    match fetch_audit(connection, number) {
        Ok(audit) => page.n_bytes += audit.flatten().map_or(0, |audit| audit.len()) as u64,
        // Where the row itself is damaged it is said once.
        Err(StoreFault::Corrupt { part, .. }) if !parts.contains(&part) => parts.push(part),
        Err(StoreFault::Corrupt { .. }) => {}
        Err(fault) => return Err(fault),
    }
    if !parts.is_empty() {
        page.findings.push(Finding::Execution {
            number,
            execution_id: execution_id.or_else(|| id_of(connection, number)),
            parts,
        });
    }
    Ok(())
}

type Lookup = (&'static str, &'static str, Box<dyn ToSql>);

/// Returns the indexes in which an execution must stand, each with the question that only the index answers.
fn lookups(summary: &StoredSummary) -> Vec<Lookup> {
    let number = || -> Box<dyn ToSql> { Box::new(column_number(summary.number)) };
    let mut lookups: Vec<Lookup> = vec![
        (
            "index by execution id",
            "SELECT number FROM execution INDEXED BY execution_by_id WHERE execution_id = ?1",
            Box::new(summary.execution_id.as_bytes().to_vec()),
        ),
        (
            "index by plan id",
            "SELECT number FROM execution INDEXED BY execution_by_plan WHERE plan_id = ?1",
            Box::new(summary.plan_id.as_bytes().to_vec()),
        ),
    ];
    if summary.settled_at.is_none() {
        lookups.push((
            "index of unsettled executions",
            "SELECT number FROM execution INDEXED BY execution_unsettled WHERE state < 2 AND number = ?1",
            number(),
        ));
    } else {
        lookups.push((
            "index by settlement",
            "SELECT iif(e.settlement IS NULL, e.number, (SELECT i.number FROM execution i \
             INDEXED BY execution_by_settlement WHERE i.settlement = e.settlement)) \
             FROM execution e NOT INDEXED WHERE e.number = ?1",
            number(),
        ));
    }
    if summary.settled_at.is_some() && summary.parent_execution_id.is_some() {
        lookups.push((
            "index by parent",
            "SELECT number FROM execution INDEXED BY execution_by_parent \
             WHERE parent_execution_id IS NOT NULL AND number = ?1",
            number(),
        ));
    }
    lookups
}

fn lookup(connection: &Connection, sql: &str, key: &dyn ToSql) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached(sql)?
        .query_row([key], |row| row.get(0))
        .optional()
}

/// Returns the id in a row that is otherwise damaged.
pub(crate) fn id_of(connection: &Connection, number: u64) -> Option<ExecutionId> {
    let sql = "SELECT execution_id FROM execution NOT INDEXED WHERE number = ?1";
    let bytes = connection
        .query_row(sql, [column_number(number)], |row| row.get(0))
        .ok()?;
    ExecutionId::from_bytes(bytes)
}

/// One page of what is left of removed executions.
pub(crate) fn removed(connection: &Connection, after: i64) -> Result<(ExaminedPage, Next), StoreFault> {
    let mut page = ExaminedPage::default();
    let listed = match tombstones::page(connection, after, PAGE_MAX) {
        Ok(listed) => listed,
        Err(StoreFault::Fatal(source)) => {
            page.findings
                .push(Finding::Store(format!("ids of removed executions: {source}")));
            return Ok((page, OPERATORS));
        }
        Err(fault) => return Err(fault),
    };
    let mut end = after;
    for Placed { place, removed } in &listed {
        end = *place;
        page.n_removed += 1;
        let damaged = match removed {
            Ok(removed) if is_indexed(connection, *place, removed)? => None,
            Ok(RemovedExecution { number, .. }) | Err(StoreFault::Corrupt { number, .. }) => Some(*number),
            Err(_) => Some(0),
        };
        page.findings
            .extend(damaged.map(|number| Finding::Removed { number }));
    }
    let next = if listed.len() < PAGE_MAX {
        OPERATORS
    } else {
        Next::Removed { after: end }
    };
    Ok((page, next))
}

/// True if both indexes lead to what is left of a removed execution.
fn is_indexed(connection: &Connection, place: i64, removed: &RemovedExecution) -> Result<bool, StoreFault> {
    for (sql, key) in [
        (
            "SELECT place FROM removed_execution INDEXED BY removed_by_id WHERE execution_id = ?1",
            removed.execution_id.as_bytes(),
        ),
        (
            "SELECT place FROM removed_execution INDEXED BY removed_by_plan WHERE plan_id = ?1",
            removed.plan_id.as_bytes(),
        ),
    ] {
        match lookup(connection, sql, key) {
            Ok(found) if found == Some(place) => {}
            Ok(_) => return Ok(false),
            Err(error) if is_damage(&error) => return Ok(false),
            Err(error) => return Err(working(error)),
        }
    }
    Ok(true)
}

/// Where the chain of operators begins.
const OPERATORS: Next = Next::Operators {
    behind: Link::BEFORE_ALL,
};

/// One page of what operators did.
pub(crate) fn operators(connection: &Connection, behind: Link) -> Result<(ExaminedPage, Next), StoreFault> {
    let looked = match operators::examine(connection, behind, PAGE_MAX) {
        Err(StoreFault::Fatal(source)) => {
            let page = ExaminedPage {
                findings: vec![Finding::Store(format!("entries of operators: {source}"))],
                ..ExaminedPage::default()
            };
            return Ok((page, RUNS));
        }
        looked => looked?,
    };
    let is_last = looked.n_entries < PAGE_MAX;
    let finding = |number| Finding::Operators { number };
    let page = ExaminedPage {
        n_operator_entries: looked.n_entries as u64,
        operators_head: looked.last.head().filter(|_| is_last),
        findings: looked.damaged.into_iter().map(finding).collect(),
        ..ExaminedPage::default()
    };
    let next = match is_last {
        true => RUNS,
        false => Next::Operators { behind: looked.last },
    };
    Ok((page, next))
}

/// Start of the runs.
const RUNS: Next = Next::Runs { after: 0 };

/// Pairs of counts that must be the same, of one moment.
pub(crate) const SAME_COUNTS: [(&str, &str, &str); 9] = [
    (
        "entries of the index by execution id",
        "SELECT count(*) FROM execution NOT INDEXED",
        "SELECT count(execution_id) FROM execution INDEXED BY execution_by_id WHERE execution_id IS NOT NULL",
    ),
    (
        "entries of the index by plan id",
        "SELECT count(*) FROM execution NOT INDEXED",
        "SELECT count(plan_id) FROM execution INDEXED BY execution_by_plan WHERE plan_id IS NOT NULL",
    ),
    (
        "entries of the index by parent",
        "SELECT count(parent_execution_id) FROM execution NOT INDEXED",
        "SELECT count(*) FROM execution INDEXED BY execution_by_parent WHERE parent_execution_id IS NOT NULL",
    ),
    (
        "entries of the index by namespace",
        "SELECT count(namespace) FROM execution NOT INDEXED",
        "SELECT count(*) FROM execution INDEXED BY execution_by_namespace WHERE namespace IS NOT NULL",
    ),
    (
        "entries of the index by settlement",
        "SELECT count(settlement) FROM execution NOT INDEXED",
        "SELECT count(*) FROM execution INDEXED BY execution_by_settlement WHERE settlement IS NOT NULL",
    ),
    (
        "accepted records",
        "SELECT count(*) FROM execution NOT INDEXED",
        "SELECT count(*) FROM accepted_record",
    ),
    (
        "settled records",
        "SELECT executions_settled FROM tally",
        "SELECT count(*) FROM settled_record",
    ),
    (
        "entries of the index of removed executions",
        "SELECT count(*) FROM removed_execution NOT INDEXED",
        "SELECT count(execution_id) FROM removed_execution INDEXED BY removed_by_id \
         WHERE execution_id IS NOT NULL",
    ),
    (
        "entries of the index of removed plans",
        "SELECT count(*) FROM removed_execution NOT INDEXED",
        "SELECT count(plan_id) FROM removed_execution INDEXED BY removed_by_plan WHERE plan_id IS NOT NULL",
    ),
];
