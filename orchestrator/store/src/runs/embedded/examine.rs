//! Looks through everything that is stored of runs, in small pages: every checksum and link, every index against its
//! table, the numbers. Writes nothing, repairs nothing, and holds no read transaction longer than a page.

mod definitions;
mod indexes;
mod notices;
mod pages;

use std::path::Path;

use escapement_model::RunId;
use rusqlite::Connection;

pub(super) use self::pages::parts_of;
use super::{SCHEMA, rows};
use crate::StoreFault;
use crate::database::RUNS;
use crate::database::connection::{self, working};
use crate::database::mark::Mark;

/// Something that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunFinding {
    /// A run is damaged.
    Run {
        /// Number.
        number: u64,
        /// Id, if that can be read.
        run_id: Option<RunId>,
        /// What of it is damaged or missing.
        parts: Vec<&'static str>,
    },
    /// A content is damaged, or nothing refers to it.
    Content {
        /// Digest, if that can be read.
        digest: Option<[u8; 32]>,
        /// The numbers of the runs that refer to it.
        runs: Vec<u64>,
        /// The numbers of the definitions that refer to it.
        definitions: Vec<u64>,
    },
    /// A saved plan or action profile is damaged.
    Definition {
        /// Number.
        number: u64,
    },
    /// A notice is damaged.
    Notice {
        /// Number.
        number: u64,
    },
    /// What is left of a removed run is damaged.
    Removed {
        /// Number, as far as it can be read.
        number: u64,
    },
    /// The store as a whole does not add up.
    Store(String),
}

/// What one step looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunExaminedPage {
    /// Runs.
    pub n_runs: u64,
    /// Contents.
    pub n_contents: u64,
    /// Saved plans and action profiles.
    pub n_definitions: u64,
    /// Removed runs of which something is left.
    pub n_removed: u64,
    /// Bytes of journals, snapshots and contents.
    pub n_bytes: u64,
    /// What is not as it was written.
    pub findings: Vec<RunFinding>,
    /// True if everything has been looked at; the next step begins anew.
    pub is_last: bool,
}

/// Examines the runs on a connection of its own, beside a running orchestrator or without one.
#[derive(Debug)]
pub struct RunExaminer {
    connection: Connection,
    /// The mark, as it was before the first step.
    mark: Mark,
    next: Next,
}

/// Where the next step begins.
#[derive(Clone, Copy, Debug)]
enum Next {
    Runs { after: u64 },
    Contents { after: i64 },
    Definitions { after: u64 },
    Notices { after: i64 },
    Removed { after: i64 },
    Numbers,
}

const BEGIN: Next = Next::Runs { after: 0 };

impl RunExaminer {
    /// Examines the runs in a directory, also if nothing may be written. No data there is created or changed.
    ///
    /// # Errors
    /// [`StoreFault::Open`] if there are none, [`StoreFault::Incompatible`] if their schema is another one,
    /// [`StoreFault::Damaged`] if the file does not read.
    pub fn open(directory: &Path) -> Result<Self, StoreFault> {
        let path = directory.join(RUNS.database);
        // Read first, so that it is never ahead of what is read behind it.
        let mark = Mark::read(&directory.join(RUNS.mark));
        let mut examiner = Self::over(connection::open_bystander(&path)?, &path)?;
        examiner.mark = mark;
        Ok(examiner)
    }

    /// Examines one file that nobody writes: a backup.
    ///
    /// # Errors
    /// As [`RunExaminer::open`].
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

    /// The next numbers of runs, by the table alone; none behind the last one. Where damage hides which there are, all
    /// that there could be.
    ///
    /// # Errors
    /// If the file cannot be read at all.
    pub fn numbers_behind(&self, after: u64) -> Result<Vec<u64>, StoreFault> {
        pages::numbers_behind(&self.connection, after)
    }

    /// True if there is a run of that number, or if damage hides whether there is.
    ///
    /// # Errors
    /// If the file cannot be read at all.
    pub fn is_there(&self, number: u64) -> Result<bool, StoreFault> {
        pages::is_there(&self.connection, number)
    }

    /// Returns the id in a row that may be damaged.
    ///
    /// # Errors
    /// If the file cannot be read at all.
    pub fn run_id(&self, number: u64) -> Result<Option<RunId>, StoreFault> {
        rows::run_id_at(&self.connection, number)
    }

    /// Looks at the next page; after the last one it begins anew.
    ///
    /// # Errors
    /// If the file cannot be read at all; damage is a [`RunFinding`].
    pub fn step(&mut self) -> Result<RunExaminedPage, StoreFault> {
        let transaction = self.connection.unchecked_transaction().map_err(working)?;
        let (page, next) = match self.next {
            Next::Runs { after } => pages::runs(&transaction, after)?,
            Next::Contents { after } => pages::contents(&transaction, after)?,
            Next::Definitions { after } => definitions::page(&transaction, after)?,
            Next::Notices { after } => notices::page(&transaction, after)?,
            Next::Removed { after } => pages::removed(&transaction, after)?,
            Next::Numbers => (pages::numbers(&transaction, &self.mark)?, BEGIN),
        };
        drop(transaction);
        self.next = next;
        Ok(page)
    }

    /// Looks at everything once, from the beginning; tells each finding as it comes.
    ///
    /// # Errors
    /// As [`RunExaminer::step`].
    pub fn examine_all(&mut self, told: &mut dyn FnMut(&RunFinding)) -> Result<RunExamination, StoreFault> {
        self.next = BEGIN;
        let mut sum = RunExamination::default();
        loop {
            let page = self.step()?;
            sum.n_runs += page.n_runs;
            sum.n_contents += page.n_contents;
            sum.n_definitions += page.n_definitions;
            sum.n_removed += page.n_removed;
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
    pub fn structure(&self) -> Result<Vec<RunFinding>, StoreFault> {
        let said = connection::structure(&self.connection)?;
        Ok(said.into_iter().map(RunFinding::Store).collect())
    }
}

/// What a whole examination found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunExamination {
    /// Runs that were looked at, damaged ones included.
    pub n_runs: u64,
    /// Contents.
    pub n_contents: u64,
    /// Saved plans and action profiles.
    pub n_definitions: u64,
    /// Removed runs of which something is left.
    pub n_removed: u64,
    /// Runs, contents, definitions and removed runs that are damaged.
    pub n_damaged: u64,
    /// Findings about the store as a whole.
    pub n_store_findings: u64,
}

impl RunExamination {
    /// Counts one more finding.
    pub fn count(&mut self, finding: &RunFinding) {
        match finding {
            RunFinding::Run { .. }
            | RunFinding::Content { .. }
            | RunFinding::Definition { .. }
            | RunFinding::Notice { .. }
            | RunFinding::Removed { .. } => {
                self.n_damaged += 1;
            }
            RunFinding::Store(_) => self.n_store_findings += 1,
        }
    }

    /// Returns true if nothing was found.
    pub fn is_clean(&self) -> bool {
        self.n_damaged == 0 && self.n_store_findings == 0
    }
}
