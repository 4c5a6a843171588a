//! The canonical encoding under every digest of plans, requests, records and runs. Knows no message; keeps no content.
//!
//! A text is its length in bytes and its bytes; a list is its length and its items; a number is eight bytes, big endian;
//! what may be absent is 0, or 1 and its value; ids are their 16 bytes.
//! An object is its number of keys and its entries, sorted by key, the last value of a repeated key. Each value has a tag:
//! 0 null, 1 number (the bits of a double), 2 text, 3 boolean (0 or 1), 4 object, 5 list.

use crate::opaque::{Entries, Opaque, ValueView, entries, items};
use alloc::string::String;
use alloc::vec::Vec;
use sha2::{Digest, Sha256};

/// What is hashed, piece by piece.
pub struct Encoder<'a> {
    hash: Sha256,
    /// A second hash over the same bytes, while [`Encoder::with_second_digest`] runs.
    second: Option<Sha256>,
    /// What comes next; most values are a few bytes long, and whole blocks are hashed in place.
    buffer: [u8; BUFFER_BYTES],
    n_buffered: usize,
    /// The entries of the object at hand, behind those of the objects around it.
    sorted: Vec<(&'a str, ValueView<'a>)>,
}

impl<'a> Encoder<'a> {
    /// The hash of what is encoded behind a name; a change of the encoding must change this text.
    pub fn named(name: &str, encode: impl FnOnce(&mut Self)) -> [u8; 32] {
        let mut encoder = Self::empty();
        encoder.text(name);
        encode(&mut encoder);
        encoder.finish()
    }

    /// The hash of what is encoded behind another hash, which says what it is.
    pub fn chained(hash: &[u8; 32], encode: impl FnOnce(&mut Self)) -> [u8; 32] {
        let mut encoder = Self::empty();
        encoder.bytes(hash);
        encode(&mut encoder);
        encoder.finish()
    }

    /// Returns the hash of what `encode` encodes, behind a name of its own; the first hash goes on over the same bytes.
    pub fn with_second_digest(&mut self, name: &str, encode: impl FnOnce(&mut Self)) -> [u8; 32] {
        self.flush();
        let mut hash = Sha256::new();
        hash.update((name.len() as u64).to_be_bytes());
        hash.update(name);
        self.second = Some(hash);
        encode(self);
        self.flush();
        let second = self.second.take().expect("nothing else takes it");
        second.finalize().into()
    }

    #[inline(always)]
    fn empty() -> Self {
        Self {
            hash: Sha256::new(),
            second: None,
            buffer: [0; BUFFER_BYTES],
            n_buffered: 0,
            sorted: Vec::new(),
        }
    }

    fn finish(&mut self) -> [u8; 32] {
        self.flush();
        core::mem::take(&mut self.hash).finalize().into()
    }

    fn flush(&mut self) {
        let n_buffered = core::mem::take(&mut self.n_buffered);
        self.hash.update(&self.buffer[..n_buffered]);
        if let Some(second) = &mut self.second {
            second.update(&self.buffer[..n_buffered]);
        }
    }

