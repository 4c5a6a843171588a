//! References as templates spell them: found, taken apart, never resolved.

use super::pointer::Pointer;
use alloc::vec::Vec;
use core::fmt;
use escapement_model::Opaque;
use escapement_model::opaque::{ValueView, entries, items};

/// A place whose value a template wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference<'t> {
    /// The key of a step; or `input`, `session`, `run`; or in a loop `iteration`, its number from 0; or in a parallel step
    /// `item`, its number from 0.
    pub source: &'t str,
    /// Where in its value.
    pub pointer: Pointer,
}

/// Why a text or an object is no reference although it begins as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MalformedReference {
    /// `${` without `}`.
    Unclosed,
    /// The source is not spelled like one.
    Source,
    /// What follows the source is no JSON pointer.
    Pointer,
    /// An object with `$from` has another field than `path` and `default`, or one of the wrong type.
    LongForm,
}

impl fmt::Display for MalformedReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unclosed => "A reference that begins with `${` has no `}`; `$${` stands for `${`.",
            Self::Source => {
                "A reference begins with the key of a step, or with input, session, run, iteration or item."
            }
            Self::Pointer => {
                "A reference ends with nothing, or with `:` and a JSON pointer, such as `${key:/path/0}`."
            }
            Self::LongForm => {
                "An object with `$from` has a text there, and nothing else but a JSON pointer as `path`, and `default`."
            }
        })
    }
}

impl core::error::Error for MalformedReference {}

/// True for what can be a source, as every key of a step: `[A-Za-z0-9_.-]{1,64}`.
pub fn is_source(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    (1..=SOURCE_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_part)
}

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'t> {
    /// Text as it is.
    Text(&'t str),
    /// A reference.
    Reference(Reference<'t>),
}

/// Takes a text apart. Ends after the first error.
pub(crate) fn pieces(text: &str) -> Pieces<'_> {
    Pieces { rest: text }
}

/// See [`pieces`].
#[derive(Debug)]
pub(crate) struct Pieces<'t> {
    rest: &'t str,
}

impl<'t> Iterator for Pieces<'t> {
    type Item = Result<Piece<'t>, MalformedReference>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest;
        if rest.is_empty() {
            return None;
        }
        if let Some(after) = rest.strip_prefix("$${") {
            self.rest = after;
            return Some(Ok(Piece::Text(&rest[1..3])));
        }
        let Some(reference) = rest.strip_prefix("${") else {
            // A dollar sign may begin a reference or an escape; the first character is neither.
            let next = rest.char_indices().skip(1).find(|(_, c)| *c == '$');
            let (text, rest) = rest.split_at(next.map_or(rest.len(), |(at, _)| at));
            self.rest = rest;
            return Some(Ok(Piece::Text(text)));
        };
        let Some((inside, after)) = reference.split_once('}') else {
            self.rest = "";
            return Some(Err(MalformedReference::Unclosed));
        };
        let (source, pointer) = inside.split_once(':').unwrap_or((inside, ""));
        let reference = reference_of(source, pointer).map(Piece::Reference);
        self.rest = if reference.is_ok() { after } else { "" };
        Some(reference)
    }
}

fn reference_of<'t>(source: &'t str, pointer: &str) -> Result<Reference<'t>, MalformedReference> {
    if !is_source(source) {
        return Err(MalformedReference::Source);
    }
    let pointer = Pointer::parse(pointer).ok_or(MalformedReference::Pointer)?;
    Ok(Reference { source, pointer })
}

/// A reference with what counts if its pointer leads nowhere.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LongForm<'t> {
    pub(crate) reference: Reference<'t>,
    pub(crate) default: Option<ValueView<'t>>,
}

/// Reads an object that was checked as the long form of a reference; `None` if it has no `$from`.
#[expect(
    clippy::disallowed_methods,
    reason = "renderers pay for the same entries when they walk on"
)]
pub(crate) fn long_form(object: &[u8]) -> Option<Result<LongForm<'_>, MalformedReference>> {
    let (mut from, mut path, mut default) = (None, ValueView::Text(""), None);
    let mut has_others = false;
    for (key, value) in entries(object).filter_map(Result::ok) {
        match key {
            "$from" => from = Some(value),
            "path" => path = value,
            "default" => default = Some(value),
            _ => has_others = true,
        }
    }
    let from = from?;
    let (ValueView::Text(source), ValueView::Text(path), false) = (from, path, has_others) else {
        return Some(Err(MalformedReference::LongForm));
    };
    Some(reference_of(source, path).map(|reference| LongForm { reference, default }))
}

/// Returns every reference in a template of an object that was checked; malformed ones are left out.
pub fn references(template: &Opaque) -> Vec<Reference<'_>> {
    let mut found = Vec::new();
    in_value(ValueView::Struct(template.as_encoded()), &mut found);
    found
}

/// Recursive; the check of the template bounds the depth.
#[expect(
    clippy::disallowed_methods,
    reason = "a plan is walked once, before a run has it"
)]
fn in_value<'t>(value: ValueView<'t>, found: &mut Vec<Reference<'t>>) {
    match value {
        ValueView::Text(text) => found.extend(pieces(text).filter_map(|piece| match piece {
            Ok(Piece::Reference(reference)) => Some(reference),
            Ok(Piece::Text(_)) | Err(_) => None,
        })),
        ValueView::Struct(object) => match long_form(object) {
            Some(form) => found.extend(form.ok().map(|form| form.reference)),
            None => {
                let values = entries(object).filter_map(Result::ok);
                values.for_each(|(_, value)| in_value(value, found));
            }
        },
        ValueView::List(list) => items(list)
            .filter_map(Result::ok)
            .for_each(|item| in_value(item, found)),
        ValueView::Null | ValueView::Number(_) | ValueView::Bool(_) => {}
    }
}

/// Bytes of a source.
const SOURCE_BYTES_MAX: usize = 64;
