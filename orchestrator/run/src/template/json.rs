//! Values as compact JSON, for text. Reads no JSON.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use escapement_model::opaque::{ValueView, entries, items};

/// The text would be longer than allowed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// Text that grows up to a limit.
#[derive(Debug)]
pub(super) struct Bounded {
    text: String,
    n_left: usize,
}

/// Returns a value that was checked as compact JSON; nothing if that has more than 2 MiB.
pub fn json_text(value: ValueView<'_>) -> String {
    let mut text = Bounded::new(JSON_BYTES_MAX);
    match text.push_json(value) {
        Ok(()) => text.into_text(),
        Err(TooLong) => String::new(),
    }
}

/// Bytes of a value as JSON.
const JSON_BYTES_MAX: usize = 2 << 20;

impl Bounded {
    /// An empty text that may have this many bytes.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            text: String::new(),
            n_left: bytes_max,
        }
    }

    /// Returns the text.
    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Appends text as it is.
    pub(super) fn push(&mut self, text: &str) -> Result<(), TooLong> {
        self.n_left = self.n_left.checked_sub(text.len()).ok_or(TooLong)?;
        self.text.push_str(text);
        Ok(())
    }

    /// Appends a value that was checked: keys in the order sent, of a repeated key the last value. Its depth is bounded by
    /// that check.
    #[expect(
        clippy::disallowed_methods,
        reason = "renderers pay for its bytes before they write it"
    )]
    pub(super) fn push_json(&mut self, value: ValueView<'_>) -> Result<(), TooLong> {
        match value {
            ValueView::Null => self.push("null"),
            ValueView::Bool(true) => self.push("true"),
            ValueView::Bool(false) => self.push("false"),
            ValueView::Number(number) => self.push(&number_text(number)),
            ValueView::Text(text) => self.push_quoted(text),
            ValueView::List(list) => self.push_list(items(list).filter_map(Result::ok)),
            ValueView::Struct(object) => {
                let entries: Vec<(&str, ValueView<'_>)> = entries(object).filter_map(Result::ok).collect();
                let last: BTreeMap<&str, usize> =
                    (0..).zip(&entries).map(|(at, (key, _))| (*key, at)).collect();
                let counting = (0..).zip(entries).filter(|(at, (key, _))| last[key] == *at);
                self.push("{")?;
                for (n, (_, (key, value))) in counting.enumerate() {
                    self.push(if n == 0 { "" } else { "," })?;
                    self.push_quoted(key)?;
                    self.push(":")?;
                    self.push_json(value)?;
                }
                self.push("}")
            }
        }
    }

    /// Appends values as a list.
    pub(super) fn push_list<'v>(
        &mut self,
        items: impl IntoIterator<Item = ValueView<'v>>,
    ) -> Result<(), TooLong> {
        self.push("[")?;
        for (n, item) in items.into_iter().enumerate() {
            self.push(if n == 0 { "" } else { "," })?;
            self.push_json(item)?;
        }
        self.push("]")
    }

    fn push_quoted(&mut self, text: &str) -> Result<(), TooLong> {
        self.push("\"")?;
        let mut rest = text;
        while let Some(at) = rest.find(|c: char| matches!(c, '"' | '\\' | '\0'..='\x1f')) {
            let (plain, escaped) = rest.split_at(at);
            self.push(plain)?;
            // What is found is one byte long.
            let (escaped, after) = escaped.split_at(1);
            match escaped {
                "\"" => self.push("\\\"")?,
                "\\" => self.push("\\\\")?,
                "\n" => self.push("\\n")?,
                "\r" => self.push("\\r")?,
                "\t" => self.push("\\t")?,
                "\x08" => self.push("\\b")?,
                "\x0c" => self.push("\\f")?,
                other => self.push(&format!("\\u{:04x}", other.as_bytes()[0]))?,
            }
            rest = after;
        }
        self.push(rest)?;
        self.push("\"")
    }
}

/// The shortest digits that read back as the same double; whole numbers without a fraction. What is no number is null.
fn number_text(number: f64) -> String {
    let size = number.abs();
    if !number.is_finite() {
        "null".to_string()
    } else if number == 0.0 {
        "0".to_string()
    } else if (PLAIN_MIN..PLAIN_MAX).contains(&size) {
        number.to_string()
    } else {
        format!("{number:e}")
    }
}

/// From here on numbers are written without an exponent.
const PLAIN_MIN: f64 = 1e-6;
/// Up to here numbers are written without an exponent.
const PLAIN_MAX: f64 = 1e21;
