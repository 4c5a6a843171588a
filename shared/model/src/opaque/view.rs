//! A borrowed view into an encoded Struct. Copies nothing and builds no tree.

use core::fmt;

/// Why bytes are not an encoded Struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The wire format is broken.
    Wire,
    /// A text is not UTF-8.
    Utf8,
    /// More protobuf messages lie inside one another than the limit allows.
    TooDeep {
        /// The limit.
        nesting_max: usize,
    },
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Wire => f.write_str("is not an encoded object"),
            Malformed::Utf8 => f.write_str("holds text that is not UTF-8"),
            Malformed::TooDeep { nesting_max } => {
                write!(f, "is nested deeper than {nesting_max} protobuf messages")
            }
        }
    }
}

impl core::error::Error for Malformed {}

/// A value of an object or list.
// With a tag of one byte, that and the flag beside it are copied in pieces that overlap, and each copy waits for the one before.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u64)]
pub enum ValueView<'a> {
    /// `null`, or a value that says nothing.
    Null,
    /// A number; always a double.
    Number(f64),
    /// A text.
    Text(&'a str),
    /// `true` or `false`.
    Bool(bool),
    /// An object: an encoded Struct, see [`entries`].
    Struct(&'a [u8]),
    /// A list: an encoded ListValue, see [`items`].
    List(&'a [u8]),
}

/// Iterates over the entries of an encoded Struct, in the order sent. Ends after the first error.
pub fn entries(bytes: &[u8]) -> Entries<'_> {
    Entries {
        fields: Fields { bytes },
    }
}

/// Iterates over the values of an encoded ListValue. Ends after the first error.
pub fn items(bytes: &[u8]) -> Items<'_> {
    Items {
        fields: Fields { bytes },
    }
}

/// Views an encoded `google.protobuf.Value`.
///
/// # Errors
/// [`Malformed`] if the value, or a text that it is, is broken; what lies inside is not looked at.
pub fn value(bytes: &[u8]) -> Result<ValueView<'_>, Malformed> {
    read_value(bytes)
}

/// Returns the value of a key in an encoded Struct that was checked, of a repeated key the last one.
///
/// Reads no other value, so that it costs less than going through [`entries`].
pub fn value_of<'a>(object: &'a [u8], key: &str) -> Option<ValueView<'a>> {
    let free = || Ok::<(), core::convert::Infallible>(());
    match value_of_paid(object, key, free) {
        Ok(found) => found,
        Err(never) => match never {},
    }
}

/// As [`value_of`]; `pay` is asked before each entry is looked at.
#[inline(always)]
pub(super) fn value_of_paid<'a, E>(
    object: &'a [u8],
    key: &str,
    mut pay: impl FnMut() -> Result<(), E>,
) -> Result<Option<ValueView<'a>>, E> {
    let mut found = None;
    for field in (Fields { bytes: object }) {
        pay()?;
        if let Ok((1, Field::Bytes(entry))) = field
            && may_have_key(entry, key)
            && let Ok((name, value)) = read_entry(entry)
            && name == key
        {
            found = Some(value);
        }
    }
    Ok(found)
}

/// Returns false if an entry is a key and a value, as every encoder writes it, and the key is another one.
#[inline(always)]
fn may_have_key(entry: &[u8], key: &str) -> bool {
    let mut fields = Fields { bytes: entry };
    match (fields.next(), fields.next(), fields.bytes) {
        (Some(Ok((1, Field::Bytes(name)))), Some(Ok((2, Field::Bytes(_)))), []) => name == key.as_bytes(),
        _ => true,
    }
}

/// Returns the entry of a Struct that comes next: its key, its value, and both still encoded. `None` at the end, or at the first
/// error.
pub(super) fn next_entry<'a>(rest: &mut &'a [u8]) -> Option<(&'a str, ValueView<'a>, &'a [u8])> {
    let mut fields = Fields { bytes: rest };
    let found = fields.find_map(|field| match field {
        Ok((1, Field::Bytes(entry))) => Some(read_entry(entry).ok().map(|(key, value)| (key, value, entry))),
        Ok((1, _)) | Err(_) => Some(None),
        Ok(_) => None,
    });
    *rest = fields.bytes;
    found.flatten()
}

