//! Reads a document field by field, and notes what is wrong with each. Knows no field.
//!
//! What is wrong gives a stand-in, so that reading goes on; no stand-in leaves, since a document with a violation is refused.

mod object;
mod place;
mod unknown;
mod value;

use super::violations::{Code, Violation, Violations};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use escapement_model::limits::VIOLATIONS_MAX;

pub(crate) use object::Object;
pub(crate) use place::{Part, Place, cut};
pub(crate) use unknown::Fields;
pub(crate) use value::{list, object, one_of, text, wrong_type};

/// A document while it is read: where the reader is, and what was found.
#[derive(Debug, Default)]
pub(crate) struct Reading<'a> {
    at: Vec<(usize, Part<'a>)>,
    /// By place, then as found: the first violations in document order, whatever the order in which they are found.
    violations: BTreeMap<(Vec<usize>, usize), Violation>,
    n_found: usize,
    /// The objects of the document, if those inside one another are known beforehand.
    fields: Fields,
    /// Unknown fields that were compared with known ones.
    n_compared: usize,
}

impl<'a> Reading<'a> {
    /// Begins to read a document that has these objects.
    pub(crate) fn of(fields: Fields) -> Self {
        Self {
            fields,
            ..Self::default()
        }
    }

    /// Reads a part of what is read now; `number` orders it among the parts beside it.
    pub(crate) fn within<T>(
        &mut self,
        number: usize,
        part: Part<'a>,
        read: impl FnOnce(&mut Self) -> T,
    ) -> T {
        self.at.push((number, part));
        let read = read(self);
        self.at.pop();
        read
    }

    /// Reads each item of a list.
    pub(crate) fn each<T, U>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut read: impl FnMut(&mut Self, T) -> U,
    ) -> Vec<U> {
        let items = items.into_iter().enumerate();
        items
            .map(|(n, item)| self.within(n, Part::Item(n), |reading| read(reading, item)))
            .collect()
    }

    /// Returns where the reader is.
    pub(crate) fn place(&self) -> Place {
        Place::of(&self.at)
    }

    /// Notes what is wrong with what is read now.
    pub(crate) fn violation(&mut self, code: Code, message: impl FnOnce() -> String) {
        let order: Vec<usize> = self.at.iter().map(|(number, _)| *number).collect();
        if self.takes(&order) {
            let path = Place::of(&self.at).path;
            self.insert(order, path, code, message());
        }
    }

    /// Notes an unknown field of the object that is read now. `number` orders it among the others; `here`: the fields that it has.
    pub(crate) fn unknown_field(&mut self, number: usize, name: &'a str, here: &[&'static str]) {
        self.n_compared += 1;
        let message = match self.n_compared > COMPARED_MAX {
            true => String::from("unknown field"),
            false => unknown::message(name, &self.at, here, self.fields),
        };
        self.within(number, Part::Field(name), |reading| {
            reading.violation(Code::UnknownField, || message);
        });
    }

    /// Notes what is wrong with another place.
    pub(crate) fn violation_at(&mut self, place: Place, code: Code, message: impl FnOnce() -> String) {
        if self.takes(&place.order) {
            self.insert(place.order, place.path, code, message());
        }
    }

    /// True if nothing was found so far.
    pub(crate) fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }

    /// True if a violation at this place would be among the first.
    fn takes(&self, order: &[usize]) -> bool {
        let last = self.violations.last_key_value();
        self.violations.len() < VIOLATIONS_MAX || last.is_some_and(|((last, _), _)| order < last.as_slice())
    }

    fn insert(&mut self, order: Vec<usize>, path: String, code: Code, message: String) {
        self.n_found += 1;
        let violation = Violation { path, code, message };
        self.violations.insert((order, self.n_found), violation);
        if self.violations.len() > VIOLATIONS_MAX {
            self.violations.pop_last();
        }
    }

    /// Returns what was read if nothing is wrong, else all violations.
    pub(crate) fn conclude<T>(self, read: T) -> Result<T, Violations> {
        match Violations::new(self.violations.into_values().collect()) {
            None => Ok(read),
            Some(violations) => Err(violations),
        }
    }
}

/// Unknown fields of one document that are compared with known ones: a document may have a hundred thousand.
const COMPARED_MAX: usize = 32;
