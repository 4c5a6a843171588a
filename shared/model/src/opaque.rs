//! `google.protobuf.Struct` kept as the bytes that arrived: carried, measured and looked at, never decoded into a tree.
//! Does not know what any object means.

mod build;
mod depth;
mod index;
mod paid;
mod single;
mod view;

use crate::limits::{ERROR_CONTEXT_NESTING_MAX, OBJECT_NESTING_MAX};
use alloc::string::String;
use alloc::vec::Vec;
use bytes::{Buf, BufMut, Bytes};
use prost::encoding::{DecodeContext, WireType, decode_varint, encode_varint};
use prost::{DecodeError, Message};

pub use build::{ListBuilder, StructBuilder, encode_value};
pub use index::ObjectIndex;
pub use paid::{BudgetSpent, PaidEntries, PaidItems, PaidList, PaidObject, PaidView, WalkBudget};
pub use single::OpaqueValue;
pub use view::{Entries, Items, Malformed, ValueView, check, check_one, entries, items, value, value_of};

/// A free-form object: the encoded `google.protobuf.Struct`, unchanged. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opaque(Bytes);

impl Opaque {
    /// Takes an encoded Struct.
    pub fn from_encoded(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// Returns the encoded Struct.
    pub fn as_encoded(&self) -> &Bytes {
        &self.0
    }

    /// Returns the bytes of the encoded Struct.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true for `{}`.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks that the bytes are a Struct: well-formed wire format, UTF-8 texts, not deeper than [`OBJECT_NESTING_MAX`].
    ///
    /// # Errors
    /// [`Malformed`] says what is wrong; such an object must not be passed on.
    pub fn check(&self) -> Result<(), Malformed> {
        check(&self.0, OBJECT_NESTING_MAX)
    }

    /// As [`Opaque::check`], for the diagnostic data of an error: not deeper than [`ERROR_CONTEXT_NESTING_MAX`].
    ///
    /// # Errors
    /// As [`Opaque::check`].
    pub fn check_context(&self) -> Result<(), Malformed> {
        check(&self.0, ERROR_CONTEXT_NESTING_MAX)
    }

    /// Returns the path of the first value that lies deeper than [`OBJECT_NESTING_MAX`] allows, such as `"a"."b"[3]`, cut in its
    /// middle if it is long. `None` if there is none, or it is hidden behind another value of the same key.
    pub fn first_too_deep(&self) -> Option<String> {
        depth::first_too_deep(&self.0, OBJECT_NESTING_MAX)
    }

    /// Returns the top-level keys and values, in the order in which they were sent.
    pub fn entries(&self) -> Entries<'_> {
        entries(&self.0)
    }

    /// Returns true if the object has this top-level key, whatever its value: `null` counts as present.
    pub fn has_key(&self, key: &str) -> bool {
        self.entries()
            .any(|entry| matches!(entry, Ok((name, _)) if name == key))
    }
}

// Prost decodes a nested message field by field, so the bytes are put together again here: one copy, no tree.
impl Message for Opaque {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        buf.put_slice(&self.0);
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        _context: DecodeContext,
    ) -> Result<(), DecodeError> {
        let mut head = [0; 2 * VARINT_BYTES_MAX];
        let mut room = &mut head[..];
        encode_varint(u64::from(tag) << 3 | wire_type as u64, &mut room);
        let length = match wire_type {
            WireType::LengthDelimited => {
                let length = decode_varint(buf)?;
                encode_varint(length, &mut room);
                length
            }
            WireType::Varint => {
                encode_varint(decode_varint(buf)?, &mut room);
                0
            }
            WireType::SixtyFourBit => 8,
            WireType::ThirtyTwoBit => 4,
            WireType::StartGroup | WireType::EndGroup => {
                return Err(invalid("groups are not part of google.protobuf.Struct"));
            }
        };
        let n_head = 2 * VARINT_BYTES_MAX - room.len();
        let length = usize::try_from(length).map_err(|_| invalid("field too long"))?;
        if buf.remaining() < length {
            return Err(invalid("buffer underflow"));
        }
        let mut bytes = Vec::from(core::mem::take(&mut self.0));
        if bytes.is_empty() {
            // Many objects have one entry, and bytes without room behind them need nothing beside them.
            bytes.reserve_exact(n_head + length);
        } else {
            bytes.reserve(n_head + length);
        }
        bytes.extend_from_slice(&head[..n_head]);
        let mut rest = length;
        while rest > 0 {
            let chunk = buf.chunk();
            let taken = chunk.len().min(rest);
            bytes.extend_from_slice(&chunk[..taken]);
            buf.advance(taken);
            rest -= taken;
        }
        self.0 = Bytes::from(bytes);
        Ok(())
    }

    fn encoded_len(&self) -> usize {
        self.0.len()
    }

    fn clear(&mut self) {
        self.0 = Bytes::new();
    }
}

/// Bytes of the longest number.
const VARINT_BYTES_MAX: usize = 10;

#[allow(deprecated, reason = "prost offers no other way to make a DecodeError")]
fn invalid(why: &'static str) -> DecodeError {
    DecodeError::new(why)
}
