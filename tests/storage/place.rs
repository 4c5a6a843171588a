//! A disk with a store on it. Judges nothing.

use escapement_store::{Checkpointing, Embedded, EmbeddedOptions, StoreFault};
use escapement_test_disk::Disk;

/// Few enough that a short workload meets several checkpoints.
pub(crate) const PAGES_DUE: u32 = 40;

pub(crate) const DATABASE: &str = "store.db";
pub(crate) const LOG: &str = "store.db-wal";
pub(crate) const MARK: &str = "store.mark";

pub(crate) fn open(disk: &Disk) -> Result<Embedded, StoreFault> {
    open_with(disk, EmbeddedOptions::default())
}

pub(crate) fn open_with(disk: &Disk, options: EmbeddedOptions) -> Result<Embedded, StoreFault> {
    escapement_tests::planted::arm();
    let options = EmbeddedOptions {
        files: Some(disk.files()),
        checkpointing: Checkpointing::Inline { pages_due: PAGES_DUE },
        ..options
    };
    Embedded::open(&disk.directory(), options)
}
