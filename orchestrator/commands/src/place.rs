//! Flags for the directory of a store, and opening it.

use crate::Failure;
use clap::Args;
use escapement_store::{Embedded, EmbeddedOptions, StoreFault};
use std::path::{Path, PathBuf};

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

pub(crate) fn undone(what: &'static str) -> impl Fn(StoreFault) -> Failure {
    move |source| Failure::Store { what, source }
}
