//! Contents of what is written. Keeps none.

use bytes::Bytes;
use sha2::{Digest, Sha256};

/// Bytes that are kept once under their SHA-256, however many refer to them: documents of plans, and payloads that are
/// too large for a journal. They are kept until the last run or definition that refers to them is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    digest: [u8; 32],
    bytes: Bytes,
    revision: Option<[u8; 32]>,
}

impl Content {
    /// Takes bytes and computes their digest.
    pub fn new(bytes: Bytes) -> Self {
        Self {
            digest: Sha256::digest(&bytes).into(),
            bytes,
            revision: None,
        }
    }

    /// Returns the document of a revision, which is found by the digest of that, too.
    ///
    /// A document is always that of the same revision; the store believes the caller.
    pub fn of_revision(document: Bytes, revision: [u8; 32]) -> Self {
        Self {
            revision: Some(revision),
            ..Self::new(document)
        }
    }

    /// Returns the digest of the revision whose document it is.
    pub fn revision(&self) -> Option<[u8; 32]> {
        self.revision
    }

    /// Returns SHA-256 of the bytes.
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}
