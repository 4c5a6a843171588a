//! Objects: an encoded `google.protobuf.Struct`, read field by field, and its canonical encoding.
//! Keeps nothing of how it was spelt.

use super::canonical::Canonical;
use super::file::varint;
use std::collections::BTreeMap;

/// An object by the bytes of its keys.
type Object = BTreeMap<String, Value>;

enum Value {
    Null,
    Number(f64),
    Text(String),
    Flag(bool),
    Object(Object),
    List(Vec<Value>),
}

/// Puts an encoded object; an absent one is empty.
pub(super) fn put(canonical: &mut Canonical, encoded: &[u8]) -> Result<(), String> {
    let object = object(encoded).ok_or("an object cannot be read")?;
    put_object(canonical, &object);
    Ok(())
}

fn put_object(canonical: &mut Canonical, object: &Object) {
    canonical.count(object.len());
    for (key, value) in object {
        canonical.text(key);
        put_value(canonical, value);
    }
}

fn put_value(canonical: &mut Canonical, value: &Value) {
    match value {
        Value::Null => canonical.byte(0),
        Value::Number(number) => {
            canonical.byte(1);
            canonical.double(*number);
        }
        Value::Text(text) => {
            canonical.byte(2);
            canonical.text(text);
        }
        Value::Flag(flag) => {
            canonical.byte(3);
            canonical.byte(u8::from(*flag));
        }
        Value::Object(object) => {
            canonical.byte(4);
            put_object(canonical, object);
        }
        Value::List(items) => {
            canonical.byte(5);
            canonical.count(items.len());
            items.iter().for_each(|item| put_value(canonical, item));
        }
    }
}

/// A field of a message: its number and what it holds.
enum Field<'a> {
    Varint(u64),
    Fixed([u8; 8]),
    Bytes(&'a [u8]),
    /// Four bytes, which no field here has.
    Other,
}

fn object(encoded: &[u8]) -> Option<Object> {
    let mut object = Object::new();
    each(encoded, |number, field| {
        let entry = match (number, field) {
            (1, Field::Bytes(entry)) => entry,
            // A field that is known, spelt as it never is.
            (1, _) => return None,
            _ => return Some(()),
        };
        let (mut key, mut held) = (String::new(), Value::Null);
        each(entry, |number, field| {
            match (number, field) {
                (1, Field::Bytes(bytes)) => key = text(bytes)?,
                (2, Field::Bytes(bytes)) => held = value(bytes)?,
                (1 | 2, _) => return None,
                _ => {}
            }
            Some(())
        })?;
        object.insert(key, held);
        Some(())
    })?;
    Some(object)
}

fn value(encoded: &[u8]) -> Option<Value> {
    let mut held = Value::Null;
    each(encoded, |number, field| {
        match (number, field) {
            (1, Field::Varint(_)) => held = Value::Null,
            (2, Field::Fixed(bytes)) => held = Value::Number(f64::from_le_bytes(bytes)),
            (3, Field::Bytes(bytes)) => held = Value::Text(text(bytes)?),
            (4, Field::Varint(flag)) => held = Value::Flag(flag != 0),
            (5, Field::Bytes(bytes)) => held = Value::Object(object(bytes)?),
            (6, Field::Bytes(bytes)) => {
                let mut items = Vec::new();
                each(bytes, |number, field| {
                    match (number, field) {
                        (1, Field::Bytes(item)) => items.push(value(item)?),
                        (1, _) => return None,
                        _ => {}
                    }
                    Some(())
                })?;
                held = Value::List(items);
            }
            (1..=6, _) => return None,
            _ => {}
        }
        Some(())
    })?;
    Some(held)
}

fn text(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

/// Walks the fields of a message; `None` if it is malformed.
fn each<'a>(mut rest: &'a [u8], mut take: impl FnMut(u64, Field<'a>) -> Option<()>) -> Option<()> {
    while !rest.is_empty() {
        let key = varint(&mut rest)?;
        let field = match key & 7 {
            0 => Field::Varint(varint(&mut rest)?),
            1 => Field::Fixed(cut(&mut rest, 8)?.try_into().ok()?),
            2 => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                Field::Bytes(cut(&mut rest, length)?)
            }
            5 => {
                cut(&mut rest, 4)?;
                Field::Other
            }
            _ => return None,
        };
        // No field has the number 0.
        (key >> 3 != 0).then_some(())?;
        take(key >> 3, field)?;
    }
    Some(())
}

fn cut<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (head, tail) = rest.split_at_checked(length)?;
    *rest = tail;
    Some(head)
}
