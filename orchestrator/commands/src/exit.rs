//! The codes that the orchestrator exits with, and how it says why. Ends no process.

use escapement_store::StoreFault;
use std::error::Error;
use std::process::ExitCode;

/// An orchestrator is not ready.
pub const EXIT_NOT_READY: u8 = 1;
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

/// The code for a store that does not open or does not read.
pub fn store_code(fault: &StoreFault) -> u8 {
    match fault {
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
        | StoreFault::CorruptDefinition { .. }
        | StoreFault::Corrupt { .. } => EXIT_STORE,
    }
}

/// Says on stderr what happened and what it comes from, and gives the code to exit with.
pub fn report(failure: &dyn Error, code: u8) -> ExitCode {
    // Not through telemetry: it may be what did not start, and a filter must not hide this.
    let mut text = format!("orchestrator: {failure}");
    let mut cause = failure.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    escapement_process::say(&text);
    ExitCode::from(code)
}
