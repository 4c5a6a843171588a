//! Writes encoded Structs key by key. Keeps the order in which it is called.

use super::{Opaque, ValueView};
use alloc::vec::Vec;
use bytes::Bytes;
use prost::encoding::{encode_varint, encoded_len_varint};

/// Builds an object. A key that is written twice counts as its last value, as protobuf maps do.
#[derive(Clone, Debug, Default)]
pub struct StructBuilder {
    bytes: Vec<u8>,
}

/// Builds a list.
#[derive(Clone, Debug, Default)]
pub struct ListBuilder {
    bytes: Vec<u8>,
}

impl StructBuilder {
    /// Creates an empty object.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts from an object that exists; its entries come first.
    pub fn from_opaque(object: &Opaque) -> Self {
        Self {
            bytes: object.as_encoded().to_vec(),
        }
    }

    /// Adds a text.
    pub fn text(self, key: &str, text: &str) -> Self {
        self.entry(key, TEXT, text.as_bytes())
    }

    /// Adds a number. Beyond 2^53 integers lose their last digits.
    pub fn number(mut self, key: &str, number: f64) -> Self {
        let mut value = [0u8; 9];
        value[0] = NUMBER;
        value[1..].copy_from_slice(&number.to_le_bytes());
        self.raw_entry(key, &value);
        self
    }

    /// Adds `true` or `false`.
    pub fn boolean(mut self, key: &str, flag: bool) -> Self {
        self.raw_entry(key, &[BOOL, u8::from(flag)]);
        self
    }

    /// Adds `null`.
    pub fn null(mut self, key: &str) -> Self {
        self.raw_entry(key, &[NULL, 0]);
        self
    }

    /// Adds an object, given encoded.
    pub fn object(self, key: &str, object: &[u8]) -> Self {
        self.entry(key, STRUCT, object)
    }

    /// Adds a list.
    pub fn list(self, key: &str, list: ListBuilder) -> Self {
        self.entry(key, LIST, &list.bytes)
    }

    /// Adds a value as it is.
    pub fn value(mut self, key: &str, value: ValueView<'_>) -> Self {
        let mut encoded = Vec::new();
        encode_value(value, &mut encoded);
        self.raw_entry(key, &encoded);
        self
    }

    /// Returns the encoded object.
    pub fn build(self) -> Opaque {
        Opaque::from_encoded(Bytes::from(self.bytes))
    }

    fn entry(mut self, key: &str, kind: u8, content: &[u8]) -> Self {
        let value_length = 1 + encoded_len_varint(content.len() as u64) + content.len();
        self.open_entry(key, value_length);
        put_delimited(&mut self.bytes, kind, content);
        self
    }

    fn raw_entry(&mut self, key: &str, value: &[u8]) {
        self.open_entry(key, value.len());
        self.bytes.extend_from_slice(value);
    }

    fn open_entry(&mut self, key: &str, value_length: usize) {
        let key_length = 1 + encoded_len_varint(key.len() as u64) + key.len();
        let entry_length = key_length + 1 + encoded_len_varint(value_length as u64) + value_length;
        self.bytes.reserve(entry_length + 11);
        self.bytes.push(ENTRY);
        encode_varint(entry_length as u64, &mut self.bytes);
        put_delimited(&mut self.bytes, ENTRY_KEY, key.as_bytes());
        self.bytes.push(ENTRY_VALUE);
        encode_varint(value_length as u64, &mut self.bytes);
    }
}

impl ListBuilder {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a text.
    pub fn text(self, text: &str) -> Self {
        self.item(TEXT, text.as_bytes())
    }

    /// Adds a number.
    pub fn number(mut self, number: f64) -> Self {
        self.bytes.extend_from_slice(&[ITEM, 9, NUMBER]);
        self.bytes.extend_from_slice(&number.to_le_bytes());
        self
    }

    /// Adds `true` or `false`.
    pub fn boolean(mut self, flag: bool) -> Self {
        self.bytes.extend_from_slice(&[ITEM, 2, BOOL, u8::from(flag)]);
        self
    }

    /// Adds `null`.
    pub fn null(mut self) -> Self {
        self.bytes.extend_from_slice(&[ITEM, 2, NULL, 0]);
        self
    }

    /// Adds an object, given encoded.
    pub fn object(self, object: &[u8]) -> Self {
        self.item(STRUCT, object)
    }

    /// Adds a list.
    pub fn list(self, list: ListBuilder) -> Self {
        self.item(LIST, &list.bytes)
    }

    /// Adds a value as it is.
    pub fn value(mut self, value: ValueView<'_>) -> Self {
        let mut encoded = Vec::new();
        encode_value(value, &mut encoded);
        put_delimited(&mut self.bytes, ITEM, &encoded);
        self
    }

    /// Returns the encoded ListValue.
    pub fn into_encoded(self) -> Vec<u8> {
        self.bytes
    }

    fn item(mut self, kind: u8, content: &[u8]) -> Self {
        let value_length = 1 + encoded_len_varint(content.len() as u64) + content.len();
        self.bytes.push(ITEM);
        encode_varint(value_length as u64, &mut self.bytes);
        put_delimited(&mut self.bytes, kind, content);
        self
    }
}

/// Appends the `google.protobuf.Value` of what is viewed; objects and lists keep their bytes.
pub fn encode_value(value: ValueView<'_>, bytes: &mut Vec<u8>) {
    match value {
        ValueView::Null => bytes.extend_from_slice(&[NULL, 0]),
        ValueView::Number(number) => {
            bytes.push(NUMBER);
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        ValueView::Text(text) => put_delimited(bytes, TEXT, text.as_bytes()),
        ValueView::Bool(flag) => bytes.extend_from_slice(&[BOOL, u8::from(flag)]),
        ValueView::Struct(object) => put_delimited(bytes, STRUCT, object),
        ValueView::List(list) => put_delimited(bytes, LIST, list),
    }
}

fn put_delimited(bytes: &mut Vec<u8>, key: u8, content: &[u8]) {
    bytes.push(key);
    encode_varint(content.len() as u64, bytes);
    bytes.extend_from_slice(content);
}

// Field keys of google.protobuf.Struct, its map entry, Value and ListValue: number << 3 | wire type.
const ENTRY: u8 = 0x0a;
const ENTRY_KEY: u8 = 0x0a;
const ENTRY_VALUE: u8 = 0x12;
const ITEM: u8 = 0x0a;
const NULL: u8 = 0x08;
const NUMBER: u8 = 0x11;
const TEXT: u8 = 0x1a;
const BOOL: u8 = 0x20;
const STRUCT: u8 = 0x2a;
const LIST: u8 = 0x32;