    /// Encodes bytes as they are, without their length.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        match self
            .buffer
            .get_mut(self.n_buffered..self.n_buffered + bytes.len())
        {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.n_buffered += bytes.len();
            }
            None => self.flush_and_hash(bytes),
        }
    }

    /// Fills the buffer to its end, so that what is hashed at a time are whole blocks.
    #[cold]
    fn flush_and_hash(&mut self, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(BUFFER_BYTES - self.n_buffered);
        self.buffer[self.n_buffered..].copy_from_slice(head);
        self.n_buffered = BUFFER_BYTES;
        self.flush();
        let (whole, tail) = rest.split_at(rest.len() - rest.len() % BUFFER_BYTES);
        self.hash.update(whole);
        if let Some(second) = &mut self.second {
            second.update(whole);
        }
        self.buffer[..tail.len()].copy_from_slice(tail);
        self.n_buffered = tail.len();
    }

    /// Encodes 0, or 1 and the value.
    pub fn optional<T>(&mut self, value: Option<T>, encode: impl FnOnce(&mut Self, T)) {
        self.bytes(&[u8::from(value.is_some())]);
        if let Some(value) = value {
            encode(self, value);
        }
    }

    /// Encodes eight bytes, big endian.
    pub fn number(&mut self, number: u64) {
        self.bytes(&number.to_be_bytes());
    }

    /// Encodes the length in bytes and the bytes.
    pub fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes(text.as_bytes());
    }

    /// Encodes the number of texts and each of them.
    pub fn texts(&mut self, texts: &[String]) {
        self.number(texts.len() as u64);
        for text in texts {
            self.text(text);
        }
    }

    /// Encodes an object that was checked, sorted by key.
    pub fn object(&mut self, object: &'a Opaque) {
        self.entries(object.entries());
    }

    fn entries(&mut self, entries: Entries<'a>) {
        let from = self.sorted.len();
        self.sorted
            .extend(entries.map(|entry| entry.expect("only objects that were checked are hashed")));
        // Protobuf maps have no order, and of a repeated key the last value counts. The sort keeps repeated
        // keys in order.
        let to = self.sorted.len();
        self.sorted[from..].sort_by_key(|(key, _)| *key);
        let is_repeated = |pair: &&[(&str, ValueView<'_>)]| pair[0].0 == pair[1].0;
        let n_repeated = self.sorted[from..].windows(2).filter(is_repeated).count();
        self.number((to - from - n_repeated) as u64);
        for index in from..to {
            let (key, value) = self.sorted[index];
            let is_last = n_repeated == 0
                || self.sorted[index + 1..to]
                    .first()
                    .is_none_or(|next| next.0 != key);
            if is_last {
                self.text(key);
                self.value(value);
            }
        }
        self.sorted.truncate(from);
    }

    /// Encodes a value of an object that was checked. Recursive; `Opaque::check` bounds the depth.
    pub fn value(&mut self, value: ValueView<'a>) {
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

/// Returns SHA-256 of bytes, as they are.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Bytes that are hashed at a time, a number of whole blocks. Most entries of a record have fewer.
const BUFFER_BYTES: usize = 512;

#[cfg(test)]
mod tests {
    //! Hashes of pieces against the hash of the whole, wherever the buffer ends.

    use super::{BUFFER_BYTES, Encoder};
    use alloc::vec::Vec;
    use sha2::{Digest, Sha256};

    fn piece(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at * 31 + length) as u8).collect()
    }

    fn whole(name: &str, pieces: &[Vec<u8>]) -> [u8; 32] {
        let length = (name.len() as u64).to_be_bytes();
        let pieces = pieces.iter().map(Vec::as_slice);
        let all: Vec<&[u8]> = [&length[..], name.as_bytes()].into_iter().chain(pieces).collect();
        Sha256::digest(all.concat()).into()
    }

    //
    #[test]
    fn a_hash_does_not_depend_on_the_pieces_and_a_second_one_covers_its_own_alone() {
        let lengths = [0, 1, 8, 63, 64, 65, BUFFER_BYTES - 9];
        let around = [BUFFER_BYTES, 2 * BUFFER_BYTES, 5 * BUFFER_BYTES + 3];
        let around = around
            .into_iter()
            .flat_map(|length| [length - 1, length, length + 1]);
        let lengths: Vec<usize> = lengths.into_iter().chain(around).collect();
        for one in &lengths {
            for other in &lengths {
                let pieces = [piece(*one), piece(*other), piece(7)];
                let mut aside = [0; 32];
                let all = Encoder::named("all", |encoder| {
                    encoder.bytes(&pieces[0]);
                    aside = encoder.with_second_digest("aside", |encoder| encoder.bytes(&pieces[1]));
                    encoder.bytes(&pieces[2]);
                });
                assert_eq!(all, whole("all", &pieces), "{one} and {other} bytes");
                assert_eq!(aside, whole("aside", &pieces[1..2]), "{one} and {other} bytes");
            }
        }
    }
}
