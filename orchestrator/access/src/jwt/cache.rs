//! What became of tokens, so that one that is shown again costs no verification. Reads no clock and keeps no token.

use crate::denial::Denial;
use crate::principal::Principal;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

type Judged = Result<Arc<Principal>, Denial>;

/// What became of up to [`JwtCache::ENTRIES_MAX`] tokens, by the SHA-256 of their text. It is for one policy and one state of the
/// keys: other ones begin with another cache.
#[derive(Debug, Default)]
pub struct JwtCache {
    judged: BTreeMap<[u8; 32], (i64, Judged)>,
    /// By the end of what is kept.
    ends: BTreeSet<(i64, [u8; 32])>,
}

impl JwtCache {
    /// Most tokens that are kept.
    pub const ENTRIES_MAX: usize = 10_000;
    /// Milliseconds that a refusal is kept.
    pub const REFUSAL_MS: i64 = 10_000;

    /// What became of the token, if that is kept and still holds.
    pub fn find(&self, digest: &[u8; 32], now_ms: i64) -> Option<Judged> {
        let (end_ms, judged) = self.judged.get(digest)?;
        (now_ms < *end_ms).then(|| judged.clone())
    }

    /// Keeps what became of a token: a principal until its end, a refusal for a while. What asks for keys is not kept.
    ///
    /// If there is no room, what ends first gives way, so refusals never drive out those who were let in.
    pub fn keep(&mut self, digest: [u8; 32], judged: &Judged, now_ms: i64) {
        let end_ms = match judged {
            Ok(principal) => principal.valid_until_ms.unwrap_or(i64::MAX),
            Err(Denial::KeysUnavailable { .. }) => return,
            Err(_) => now_ms.saturating_add(Self::REFUSAL_MS),
        };
        if let Some((last_ms, _)) = self.judged.insert(digest, (end_ms, judged.clone())) {
            self.ends.remove(&(last_ms, digest));
        }
        self.ends.insert((end_ms, digest));
        while self.judged.len() > Self::ENTRIES_MAX {
            let Some((_, first)) = self.ends.pop_first() else {
                return;
            };
            self.judged.remove(&first);
        }
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.judged.len()
    }

    /// Returns true if none is kept.
    pub fn is_empty(&self) -> bool {
        self.judged.is_empty()
    }
}

#[cfg(test)]
mod tests;
