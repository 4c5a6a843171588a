//! What leads from one step to others: dependencies, references in templates, jumps. Steps are their places in the document.

use super::reading::{Part, Place, Reading, cut, text};
use super::violations::Code;
use crate::template::{self, MalformedReference, Piece, Reference};
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use escapement_model::opaque::{ValueView, entries, items};

/// The keys of all steps, each with the place of the first step that has it.
pub(super) type Keys<'a> = BTreeMap<&'a str, usize>;

/// Where a template is rendered, which says what it may refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rendered {
    /// Before a step, so that what it refers to comes earlier.
    BeforeStep,
    /// Before each iteration of a loop, which has `iteration`.
    BeforeIteration,
    /// Before each call of a parallel step, which has `item`.
    BeforeItem,
    /// When all steps are settled.
    AtEnd,
}

/// What leads from one step to others.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// The steps that come before this one.
    pub(super) before: BTreeMap<usize, Before>,
    /// The steps that this one may jump to, and where it says so.
    pub(super) jumps: Vec<(usize, Place)>,
    /// The step whose call this one repeats, and where it says so.
    pub(super) repeats: Option<(usize, Place)>,
    /// Where the dependencies are listed.
    pub(super) depends_on: Option<Place>,
    /// Where all other mentions are.
    pub(super) config: Option<Place>,
}

/// How a step comes before another one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    /// The item of `depends_on`; `None` if the step is mentioned in its configuration only.
    pub(super) item: Option<usize>,
    /// False if only its being settled counts.
    pub(super) is_dependency: bool,
}

impl Links {
    /// Puts a step before this one.
    pub(super) fn put_before(&mut self, step: usize, before: Before) {
        match self.before.entry(step) {
            Entry::Vacant(entry) => {
                entry.insert(before);
            }
            Entry::Occupied(mut entry) => {
                let known = entry.get_mut();
                known.item = known.item.or(before.item);
                known.is_dependency |= before.is_dependency;
            }
        }
    }

    /// Makes a step a dependency of this one.
    pub(super) fn depend_on(&mut self, step: usize) {
        let before = Before {
            item: None,
            is_dependency: true,
        };
        self.put_before(step, before);
    }

    /// Checks every reference of a value.
    pub(super) fn value_template<'a>(
        &mut self,
        reading: &mut Reading<'a>,
        keys: &Keys<'a>,
        rendered: Rendered,
        value: ValueView<'a>,
    ) {
        let mut references = References {
            links: self,
            keys,
            rendered,
            n_found: 0,
        };
        references.in_value(reading, value);
        let n_found = references.n_found;
        if n_found > REFERENCES_MAX {
            reading.violation(Code::PlanSize, || {
                format!("Must have at most {REFERENCES_MAX} references, has {n_found}.")
            });
        }
    }

    /// Checks every reference of a text.
    pub(super) fn text_template<'a>(&mut self, reading: &mut Reading<'a>, keys: &Keys<'a>, text: &'a str) {
        self.value_template(reading, keys, Rendered::BeforeStep, ValueView::Text(text));
    }
}

/// The step that a value names by its key.
pub(super) fn named<'a>(reading: &mut Reading<'a>, keys: &Keys<'a>, value: ValueView<'a>) -> Option<usize> {
    let key = text(reading, value, 1..=usize::MAX)?;
    named_by(reading, keys, key)
}

/// The step that has this key.
pub(super) fn named_by(reading: &mut Reading<'_>, keys: &Keys<'_>, key: &str) -> Option<usize> {
    let found = keys.get(key).copied();
    if found.is_none() {
        reading.violation(Code::UnknownReference, || {
            format!("No step has the key {:?}.", cut(key))
        });
    }
    found
}

// RUN-1.5
/// A walk through one template.
struct References<'l, 'a> {
    links: &'l mut Links,
    keys: &'l Keys<'a>,
    rendered: Rendered,
    n_found: usize,
}

impl<'a> References<'_, 'a> {
    /// Recursive; the check of the document bounds the depth.
    fn in_value(&mut self, reading: &mut Reading<'a>, value: ValueView<'a>) {
        match value {
            ValueView::Text(text) => {
                for piece in template::pieces(text) {
                    match piece {
                        Ok(Piece::Text(_)) => {}
                        Ok(Piece::Reference(reference)) => self.found(reading, &reference),
                        Err(malformed) => self.malformed(reading, malformed),
                    }
                }
            }
            ValueView::Struct(object) => match template::long_form(object) {
                Some(Ok(form)) => self.found(reading, &form.reference),
                Some(Err(malformed)) => self.malformed(reading, malformed),
                None => {
                    let entries = entries(object).filter_map(Result::ok);
                    for (number, (key, value)) in entries.enumerate() {
                        reading.within(number, Part::Field(key), |reading| self.in_value(reading, value));
                    }
                }
            },
            ValueView::List(list) => {
                reading.each(items(list).filter_map(Result::ok), |reading, item| {
                    self.in_value(reading, item);
                });
            }
            ValueView::Null | ValueView::Number(_) | ValueView::Bool(_) => {}
        }
    }

    fn found(&mut self, reading: &mut Reading<'a>, reference: &Reference<'_>) {
        self.n_found += 1;
        let source = reference.source;
        let has_value = match source {
            "input" | "session" | "run" => true,
            "iteration" => self.rendered == Rendered::BeforeIteration,
            "item" => self.rendered == Rendered::BeforeItem,
            key => match self.keys.get(key) {
                Some(_) if self.rendered == Rendered::AtEnd => true,
                Some(step) => {
                    self.links.depend_on(*step);
                    true
                }
                None => false,
            },
        };
        if !has_value {
            reading.violation(Code::ReferenceUnresolved, || match source {
                "iteration" => "Only the arguments of a loop have an iteration.".to_string(),
                "item" => "Only the arguments of a parallel step have an item.".to_string(),
                key => format!("No step has the key {:?}.", cut(key)),
            });
        }
    }

    fn malformed(&mut self, reading: &mut Reading<'a>, malformed: MalformedReference) {
        reading.violation(Code::ReferenceUnresolved, || malformed.to_string());
    }
}

/// References in one template: each one costs a walk through a value when it is rendered.
const REFERENCES_MAX: usize = 1024;
