//! Templates: values and texts with references in them, such as `${step:/path/0}`. Knows no plan and no run.
//!
//! In a text, `${source:/pointer}` is a reference, `${source}` one to the whole value, and `$${` stands for `${`.
//! So no text has a dollar sign right in front of a reference.
//! A text that is one reference and nothing else is replaced by the value with its type; inside other text a reference
//! is replaced by the text of its value: texts as they are, the rest as compact JSON.
//! A pointer in a text ends at the first `}`. The long form, `{"$from": source, "path": pointer, "default": value}`, has no
//! such limit; there `path` and `default` may be left out, and the default counts if the pointer leads nowhere.
//! Keys of objects and defaults hold no references.

mod json;
mod pointer;
mod reference;
mod render;

pub use json::json_text;
pub use pointer::{Pointer, list_index};
pub use reference::{MalformedReference, Reference, is_source, references};
pub(crate) use reference::{Piece, long_form, pieces};
pub use render::{Found, RenderError, Sources, render_object, render_text, render_value};
