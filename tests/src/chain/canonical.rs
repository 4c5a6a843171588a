//! The pieces of the canonical encoding, under a SHA-256. Knows no message.

use super::Hash;
use sha2::{Digest, Sha256};

/// Bytes that are hashed as they come.
#[derive(Clone, Debug, Default)]
pub(super) struct Canonical(Sha256);

impl Canonical {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Ids, hashes and digests, which have a length of their own.
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.0.update([byte]);
    }

    pub(super) fn number(&mut self, number: i64) {
        self.0.update(number.to_be_bytes());
    }

    pub(super) fn count(&mut self, n: usize) {
        self.number(i64::try_from(n).expect("no list has so many items"));
    }

    pub(super) fn double(&mut self, double: f64) {
        self.0.update(double.to_bits().to_be_bytes());
    }

    pub(super) fn text(&mut self, text: &str) {
        self.count(text.len());
        self.0.update(text.as_bytes());
    }

    pub(super) fn texts(&mut self, texts: &[String]) {
        self.count(texts.len());
        texts.iter().for_each(|text| self.text(text));
    }

    /// An id given as text; false if it is none.
    pub(super) fn id(&mut self, text: &str) -> Result<(), String> {
        let id = super::id_of(text).ok_or_else(|| format!("{text:?} is no id"))?;
        self.raw(&id);
        Ok(())
    }

    /// What may be absent.
    pub(super) fn maybe<T>(&mut self, value: Option<T>, put: impl FnOnce(&mut Self, T)) {
        match value {
            None => self.byte(0),
            Some(value) => {
                self.byte(1);
                put(self, value);
            }
        }
    }

    /// An id that may be absent.
    pub(super) fn maybe_id(&mut self, text: Option<&str>) -> Result<(), String> {
        match text {
            None => {
                self.byte(0);
                Ok(())
            }
            Some(text) => {
                self.byte(1);
                self.id(text)
            }
        }
    }

    pub(super) fn hash(self) -> Hash {
        self.0.finalize().into()
    }
}
