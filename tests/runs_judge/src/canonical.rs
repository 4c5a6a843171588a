//! Hashes and ids as the rules define them, written down a second time.

use crate::wire::Value;
use sha2::{Digest, Sha256};

pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// The canonical encoding under every digest.
pub(crate) struct Canonical(Vec<u8>);

impl Canonical {
    pub(crate) fn named(name: &str) -> Self {
        Self(Vec::new()).text(name)
    }

    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn number(self, number: u64) -> Self {
        self.bytes(&number.to_be_bytes())
    }

    pub(crate) fn text(self, text: &str) -> Self {
        self.number(text.len() as u64).bytes(text.as_bytes())
    }

    /// An object, without a tag.
    pub(crate) fn object(self, object: &Value) -> Self {
        let Value::Object(entries) = object else {
            return self;
        };
        let head = self.number(entries.len() as u64);
        entries
            .iter()
            .fold(head, |all, (key, value)| all.text(key).value(value))
    }

    fn value(self, value: &Value) -> Self {
        match value {
            Value::Null => self.bytes(&[0]),
            Value::Number(bits) => self.bytes(&[1]).number(*bits),
            Value::Text(text) => self.bytes(&[2]).text(text),
            Value::Bool(flag) => self.bytes(&[3, u8::from(*flag)]),
            Value::Object(_) => self.bytes(&[4]).object(value),
            Value::List(items) => {
                let head = self.bytes(&[5]).number(items.len() as u64);
                items.iter().fold(head, Self::value)
            }
        }
    }

    pub(crate) fn hash(self) -> [u8; 32] {
        sha256(&self.0)
    }
}

/// What the ids of an attempt are derived from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt<'a> {
    pub(crate) run: &'a [u8; 16],
    pub(crate) step: &'a str,
    pub(crate) index: u32,
    pub(crate) epoch: u32,
    pub(crate) attempt: u32,
}

impl Attempt<'_> {
    /// `execution`, `plan`, `step` or `child`.
    pub(crate) fn id(&self, of: &str) -> [u8; 16] {
        let hash = Canonical::named(&format!("escapement run {of} id 1"))
            .bytes(self.run)
            .text(self.step)
            .number(u64::from(self.index))
            .number(u64::from(self.epoch))
            .number(u64::from(self.attempt))
            .hash();
        as_id(hash)
    }
}

pub(crate) fn as_id(hash: [u8; 32]) -> [u8; 16] {
    let mut id: [u8; 16] = hash[..16].try_into().expect("a half of it");
    id[6] = id[6] & 0x0f | 0x40;
    id[8] = id[8] & 0x3f | 0x80;
    id
}

/// An id as people read it.
pub(crate) fn uuid(id: &[u8]) -> String {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    format!(
        "{}-{}-{}-{}-{}",
        part(0, 8),
        part(8, 12),
        part(12, 16),
        part(16, 20),
        part(20, 32)
    )
}

/// The first link of a journal.
pub(crate) fn chain_begin(run: &[u8; 16]) -> [u8; 32] {
    sha256(run)
}

/// The link of an entry.
pub(crate) fn chain_next(before: &[u8; 32], sequence: u64, entry: &[u8]) -> [u8; 32] {
    let all = [&before[..], &sequence.to_le_bytes(), entry].concat();
    sha256(&all)
}
