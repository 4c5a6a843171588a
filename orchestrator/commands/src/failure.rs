//! Reason why a command is not carried out: what is said on stderr and with which code the process exits.

use crate::exit::{
    EXIT_CANNOT_CREATE, EXIT_DATA, EXIT_NOT_READY, EXIT_STORE, EXIT_USAGE, report, store_code,
};
use escapement_process::probe::NotReady;
use escapement_store::StoreFault;
use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

/// Reason why a command is not carried out.
#[derive(Debug)]
pub enum Failure {
    /// A flag is wrong.
    Configuration {
        /// What it is about, for example `--width`.
        setting: &'static str,
        /// What is wrong and what to do.
        problem: String,
    },
    /// The store cannot be worked on.
    Store {
        /// What is not done.
        what: &'static str,
        /// Why not.
        source: StoreFault,
    },
    /// An execution or a run that the operator wants to give up is not damaged, or not there.
    NotDropped {
        /// `execution` or `run`.
        what: &'static str,
        /// Its number in the store.
        number: u64,
        /// Why not.
        why: &'static str,
    },
    /// What a command was given to read is not what it must be.
    Input {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A file that a command was given cannot be read or written.
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A command found damage.
    Damaged {
        /// Executions that are damaged.
        n_damaged: u64,
        /// What else is damaged.
        n_store_findings: u64,
    },
    /// The record of an execution or a run does not decode.
    DamagedRecord {
        /// `execution` or `run`, and its id.
        whose: String,
        /// What is wrong with it.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A record is not exported.
    NotExported {
        /// What is in the way.
        why: String,
        /// What that comes from.
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// An orchestrator is not ready, or is not there.
    NotReady(NotReady),
    /// Record files are not as they were written.
    NotVerified {
        /// Files with a difference.
        n_bad: u64,
        /// Files that cannot be read or hold no record.
        n_unreadable: u64,
    },
}

impl Failure {
    /// With which code the process exits.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Configuration { .. } => EXIT_USAGE,
            Failure::File { .. } => EXIT_CANNOT_CREATE,
            Failure::Input { .. } => EXIT_DATA,
            Failure::NotReady(_) => EXIT_NOT_READY,
            Failure::Store { source, .. } => store_code(source),
            Failure::NotDropped { .. }
            | Failure::NotExported { .. }
            | Failure::NotVerified { n_bad: 0, .. } => EXIT_CANNOT_CREATE,
            Failure::Damaged { .. } | Failure::DamagedRecord { .. } | Failure::NotVerified { .. } => {
                EXIT_STORE
            }
        }
    }

    /// Says on stderr what happened and what to do, and gives the exit code.
    pub fn report(&self) -> ExitCode {
        report(self, self.exit_code())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Configuration { setting, problem } => write!(f, "{setting} {problem}"),
            Failure::Store { what, .. } => write!(f, "the {what}"),
            Failure::NotDropped { what, number, why } => {
                write!(f, "{what} number {number} is not dropped: {why}")
            }
            Failure::NotReady(not_ready) => write!(f, "the orchestrator at {not_ready}"),
            Failure::Input { path, problem } => write!(f, "{}: {problem}", path.display()),
            Failure::File { path, .. } => write!(f, "cannot use {}", path.display()),
            Failure::Damaged {
                n_damaged,
                n_store_findings,
            } => write!(
                f,
                "{n_damaged} records and {n_store_findings} other things are damaged, as stdout says; restore a backup, \
                 make indexes anew with `orchestrator check --repair`, save what is whole with \
                 `orchestrator export --all`, give one execution or run up with `orchestrator drop`"
            ),
            Failure::DamagedRecord { whose, .. } => {
                write!(f, "the record of {whose} is damaged")
            }
            Failure::NotExported { why, .. } => write!(f, "the record is not exported: {why}"),
            Failure::NotVerified { n_bad, n_unreadable } => write!(
                f,
                "{n_bad} records are not as they were written and {n_unreadable} files cannot be read, as stdout says"
            ),
        }
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Failure::File { source, .. } => Some(source),
            Failure::Store { source, .. } => Some(source),
            Failure::DamagedRecord { source, .. } => Some(source.as_ref()),
            Failure::NotExported { source, .. } => {
                let source = source.as_deref();
                source.map(|source| source as &(dyn Error + 'static))
            }
            Failure::Configuration { .. }
            | Failure::NotDropped { .. }
            | Failure::Input { .. }
            | Failure::NotReady(_)
            | Failure::Damaged { .. }
            | Failure::NotVerified { .. } => None,
        }
    }
}
