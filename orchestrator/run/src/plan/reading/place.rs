//! Places in a document: their order, and how they are written. Reads nothing.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// One part of the way to a place.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part<'a> {
    /// A field of an object.
    Field(&'a str),
    /// An item of a list.
    Item(usize),
}

/// A place in a document.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(super) order: Vec<usize>,
    pub(super) path: String,
}

impl Place {
    pub(super) fn of(parts: &[(usize, Part<'_>)]) -> Self {
        let mut path = String::new();
        for (_, part) in parts {
            match part {
                Part::Field(key) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    push_key(&mut path, key);
                }
                Part::Item(n) => path.push_str(&format!("[{n}]")),
            }
        }
        if path.is_empty() {
            path.push_str("document");
        }
        Self {
            order: parts.iter().map(|(number, _)| *number).collect(),
            path,
        }
    }

    /// Returns the place of an item of the list that is here.
    pub(crate) fn item(&self, n: usize) -> Self {
        let mut order = self.order.clone();
        order.push(n);
        Self {
            order,
            path: format!("{}[{n}]", self.path),
        }
    }
}

/// Keys that are no plain words are quoted, and long ones are cut.
fn push_key(path: &mut String, key: &str) {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'$');
    if !key.is_empty() && key.len() <= TEXT_CHARS_SHOWN_MAX && key.bytes().all(is_plain) {
        path.push_str(key);
    } else {
        path.push_str(&format!("{:?}", cut(key)));
    }
}

/// Returns the first code points of a text, for a message that repeats it.
pub(crate) fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS_SHOWN_MAX) {
        None => text.to_string(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// Code points of a text that a message or a path repeats.
const TEXT_CHARS_SHOWN_MAX: usize = 64;
