//! JSON that others wrote: servers, models, programs, senders, files. What comes of it loses no digit and no key without a word.
//! Decides nothing about what it means.

use escapement_model::numbers::is_exact;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::borrow::Cow;
use std::fmt;

/// Reads a text. A byte order mark may stand before it (RFC 8259, section 8.1), and an integer that a double does not hold exactly
/// becomes a text with all its digits.
///
/// # Errors
/// It is no JSON, or a key of an object comes twice: then nobody can say which one its author meant.
pub fn value(text: &[u8]) -> Result<Value, serde_json::Error> {
    let text = exact(text);
    let mut reader = serde_json::Deserializer::from_slice(&text);
    let value = Unique.deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// The text without its byte order mark and with quotes around the integers that a double does not hold exactly.
///
/// What is no JSON stays none, and is found by who reads it.
pub fn exact(text: &[u8]) -> Cow<'_, [u8]> {
    let text = without_mark(text);
    let mut quoted = Vec::new();
    let (mut at, mut copied) = (0, 0);
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => at = behind_text(text, at),
            b'-' | b'0'..=b'9' => {
                let end = behind_number(text, at);
                if is_lost(text, at, end) {
                    quoted.extend_from_slice(&text[copied..at]);
                    quoted.push(b'"');
                    quoted.extend_from_slice(&text[at..end]);
                    quoted.push(b'"');
                    copied = end;
                }
                at = end;
            }
            _ => at += 1,
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    quoted.extend_from_slice(&text[copied..]);
    Cow::Owned(quoted)
}

/// Returns the text without the byte order mark that some programs put before UTF-8.
pub fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}

/// Returns the integers of a text that a double does not hold exactly, each with its path, such as `steps[0].payload.id`.
///
/// For documents, whose authors can say what they meant.
///
/// # Errors
/// It is no JSON.
pub fn lost_integers(text: &[u8]) -> Result<Vec<(String, String)>, serde_json::Error> {
    let mut found = Vec::new();
    if let Cow::Owned(exact) = exact(text) {
        let (rounded, exact) = (
            serde_json::from_slice(without_mark(text))?,
            serde_json::from_slice(&exact)?,
        );
        differences(&rounded, &exact, String::new(), &mut found);
    }
    Ok(found)
}

fn differences(rounded: &Value, exact: &Value, path: String, found: &mut Vec<(String, String)>) {
    match (rounded, exact) {
        (Value::Number(_), Value::String(digits)) => found.push((path, digits.clone())),
        (Value::Array(rounded), Value::Array(exact)) => {
            for (index, (rounded, exact)) in rounded.iter().zip(exact).enumerate() {
                differences(rounded, exact, format!("{path}[{index}]"), found);
            }
        }
        (Value::Object(rounded), Value::Object(exact)) => {
            for (key, rounded) in rounded {
                let dot = if path.is_empty() { "" } else { "." };
                differences(rounded, &exact[key], format!("{path}{dot}{key}"), found);
            }
        }
        _ => {}
    }
}

fn behind_text(text: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

fn behind_number(text: &[u8], begin: usize) -> usize {
    let is_part = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
    begin + text[begin..].iter().take_while(is_part).count()
}

/// Returns true for an integer that JSON takes where it stands, and that a double does not hold.
fn is_lost(text: &[u8], begin: usize, end: usize) -> bool {
    let Ok(number) = std::str::from_utf8(&text[begin..end]) else {
        return false;
    };
    let digits = number.strip_prefix('-').unwrap_or(number);
    let is_integer = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    // A number is no key, and must not become one.
    let is_key = text[end..].trim_ascii_start().first() == Some(&b':');
    is_integer && !is_key && !is_exact(number)
}

/// Reads a value of whose objects no key comes twice.
struct Unique;

impl<'de> DeserializeSeed<'de> for Unique {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Unique {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Unique)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(Unique)?;
            if object.insert(key, value).is_some() {
                return Err(A::Error::custom("a key of an object comes twice"));
            }
        }
        Ok(Value::Object(object))
    }
}
