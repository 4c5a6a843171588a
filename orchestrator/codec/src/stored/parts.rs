//! The fields of an encoded message that have a length, one after another and without a copy. Knows no message.

use super::Unreadable;
use bytes::Bytes;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

/// These fields, each with its tag. All others are skipped, and an error is the last item.
pub(crate) struct Parts {
    rest: Bytes,
}

impl Parts {
    /// Those of this message.
    pub(crate) fn of(message: Bytes) -> Self {
        Self { rest: message }
    }

    /// Returns the bytes behind the last one.
    pub(crate) fn n_bytes_left(&self) -> usize {
        self.rest.len()
    }

    fn next_part(&mut self) -> Result<Option<(u32, Bytes)>, Unreadable> {
        while !self.rest.is_empty() {
            let (tag, wire_type) = decode_key(&mut self.rest).map_err(Unreadable::Wire)?;
            if wire_type == WireType::LengthDelimited {
                return Ok(Some((tag, delimited(&mut self.rest)?)));
            }
            let context = DecodeContext::default();
            skip_field(wire_type, tag, &mut self.rest, context).map_err(Unreadable::Wire)?;
        }
        Ok(None)
    }
}

impl Iterator for Parts {
    type Item = Result<(u32, Bytes), Unreadable>;

    fn next(&mut self) -> Option<Self::Item> {
        let part = self.next_part();
        if part.is_err() {
            self.rest.clear();
        }
        part.transpose()
    }
}

/// Returns the bytes behind a length.
///
/// # Errors
/// [`Unreadable`] if there are fewer.
pub(crate) fn delimited(rest: &mut Bytes) -> Result<Bytes, Unreadable> {
    let length = decode_varint(rest).map_err(Unreadable::Wire)?;
    match usize::try_from(length) {
        Ok(length) if length <= rest.len() => Ok(rest.split_to(length)),
        Ok(_) | Err(_) => Err(Unreadable::Meaningless("a part is cut off".to_owned())),
    }
}
