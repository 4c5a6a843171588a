//! Reads JSON texts that planners, models and workers wrote. Reads one value as RFC 8259 has it, and forgives nothing.
//!
//! The cost is linear in the text, and what is nested deeper than a limit is refused before it is looked at.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt;
use escapement_model::Opaque;
use escapement_model::numbers::is_exact;
use escapement_model::opaque::{ListBuilder, StructBuilder, ValueView};

use crate::outcome::encoded;

/// Why a text is no JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotJson {
    /// The byte at which it is wrong.
    pub at: usize,
    /// What is wrong.
    pub what: String,
    /// Path in the value, such as `steps[0].config`, if the text is JSON and only this part is refused; else
    /// empty.
    pub path: String,
}

impl NotJson {
    /// Returns the same error, found in an entry or an item of the value that is being read.
    fn inside(mut self, place: &str) -> Self {
        if self.what.starts_with(LOST) {
            let joint = if self.path.is_empty() || self.path.starts_with('[') {
                ""
            } else {
                "."
            };
            self.path = format!("{place}{joint}{}", self.path);
        }
        self
    }
}

impl fmt::Display for NotJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.what, self.at)
    }
}

impl core::error::Error for NotJson {}

/// Returns the value that the text is, as an encoded `google.protobuf.Value`. Blanks may stand around it.
///
/// # Errors
/// [`NotJson`], also if a key comes twice in an object, a number is too large for a double, or objects and lists are nested
/// deeper than 40 levels.
pub fn value_of_json(text: &str) -> Result<Bytes, NotJson> {
    whole_value(text, Integers::Rounded)
}

/// Parses as [`value_of_json`] does, but an integer that a double does not hold exactly becomes a text with
/// all its digits.
///
/// # Errors
/// Fails as [`value_of_json`] does.
pub fn arguments_of_json(text: &str) -> Result<Bytes, NotJson> {
    whole_value(text, Integers::Texts)
}

fn whole_value(text: &str, integers: Integers) -> Result<Bytes, NotJson> {
    let mut reader = Reader {
        text,
        at: 0,
        levels_max: VALUE_LEVELS_MAX,
        integers,
    };
    let value = reader.value(0)?;
    let behind = text[reader.at..].trim_start_matches(BLANKS);
    match behind.is_empty() {
        true => Ok(value),
        false => Err(NotJson {
            at: text.len() - behind.len(),
            what: String::from("there is something behind the value"),
            path: String::new(),
        }),
    }
}

/// Returns the object that begins at this byte of the text, and the byte behind it. Keys are in the order in which they come.
///
/// # Errors
/// [`NotJson`], also if no object begins there, a key comes twice in an object, a number is too large for a double, or objects
/// and lists are nested deeper than 30 levels.
pub fn object_of_json(text: &str, begin: usize) -> Result<(Opaque, usize), NotJson> {
    object_from(text, begin, Integers::Rounded)
}

/// Parses as [`object_of_json`] does, for a document that is to be executed. An integer that a double does
/// not hold exactly is refused with its path.
///
/// # Errors
/// Fails as [`object_of_json`] does, and for such an integer.
pub fn document_of_json(text: &str, begin: usize) -> Result<(Opaque, usize), NotJson> {
    object_from(text, begin, Integers::Refused)
}

fn object_from(text: &str, begin: usize, integers: Integers) -> Result<(Opaque, usize), NotJson> {
    let mut reader = Reader {
        text,
        at: begin,
        levels_max: OBJECT_LEVELS_MAX,
        integers,
    };
    if text.as_bytes().get(begin) != Some(&b'{') {
        return Err(reader.wrong("an object is expected"));
    }
    let object = reader.object(0)?;
    Ok((object, reader.at))
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// Objects and lists inside one another.
    levels_max: usize,
    integers: Integers,
}

