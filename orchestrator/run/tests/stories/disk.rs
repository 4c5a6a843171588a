//! What entries refer to, by its hash.

use std::cell::RefCell;
use std::collections::BTreeMap;

use bytes::Bytes;
use escapement_run::Blobs;

#[derive(Clone, Default)]
pub(crate) struct Disk(RefCell<BTreeMap<[u8; 32], Bytes>>);

impl Blobs for Disk {
    fn blob(&self, digest: &[u8; 32]) -> Bytes {
        self.0.borrow()[digest].clone()
    }
}

impl Disk {
    pub(crate) fn keep(&self, digest: [u8; 32], bytes: Bytes) {
        self.0.borrow_mut().insert(digest, bytes);
    }

    /// True if something has this hash.
    pub(crate) fn has(&self, digest: &[u8; 32]) -> bool {
        self.0.borrow().contains_key(digest)
    }
}
