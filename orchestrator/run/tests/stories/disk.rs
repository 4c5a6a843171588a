//! What entries refer to, by its hash.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use bytes::Bytes;
use escapement_run::Blobs;

#[derive(Clone, Default)]
pub(crate) struct Disk {
    blobs: RefCell<BTreeMap<[u8; 32], Bytes>>,
    n_bytes_read: Cell<usize>,
}

impl Blobs for Disk {
    fn blob(&self, digest: &[u8; 32]) -> Bytes {
        let blob = self.blobs.borrow()[digest].clone();
        self.n_bytes_read.set(self.n_bytes_read.get() + blob.len());
        blob
    }
}

impl Disk {
    pub(crate) fn keep(&self, digest: [u8; 32], bytes: Bytes) {
        self.blobs.borrow_mut().insert(digest, bytes);
    }

    /// True if something has this hash.
    pub(crate) fn has(&self, digest: &[u8; 32]) -> bool {
        self.blobs.borrow().contains_key(digest)
    }

    /// Bytes that were read since this was asked before.
    pub(crate) fn n_bytes_read(&self) -> usize {
        self.n_bytes_read.take()
    }
}
