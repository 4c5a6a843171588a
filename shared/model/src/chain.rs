//! The chain of hashes over the entries of a run's journal: who holds the last link can tell whether any was changed.

use crate::ids::RunId;
use sha2::{Digest, Sha256};

/// A link of the chain.
pub type Link = [u8; 32];

/// What the first entry is linked to: SHA-256 of the run's id.
pub fn chain_begin(run_id: &RunId) -> Link {
    Sha256::digest(run_id.as_bytes()).into()
}

/// Returns the link of one entry: SHA-256 of the link before, the sequence number as eight bytes, lowest first, and the entry.
pub fn chain_next(before: &Link, seq: u64, entry: &[u8]) -> Link {
    let mut hasher = Sha256::new();
    hasher.update(before);
    hasher.update(seq.to_le_bytes());
    hasher.update(entry);
    hasher.finalize().into()
}
