//! Looks through everything that is stored, in small pages: every checksum and link, every index against its table, the
//! numbers. Writes nothing, repairs nothing, and holds no read transaction longer than a page.

use std::path::Path;

use bytes::Bytes;
use escapement_model::{ExecutionId, RunId};
use rusqlite::Connection;

use super::conversion::refuse_earlier;
use super::schema::SCHEMA;
use crate::database::connection::{is_damage, working};
use crate::database::mark::Mark;
use crate::database::{STORE, connection};
use crate::examination::{Examination, ExaminedPage, Finding, Link, Next, PAGE_MAX};
use crate::executions::reader::{fetch, fetch_audit};
use crate::runs::tables::{examine as runs, rows};
use crate::tally::{Census, Tally};
use crate::{StoreFault, StoredExecution, executions};

/// Examines a store on a connection of its own, beside a running orchestrator or without one.
#[derive(Debug)]
pub struct Examiner {
    connection: Connection,
    /// The mark, as it was before the first step.
    mark: Mark,
    next: Next,
}

const BEGIN: Next = Next::Executions { after: 0 };

impl Examiner {
    /// Examines the store in a directory, also if nothing may be written. No data there is created or changed.
    ///
    /// # Errors
    /// [`StoreFault::Open`] if there is none, [`StoreFault::Incompatible`] if its schema is another one,
    /// [`StoreFault::Damaged`] if it does not read.
    pub fn open(directory: &Path) -> Result<Self, StoreFault> {
        refuse_earlier(directory)?;
        let path = directory.join(STORE.database);
        // Read first, so that it is never ahead of what is read behind it.
        let mark = Mark::read(&directory.join(STORE.mark));
        let mut examiner = Self::over(connection::open_bystander(&path)?, &path)?;
        examiner.mark = mark;
        Ok(examiner)
    }

    /// Examines one file that nobody writes: a backup.
    ///
    /// # Errors
    /// As [`Examiner::open`].
    pub fn open_file(file: &Path) -> Result<Self, StoreFault> {
        Self::over(connection::open_still(file)?, file)
    }

    /// Examines over a connection that only reads.
    pub(super) fn over(connection: Connection, path: &Path) -> Result<Self, StoreFault> {
        SCHEMA.require_newest(&connection, path)?;
        Ok(Self {
            connection,
            mark: Mark::default(),
            next: BEGIN,
        })
    }

    /// Returns the connection, for a copy.
    pub(super) fn into_connection(self) -> Connection {
        self.connection
    }

    /// Returns the next numbers of executions, by the table alone; none behind the last one. Where damage hides which there are,
    /// all that there could be.
    ///
    /// # Errors
    /// If the file cannot be read at all.
    pub fn numbers_behind(&self, after: u64) -> Result<Vec<u64>, StoreFault> {
        executions::examine::numbers_behind(&self.connection, after).map(|(numbers, _)| numbers)
    }

    /// One execution by its number, with its audit if it is settled, whatever the indexes say; `None` if there is
    /// none.
    ///
    /// # Errors
    /// [`StoreFault::Corrupt`] if it is damaged; otherwise if the file cannot be read at all.
    pub fn execution(&self, number: u64) -> Result<Option<(StoredExecution, Option<Bytes>)>, StoreFault> {
        if !executions::examine::is_there(&self.connection, number) {
            return Ok(None);
        }
        let execution = fetch(&self.connection, number)?;
        let audit = fetch_audit(&self.connection, number)?.flatten();
        Ok(Some((execution, audit)))
    }

    /// Returns the id in a row that may be damaged.
    pub fn execution_id(&self, number: u64) -> Option<ExecutionId> {
        executions::examine::id_of(&self.connection, number)
    }

    /// Returns the next numbers of runs, as [`Examiner::numbers_behind`] does for executions.
    ///
    /// # Errors
    /// If the file cannot be read at all.
    pub fn run_numbers_behind(&self, after: u64) -> Result<Vec<u64>, StoreFault> {
        runs::runs::numbers_behind(&self.connection, after)
    }

    /// Returns true for the number of a run, and where damage hides whether a run has it.
    ///
    /// # Errors
    /// If the file cannot be read at all.
    pub fn has_run(&self, number: u64) -> Result<bool, StoreFault> {
        runs::runs::is_there(&self.connection, number)
    }

    /// Returns the id of a run in a row that may be damaged.
    ///
    /// # Errors
    /// If the file cannot be read at all.
    pub fn run_id(&self, number: u64) -> Result<Option<RunId>, StoreFault> {
        rows::run_id_at(&self.connection, number)
    }

