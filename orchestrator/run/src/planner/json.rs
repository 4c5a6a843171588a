//! Reads a JSON object out of text. Takes linear time, and refuses what lies deeper than 30 levels.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use escapement_model::Opaque;
use escapement_model::opaque::{ListBuilder, StructBuilder};

/// Why a text holds no JSON object at that place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonFault {
    /// Bytes before the fault.
    pub at: usize,
    /// A sentence.
    pub message: String,
}

/// Reads the JSON object that begins at a byte of the text, and says where it ends. Keys are in the order in which they come.
///
/// # Errors
/// [`JsonFault`]: it is broken, has a key twice, or lies too deep.
pub fn read_object(text: &str, begin: usize) -> Result<(Opaque, usize), JsonFault> {
    let mut reader = Reader { text, at: begin };
    let object = reader.object(0)?;
    Ok((object.build(), reader.at))
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

/// A value, for what it goes into.
enum Value {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(ListBuilder),
    Object(Opaque),
}

impl Reader<'_> {
    fn fault<T>(&self, message: impl Into<String>) -> Result<T, JsonFault> {
        Err(JsonFault {
            at: self.at,
            message: message.into(),
        })
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, wanted: u8) -> Result<(), JsonFault> {
        match self.peek() {
            Some(found) if found == wanted => {
                self.at += 1;
                Ok(())
            }
            Some(_) => self.fault(format!("expected {:?}", char::from(wanted))),
            None => self.fault("the text ends within the object"),
        }
    }

    fn object(&mut self, depth: usize) -> Result<StructBuilder, JsonFault> {
        if depth >= DEPTH_MAX {
            return self.fault(format!("has more than {DEPTH_MAX} levels"));
        }
        let (mut object, mut keys) = (StructBuilder::new(), BTreeSet::new());
        self.take(b'{')?;
        self.blanks();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(object);
        }
        loop {
            self.blanks();
            let key = self.text()?;
            if keys.contains(&key) {
                return self.fault("has a key twice");
            }
            self.blanks();
            self.take(b':')?;
            object = match self.value(depth + 1)? {
                Value::Null => object.null(&key),
                Value::Bool(flag) => object.boolean(&key, flag),
                Value::Number(number) => object.number(&key, number),
                Value::Text(text) => object.text(&key, &text),
                Value::List(list) => object.list(&key, list),
                Value::Object(inner) => object.object(&key, inner.as_encoded()),
            };
            keys.insert(key);
            if self.ends(b'}')? {
                return Ok(object);
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<ListBuilder, JsonFault> {
        if depth >= DEPTH_MAX {
            return self.fault(format!("has more than {DEPTH_MAX} levels"));
        }
        let mut list = ListBuilder::new();
        self.take(b'[')?;
        self.blanks();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(list);
        }
        loop {
            list = match self.value(depth + 1)? {
                Value::Null => list.null(),
                Value::Bool(flag) => list.boolean(flag),
                Value::Number(number) => list.number(number),
                Value::Text(text) => list.text(&text),
                Value::List(inner) => list.list(inner),
                Value::Object(inner) => list.object(inner.as_encoded()),
            };
            if self.ends(b']')? {
                return Ok(list);
            }
        }
    }

    /// True behind the end of an object or a list, false behind a comma.
    fn ends(&mut self, end: u8) -> Result<bool, JsonFault> {
        self.blanks();
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(false)
            }
            Some(found) if found == end => {
                self.at += 1;
                Ok(true)
            }
            Some(_) => self.fault(format!("expected ',' or {:?}", char::from(end))),
            None => self.fault("the text ends within the object"),
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, JsonFault> {
        self.blanks();
        match self.peek() {
            Some(b'{') => Ok(Value::Object(self.object(depth)?.build())),
            Some(b'[') => Ok(Value::List(self.list(depth)?)),
            Some(b'"') => Ok(Value::Text(self.text()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => {
                for (word, value) in [
                    ("null", Value::Null),
                    ("true", Value::Bool(true)),
                    ("false", Value::Bool(false)),
                ] {
                    if self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
                        self.at += word.len();
                        return Ok(value);
                    }
                }
                self.fault("expected a value")
            }
            None => self.fault("the text ends within the object"),
        }
    }

    fn number(&mut self) -> Result<Value, JsonFault> {
        let begin = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let whole = self.digits();
        let has_leading_zero = whole > 1 && self.text.as_bytes()[self.at - whole] == b'0';
        let mut is_right = whole > 0 && !has_leading_zero;
        if self.peek() == Some(b'.') {
            self.at += 1;
            is_right &= self.digits() > 0;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            is_right &= self.digits() > 0;
        }
        let number = self.text[begin..self.at].parse::<f64>();
        match number {
            Ok(number) if is_right && number.is_finite() => Ok(Value::Number(number)),
            _ => self.fault("is no number"),
        }
    }

    fn digits(&mut self) -> usize {
        let begin = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - begin
    }

    fn text(&mut self) -> Result<String, JsonFault> {
        self.take(b'"')?;
        let mut text = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.find(|c: char| matches!(c, '"' | '\\' | '\0'..='\x1f'));
            let Some(plain) = plain else {
                self.at = self.text.len();
                return self.fault("the text ends within the object");
            };
            text.push_str(&rest[..plain]);
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => {
                    self.at += 1;
                    text.push(self.escaped()?);
                }
                _ => return self.fault("a control character stands in a text"),
            }
        }
    }

    fn escaped(&mut self) -> Result<char, JsonFault> {
        let Some(escape) = self.peek() else {
            return self.fault("the text ends within the object");
        };
        self.at += 1;
        Ok(match escape {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\x08',
            b'f' => '\x0c',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.code_point(),
            _ => return self.fault("is no escape"),
        })
    }

    /// Four hexadecimal digits, or twice that for what lies outside of the first plane.
    fn code_point(&mut self) -> Result<char, JsonFault> {
        let first = self.four_digits()?;
        let code = match first {
            0xd800..=0xdbff => {
                self.take(b'\\')?;
                self.take(b'u')?;
                match self.four_digits()? {
                    second @ 0xdc00..=0xdfff => 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00),
                    _ => return self.fault("is half of a pair"),
                }
            }
            code => code,
        };
        match char::from_u32(code) {
            Some(found) => Ok(found),
            None => self.fault("is half of a pair"),
        }
    }

    fn four_digits(&mut self) -> Result<u32, JsonFault> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else {
                return self.fault("expected four hexadecimal digits");
            };
            code = 16 * code + digit;
            self.at += 1;
        }
        Ok(code)
    }
}

/// Levels of objects and lists within each other: as messages each of them takes up to three, and a document may have 90 of those.
const DEPTH_MAX: usize = 30;
