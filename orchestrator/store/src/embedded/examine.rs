//! Looks through everything that is stored, in small pages: every checksum, every index against its table, the
//! numbers. Writes nothing, repairs nothing, and holds no read transaction longer than a page.

mod pages;

use std::path::Path;

use bytes::Bytes;
use escapement_model::ExecutionId;
use rusqlite::Connection;

use self::pages::{executions, numbers, operators, removed};
use super::operators::Link;
use super::reader::{fetch, fetch_audit};
use super::schema::SCHEMA;
use crate::database::connection::working;
use crate::database::mark::Mark;
use crate::database::{EXECUTIONS, connection};
use crate::{StoreFault, StoredExecution};

/// Something that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// An execution is damaged.
    Execution {
        /// Number.
        number: u64,
        /// Id, if that can be read.
        execution_id: Option<ExecutionId>,
        /// What of it is damaged or missing.
        parts: Vec<&'static str>,
    },
    /// What is left of a removed execution is damaged.
    Removed {
        /// Number, as far as it can be read.
        number: u64,
    },
    /// An entry of what operators did is damaged, or does not follow the one before it.
    Operators {
        /// Number.
        number: u64,
    },
    /// The store as a whole does not add up.
    Store(String),
}

/// What one step looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExaminedPage {
    /// Executions.
    pub n_executions: u64,
    /// Removed executions of which something is left.
    pub n_removed: u64,
    /// Entries of what operators did.
    pub n_operator_entries: u64,
    /// The hash of the last of these entries; only in the last page of them.
    pub operators_head: Option<[u8; 32]>,
    /// Bytes of their records.
    pub n_bytes: u64,
    /// What is not as it was written.
    pub findings: Vec<Finding>,
    /// True if everything has been looked at; the next step begins anew.
    pub is_last: bool,
}

/// Examines a store on a connection of its own, beside a running orchestrator or without one.
#[derive(Debug)]
pub struct Examiner {
    connection: Connection,
    /// The mark, as it was before the first step.
    mark: Mark,
    next: Next,
}

/// Where the next step begins.
#[derive(Clone, Copy, Debug)]
enum Next {
    Executions { after: u64 },
    Removed { after: i64 },
    Operators { behind: Link },
    Numbers,
}

const BEGIN: Next = Next::Executions { after: 0 };

impl Examiner {
    /// Examines the store in a directory, also if nothing may be written. No data there is created or changed.
    ///
    /// # Errors
    /// [`StoreFault::Open`] if there is none, [`StoreFault::Incompatible`] if its schema is another one,
    /// [`StoreFault::Damaged`] if it does not read.
    pub fn open(directory: &Path) -> Result<Self, StoreFault> {
        let path = directory.join(EXECUTIONS.database);
        // Read first, so that it is never ahead of what is read behind it.
        let mark = Mark::read(&directory.join(EXECUTIONS.mark));
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
        pages::numbers_behind(&self.connection, after).map(|(numbers, _)| numbers)
    }

    /// One execution by its number, with its audit if it is settled, whatever the indexes say; `None` if there is
    /// none.
    ///
    /// # Errors
    /// [`StoreFault::Corrupt`] if it is damaged; otherwise if the file cannot be read at all.
    pub fn execution(&self, number: u64) -> Result<Option<(StoredExecution, Option<Bytes>)>, StoreFault> {
        if !pages::is_there(&self.connection, number) {
            return Ok(None);
        }
        let execution = fetch(&self.connection, number)?;
        let audit = fetch_audit(&self.connection, number)?.flatten();
        Ok(Some((execution, audit)))
    }

    /// Returns the id in a row that may be damaged.
    pub fn execution_id(&self, number: u64) -> Option<ExecutionId> {
        pages::id_of(&self.connection, number)
    }

    /// Looks at the next page; after the last one it begins anew.
    ///
    /// # Errors
    /// If the file cannot be read at all; damage is a [`Finding`].
    pub fn step(&mut self) -> Result<ExaminedPage, StoreFault> {
        let transaction = self.connection.unchecked_transaction().map_err(working)?;
        let (page, next) = match self.next {
            Next::Executions { after } => executions(&transaction, after)?,
            Next::Removed { after } => removed(&transaction, after)?,
            Next::Operators { behind } => operators(&transaction, behind)?,
            Next::Numbers => (numbers(&transaction, &self.mark)?, BEGIN),
        };
        drop(transaction);
        self.next = next;
        Ok(page)
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
            sum.n_executions += page.n_executions;
            sum.n_removed += page.n_removed;
            sum.n_operator_entries += page.n_operator_entries;
            sum.operators_head = sum.operators_head.or(page.operators_head);
            for finding in &page.findings {
                sum.count(finding);
                told(finding);
            }
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

/// What a whole examination found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Examination {
    /// Executions that were looked at, damaged ones included.
    pub n_executions: u64,
    /// Removed executions of which something is left.
    pub n_removed: u64,
    /// Entries of what operators did.
    pub n_operator_entries: u64,
    /// The hash of the last of these entries, which stands for all before it.
    pub operators_head: Option<[u8; 32]>,
    /// Executions, removed ones and entries of operators that are damaged.
    pub n_damaged: u64,
    /// Findings about the store as a whole.
    pub n_store_findings: u64,
}

impl Examination {
    /// Counts one more finding.
    pub fn count(&mut self, finding: &Finding) {
        match finding {
            Finding::Execution { .. } | Finding::Removed { .. } | Finding::Operators { .. } => {
                self.n_damaged += 1
            }
            Finding::Store(_) => self.n_store_findings += 1,
        }
    }

    /// Returns true if nothing was found.
    pub fn is_clean(&self) -> bool {
        self.n_damaged == 0 && self.n_store_findings == 0
    }
}
