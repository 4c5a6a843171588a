//! Puts values into templates. Keeps every value as the bytes that it is: no number is written anew, and keys keep their order.
//!
//! The work is bounded for every template: copying stops at the limit of the output, not after it. Resolving
//! a reference is paid from a budget.

use super::json::{Bounded, TooLong};
use super::pointer::Pointer;
use super::reference::{LongForm, MalformedReference, Piece, Reference, long_form, pieces};
use crate::plan::Template;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt;
use escapement_model::Opaque;
use escapement_model::limits::PAYLOAD_BYTES_MAX;
use escapement_model::opaque::{
    BudgetSpent, ListBuilder, PaidList, PaidObject, StructBuilder, ValueView, WalkBudget, encode_value, value,
};

/// Where the values of references come from.
pub trait Sources {
    /// Finds the value at a pointer of a source; values were checked when they arrived.
    ///
    /// The output of a parallel step or of a loop is a list. Each item is kept apart: the first token is the
    /// item.
    ///
    /// # Errors
    /// [`BudgetSpent`]: finding it takes more than the budget pays for.
    fn value(
        &self,
        source: &str,
        pointer: &Pointer,
        budget: &mut WalkBudget,
    ) -> Result<Found<'_>, BudgetSpent>;
}

/// What a source has at a pointer.
#[derive(Clone, Debug, PartialEq)]
pub enum Found<'s> {
    /// This value, which may be null.
    Value(ValueView<'s>),
    /// This value, an encoded `google.protobuf.Value` made for the answer.
    Encoded(Bytes),
    /// A list of these items, each an encoded `google.protobuf.Value`; it may be larger than what can be rendered.
    List(Vec<Bytes>),
    /// A value that is larger than what can be rendered, however it is written.
    TooLarge,
    /// A text made for the answer.
    Text(String),
    /// Nothing: the pointer leads nowhere, or the source has no value.
    Missing,
}

/// Why a template gives nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RenderError {
    /// A reference leads nowhere and has no default.
    Unresolved {
        /// The source that it names.
        source: String,
        /// The JSON pointer.
        pointer: String,
    },
    /// A reference stands for an object, and its value is something else.
    NotAnObject {
        /// The source that it names.
        source: String,
        /// The JSON pointer.
        pointer: String,
    },
    /// The result would have more than 1 MiB.
    TooLarge,
    /// The result would be deeper than `escapement_model::limits::OBJECT_NESTING_MAX`.
    TooDeep,
    /// Finding what the references mean takes more work than is allowed.
    TooMuchWork,
    /// A reference is malformed; no plan that was checked has one.
    Malformed(MalformedReference),
}

impl fmt::Display for RenderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unresolved { source, pointer } => write!(f, "{source} has no value at {pointer:?}"),
            Self::NotAnObject { source, pointer } => write!(f, "{source} has no object at {pointer:?}"),
            Self::TooLarge => write!(f, "the rendered input has more than {PAYLOAD_BYTES_MAX} bytes"),
            Self::TooDeep => f.write_str("the rendered input is nested too deep"),
            Self::TooMuchWork => {
                write!(
                    f,
                    "finding what its references mean {BudgetSpent}: the values that they look into are too large"
                )
            }
            Self::Malformed(malformed) => malformed.fmt(f),
        }
    }
}

impl core::error::Error for RenderError {}

impl From<TooLong> for RenderError {
    fn from(TooLong: TooLong) -> Self {
        Self::TooLarge
    }
}

impl From<BudgetSpent> for RenderError {
    fn from(BudgetSpent: BudgetSpent) -> Self {
        Self::TooMuchWork
    }
}

impl From<MalformedReference> for RenderError {
    fn from(malformed: MalformedReference) -> Self {
        Self::Malformed(malformed)
    }
}

