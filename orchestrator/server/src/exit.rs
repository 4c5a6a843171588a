//! How the process ends when it does not end well: what is said on stderr and with which code it exits.

pub use escapement_commands::exit::{
    EXIT_CANNOT_CREATE, EXIT_CUT_SHORT, EXIT_SOFTWARE, EXIT_STORE, EXIT_UNAVAILABLE, EXIT_USAGE,
};
use escapement_commands::exit::{report, store_code};
use escapement_store::StoreFault;
use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

/// Reason why the orchestrator does not serve.
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

/// The operating system gives no thread.
pub(crate) fn no_thread(source: std::io::Error) -> Failure {
    Failure::System {
        what: "thread",
        source,
    }
}

impl Failure {
    /// With which code the process exits.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Configuration { .. } => EXIT_USAGE,
            Failure::Listen { .. } => EXIT_UNAVAILABLE,
            Failure::Append { .. } => EXIT_CANNOT_CREATE,
            Failure::Store(fault) => store_code(fault),
            Failure::Unrecoverable { .. } => EXIT_STORE,
            Failure::System { .. } => 1,
            Failure::CutShort => EXIT_CUT_SHORT,
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
            | Failure::System { source, .. } => Some(source),
            Failure::Store(fault) => Some(fault),
            Failure::Unrecoverable { source, .. } => Some(source.as_ref()),
            Failure::Configuration { .. } | Failure::CutShort => None,
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
