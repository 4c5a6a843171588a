//! What operators did: a chain of entries, an intent before each act and an outcome behind it. Writes none of them.
//!
//! An entry never changes. Entries are removed from the oldest on and the newest always stays, so the chain can be checked
//! from the first one that is kept.

use escapement_model::BootId;
use sha2::{Digest, Sha256};

/// Who is about to do what. Opaque to the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperatorIntent {
    /// What the policy calls who acts.
    pub name: String,
    /// How it was proved: `token`, `jwt`, `certificate`, `anonymous`; `process` for what nobody called for.
    pub kind: String,
    /// Who vouches for the name; empty unless `kind` is `jwt`.
    pub issuer: String,
    /// The address that the call came from; empty without a call.
    pub peer: String,
    /// The call, `SERVICE/METHOD`, or what stands for one.
    pub rpc: String,
    /// What was asked for, JSON.
    pub request: String,
}

impl OperatorIntent {
    /// Returns the bytes of all its texts together.
    pub fn n_bytes(&self) -> usize {
        self.texts().iter().map(|text| text.len()).sum()
    }

    fn texts(&self) -> [&str; 6] {
        let Self {
            name,
            kind,
            issuer,
            peer,
            rpc,
            request,
        } = self;
        [name, kind, issuer, peer, rpc, request]
    }
}

/// What an entry says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperatorDeed {
    /// An act begins.
    Intent(OperatorIntent),
    /// It is over.
    Outcome {
        /// The number of its intent.
        intent: u64,
        /// What came of it, JSON. Opaque to the store.
        outcome: String,
    },
}

impl OperatorDeed {
    /// Returns the bytes of all its texts together.
    pub fn n_bytes(&self) -> usize {
        match self {
            Self::Intent(intent) => intent.n_bytes(),
            Self::Outcome { outcome, .. } => outcome.len(),
        }
    }
}

/// The next entry, but for its place in the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorWrite {
    /// Unix milliseconds.
    pub at: i64,
    /// The lifetime of the process that writes it.
    pub boot_id: BootId,
    /// What it says, at most [`OPERATOR_ENTRY_BYTES_MAX`].
    pub deed: OperatorDeed,
    /// Older entries than this moment, Unix milliseconds, are removed with this write, a bounded number of them; `None` keeps all.
    pub keep_from: Option<i64>,
}

/// An entry in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorEntry {
    /// 1, 2, 3, … without gaps.
    pub number: u64,
    /// Unix milliseconds.
    pub at: i64,
    /// The lifetime of the process that wrote it.
    pub boot_id: BootId,
    /// What it says.
    pub deed: OperatorDeed,
    /// That of the entry before; zeros for the first.
    pub previous_hash: [u8; 32],
    /// As [`OperatorEntry::link`] computes it.
    pub hash: [u8; 32],
}

impl OperatorEntry {
    /// Returns the entry that follows the one with that hash.
    pub fn behind(number: u64, previous_hash: [u8; 32], write: &OperatorWrite) -> Self {
        let mut entry = Self {
            number,
            at: write.at,
            boot_id: write.boot_id,
            deed: write.deed.clone(),
            previous_hash,
            hash: [0; 32],
        };
        entry.hash = entry.link();
        entry
    }

    /// Returns SHA-256 over the hash before, number and time (8 bytes each, the highest first), boot id, the number of the intent
    /// (8 bytes, 0 in an intent), and each text behind its length (4 bytes, the highest first): name, kind, issuer, peer, rpc
    /// and request of an intent; the outcome of an outcome.
    pub fn link(&self) -> [u8; 32] {
        let (intent, texts): (u64, &[&str]) = match &self.deed {
            OperatorDeed::Intent(intent) => (0, &intent.texts()),
            OperatorDeed::Outcome { intent, outcome } => (*intent, &[outcome.as_str()]),
        };
        let mut hash = Sha256::new()
            .chain_update(self.previous_hash)
            .chain_update(self.number.to_be_bytes())
            .chain_update(self.at.to_be_bytes())
            .chain_update(self.boot_id.as_bytes())
            .chain_update(intent.to_be_bytes());
        for text in texts {
            let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
            hash.update(length.to_be_bytes());
            hash.update(text);
        }
        hash.finalize().into()
    }
}

/// An act: its intent, and its outcome if it is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorAction {
    /// Says what was about to happen.
    pub intent: OperatorEntry,
    /// Says what happened; `None` while it happens, and if the process ended before it was written.
    pub outcome: Option<OperatorEntry>,
}

/// Which acts a list shows; all conditions that are given must hold. The default shows all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperatorFilter {
    /// By who has exactly this name.
    pub name: Option<String>,
    /// By exactly this call.
    pub rpc: Option<String>,
    /// Without an outcome.
    pub is_open: bool,
}

/// Bytes of the texts of one entry.
pub const OPERATOR_ENTRY_BYTES_MAX: usize = 16 << 10;

/// Entries that one write removes at most: more than it adds, so what is due goes as entries come.
pub const OPERATORS_REMOVED_MAX: usize = 64;
