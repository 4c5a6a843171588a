//! Protocol Buffers as they are on the wire, without a schema, and the free-form values in them.

use std::collections::BTreeMap;

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Field<'a> {
    Number(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

/// A message: its fields in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Message<'a>(Vec<(u32, Field<'a>)>);

impl<'a> Message<'a> {
    /// # Errors
    /// Says what is wrong with the bytes.
    pub(crate) fn parse(mut bytes: &'a [u8]) -> Result<Self, String> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes)?;
            let number = u32::try_from(key >> 3).map_err(|_| "a field number is too large")?;
            let field = match key & 7 {
                0 => Field::Number(varint(&mut bytes)?),
                1 => Field::Fixed(u64::from_le_bytes(
                    taken(&mut bytes, 8)?.try_into().expect("eight"),
                )),
                2 => {
                    let length = usize::try_from(varint(&mut bytes)?).map_err(|_| "a length is too large")?;
                    Field::Bytes(taken(&mut bytes, length)?)
                }
                5 => {
                    let four = taken(&mut bytes, 4)?.try_into().expect("four");
                    Field::Fixed(u64::from(u32::from_le_bytes(four)))
                }
                other => return Err(format!("wire type {other}")),
            };
            fields.push((number, field));
        }
        Ok(Self(fields))
    }

    /// Numbers of the fields that are there.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|(number, _)| *number)
    }

    fn last(&self, number: u32) -> Option<Field<'a>> {
        let mut fields = self.0.iter().rev();
        fields
            .find(|(found, _)| *found == number)
            .map(|(_, field)| *field)
    }

    /// Absent is 0.
    pub(crate) fn number(&self, number: u32) -> u64 {
        match self.last(number) {
            Some(Field::Number(value) | Field::Fixed(value)) => value,
            Some(Field::Bytes(_)) | None => 0,
        }
    }

    /// Absent is 0.
    pub(crate) fn small(&self, number: u32) -> u32 {
        u32::try_from(self.number(number)).unwrap_or(u32::MAX)
    }

    /// Absent is 0.
    pub(crate) fn signed(&self, number: u32) -> i64 {
        self.number(number).cast_signed()
    }

    pub(crate) fn has(&self, number: u32) -> bool {
        self.last(number).is_some()
    }

    /// Absent is empty.
    pub(crate) fn bytes(&self, number: u32) -> &'a [u8] {
        match self.last(number) {
            Some(Field::Bytes(bytes)) => bytes,
            Some(_) | None => &[],
        }
    }

    /// Absent is empty.
    pub(crate) fn text(&self, number: u32) -> String {
        String::from_utf8_lossy(self.bytes(number)).into_owned()
    }

    /// Absent is an empty message.
    pub(crate) fn message(&self, number: u32) -> Result<Message<'a>, String> {
        Message::parse(self.bytes(number))
    }

    /// All texts of this number.
    pub(crate) fn texts(&self, number: u32) -> Vec<String> {
        let texts = self.all(number);
        texts
            .map(|text| String::from_utf8_lossy(text).into_owned())
            .collect()
    }

    /// All fields of this number.
    pub(crate) fn all(&self, number: u32) -> impl Iterator<Item = &'a [u8]> {
        let fields = self.0.iter().filter(move |(found, _)| *found == number);
        fields.filter_map(|(_, field)| match field {
            Field::Bytes(bytes) => Some(*bytes),
            Field::Number(_) | Field::Fixed(_) => None,
        })
    }
}

fn varint(bytes: &mut &[u8]) -> Result<u64, String> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().ok_or("a number is cut off")?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err("a number is too long".to_owned())
}

fn taken<'a>(bytes: &mut &'a [u8], length: usize) -> Result<&'a [u8], String> {
    let (head, rest) = bytes.split_at_checked(length).ok_or("a field is cut off")?;
    *bytes = rest;
    Ok(head)
}

/// A free-form value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// The bits of a double.
    Number(u64),
    /// A text.
    Text(String),
    /// Values in their order.
    List(Vec<Value>),
    /// Values by key.
    Object(BTreeMap<String, Value>),
}

impl Value {
    /// Reads an encoded `google.protobuf.Struct`.
    ///
    /// # Errors
    /// Says what is wrong with the bytes.
    pub fn of_object(bytes: &[u8]) -> Result<Self, String> {
        let mut object = BTreeMap::new();
        for entry in Message::parse(bytes)?.all(1) {
            let entry = Message::parse(entry)?;
            object.insert(entry.text(1), Self::of_value(entry.bytes(2))?);
        }
        Ok(Self::Object(object))
    }

    /// Reads an encoded `google.protobuf.Value`.
    ///
    /// # Errors
    /// Says what is wrong with the bytes.
    pub fn of_value(bytes: &[u8]) -> Result<Self, String> {
        let message = Message::parse(bytes)?;
        Ok(match message.numbers().last() {
            Some(2) => Self::Number(message.number(2)),
            Some(3) => Self::Text(message.text(3)),
            Some(4) => Self::Bool(message.number(4) != 0),
            Some(5) => Self::of_object(message.bytes(5))?,
            Some(6) => {
                let items = message.message(6)?;
                Self::List(items.all(1).map(Self::of_value).collect::<Result<_, _>>()?)
            }
            Some(_) | None => Self::Null,
        })
    }

    /// The field of an object.
    pub(crate) fn field(&self, key: &str) -> Option<&Value> {
        match self {
            Self::Object(object) => object.get(key),
            _ => None,
        }
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        match self.field(key) {
            Some(Self::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// A number that was given, as a whole one.
    pub(crate) fn whole(&self, key: &str) -> Option<u32> {
        match self.field(key) {
            Some(Self::Number(bits)) => Some(f64::from_bits(*bits) as u32),
            _ => None,
        }
    }

    pub(crate) fn items(&self, key: &str) -> &[Value] {
        match self.field(key) {
            Some(Self::List(items)) => items,
            _ => &[],
        }
    }

    /// A whole number as a value.
    pub(crate) fn of_number(number: u32) -> Self {
        Self::Number(f64::from(number).to_bits())
    }

    /// True if a text in it, at whatever depth, contains this.
    pub(crate) fn mentions(&self, part: &str) -> bool {
        match self {
            Self::Text(text) => text.contains(part),
            Self::List(items) => items.iter().any(|item| item.mentions(part)),
            Self::Object(object) => object.values().any(|value| value.mentions(part)),
            Self::Null | Self::Bool(_) | Self::Number(_) => false,
        }
    }

    /// Every text in it that begins so.
    pub(crate) fn texts_beginning(&self, with: &str, found: &mut Vec<String>) {
        match self {
            Self::Text(text) if text.starts_with(with) => found.push(text.clone()),
            Self::List(items) => items.iter().for_each(|item| item.texts_beginning(with, found)),
            Self::Object(object) => object
                .values()
                .for_each(|value| value.texts_beginning(with, found)),
            _ => {}
        }
    }
}
