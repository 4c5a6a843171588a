//! The canonical encoding under every digest of this crate. Knows no message; keeps no content.
//!
//! A text is its length in bytes and its bytes; a list is its length and its items; a number is eight bytes, big endian;
//! what may be absent is 0, or 1 and its value; ids are their 16 bytes.
//! An object is its number of keys and its entries, sorted by key, the last value of a repeated key. Each value has a tag:
//! 0 null, 1 number (the bits of a double), 2 text, 3 boolean (0 or 1), 4 object, 5 list.

use alloc::string::String;
use alloc::vec::Vec;
use escapement_model::Opaque;
use escapement_model::opaque::{Entries, ValueView, entries, items};
use sha2::{Digest, Sha256};

/// What is hashed, piece by piece.
pub(crate) struct Encoder {
    hash: Sha256,
    buffer: Vec<u8>,
}

impl Encoder {
    /// An encoding that begins with its own name; a change of it must change this text.
    pub(crate) fn new(name: &str, capacity: usize) -> Self {
        let mut encoder = Self::unnamed(capacity);
        encoder.text(name);
        encoder
    }

    /// An encoding that begins with a hash, which says what it is.
    pub(crate) fn behind(hash: &[u8; 32], capacity: usize) -> Self {
        let mut encoder = Self::unnamed(capacity);
        encoder.bytes(hash);
        encoder
    }

    fn unnamed(capacity: usize) -> Self {
        Self {
            hash: Sha256::new(),
            buffer: Vec::with_capacity(capacity.min(BUFFER_BYTES)),
        }
    }

    pub(crate) fn finish(mut self) -> [u8; 32] {
        self.hash.update(&self.buffer);
        self.hash.finalize().into()
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.hash.update(&self.buffer);
            self.buffer.clear();
        }
        if bytes.len() > BUFFER_BYTES {
            self.hash.update(bytes);
        } else {
            self.buffer.extend_from_slice(bytes);
        }
    }

    pub(crate) fn optional<T>(&mut self, value: Option<T>, encode: impl FnOnce(&mut Self, T)) {
        self.bytes(&[u8::from(value.is_some())]);
        if let Some(value) = value {
            encode(self, value);
        }
    }

    pub(crate) fn number(&mut self, number: u64) {
        self.bytes(&number.to_be_bytes());
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes(text.as_bytes());
    }

    pub(crate) fn texts(&mut self, texts: &[String]) {
        self.number(texts.len() as u64);
        for text in texts {
            self.text(text);
        }
    }

    pub(crate) fn object(&mut self, object: &Opaque) {
        self.entries(object.entries());
    }

    fn entries(&mut self, entries: Entries<'_>) {
        // Protobuf maps have no order, and of a repeated key the last value counts. The sort keeps repeated
        // keys in order.
        let mut sorted: Vec<(&str, ValueView<'_>)> = entries
            .map(|entry| entry.expect("only objects that were checked are hashed"))
            .collect();
        sorted.sort_by_key(|(key, _)| *key);
        let is_last = |index: usize| {
            sorted
                .get(index + 1)
                .is_none_or(|(next, _)| *next != sorted[index].0)
        };
        self.number((0..sorted.len()).filter(|index| is_last(*index)).count() as u64);
        for index in (0..sorted.len()).filter(|index| is_last(*index)) {
            let (key, value) = sorted[index];
            self.text(key);
            self.value(value);
        }
    }

    /// Recursive; `Opaque::check` bounds the depth.
    fn value(&mut self, value: ValueView<'_>) {
        match value {
            ValueView::Null => self.bytes(&[0]),
            ValueView::Number(number) => {
                self.bytes(&[1]);
                self.number(number.to_bits());
            }
            ValueView::Text(text) => {
                self.bytes(&[2]);
                self.text(text);
            }
            ValueView::Bool(flag) => self.bytes(&[3, u8::from(flag)]),
            ValueView::Struct(bytes) => {
                self.bytes(&[4]);
                self.entries(entries(bytes));
            }
            ValueView::List(bytes) => {
                self.bytes(&[5]);
                self.number(items(bytes).count() as u64);
                for item in items(bytes) {
                    self.value(item.expect("only objects that were checked are hashed"));
                }
            }
        }
    }
}

/// Bytes that are hashed at a time; most values are a few bytes long.
const BUFFER_BYTES: usize = 4096;