/// Views the value of an encoded entry that was checked.
pub(super) fn value_of_entry(entry: &[u8]) -> Option<ValueView<'_>> {
    read_entry(entry).ok().map(|(_, value)| value)
}

/// See [`entries`].
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    fields: Fields<'a>,
}

/// See [`items`].
#[derive(Clone, Debug)]
pub struct Items<'a> {
    fields: Fields<'a>,
}

/// Checks that the bytes are a Struct: well-formed, UTF-8, with at most `nesting_max` messages inside one another.
///
/// Counts as decoders do: a value that a later one replaces is read as well.
/// Refuses an object or a list that comes in parts: decoders put the parts together, and a view shows the last one only.
///
/// # Errors
/// [`Malformed`], with the first thing that is wrong.
pub fn check(bytes: &[u8], nesting_max: usize) -> Result<(), Malformed> {
    check_struct(bytes, Nesting::new(nesting_max))
}

/// As [`check`], for one Value.
///
/// # Errors
/// As [`check`].
pub fn check_one(bytes: &[u8], nesting_max: usize) -> Result<(), Malformed> {
    check_value(bytes, Nesting::new(nesting_max), 0).map(|_| ())
}

fn check_struct(bytes: &[u8], nesting: Nesting) -> Result<(), Malformed> {
    for field in (Fields { bytes }) {
        match field? {
            (1, Field::Bytes(entry)) => check_entry(entry, nesting.inside()?)?,
            (1, _) => return Err(Malformed::Wire),
            _ => {}
        }
    }
    Ok(())
}

fn check_entry(bytes: &[u8], nesting: Nesting) -> Result<(), Malformed> {
    let mut kind = 0;
    for field in (Fields { bytes }) {
        match field? {
            (1, Field::Bytes(key)) => {
                read_text(key)?;
            }
            (2, Field::Bytes(value)) => kind = check_value(value, nesting.inside()?, kind)?,
            (1 | 2, _) => return Err(Malformed::Wire),
            _ => {}
        }
    }
    Ok(())
}

/// `kind` is the field that the value has so far, 0 for none; gives the one that it has afterwards.
fn check_value(bytes: &[u8], nesting: Nesting, mut kind: u32) -> Result<u32, Malformed> {
    for field in (Fields { bytes }) {
        let (tag, field) = field?;
        match (tag, field) {
            (1 | 4, Field::Varint(_)) | (2, Field::Fixed64(_)) => {}
            (3, Field::Bytes(text)) => {
                read_text(text)?;
            }
            (5, Field::Bytes(object)) if kind != 5 => check_struct(object, nesting.inside()?)?,
            (6, Field::Bytes(list)) if kind != 6 => check_list(list, nesting.inside()?)?,
            (1..=6, _) => return Err(Malformed::Wire),
            _ => continue,
        }
        kind = tag;
    }
    Ok(kind)
}

fn check_list(bytes: &[u8], nesting: Nesting) -> Result<(), Malformed> {
    for field in (Fields { bytes }) {
        match field? {
            (1, Field::Bytes(value)) => {
                check_value(value, nesting.inside()?, 0)?;
            }
            (1, _) => return Err(Malformed::Wire),
            _ => {}
        }
    }
    Ok(())
}

/// How many more messages may lie inside of the one at hand.
#[derive(Clone, Copy)]
struct Nesting {
    left: usize,
    max: usize,
}

impl Nesting {
    fn new(max: usize) -> Self {
        Self { left: max, max }
    }

