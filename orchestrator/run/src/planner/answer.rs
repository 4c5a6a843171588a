//! Finds the one JSON object in what a planner answered. Does not know what a plan is.

use crate::fields::field;
use crate::journal::RefusedPart;
use crate::json::{NotJson, document_of_json};
use crate::outcome::cut;
use alloc::format;
use alloc::string::{String, ToString};
use bytes::Bytes;
use escapement_model::Opaque;
use escapement_model::opaque::{ValueView, value};

// RUN-11.5
/// The document in an output: its `plan`, else the object in the text of its `content`, else the output itself. A `plan` that is a
/// text is read as one.
pub(super) fn document_in(output: &Bytes) -> Result<Opaque, RefusedPart> {
    let Ok(ValueView::Struct(object)) = value(output) else {
        return Err(no_object("the planner's output is no object"));
    };
    match (field(object, "plan"), field(object, "content")) {
        (Some(ValueView::Struct(plan)), _) => Ok(owned(plan)),
        (Some(ValueView::Text(text)), _) | (None, Some(ValueView::Text(text))) => object_in(text),
        (Some(_), _) => Err(no_object("plan: is no object")),
        (None, _) => Ok(owned(object)),
    }
}

fn owned(object: &[u8]) -> Opaque {
    Opaque::from_encoded(Bytes::copy_from_slice(object))
}

// RUN-11.5
/// The one JSON object in a text, whatever stands before and behind it. A brace begins an object if a quote follows it.
pub(super) fn object_in(text: &str) -> Result<Opaque, RefusedPart> {
    let (mut found, mut at) = (None, 0);
    while let Some(begin) = text[at..].find('{').map(|begin| at + begin) {
        let behind = text[begin + 1..].trim_start_matches([' ', '\t', '\r', '\n']);
        if !behind.starts_with('"') {
            // What stands between the brace and that is read once.
            at = text.len() - behind.len();
            continue;
        }
        let (object, end) = document_of_json(text, begin).map_err(broken)?;
        if found.is_some() {
            return Err(refused("TWO_OBJECTS", "the answer has more than one JSON object"));
        }
        (found, at) = (Some(object), end);
    }
    found.ok_or_else(|| no_object("the answer has no JSON object"))
}

fn no_object(message: &str) -> RefusedPart {
    refused("NO_OBJECT", message)
}

fn broken(why: NotJson) -> RefusedPart {
    let mut refused = refused("BROKEN_JSON", &why.to_string());
    if !why.path.is_empty() {
        let path = cut(&why.path, PATH_CHARS_MAX);
        refused.path = format!("document.{path}");
    }
    refused
}

fn refused(code: &str, message: &str) -> RefusedPart {
    RefusedPart {
        path: String::from("document"),
        code: code.to_string(),
        message: message.to_string(),
    }
}

/// Code points of a path that the planner is sent.
const PATH_CHARS_MAX: usize = 200;