/// Renders an object. An object that is the long form of a reference becomes the object that it refers to.
///
/// # Errors
/// [`RenderError`].
pub fn render_object(
    template: &Opaque,
    sources: &dyn Sources,
    budget: &mut WalkBudget,
) -> Result<Opaque, RenderError> {
    let mut renderer = Renderer::new(sources, budget);
    let rendered = renderer.value(ValueView::Struct(template.as_encoded()))?;
    let object = match viewed(&rendered) {
        ValueView::Struct(object) => Opaque::from_encoded(rendered.slice_ref(object)),
        _ => {
            let form = long_form(template.as_encoded()).expect("any other object stays one")?;
            return Err(RenderError::NotAnObject {
                source: form.reference.source.to_string(),
                pointer: form.reference.pointer.to_string(),
            });
        }
    };
    check(&object)?;
    Ok(object)
}

/// Renders a value, and returns it as an encoded `google.protobuf.Value` that can be an entry of an object.
///
/// # Errors
/// [`RenderError`].
pub fn render_value(
    template: &Template,
    sources: &dyn Sources,
    budget: &mut WalkBudget,
) -> Result<Bytes, RenderError> {
    let rendered = Renderer::new(sources, budget).value(viewed(&template.0))?;
    check(&StructBuilder::new().value("", viewed(&rendered)).build())?;
    Ok(rendered)
}

/// Renders a text.
///
/// # Errors
/// [`RenderError`].
pub fn render_text(
    template: &str,
    sources: &dyn Sources,
    budget: &mut WalkBudget,
) -> Result<String, RenderError> {
    Renderer::new(sources, budget).text(template)
}

fn check(object: &Opaque) -> Result<(), RenderError> {
    if object.len() > PAYLOAD_BYTES_MAX {
        return Err(RenderError::TooLarge);
    }
    // Templates and values were checked, so only their depths together can be wrong.
    object.check().map_err(|_| RenderError::TooDeep)
}

struct Renderer<'s, 'b> {
    sources: &'s dyn Sources,
    /// Bytes that may still be copied.
    n_left: usize,
    /// Budget of entries and items that may still be read.
    budget: &'b mut WalkBudget,
}

impl<'s, 'b> Renderer<'s, 'b> {
    fn new(sources: &'s dyn Sources, budget: &'b mut WalkBudget) -> Self {
        Self {
            sources,
            n_left: PAYLOAD_BYTES_MAX,
            budget,
        }
    }

    /// Renders a value that was checked, which bounds the recursion, and returns it encoded.
    fn value(&mut self, template: ValueView<'_>) -> Result<Bytes, RenderError> {
        match template {
            ValueView::Text(text) => match only_reference(text) {
                Some(reference) => self.reference(&LongForm {
                    reference,
                    default: None,
                }),
                None => {
                    let text = self.text(text)?;
                    self.copied(ValueView::Text(&text), 0)
                }
            },
            ValueView::Struct(object) => match long_form(object) {
                Some(form) => self.reference(&form?),
                None => self.object(object),
            },
            ValueView::List(list) => {
                let (mut rendered, mut items) = (ListBuilder::new(), PaidList::of(list).items());
                while let Some(item) = items.next(self.budget)? {
                    let item = self.value(item.unpaid())?;
                    rendered = rendered.value(viewed(&item));
                }
                self.copied(ValueView::List(&rendered.into_encoded()), 0)
            }
            ValueView::Null | ValueView::Number(_) | ValueView::Bool(_) => {
                self.copied(template, SCALAR_BYTES)
            }
        }
    }

    fn object(&mut self, object: &[u8]) -> Result<Bytes, RenderError> {
        let (mut rendered, mut entries) = (StructBuilder::new(), PaidObject::of(object).entries());
        while let Some((key, value)) = entries.next(self.budget)? {
            self.charge(key.len())?;
            let value = self.value(value.unpaid())?;
            rendered = rendered.value(key, viewed(&value));
        }
        self.copied(ValueView::Struct(rendered.build().as_encoded()), 0)
    }

    fn reference(&mut self, form: &LongForm<'_>) -> Result<Bytes, RenderError> {
        let Reference { source, pointer } = &form.reference;
        match self.sources.value(source, pointer, self.budget)? {
            Found::Value(view) => self.copied(view, n_bytes(view)),
            Found::Encoded(bytes) => {
                self.charge(bytes.len())?;
                Ok(bytes)
            }
            Found::List(items) => {
                let mut list = ListBuilder::new();
                for item in &items {
                    self.charge(item.len())?;
                    list = list.value(viewed(item));
                }
                self.copied(ValueView::List(&list.into_encoded()), 0)
            }
            Found::TooLarge => Err(RenderError::TooLarge),
            Found::Text(text) => self.copied(ValueView::Text(&text), text.len()),
            Found::Missing => match form.default {
                Some(default) => self.copied(default, n_bytes(default)),
                None => Err(unresolved(&form.reference)),
            },
        }
    }