    fn inside(self) -> Result<Self, Malformed> {
        let left = self.left.checked_sub(1);
        left.map(|left| Self { left, ..self }).ok_or(Malformed::TooDeep {
            nesting_max: self.max,
        })
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<(&'a str, ValueView<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.fields.next()? {
                Ok((1, Field::Bytes(entry))) => return Some(self.fields.stop_on_error(read_entry(entry))),
                Ok((1, _)) => return Some(self.fields.stop_on_error(Err(Malformed::Wire))),
                Ok(_) => {}
                Err(malformed) => return Some(Err(malformed)),
            }
        }
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Result<ValueView<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.fields.next()? {
                Ok((1, Field::Bytes(value))) => return Some(self.fields.stop_on_error(read_value(value))),
                Ok((1, _)) => return Some(self.fields.stop_on_error(Err(Malformed::Wire))),
                Ok(_) => {}
                Err(malformed) => return Some(Err(malformed)),
            }
        }
    }
}

fn read_entry(bytes: &[u8]) -> Result<(&str, ValueView<'_>), Malformed> {
    let mut key = "";
    let mut value = ValueView::Null;
    for field in (Fields { bytes }) {
        match field? {
            (1, Field::Bytes(text)) => key = read_text(text)?,
            (2, Field::Bytes(bytes)) => value = read_value(bytes)?,
            (1 | 2, _) => return Err(Malformed::Wire),
            _ => {}
        }
    }
    Ok((key, value))
}

fn read_value(bytes: &[u8]) -> Result<ValueView<'_>, Malformed> {
    let mut value = ValueView::Null;
    for field in (Fields { bytes }) {
        value = match field? {
            (1, Field::Varint(_)) => ValueView::Null,
            (2, Field::Fixed64(bits)) => ValueView::Number(f64::from_bits(bits)),
            (3, Field::Bytes(text)) => ValueView::Text(read_text(text)?),
            (4, Field::Varint(flag)) => ValueView::Bool(flag != 0),
            (5, Field::Bytes(bytes)) => ValueView::Struct(bytes),
            (6, Field::Bytes(bytes)) => ValueView::List(bytes),
            (1..=6, _) => return Err(Malformed::Wire),
            _ => value,
        };
    }
    Ok(value)
}

fn read_text(bytes: &[u8]) -> Result<&str, Malformed> {
    core::str::from_utf8(bytes).map_err(|_| Malformed::Utf8)
}

/// The fields of one encoded message.
#[derive(Clone, Debug)]
struct Fields<'a> {
    bytes: &'a [u8],
}

enum Field<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32,
}

impl<'a> Fields<'a> {
    fn stop_on_error<T>(&mut self, result: Result<T, Malformed>) -> Result<T, Malformed> {
        if result.is_err() {
            self.bytes = &[];
        }
        result
    }

    #[inline(always)]
    fn read(&mut self) -> Result<(u32, Field<'a>), Malformed> {
        // A field number has 29 bits and is not 0.
        let key = u32::try_from(self.varint()?).map_err(|_| Malformed::Wire)?;
        if key >> 3 == 0 {
            return Err(Malformed::Wire);
        }
        let field = match key & 7 {
            0 => Field::Varint(self.varint()?),
            1 => {
                let bits = self.take(8)?;
                Field::Fixed64(u64::from_le_bytes(bits.try_into().map_err(|_| Malformed::Wire)?))
            }
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| Malformed::Wire)?;
                Field::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Field::Fixed32
            }
            _ => return Err(Malformed::Wire),
        };
        Ok((key >> 3, field))
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, Malformed> {
        // Keys and most lengths take one byte.
        match self.bytes.split_first() {
            Some((&byte, rest)) if byte < 0x80 => {
                self.bytes = rest;
                Ok(u64::from(byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for index in 0..10 {
            let (&byte, rest) = self.bytes.split_first().ok_or(Malformed::Wire)?;
            self.bytes = rest;
            if index == 9 && byte > 1 {
                return Err(Malformed::Wire);
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed::Wire)
    }

    #[inline]
    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or(Malformed::Wire)?;
        self.bytes = rest;
        Ok(taken)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Field<'a>), Malformed>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.is_empty() {
            return None;
        }
        let field = self.read();
        Some(self.stop_on_error(field))
    }
}
