//! Findings of an examination, its pages, and how far it is.

use escapement_model::{ExecutionId, RunId};

/// Rows in one page.
pub(crate) const PAGE_MAX: usize = 64;
/// Bytes at which a page ends early.
pub(crate) const PAGE_BYTES_MAX: u64 = 1 << 20;

/// Something that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// An execution is damaged.
    Execution {
        /// Number.
        number: u64,
        /// Id, if that can be read.
        execution_id: Option<ExecutionId>,
        /// Parts that are damaged or missing.
        parts: Vec<&'static str>,
    },
    /// The rest of a removed execution is damaged.
    Removed {
        /// Number, as far as it can be read.
        number: u64,
    },
    /// An entry of what operators did is damaged, or does not follow the one before it.
    Operators {
        /// Number.
        number: u64,
    },
    /// A run is damaged.
    Run {
        /// Number.
        number: u64,
        /// Id, if that can be read.
        run_id: Option<RunId>,
        /// Parts that are damaged or missing.
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
    /// The rest of a removed run is damaged.
    RemovedRun {
        /// Number, as far as it can be read.
        number: u64,
    },
    /// The store as a whole does not add up.
    Store(String),
}

/// Results of one step.
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
    /// Runs.
    pub n_runs: u64,
    /// Contents.
    pub n_contents: u64,
    /// Saved plans and action profiles.
    pub n_definitions: u64,
    /// Removed runs of which something is left.
    pub n_runs_removed: u64,
    /// Bytes of records, journals, snapshots and contents.
    pub n_bytes: u64,
    /// Defects.
    pub findings: Vec<Finding>,
    /// True if everything has been looked at; the next step begins anew.
    pub is_last: bool,
}

/// Start of the next step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Next {
    Executions { after: u64 },
    Removed { after: i64 },
    Operators { behind: Link },
    Runs { after: u64 },
    Contents { after: i64 },
    Definitions { after: u64 },
    Notices { after: i64 },
    RemovedRuns { after: i64 },
    Numbers,
}

/// Progress of an examination of the chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    /// The last entry that was looked at; 0 before the first.
    pub(crate) number: u64,
    /// Hash that the next one must name.
    pub(crate) hash: [u8; 32],
}

impl Link {
    /// Start of a chain.
    pub(crate) const BEFORE_ALL: Self = Self {
        number: 0,
        hash: [0; 32],
    };

    /// Returns the hash of the last entry, or `None` before the first.
    pub(crate) fn head(&self) -> Option<[u8; 32]> {
        (self.number > 0).then_some(self.hash)
    }
}

/// Results of a whole examination.
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
    /// Runs that were looked at, damaged ones included.
    pub n_runs: u64,
    /// Contents.
    pub n_contents: u64,
    /// Saved plans and action profiles.
    pub n_definitions: u64,
    /// Removed runs of which something is left.
    pub n_runs_removed: u64,
    /// Number of executions, runs and others with a finding of their own.
    pub n_damaged: u64,
    /// Findings about the store as a whole.
    pub n_store_findings: u64,
}

impl Examination {
    /// Adds a page, with its findings.
    pub fn add(&mut self, page: &ExaminedPage) {
        self.n_executions += page.n_executions;
        self.n_removed += page.n_removed;
        self.n_operator_entries += page.n_operator_entries;
        self.operators_head = self.operators_head.or(page.operators_head);
        self.n_runs += page.n_runs;
        self.n_contents += page.n_contents;
        self.n_definitions += page.n_definitions;
        self.n_runs_removed += page.n_runs_removed;
        page.findings.iter().for_each(|finding| self.count(finding));
    }

    /// Counts one more finding.
    pub fn count(&mut self, finding: &Finding) {
        match finding {
            Finding::Execution { .. }
            | Finding::Removed { .. }
            | Finding::Operators { .. }
            | Finding::Run { .. }
            | Finding::Content { .. }
            | Finding::Definition { .. }
            | Finding::Notice { .. }
            | Finding::RemovedRun { .. } => self.n_damaged += 1,
            Finding::Store(_) => self.n_store_findings += 1,
        }
    }

    /// Returns true if nothing was found.
    pub fn is_clean(&self) -> bool {
        self.n_damaged == 0 && self.n_store_findings == 0
    }
}