    /// Renders a text into text; it counts as copied.
    fn text(&mut self, template: &str) -> Result<String, RenderError> {
        let mut rendered = Bounded::new(self.n_left);
        for piece in pieces(template) {
            let reference = match piece? {
                Piece::Text(text) => {
                    rendered.push(text)?;
                    continue;
                }
                Piece::Reference(reference) => reference,
            };
            let found = self
                .sources
                .value(reference.source, &reference.pointer, self.budget)?;
            match found {
                Found::Value(view) => self.spell(&mut rendered, view)?,
                Found::Text(text) => rendered.push(&text)?,
                Found::Encoded(bytes) => self.spell(&mut rendered, viewed(&bytes))?,
                Found::List(items) => {
                    rendered.push("[")?;
                    for (n, item) in items.iter().enumerate() {
                        rendered.push(if n == 0 { "" } else { "," })?;
                        self.push_json(&mut rendered, viewed(item))?;
                    }
                    rendered.push("]")?;
                }
                Found::TooLarge => return Err(RenderError::TooLarge),
                Found::Missing => return Err(unresolved(&reference)),
            }
        }
        let rendered = rendered.into_text();
        self.charge(rendered.len())?;
        Ok(rendered)
    }

    /// Appends a value: a text as it is, anything else as JSON.
    fn spell(&mut self, rendered: &mut Bounded, value: ValueView<'_>) -> Result<(), RenderError> {
        match value {
            ValueView::Text(text) => Ok(rendered.push(text)?),
            value => self.push_json(rendered, value),
        }
    }

    /// Appends a value as JSON. All of it is looked at, also what does not come out.
    fn push_json(&mut self, rendered: &mut Bounded, value: ValueView<'_>) -> Result<(), RenderError> {
        self.budget.spend(n_bytes(value) / JSON_BYTES_PER_UNIT)?;
        Ok(rendered.push_json(value)?)
    }

    /// Encodes a value of which this many bytes are new.
    fn copied(&mut self, value: ValueView<'_>, n_new: usize) -> Result<Bytes, RenderError> {
        self.charge(n_new)?;
        let mut bytes = Vec::new();
        encode_value(value, &mut bytes);
        Ok(Bytes::from(bytes))
    }

    fn charge(&mut self, n_bytes: usize) -> Result<(), RenderError> {
        let n_left = self.n_left.checked_sub(n_bytes);
        self.n_left = n_left.ok_or(RenderError::TooLarge)?;
        Ok(())
    }
}

/// The reference that a text is, if it is nothing else.
fn only_reference(text: &str) -> Option<Reference<'_>> {
    let mut pieces = pieces(text);
    match (pieces.next(), pieces.next()) {
        (Some(Ok(Piece::Reference(reference))), None) => Some(reference),
        _ => None,
    }
}

fn unresolved(reference: &Reference<'_>) -> RenderError {
    RenderError::Unresolved {
        source: reference.source.to_string(),
        pointer: reference.pointer.to_string(),
    }
}

/// At most the bytes of the encoded value, and nearly all of them.
fn n_bytes(view: ValueView<'_>) -> usize {
    match view {
        ValueView::Null | ValueView::Bool(_) | ValueView::Number(_) => SCALAR_BYTES,
        ValueView::Text(text) => text.len(),
        ValueView::Struct(bytes) | ValueView::List(bytes) => bytes.len(),
    }
}

/// Views a value that was checked, or rendered.
fn viewed(encoded: &[u8]) -> ValueView<'_> {
    value(encoded).expect("sources have values that were checked")
}

/// Bytes of a value that are put in order and written as JSON at the price of one entry.
const JSON_BYTES_PER_UNIT: usize = 4;
/// Bytes of the shortest encoded value.
const SCALAR_BYTES: usize = 2;
