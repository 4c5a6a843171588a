//! Takes fields of another format and writes them as fields of ours. Checks none: the plan document that comes of it is checked.

use super::super::reading::{Object, Part, Reading, cut};
use super::super::violations::Code;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use escapement_model::limits::NAME_CHARS_MAX;
use escapement_model::opaque::{ListBuilder, StructBuilder, ValueView, encode_value, entries, items, value};

/// What a document becomes.
#[derive(Debug, Default)]
pub(super) struct Converted {
    /// The plan document.
    pub(super) document: StructBuilder,
    /// The id that the plan has elsewhere.
    pub(super) external_id: Option<String>,
    /// What is said beside the plan.
    pub(super) attributes: StructBuilder,
}

impl Converted {
    /// Begins a plan document.
    pub(super) fn new() -> Self {
        Self {
            document: StructBuilder::new().text("schema", "escapement.plan/1"),
            ..Self::default()
        }
    }

    /// Takes the id that the plan has elsewhere.
    pub(super) fn take_id<'a>(
        &mut self,
        reading: &mut Reading<'a>,
        object: &mut Object<'a>,
        name: &'static str,
    ) {
        self.external_id = object.text(reading, name, 1..=NAME_CHARS_MAX);
    }

    /// Takes the steps, each converted with its place; what is no list, or no object, is left to the check.
    pub(super) fn take_steps<'a>(
        &mut self,
        reading: &mut Reading<'a>,
        object: &mut Object<'a>,
        name: &'static str,
        mut convert: impl FnMut(&mut Reading<'a>, &mut Object<'a>, usize) -> StructBuilder,
    ) {
        object.field(reading, name, |reading, value| {
            put(&mut self.document, |document| match value {
                ValueView::List(list) => {
                    let mut steps = ListBuilder::new();
                    let all = items(list).filter_map(Result::ok).enumerate();
                    for (place, step) in all {
                        let add = core::mem::take(&mut steps);
                        steps = reading.within(place, Part::Item(place), |reading| match step {
                            ValueView::Struct(step) => {
                                let mut step = Object::new(step);
                                let converted = convert(reading, &mut step, place);
                                step.finish(reading);
                                add.object(converted.build().as_encoded())
                            }
                            other => add.value(other),
                        });
                    }
                    document.list("steps", steps)
                }
                other => document.value("steps", other),
            });
            Some(())
        });
    }
}

/// Changes a builder in its place.
pub(super) fn put(builder: &mut StructBuilder, change: impl FnOnce(StructBuilder) -> StructBuilder) {
    *builder = change(core::mem::take(builder));
}

/// Moves fields as they are: `(name there, name here)`.
pub(super) fn move_fields<'a>(
    reading: &mut Reading<'a>,
    from: &mut Object<'a>,
    to: &mut StructBuilder,
    names: &[(&'static str, &'static str)],
) {
    for (there, here) in names {
        if let Some(value) = from.field(reading, there, |_, value| Some(value)) {
            put(to, |builder| builder.value(here, value));
        }
    }
}

/// Moves fields that are templates here, so that their texts stay as they are.
pub(super) fn move_texts<'a>(
    reading: &mut Reading<'a>,
    from: &mut Object<'a>,
    to: &mut StructBuilder,
    names: &[(&'static str, &'static str)],
) {
    for (there, here) in names {
        let encoded = from.field(reading, there, |reading, value| Some(escaped(reading, value)));
        if let Some(encoded) = encoded {
            put(to, |builder| builder.value(here, viewed(&encoded)));
        }
    }
}

/// Leaves out records of what happened.
pub(super) fn skip<'a>(reading: &mut Reading<'a>, from: &mut Object<'a>, names: &[&'static str]) {
    for name in names {
        from.field(reading, name, |_, _| Some(()));
    }
}

/// Encodes a value whose texts, as templates, are what they were; recursive, bounded by the check of the document.
pub(super) fn escaped<'a>(reading: &mut Reading<'a>, template: ValueView<'a>) -> Vec<u8> {
    let mut encoded = Vec::new();
    match template {
        ValueView::Text(text) => {
            encode_value(ValueView::Text(&text.replace("${", "$${")), &mut encoded);
        }
        ValueView::List(list) => {
            let mut texts = ListBuilder::new();
            let items = reading.each(items(list).filter_map(Result::ok), |reading, item| {
                escaped(reading, item)
            });
            for item in items {
                texts = texts.value(viewed(&item));
            }
            encode_value(ValueView::List(&texts.into_encoded()), &mut encoded);
        }
        ValueView::Struct(object) => {
            let mut texts = StructBuilder::new();
            for (number, (key, item)) in entries(object).filter_map(Result::ok).enumerate() {
                let item = reading.within(number, Part::Field(key), |reading| {
                    if key == "$from" {
                        let message = || "An object with `$from` would be a reference here.".to_string();
                        reading.violation(Code::ReferenceUnresolved, message);
                    }
                    escaped(reading, item)
                });
                // A refused key stays out, so that nothing more is said about it.
                if key != "$from" {
                    texts = texts.value(key, viewed(&item));
                }
            }
            encode_value(ValueView::Struct(texts.build().as_encoded()), &mut encoded);
        }
        ValueView::Null | ValueView::Number(_) | ValueView::Bool(_) => encode_value(template, &mut encoded),
    }
    encoded
}

/// Views what was encoded here.
pub(super) fn viewed(encoded: &[u8]) -> ValueView<'_> {
    value(encoded).expect("it was encoded here")
}

/// Writes a text both as it is and as a name, which is shorter.
pub(super) fn name_of(value: ValueView<'_>, to: &mut StructBuilder) {
    match value {
        ValueView::Text(text) => {
            let name: String = text.chars().take(NAME_CHARS_MAX).collect();
            put(to, |builder| builder.text("name", &name));
        }
        other => put(to, |builder| builder.value("name", other)),
    }
}

/// The key of a numbered step.
pub(super) fn numbered<'a>(
    reading: &mut Reading<'a>,
    step: &mut Object<'a>,
    name: &'static str,
    place: usize,
) -> (String, u64) {
    if !step.has(name) {
        step.required(reading, name, |_, _| Some(()));
    }
    let number = step.whole(reading, name, 0..=NUMBER_MAX);
    // Stands in for a number that is wrong, which no other step has.
    let number = number.unwrap_or(NUMBER_MAX + 1 + place as u64);
    (key_of(number), number)
}

/// Moves the numbers of steps that come before, as keys.
pub(super) fn move_numbers<'a>(
    reading: &mut Reading<'a>,
    step: &mut Object<'a>,
    name: &'static str,
    to: &mut StructBuilder,
) {
    let keys = step.field(reading, name, |_, value| match value {
        ValueView::List(list) => {
            let mut keys = ListBuilder::new();
            for item in items(list).filter_map(Result::ok) {
                keys = match item {
                    ValueView::Number(number) => {
                        keys.text(&format!("{KEY_BEGIN}{}", cut(&number.to_string())))
                    }
                    other => keys.value(other),
                };
            }
            let mut encoded = Vec::new();
            encode_value(ValueView::List(&keys.into_encoded()), &mut encoded);
            Some(encoded)
        }
        other => {
            let mut encoded = Vec::new();
            encode_value(other, &mut encoded);
            Some(encoded)
        }
    });
    if let Some(keys) = keys {
        put(to, |builder| builder.value("depends_on", viewed(&keys)));
    }
}

fn key_of(number: u64) -> String {
    format!("{KEY_BEGIN}{number}")
}

const KEY_BEGIN: &str = "step_";
/// The largest number of a numbered step.
const NUMBER_MAX: u64 = 1_000_000;
