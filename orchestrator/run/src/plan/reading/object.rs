//! One object of a document: its fields by name and type. What is absent or null has no value; what is left over is unknown.

use super::super::violations::Code;
use super::value::{list, object, one_of, out_of_range, text, whole, wrong_type};
use super::{Part, Reading};
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use escapement_model::opaque::{ValueView, entries};

/// An object whose fields are taken one by one. The order in which they are taken is their order in violations.
#[derive(Debug)]
pub(crate) struct Object<'a> {
    left: BTreeMap<&'a str, ValueView<'a>>,
    /// The fields that were taken, in this order.
    taken: Vec<&'static str>,
}

impl<'a> Object<'a> {
    /// Takes an encoded Struct that was checked. Of a repeated key the last value counts.
    pub(crate) fn new(object: &'a [u8]) -> Self {
        let entries = entries(object).map(|entry| entry.expect("only objects that were checked are read"));
        Self {
            left: entries.collect(),
            taken: Vec::new(),
        }
    }

    /// Reads a field if it is there and not null.
    pub(crate) fn field<T>(
        &mut self,
        reading: &mut Reading<'a>,
        name: &'static str,
        read: impl FnOnce(&mut Reading<'a>, ValueView<'a>) -> Option<T>,
    ) -> Option<T> {
        self.taken.push(name);
        match self.left.remove(name) {
            None | Some(ValueView::Null) => None,
            Some(value) => reading.within(self.taken.len(), Part::Field(name), |reading| {
                read(reading, value)
            }),
        }
    }

    /// As [`Object::field`]; its absence is a violation.
    pub(crate) fn required<T>(
        &mut self,
        reading: &mut Reading<'a>,
        name: &'static str,
        read: impl FnOnce(&mut Reading<'a>, ValueView<'a>) -> Option<T>,
    ) -> Option<T> {
        if !self.has(name) {
            self.taken.push(name);
            self.left.remove(name);
            return reading.within(self.taken.len(), Part::Field(name), |reading| {
                reading.violation(Code::InvalidField, || "Required.".to_string());
                None
            });
        }
        self.field(reading, name, read)
    }

    /// Notes what is wrong with a field, or with its absence.
    pub(crate) fn violation(
        &mut self,
        reading: &mut Reading<'a>,
        name: &'static str,
        code: Code,
        message: &str,
    ) {
        let after_all = self.taken.len() + 1;
        reading.within(after_all, Part::Field(name), |reading| {
            reading.violation(code, || message.to_string());
        });
    }

    /// True if the field was not taken, and is not null.
    pub(crate) fn has(&self, name: &str) -> bool {
        !matches!(self.left.get(name), None | Some(ValueView::Null))
    }

    /// A text of this many code points.
    pub(crate) fn text(
        &mut self,
        reading: &mut Reading<'a>,
        name: &'static str,
        chars: RangeInclusive<usize>,
    ) -> Option<String> {
        self.field(reading, name, |reading, value| {
            text(reading, value, chars).map(str::to_string)
        })
    }

    /// As [`Object::text`]; its absence is a violation.
    pub(crate) fn required_text(
        &mut self,
        reading: &mut Reading<'a>,
        name: &'static str,
        chars: RangeInclusive<usize>,
    ) -> String {
        let text = self.required(reading, name, |reading, value| text(reading, value, chars));
        text.unwrap_or_default().to_string()
    }

    /// `true` or `false`.
    pub(crate) fn boolean(&mut self, reading: &mut Reading<'a>, name: &'static str) -> Option<bool> {
        self.field(reading, name, |reading, value| match value {
            ValueView::Bool(flag) => Some(flag),
            other => wrong_type(reading, "true or false", other),
        })
    }

    /// A whole number. Numbers are doubles, so the range must lie below 2^53.
    pub(crate) fn whole(
        &mut self,
        reading: &mut Reading<'a>,
        name: &'static str,
        range: RangeInclusive<u64>,
    ) -> Option<u64> {
        self.field(reading, name, |reading, value| whole(reading, value, range))
    }

    /// A number.
    pub(crate) fn number(
        &mut self,
        reading: &mut Reading<'a>,
        name: &'static str,
        range: RangeInclusive<f64>,
    ) -> Option<f64> {
        self.field(reading, name, |reading, value| match value {
            ValueView::Number(number) if range.contains(&number) => Some(number),
            ValueView::Number(number) => out_of_range(reading, "a number", range, number),
            other => wrong_type(reading, "a number", other),
        })
    }

    /// One of several texts, each with what it means.
    pub(crate) fn one_of<T: Copy>(
        &mut self,
        reading: &mut Reading<'a>,
        name: &'static str,
        all: &[(&str, T)],
    ) -> Option<T> {
        self.field(reading, name, |reading, value| one_of(reading, value, all))
    }

    /// An encoded object.
    pub(crate) fn object(&mut self, reading: &mut Reading<'a>, name: &'static str) -> Option<&'a [u8]> {
        self.field(reading, name, object)
    }

    /// Reads an encoded object, the empty one if it is absent.
    pub(crate) fn or_empty(
        &mut self,
        reading: &mut Reading<'a>,
        name: &'static str,
        read: impl FnOnce(&mut Reading<'a>, &'a [u8]),
    ) {
        self.taken.push(name);
        let value = self.left.remove(name).unwrap_or(ValueView::Null);
        reading.within(self.taken.len(), Part::Field(name), |reading| match value {
            ValueView::Null => read(reading, &[]),
            value => {
                if let Some(object) = object(reading, value) {
                    read(reading, object);
                }
            }
        });
    }

    /// A list, read item by item.
    pub(crate) fn list<T>(
        &mut self,
        reading: &mut Reading<'a>,
        name: &'static str,
        n_items: RangeInclusive<usize>,
        read: impl FnMut(&mut Reading<'a>, ValueView<'a>) -> Option<T>,
    ) -> Option<Vec<T>> {
        self.field(reading, name, |reading, value| {
            list(reading, value, n_items, read)
        })
    }

    /// A list of texts of this many code points each.
    pub(crate) fn texts(
        &mut self,
        reading: &mut Reading<'a>,
        name: &'static str,
        n_items: RangeInclusive<usize>,
        chars: RangeInclusive<usize>,
    ) -> Vec<String> {
        let texts = self.list(reading, name, n_items, |reading, value| {
            text(reading, value, chars.clone()).map(str::to_string)
        });
        texts.unwrap_or_default()
    }

    /// Notes every field that was not taken.
    pub(crate) fn finish(self, reading: &mut Reading<'a>) {
        for (number, name) in (self.taken.len() + 2..).zip(self.left.into_keys()) {
            reading.unknown_field(number, name, &self.taken);
        }
    }
}
