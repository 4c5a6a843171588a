//! A message as a function from bytes to bytes, and the messages within it. Knows the wire format and no type.

use prost::bytes::Buf;
use prost::encoding::{WireType, decode_key, decode_varint, encode_key, encode_varint};

/// Decodes and encodes again; `None` if the bytes are refused.
pub(super) struct Codec<'a>(&'a dyn Fn(&[u8]) -> Option<Vec<u8>>);

impl<'a> Codec<'a> {
    pub(super) fn new(again: &'a dyn Fn(&[u8]) -> Option<Vec<u8>>) -> Self {
        Self(again)
    }

    /// Returns the bytes as they are encoded today.
    pub(super) fn again(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        (self.0)(bytes)
    }

    /// Hands over the message that a field of this one holds.
    pub(super) fn within<T>(&self, tag: u32, look: impl FnOnce(&Codec<'_>) -> T) -> T {
        let again = |bytes: &[u8]| {
            let whole = self.again(&Field::delimited(tag, bytes).encoded())?;
            let mut found = fields(&whole).into_iter().filter(|field| field.tag == tag);
            Some(found.next()?.value)
        };
        look(&Codec(&again))
    }
}

/// A field as it stands in an encoded message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) tag: u32,
    pub(super) wire: WireType,
    /// Bytes after the key, without a length.
    pub(super) value: Vec<u8>,
}

impl Field {
    pub(super) fn delimited(tag: u32, value: &[u8]) -> Self {
        Self {
            tag,
            wire: WireType::LengthDelimited,
            value: value.to_vec(),
        }
    }

    pub(super) fn varint(tag: u32, value: u64) -> Self {
        let mut encoded = Vec::new();
        encode_varint(value, &mut encoded);
        Self {
            tag,
            wire: WireType::Varint,
            value: encoded,
        }
    }

    pub(super) fn fixed(tag: u32, wire: WireType, value: &[u8]) -> Self {
        Self {
            tag,
            wire,
            value: value.to_vec(),
        }
    }

    pub(super) fn encoded(&self) -> Vec<u8> {
        let mut out = Vec::new();
        encode_key(self.tag, self.wire, &mut out);
        if self.wire == WireType::LengthDelimited {
            encode_varint(self.value.len() as u64, &mut out);
        }
        out.extend_from_slice(&self.value);
        out
    }
}

/// Takes a message that was just encoded apart.
pub(super) fn fields(message: &[u8]) -> Vec<Field> {
    let mut rest = message;
    let mut found = Vec::new();
    while rest.has_remaining() {
        let (tag, wire) = decode_key(&mut rest).expect("a key");
        let before = rest;
        let length = match wire {
            WireType::Varint => {
                decode_varint(&mut rest).expect("a number");
                before.len() - rest.len()
            }
            WireType::LengthDelimited => {
                usize::try_from(decode_varint(&mut rest).expect("a length")).expect("fits")
            }
            WireType::SixtyFourBit => 8,
            WireType::ThirtyTwoBit => 4,
            WireType::StartGroup | WireType::EndGroup => panic!("no message has groups"),
        };
        if wire == WireType::Varint {
            rest = before;
        }
        let (value, behind) = rest.split_at(length);
        found.push(Field::fixed(tag, wire, value));
        rest = behind;
    }
    found
}
