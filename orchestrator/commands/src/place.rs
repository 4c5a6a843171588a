//! Where a command finds its store, and the time that it is there. Reads no record.

use crate::Failure;
use clap::Args;
use escapement_store::runs::EmbeddedRuns;
use escapement_store::{Embedded, EmbeddedOptions, Lock, StoreFault};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where the store is.
#[derive(Args, Clone, Debug)]
pub(crate) struct StorePath {
    /// Directory of the store.
    #[arg(
        long = "store-path",
        env = "ESCAPEMENT_STORE_PATH",
        value_name = "DIRECTORY",
        default_value = "./escapement-data"
    )]
    pub(crate) directory: PathBuf,
}

/// Opens a store as an orchestrator does; makes none if there is none.
pub(crate) fn open_existing(directory: &Path, repair: bool) -> Result<Embedded, StoreFault> {
    let options = EmbeddedOptions {
        repair,
        must_exist: true,
        ..EmbeddedOptions::default()
    };
    Embedded::open(directory, options)
}

/// Opens the runs of a store in the same way. `lock` is that of their directory if this process has it.
pub(crate) fn open_runs(
    directory: &Path,
    repair: bool,
    lock: Option<Lock>,
) -> Result<EmbeddedRuns, StoreFault> {
    let options = EmbeddedOptions {
        repair,
        must_exist: true,
        lock,
        ..EmbeddedOptions::default()
    };
    EmbeddedRuns::open(directory, &options)
}

pub(crate) fn undone(what: &'static str) -> impl Fn(StoreFault) -> Failure {
    move |source| Failure::Store { what, source }
}

/// The wall clock; one before 1970 counts as 1970.
pub(crate) fn unix_ms() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
}