    /// Looks at the next page; after the last one it begins anew.
    ///
    /// # Errors
    /// If the file cannot be read at all; damage is a [`Finding`].
    pub fn step(&mut self) -> Result<ExaminedPage, StoreFault> {
        let transaction = self.connection.unchecked_transaction().map_err(working)?;
        let (page, next) = match self.next {
            Next::Executions { after } => executions::examine::executions(&transaction, after)?,
            Next::Removed { after } => executions::examine::removed(&transaction, after)?,
            Next::Operators { behind } => executions::examine::operators(&transaction, behind)?,
            Next::Runs { after } => runs::runs::runs(&transaction, after)?,
            Next::Contents { after } => runs::runs::contents(&transaction, after)?,
            Next::Definitions { after } => runs::definitions::page(&transaction, after)?,
            Next::Notices { after } => runs::notices::page(&transaction, after)?,
            Next::RemovedRuns { after } => runs::runs::removed(&transaction, after)?,
            Next::Numbers => (numbers(&transaction, &self.mark)?, BEGIN),
        };
        drop(transaction);
        self.next = next;
        Ok(page)
    }

    /// Skips the page at which [`Examiner::step`] failed. The next step begins as many rows later as a page may have, or with the
    /// next kind of rows. Returns true if that was the last page of the whole store.
    pub fn skip_page(&mut self) -> bool {
        let (next, is_last) = match self.next {
            Next::Executions { after } => {
                let later = self.later("execution", after);
                let next = later.map_or(Next::Removed { after: 0 }, |after| Next::Executions { after });
                (next, false)
            }
            Next::Removed { .. } => {
                let behind = Link::BEFORE_ALL;
                (Next::Operators { behind }, false)
            }
            // An entry cannot be held against one that was not read.
            Next::Operators { .. } => (Next::Runs { after: 0 }, false),
            Next::Runs { after } => {
                let later = self.later("run", after);
                let next = later.map_or(Next::Contents { after: 0 }, |after| Next::Runs { after });
                (next, false)
            }
            Next::Contents { .. } => (Next::Definitions { after: 0 }, false),
            Next::Definitions { .. } => (Next::Notices { after: 0 }, false),
            Next::Notices { .. } => (Next::RemovedRuns { after: 0 }, false),
            Next::RemovedRuns { .. } => (Next::Numbers, false),
            Next::Numbers => (BEGIN, true),
        };
        self.next = next;
        is_last
    }

    /// Returns the number after which the next page of a table begins; `None` at the end, or if the highest number cannot be read.
    fn later(&self, table: &str, after: u64) -> Option<u64> {
        let number = |of: &str| {
            let sql = format!("SELECT max(number) FROM ({of})");
            let number = self
                .connection
                .query_row(&sql, [], |row| row.get::<_, Option<i64>>(0));
            number.map(|number| number.and_then(|number| u64::try_from(number).ok()))
        };
        let rows = format!("SELECT number FROM {table} NOT INDEXED");
        let page = format!("{rows} WHERE number > {after} ORDER BY number LIMIT {PAGE_MAX}");
        // Where the page does not even list its numbers, there are as many of them at most.
        number(&page).unwrap_or_else(|_| {
            let highest = number(&rows).ok().flatten()?;
            let later = after.saturating_add(PAGE_MAX as u64);
            (later < highest).then_some(later)
        })
    }

    /// Looks at everything once, from the beginning; tells each finding as it comes.
    ///
    /// # Errors
    /// As [`Examiner::step`].
    pub fn examine_all(&mut self, told: &mut dyn FnMut(&Finding)) -> Result<Examination, StoreFault> {
        self.next = BEGIN;
        let mut sum = Examination::default();
        loop {
            let page = self.step()?;
            sum.add(&page);
            page.findings.iter().for_each(&mut *told);
            if page.is_last {
                return Ok(sum);
            }
        }
    }

    /// Lets SQLite look at the structure of the whole file; its cost grows with the file.
    ///
    /// # Errors
    /// If the file cannot be read at all.
    pub fn structure(&self) -> Result<Vec<Finding>, StoreFault> {
        let said = connection::structure(&self.connection)?;
        Ok(said.into_iter().map(Finding::Store).collect())
    }
}

/// Returns the numbers: the witnesses, and each index as long as its table.
fn numbers(connection: &Connection, mark: &Mark) -> Result<ExaminedPage, StoreFault> {
    let mut found = Vec::new();
    let told = |what: &str, error: rusqlite::Error| match error {
        error if is_damage(&error) => Ok(format!("{what} cannot be counted")),
        error => Err(working(error)),
    };
    match Tally::load(connection).and_then(|tally| Ok((tally, Census::take(connection)?))) {
        Ok((tally, census)) => found.extend(census.gap(&tally, mark).map(|gap| gap.to_string())),
        Err(error) => found.push(told("executions and runs", error)?),
    }
    let pairs = executions::examine::SAME_COUNTS
        .into_iter()
        .chain(runs::runs::SAME_COUNTS);
    for (what, expected, counted) in pairs {
        let count = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
        match count(expected).and_then(|expected| Ok((expected, count(counted)?))) {
            Ok((expected, counted)) if expected == counted => {}
            Ok((expected, counted)) => found.push(format!("{counted} {what} where {expected} must be")),
            Err(error) => found.push(told(what, error)?),
        }
    }
    Ok(ExaminedPage {
        findings: found.into_iter().map(Finding::Store).collect(),
        is_last: true,
        ..ExaminedPage::default()
    })
}
