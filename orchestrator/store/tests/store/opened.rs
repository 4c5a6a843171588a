//! Stores of a directory, opened as they are if nothing is set.

use std::path::Path;

use escapement_store::runs::{BatchOutcome, RunBatch, RunStore, RunWrite};
use escapement_store::{Embedded, EmbeddedOptions, StoreFault};

/// Returns the store.
pub(crate) fn open(directory: impl AsRef<Path>) -> Embedded {
    Embedded::open(directory.as_ref(), EmbeddedOptions::default()).unwrap()
}

/// Returns the reason why the store does not open.
pub(crate) fn refused(directory: impl AsRef<Path>) -> StoreFault {
    Embedded::open(directory.as_ref(), EmbeddedOptions::default()).unwrap_err()
}

/// Writes these to the runs of a store, as one batch.
pub(crate) fn commit(store: &mut Embedded, writes: impl IntoIterator<Item = RunWrite>) {
    let mut batch = RunBatch::new();
    for write in writes {
        batch.add(write);
    }
    assert_eq!(store.commit(&batch).unwrap(), BatchOutcome::Done);
}
