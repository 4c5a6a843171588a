//! A message of Protocol Buffers, written field after field. Knows no message.

use prost::encoding::{WireType, encode_varint};

/// The bytes of a message. A field that has its default is left out, as the format has it.
#[derive(Debug)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    /// No field yet, and room for so many bytes.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    /// With the fields that these bytes have.
    #[cfg(feature = "live")]
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }

    /// A text or bytes.
    pub(crate) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.member_bytes(field, bytes);
        }
    }

    /// The same as a member of a `oneof`, which is there if it is empty, too.
    pub(crate) fn member_bytes(&mut self, field: u32, bytes: &[u8]) {
        self.key(field, WireType::LengthDelimited);
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// A number or an enumeration.
    pub(crate) fn varint(&mut self, field: u32, number: u64) {
        if number != 0 {
            self.member_varint(field, number);
        }
    }

    /// The same as a member of a `oneof`, which is there if it is 0, too.
    pub(crate) fn member_varint(&mut self, field: u32, number: u64) {
        self.key(field, WireType::Varint);
        self.number(number);
    }

    /// A number that always takes eight bytes.
    pub(crate) fn fixed64(&mut self, field: u32, number: u64) {
        if number != 0 {
            self.member_fixed64(field, number);
        }
    }

    /// The same as a member of a `oneof`, which is there if it is 0, too.
    pub(crate) fn member_fixed64(&mut self, field: u32, number: u64) {
        self.key(field, WireType::SixtyFourBit);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// A number that always takes four bytes.
    pub(crate) fn fixed32(&mut self, field: u32, number: u32) {
        if number != 0 {
            self.key(field, WireType::ThirtyTwoBit);
            self.0.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// A message, which `put` writes. Its length is known behind it and goes before it.
    pub(crate) fn message(&mut self, field: u32, put: impl FnOnce(&mut Self)) {
        self.key(field, WireType::LengthDelimited);
        let start = self.0.len();
        // Most lengths take one byte.
        self.0.push(0);
        put(self);
        let length = self.0.len() - start - 1;
        if length < SHORT {
            self.0[start] = length as u8;
        } else {
            let mut long = Vec::new();
            encode_varint(length as u64, &mut long);
            self.0.splice(start..=start, long);
        }
    }

    fn key(&mut self, field: u32, kind: WireType) {
        self.number(u64::from(field) << 3 | kind as u64);
    }

    fn number(&mut self, number: u64) {
        if number < SHORT as u64 {
            self.0.push(number as u8);
        } else {
            encode_varint(number, &mut self.0);
        }
    }
}

/// Numbers below take one byte.
const SHORT: usize = 0x80;
