//! Fields of a message. Each tag is tried with each kind of value, and the message as it is encoded again shows the type of the field.

use prost::encoding::WireType;

use super::codec::{Codec, Field, fields};

/// Field that a message has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) tag: u32,
    pub(super) kind: Kind,
}

/// Type of a field, as far as the bytes show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    /// A number or a word of at most 32 bits.
    Small {
        is_signed: bool,
    },
    Large,
    Fixed32,
    Fixed64,
    Text,
    Bytes,
    /// An object of the caller, which is kept as it came.
    Object,
    Message,
}

/// Returns the fields of a message, in the order of their tags.
pub(super) fn of(codec: &Codec<'_>) -> Vec<Known> {
    let none = codec.again(&[]).expect("an empty message is one");
    let is_ignored = |field: Field| codec.again(&field.encoded()).is_some_and(|out| out == none);
    let known = (1..=TAG_MAX).filter(|tag| {
        let tried = [
            Field::varint(*tag, 1),
            Field::delimited(*tag, &[]),
            Field::fixed(*tag, WireType::ThirtyTwoBit, &[1; 4]),
            Field::fixed(*tag, WireType::SixtyFourBit, &[1; 8]),
        ];
        !tried.into_iter().all(is_ignored)
    });
    known
        .map(|tag| Known {
            tag,
            kind: kind(codec, tag),
        })
        .collect()
}

fn kind(codec: &Codec<'_>, tag: u32) -> Kind {
    let kept = |field: Field| codec.again(&field.encoded()).and_then(|out| value_of(&out, tag));
    let number = |value| kept(Field::varint(tag, value));
    let is_kept = |value: &[u8]| kept(Field::delimited(tag, value)).is_some_and(|out| out == value);
    if kept(Field::fixed(tag, WireType::ThirtyTwoBit, &[1; 4])).is_some() {
        return Kind::Fixed32;
    }
    if kept(Field::fixed(tag, WireType::SixtyFourBit, &[1; 8])).is_some() {
        return Kind::Fixed64;
    }
    if number(1).is_some() {
        return match number(BEYOND_32_BITS | 2) {
            out if out == Some(Field::varint(tag, 1).value) => Kind::Bool,
            out if out == Some(Field::varint(tag, BEYOND_32_BITS | 2).value) => Kind::Large,
            _ => Kind::Small {
                is_signed: number(u64::MAX) == Some(Field::varint(tag, u64::MAX).value),
            },
        };
    }
    // No message is malformed, no text is beyond UTF-8, and only an object keeps fields that it does not know.
    if is_kept(&[0xff]) {
        Kind::Bytes
    } else if is_kept(b"a") {
        Kind::Text
    } else if is_kept(&Field::varint(TAG_MAX + 1, 1).encoded()) {
        Kind::Object
    } else {
        Kind::Message
    }
}

/// Returns the value of a field, whether it may stand there often or not.
fn value_of(message: &[u8], tag: u32) -> Option<Vec<u8>> {
    let mut found = fields(message).into_iter().filter(|field| field.tag == tag);
    found.next().map(|field| field.value)
}

/// No message has higher ones.
const TAG_MAX: u32 = 256;
const BEYOND_32_BITS: u64 = 1 << 40;