/// Treatment of integers that a double does not hold exactly.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Integers {
    /// They become the next double, as in schemas.
    Rounded,
    /// They become texts.
    Texts,
    /// They are refused.
    Refused,
}

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Result<Bytes, NotJson> {
        match self.peek() {
            Some(b'{') => Ok(encoded(ValueView::Struct(self.object(depth)?.as_encoded()))),
            Some(b'[') => Ok(encoded(ValueView::List(&self.list(depth)?))),
            Some(b'"') => Ok(encoded(ValueView::Text(&self.string()?))),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => self.word(),
            None => Err(self.wrong("the text ends where a value is expected")),
        }
    }

    fn check_depth(&self, depth: usize) -> Result<(), NotJson> {
        if depth >= self.levels_max {
            return Err(self.wrong(&format!("more than {} levels are nested", self.levels_max)));
        }
        Ok(())
    }

    fn object(&mut self, depth: usize) -> Result<Opaque, NotJson> {
        self.check_depth(depth)?;
        let (mut object, mut keys) = (StructBuilder::new(), BTreeSet::new());
        self.at += 1;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(object.build());
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.wrong("a key is expected"));
            }
            let key = self.string()?;
            self.expect(b':', "a colon is expected")?;
            let value = self.value(depth + 1).map_err(|wrong| wrong.inside(&key))?;
            object = object.value(&key, crate::turn::values::view(&value).expect("it was just made"));
            if !keys.insert(key) {
                return Err(self.wrong("a key of this object comes twice"));
            }
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return Err(self.wrong("a comma or the end of the object is expected")),
            }
        }
        self.at += 1;
        Ok(object.build())
    }

    fn list(&mut self, depth: usize) -> Result<Vec<u8>, NotJson> {
        self.check_depth(depth)?;
        let (mut list, mut index) = (ListBuilder::new(), 0);
        self.at += 1;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(list.into_encoded());
        }
        loop {
            let value = self
                .value(depth + 1)
                .map_err(|wrong| wrong.inside(&format!("[{index}]")))?;
            index += 1;
            list = list.value(crate::turn::values::view(&value).expect("it was just made"));
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return Err(self.wrong("a comma or the end of the list is expected")),
            }
        }
        self.at += 1;
        Ok(list.into_encoded())
    }

    fn string(&mut self) -> Result<String, NotJson> {
        let mut text = String::new();
        self.at += 1;
        loop {
            let rest = &self.text[self.at..];
            let Some(plain) = rest.find(|c: char| matches!(c, '"' | '\\' | '\0'..='\x1f')) else {
                return Err(self.wrong("a text has no end"));
            };
            text.push_str(&rest[..plain]);
            self.at += plain + 1;
            match rest.as_bytes()[plain] {
                b'"' => return Ok(text),
                b'\\' => text.push(self.escaped()?),
                _ => return Err(self.wrong("a text holds a control character")),
            }
        }
    }

    /// The character that an escape stands for; reading is behind its backslash.
    fn escaped(&mut self) -> Result<char, NotJson> {
        let escape = self.text.as_bytes().get(self.at).copied();
        self.at += 1;
        match escape {
            Some(plain @ (b'"' | b'\\' | b'/')) => Ok(char::from(plain)),
            Some(b'b') => Ok('\x08'),
            Some(b'f') => Ok('\x0c'),
            Some(b'n') => Ok('\n'),
            Some(b'r') => Ok('\r'),
            Some(b't') => Ok('\t'),
            Some(b'u') => self.unicode(),
            _ => {
                self.at -= 1;
                Err(self.wrong("an escape is none"))
            }
        }
    }

    fn unicode(&mut self) -> Result<char, NotJson> {
        let first = self.four_digits()?;
        let code = match first {
            0xd800..=0xdbff if self.text[self.at..].starts_with("\\u") => {
                self.at += 2;
                match self.four_digits()? {
                    second @ 0xdc00..=0xdfff => 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00),
                    _ => first,
                }
            }
            code => code,
        };
        char::from_u32(code).ok_or_else(|| self.wrong("an escape is half a character"))
    }

    fn four_digits(&mut self) -> Result<u32, NotJson> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4).unwrap_or_default();
        let mut code = 0;
        for digit in digits {
            let value = char::from(*digit).to_digit(16);
            code = 16 * code + value.ok_or_else(|| self.wrong("an escape is no hexadecimal number"))?;
        }
        if digits.is_empty() {
            return Err(self.wrong("an escape is no hexadecimal number"));
        }
        self.at += 4;
        Ok(code)
    }

    fn number(&mut self) -> Result<Bytes, NotJson> {
        let rest = &self.text.as_bytes()[self.at..];
        let digits = |from: usize| {
            let digits = rest.get(from..).unwrap_or_default().iter();
            digits.take_while(|byte| byte.is_ascii_digit()).count()
        };
        let whole = usize::from(rest[0] == b'-');
        let n_whole = digits(whole);
        let mut end = whole + n_whole;
        let mut is_right = n_whole == 1 || (n_whole > 1 && rest[whole] != b'0');
        if rest.get(end) == Some(&b'.') {
            let n_fraction = digits(end + 1);
            is_right &= n_fraction > 0;
            end += 1 + n_fraction;
        }
        if matches!(rest.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(rest.get(end + 1), Some(b'+' | b'-')));
            let n_exponent = digits(end + 1 + sign);
            is_right &= n_exponent > 0;
            end += 1 + sign + n_exponent;
        }
        let text = &self.text[self.at..self.at + end];
        let number = text
            .parse::<f64>()
            .ok()
            .filter(|number| is_right && number.is_finite());
        let number = number.ok_or_else(|| self.wrong("a number is none, or is too large"))?;
        let is_integer = end == whole + n_whole;
        if is_integer && self.integers != Integers::Rounded && !is_exact(text) {
            if self.integers == Integers::Refused {
                let shown = crate::outcome::cut(text, SHOWN_DIGITS);
                return Err(self.wrong(&format!(
                    "{LOST} {shown}, which a double does not hold exactly: write it as a text,"
                )));
            }
            self.at += end;
            return Ok(encoded(ValueView::Text(text)));
        }
        self.at += end;
        Ok(encoded(ValueView::Number(number)))
    }

    fn word(&mut self) -> Result<Bytes, NotJson> {
        let words = [
            ("true", ValueView::Bool(true)),
            ("false", ValueView::Bool(false)),
            ("null", ValueView::Null),
        ];
        let rest = &self.text[self.at..];
        let found = words.into_iter().find(|(word, _)| rest.starts_with(word));
        let (word, value) = found.ok_or_else(|| self.wrong("a value is expected"))?;
        self.at += word.len();
        Ok(encoded(value))
    }

    /// The next byte that is no blank; reading goes on there.
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while bytes
            .get(self.at)
            .is_some_and(|byte| BLANKS.contains(&char::from(*byte)))
        {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    fn expect(&mut self, byte: u8, what: &str) -> Result<(), NotJson> {
        if self.peek() != Some(byte) {
            return Err(self.wrong(what));
        }
        self.at += 1;
        Ok(())
    }

    fn wrong(&self, what: &str) -> NotJson {
        NotJson {
            at: self.at.min(self.text.len()),
            what: what.to_string(),
            path: String::new(),
        }
    }
}

/// Beginning of the sentence about an integer that a double does not hold.
const LOST: &str = "there is the integer";
/// Digits of it that the sentence repeats.
const SHOWN_DIGITS: usize = 40;
const BLANKS: [char; 4] = [' ', '\t', '\n', '\r'];
/// Objects and lists inside one another in a value.
const VALUE_LEVELS_MAX: usize = 40;
/// The same in an object that is a plan's document or a schema: as messages each level takes up to three, and a document may have
/// 90 of those.
const OBJECT_LEVELS_MAX: usize = 30;
