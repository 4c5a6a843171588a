//! How a store fails, and what to do then. Retries nothing.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;

/// What is behind a fault: an error of the file system or of SQLite.
pub type FaultSource = Box<dyn Error + Send + Sync + 'static>;

/// The world failed. A conflict is no fault: it is an [`Outcome`](crate::Outcome).
#[derive(Debug)]
pub enum StoreFault {
    /// No space. Nothing was written; the batch may be tried again when there is space.
    Full(FaultSource),
    /// Another process holds the file for longer than the store waits. Nothing was written; try again.
    Busy(FaultSource),
    /// The file can no longer be trusted. Stop acknowledging and exit; a restart reads what is durable.
    Fatal(FaultSource),
    /// The directory or the file cannot be opened.
    Open {
        /// What was to be opened.
        path: PathBuf,
        /// Why not.
        source: FaultSource,
    },
    /// A file cannot be written. Nothing is left of it.
    Unwritable {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: FaultSource,
    },
    /// The database is damaged where everything else depends on it, or the file is none.
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: FaultSource,
    },
    /// A file that a store was to be made of is none, or is damaged.
    NoBackup {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: FaultSource,
    },
    /// A restore into the directory did not come through.
    Unfinished {
        /// What it left.
        path: PathBuf,
    },
    /// A newer program wrote the file, or it is no store of ours.
    Incompatible {
        /// The file.
        path: PathBuf,
        /// The schema version that stands in it.
        found: i64,
        /// The newest schema version that this program knows.
        known: i64,
    },
    /// What was to be made is there already.
    Exists {
        /// Which file or directory.
        path: PathBuf,
    },
    /// Another orchestrator holds the directory.
    Locked {
        /// The lock file.
        path: PathBuf,
        /// Which process, if it says so.
        holder: Option<String>,
    },
    /// An index does not agree with the executions, of which none is missing.
    Indexes {
        /// What was counted, in the plural.
        what: &'static str,
        /// How many there must be.
        expected: u64,
        /// How many there are; `None` if they cannot be read.
        found: Option<u64>,
    },
    /// Something that was acknowledged is missing.
    Gap {
        /// What was counted, in the plural.
        what: &'static str,
        /// How many there must be.
        expected: u64,
        /// How many there are.
        found: u64,
    },
    /// A run is damaged; all others are not.
    CorruptRun {
        /// Number.
        number: u64,
        /// What of it is damaged.
        part: &'static str,
    },
    /// A saved plan or action profile is damaged; all others are not.
    CorruptDefinition {
        /// Number.
        number: u64,
    },
    /// An execution is damaged; all others are not.
    Corrupt {
        /// Number.
        number: u64,
        /// What of it is damaged.
        part: &'static str,
    },
}

impl fmt::Display for StoreFault {
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(_) => {
                f.write_str("no space for the store; nothing was written; free space and try again")
            }
            Self::Busy(_) => f.write_str(
                "another process holds the store's file; nothing was written; end that process and try again",
            ),
            Self::Fatal(_) => f.write_str(
                "the store's files cannot be trusted any more and nothing more is acknowledged; check the disk and \
                 run `orchestrator check` before the next start",
            ),
            Self::Open { path, .. } => write!(
                f,
                "cannot open {}; check that the directory exists, is writable and belongs to this user",
                path.display()
            ),
            Self::Unwritable { path, .. } => write!(
                f,
                "cannot write {}, and nothing is left of it; check that its directory exists, is writable and has \
                 space",
                path.display()
            ),
            Self::Damaged { path, .. } => write!(
                f,
                "{} is damaged, or is no store; `orchestrator check` says what is whole, `orchestrator export --all` \
                 saves it, and a backup restores the rest",
                path.display()
            ),
            Self::NoBackup { path, .. } => write!(
                f,
                "{} is damaged, or is no backup of a store; restore from another file, or what is whole of it with \
                 --accept-damage",
                path.display()
            ),
            Self::Unfinished { path } => write!(
                f,
                "{} is what is left of a restore that did not come through; run `orchestrator restore` again, or \
                 remove it to begin with an empty store",
                path.display()
            ),
            Self::Incompatible { path, found, known } if found < known => write!(
                f,
                "{} has schema version {found} and this program reads {known}; start this program's \
                 orchestrator on it once, which brings it there",
                path.display()
            ),
            Self::Incompatible { path, found, known } => write!(
                f,
                "{} has schema version {found}, this program knows up to {known}; run a newer program or \
                 another directory",
                path.display()
            ),
            Self::Exists { path } => write!(
                f,
                "{} is there already and is never overwritten; give another name, or move it away",
                path.display()
            ),
            Self::Locked { path, holder } => write!(
                f,
                "another orchestrator holds {} ({}); stop it or give this one another directory",
                path.display(),
                holder.as_deref().unwrap_or("it does not say which process")
            ),
            Self::Indexes {
                what,
                expected,
                found: Some(found),
            } => write!(
                f,
                "{found} {what} where {expected} must be; no record is lost: `orchestrator check --repair` makes them \
                 anew"
            ),
            Self::Indexes { what, .. } => write!(
                f,
                "the {what} cannot be read; no record is lost: `orchestrator check --repair` makes them anew"
            ),
            Self::Gap {
                what,
                expected,
                found,
            } => write!(
                f,
                "{found} {what} where {expected} were acknowledged; restore a backup, or start once with \
                 --accept-loss"
            ),
            Self::CorruptRun { number, part } => write!(
                f,
                "the {part} of run number {number} is damaged or missing; all others can be read; restore a backup, \
                 or give it up"
            ),
            Self::CorruptDefinition { number } => write!(
                f,
                "the definition (saved plan or action profile) number {number} is damaged; all others can be read; \
                 restore a backup, or delete it and write it again"
            ),
            Self::Corrupt { number, part } => write!(
                f,
                "the {part} of execution number {number} is damaged or missing; all others can be read; \
                 restore a backup, or give it up with `orchestrator drop`"
            ),
        }
    }
}

impl Error for StoreFault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Full(source)
            | Self::Busy(source)
            | Self::Fatal(source)
            | Self::Open { source, .. }
            | Self::Unwritable { source, .. }
            | Self::Damaged { source, .. }
            | Self::NoBackup { source, .. } => Some(source.as_ref()),
            Self::Unfinished { .. }
            | Self::Indexes { .. }
            | Self::Incompatible { .. }
            | Self::Exists { .. }
            | Self::Locked { .. }
            | Self::Gap { .. }
            | Self::CorruptRun { .. }
            | Self::CorruptDefinition { .. }
            | Self::Corrupt { .. } => None,
        }
    }
}
