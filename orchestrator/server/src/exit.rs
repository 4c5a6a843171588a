//! How the process ends when it does not end well: what is said on stderr and with which code it exits.

use escapement_model::ExecutionId;
use escapement_store::StoreFault;
use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

/// Bad configuration (`EX_USAGE`).
pub const EXIT_USAGE: u8 = 64;
/// An input is not what it must be (`EX_DATAERR`).
pub const EXIT_DATA: u8 = 65;
/// The address cannot be had (`EX_UNAVAILABLE`).
pub const EXIT_UNAVAILABLE: u8 = 69;
/// A defect: the orchestrator found itself in a state that cannot be (`EX_SOFTWARE`).
pub const EXIT_SOFTWARE: u8 = 70;
/// A directory or file cannot be used (`EX_CANTCREAT`).
pub const EXIT_CANNOT_CREATE: u8 = 73;
/// The store cannot be trusted, at the start or later (`EX_IOERR`).
pub const EXIT_STORE: u8 = 74;
/// Stopped before everything that ran had ended; the restart settles it (`EX_TEMPFAIL`).
pub const EXIT_CUT_SHORT: u8 = 75;

/// Why the orchestrator does not serve.
#[derive(Debug)]
pub enum Failure {
    /// A setting is wrong.
    Configuration {
        /// What it is about, for example `--listen`, with its variable if it comes from one.
        setting: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// The address cannot be listened on.
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// A file that the operator named cannot be appended to.
    Append {
        /// The flag that names it, for example `--error-handler-path`.
        setting: &'static str,
        /// Which.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The store does not open or does not read.
    Store(StoreFault),
    /// An execution that was accepted cannot be read again.
    Unrecoverable {
        /// Its number in the store.
        number: u64,
        /// Why not.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A command could not be carried out.
    Command {
        /// What is not done.
        what: &'static str,
        /// Why not.
        source: StoreFault,
    },
    /// An execution that the operator wants to give up is not damaged, or not there.
    NotDropped {
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
    /// The record of an execution does not decode.
    DamagedRecord {
        /// Which.
        execution_id: ExecutionId,
        /// What is wrong with it.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The record of an execution is not exported.
    NotExported {
        /// What is in the way.
        why: String,
        /// What that comes from.
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// Record files are not as they were written.
    NotVerified {
        /// Files with a difference.
        n_bad: u64,
        /// Files that cannot be read or hold no record.
        n_unreadable: u64,
    },
    /// The operating system gives no thread, no randomness or no runtime.
    System {
        /// What was asked for.
        what: &'static str,
        /// Why not.
        source: std::io::Error,
    },
    /// The drain was cut short by a second signal or by its hard limit.
    CutShort,
}

impl Failure {
    /// With which code the process exits.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Configuration { .. } => EXIT_USAGE,
            Failure::Listen { .. } => EXIT_UNAVAILABLE,
            Failure::Append { .. } | Failure::File { .. } => EXIT_CANNOT_CREATE,
            Failure::Input { .. } => EXIT_DATA,
            Failure::Store(fault) | Failure::Command { source: fault, .. } => match fault {
                StoreFault::Open { .. }
                | StoreFault::Locked { .. }
                | StoreFault::Exists { .. }
                | StoreFault::Unwritable { .. }
                | StoreFault::Unfinished { .. }
                | StoreFault::Full(_)
                | StoreFault::Busy(_) => EXIT_CANNOT_CREATE,
                StoreFault::Fatal(_)
                | StoreFault::Damaged { .. }
                | StoreFault::NoBackup { .. }
                | StoreFault::Incompatible { .. }
                | StoreFault::Indexes { .. }
                | StoreFault::Gap { .. }
                | StoreFault::CorruptRun { .. }
                | StoreFault::Corrupt { .. } => EXIT_STORE,
            },
            Failure::NotDropped { .. }
            | Failure::NotExported { .. }
            | Failure::NotVerified { n_bad: 0, .. } => EXIT_CANNOT_CREATE,
            Failure::Unrecoverable { .. }
            | Failure::Damaged { .. }
            | Failure::DamagedRecord { .. }
            | Failure::NotVerified { .. } => EXIT_STORE,
            Failure::System { .. } => 1,
            Failure::CutShort => EXIT_CUT_SHORT,
        }
    }

    /// Says on stderr what happened and what to do, and gives the exit code.
    pub fn report(&self) -> ExitCode {
        // Not through telemetry: it may be what did not start, and a filter must not hide this.
        let mut text = format!("orchestrator: {self}");
        let mut cause = self.source();
        while let Some(error) = cause {
            text.push_str(&format!(": {error}"));
            cause = error.source();
        }
        escapement_process::say(&text);
        ExitCode::from(self.exit_code())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Configuration { setting, problem } => write!(f, "{setting} {problem}"),
            Failure::Listen { address, .. } => write!(
                f,
                "cannot listen on {address}; stop what listens there, or choose another --listen \
                 (port 0 takes any)"
            ),
            Failure::Append { setting, path, .. } => write!(
                f,
                "cannot append to {}; check that its directory exists and is writable, or leave {setting} out",
                path.display()
            ),
            Failure::Store(StoreFault::Gap { .. }) => f.write_str(
                "the store lacks something that was acknowledged (--accept-loss starts without it)",
            ),
            Failure::Store(_) => f.write_str("the store does not open"),
            Failure::Unrecoverable { number, .. } => write!(
                f,
                "execution number {number} was accepted and cannot be read; restore the store from a backup, \
                 start with --accept-loss to leave it unsettled, or give it up with `orchestrator drop`"
            ),
            Failure::Command { what, .. } => write!(f, "the {what}"),
            Failure::NotDropped { number, why } => {
                write!(f, "execution number {number} is not dropped: {why}")
            }
            Failure::Input { path, problem } => write!(f, "{}: {problem}", path.display()),
            Failure::File { path, .. } => write!(f, "cannot use {}", path.display()),
            Failure::Damaged {
                n_damaged,
                n_store_findings,
            } => write!(
                f,
                "{n_damaged} executions and {n_store_findings} other things are damaged, as stdout says; restore \
                 a backup, make indexes anew with `orchestrator check --repair`, save what is whole with \
                 `orchestrator export --all`, give one execution up with `orchestrator drop`"
            ),
            Failure::DamagedRecord { execution_id, .. } => {
                write!(f, "the record of execution {execution_id} is damaged")
            }
            Failure::NotExported { why, .. } => write!(f, "the record is not exported: {why}"),
            Failure::NotVerified { n_bad, n_unreadable } => write!(
                f,
                "{n_bad} records are not as they were written and {n_unreadable} files cannot be read, as stdout says"
            ),
            Failure::System { what, .. } => write!(f, "the operating system gives no {what}"),
            Failure::CutShort => f.write_str(
                "stopped before everything that ran had ended; the next start settles what is open",
            ),
        }
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Failure::Listen { source, .. }
            | Failure::Append { source, .. }
            | Failure::File { source, .. }
            | Failure::System { source, .. } => Some(source),
            Failure::Store(fault) | Failure::Command { source: fault, .. } => Some(fault),
            Failure::Unrecoverable { source, .. } => Some(source.as_ref()),
            Failure::DamagedRecord { source, .. } => Some(source.as_ref()),
            Failure::NotExported { source, .. } => {
                let source = source.as_deref();
                source.map(|source| source as &(dyn Error + 'static))
            }
            Failure::Configuration { .. }
            | Failure::NotDropped { .. }
            | Failure::Input { .. }
            | Failure::Damaged { .. }
            | Failure::NotVerified { .. }
            | Failure::CutShort => None,
        }
    }
}

/// Ends the process at once: nothing more may be acknowledged.
pub(crate) fn stop_here(code: u8) -> ! {
    escapement_process::flush();
    std::process::exit(i32::from(code))
}

/// Ends the process when the thread that holds it panics: half of an orchestrator must not go on.
#[derive(Debug)]
pub(crate) struct ExitOnPanic {
    /// Which thread.
    pub(crate) thread: &'static str,
}

impl Drop for ExitOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!(
                thread = self.thread,
                "defect: the orchestrator stops; report it with the panic above"
            );
            stop_here(EXIT_SOFTWARE);
        }
    }
}
