//! `google.protobuf.Value` kept as the bytes that arrived, as [`Opaque`] keeps an object.

use super::{Malformed, Opaque, ValueView, check_one, encode_value, value};
use crate::limits::OBJECT_NESTING_MAX;
use alloc::vec::Vec;
use bytes::{Buf, BufMut, Bytes};
use prost::encoding::{DecodeContext, WireType};
use prost::{DecodeError, Message};

/// A value of any kind: the encoded `google.protobuf.Value`, unchanged. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpaqueValue(Opaque);

impl OpaqueValue {
    /// Takes an encoded Value.
    pub fn from_encoded(bytes: Bytes) -> Self {
        Self(Opaque::from_encoded(bytes))
    }

    /// Encodes what is viewed.
    pub fn from_view(view: ValueView<'_>) -> Self {
        let mut bytes = Vec::new();
        encode_value(view, &mut bytes);
        Self::from_encoded(Bytes::from(bytes))
    }

    /// Returns the encoded Value.
    pub fn as_encoded(&self) -> &Bytes {
        self.0.as_encoded()
    }

    /// What kind of value it is; what lies inside is not looked at.
    ///
    /// # Errors
    /// [`Malformed`] if the value, or a text that it is, is broken.
    pub fn view(&self) -> Result<ValueView<'_>, Malformed> {
        value(self.as_encoded())
    }

    /// Checks that the bytes are a Value: well-formed wire format, UTF-8 texts, as deep as the value of an object may be.
    ///
    /// # Errors
    /// [`Malformed`] says what is wrong; such a value must not be passed on.
    pub fn check(&self) -> Result<(), Malformed> {
        // In an object it lies in the value of an entry.
        check_one(self.as_encoded(), OBJECT_NESTING_MAX - 2)
    }
}

impl Message for OpaqueValue {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        self.0.encode_raw(buf);
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        self.0.merge_field(tag, wire_type, buf, context)
    }

    fn encoded_len(&self) -> usize {
        self.0.encoded_len()
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}
