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
    /// One execution is damaged; all others are not.
    Corrupt {
        /// Its number.
        number: u64,
        /// What of it is damaged.
        part: &'static str,
    },
}

impl fmt::Display for StoreFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(_) => {
                f.write_str("no space for the store; nothing was written; free space and try again")
            }
            Self::Busy(_) => f.write_str(
                "another process holds the store's file; nothing was written; end that process and try again",
            ),
            Self::Fatal(_) => f.write_str(
                "the store's file can no longer be trusted; acknowledge nothing more, exit, check the disk, \
                 restart",
            ),
            Self::Open { path, .. } => write!(
                f,
                "cannot open {}; check that the directory exists, is writable and belongs to this user",
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
            Self::Locked { path } => write!(
                f,
                "another orchestrator holds {}; stop it or give this one another directory",
                path.display()
            ),
            Self::Gap {
                what,
                expected,
                found,
            } => write!(
                f,
                "{found} {what} where {expected} were acknowledged; restore a backup, or start with the \
                 loss accepted"
            ),
            Self::Corrupt { number, part } => write!(
                f,
                "the {part} of execution number {number} is damaged or missing; restore it from a backup; \
                 all others can be read"
            ),
        }
    }
}

impl Error for StoreFault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Full(source) | Self::Busy(source) | Self::Fatal(source) | Self::Open { source, .. } => {
                Some(source.as_ref())
            }
            Self::Incompatible { .. }
            | Self::Exists { .. }
            | Self::Locked { .. }
            | Self::Gap { .. }
            | Self::Corrupt { .. } => None,
        }
    }
}
