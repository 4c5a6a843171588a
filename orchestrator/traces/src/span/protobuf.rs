//! A message of Protocol Buffers, written field after field. Knows no message.

use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};

/// The bytes of a message. A field that has its default is left out, as the format has it.
pub(super) struct Message(Vec<u8>);

impl Message {
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }

    /// A text or bytes.
    pub(super) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.member_bytes(field, bytes);
        }
    }

    /// The same as a member of a `oneof`, which is there if it is empty, too.
    pub(super) fn member_bytes(&mut self, field: u32, bytes: &[u8]) {
        encode_key(field, WireType::LengthDelimited, &mut self.0);
        encode_varint(bytes.len() as u64, &mut self.0);
        self.0.extend_from_slice(bytes);
    }

    /// A number or an enumeration.
    pub(super) fn varint(&mut self, field: u32, number: u64) {
        if number != 0 {
            self.member_varint(field, number);
        }
    }

    /// The same as a member of a `oneof`, which is there if it is 0, too.
    pub(super) fn member_varint(&mut self, field: u32, number: u64) {
        encode_key(field, WireType::Varint, &mut self.0);
        encode_varint(number, &mut self.0);
    }

    pub(super) fn fixed64(&mut self, field: u32, number: u64) {
        if number != 0 {
            encode_key(field, WireType::SixtyFourBit, &mut self.0);
            self.0.extend_from_slice(&number.to_le_bytes());
        }
    }

    pub(super) fn fixed32(&mut self, field: u32, number: u32) {
        if number != 0 {
            encode_key(field, WireType::ThirtyTwoBit, &mut self.0);
            self.0.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// A message, which `put` writes. Its length is known behind it and goes before it.
    pub(super) fn message(&mut self, field: u32, put: impl FnOnce(&mut Self)) {
        encode_key(field, WireType::LengthDelimited, &mut self.0);
        let start = self.0.len();
        put(self);
        let length = (self.0.len() - start) as u64;
        encode_varint(length, &mut self.0);
        self.0[start..].rotate_right(encoded_len_varint(length));
    }
}
