//! Tables of a TOML text, key by key: what is read is taken out, and what is left over is a violation.
//! Knows none of the keys.

use super::violation::PolicyViolation;
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value with its place.
#[derive(Clone)]
pub(super) struct Placed<T> {
    pub(super) path: String,
    /// Offset in the text, in bytes.
    pub(super) at: usize,
    pub(super) value: T,
}

/// A value that is one or the other.
pub(super) enum FlagOrText<'t> {
    Flag(bool),
    Text(Placed<&'t str>),
}

type Value<'t> = &'t DeValue<'t>;

/// A table that is being read.
pub(super) struct Section<'t> {
    path: String,
    at: usize,
    left: BTreeMap<&'t str, &'t Spanned<DeValue<'t>>>,
    /// Where each key that is left stands.
    keys: BTreeMap<&'t str, usize>,
}

/// A text that is being read, with what was wrong so far.
pub(super) struct Reading<'t> {
    text: &'t str,
    violations: Vec<PolicyViolation>,
}

impl<'t> Reading<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self {
            text,
            violations: Vec::new(),
        }
    }

    /// Notes that something is wrong.
    pub(super) fn wrong(&mut self, at: usize, path: &str, message: impl Into<String>) {
        let before = self.text.as_bytes().get(..at).unwrap_or(self.text.as_bytes());
        self.violations.push(PolicyViolation {
            line: before.iter().filter(|byte| **byte == b'\n').count() + 1,
            path: path.to_owned(),
            message: message.into(),
        });
    }

    /// The same for a value.
    pub(super) fn wrong_value<T>(&mut self, value: &Placed<T>, message: impl Into<String>) {
        self.wrong(value.at, &value.path, message);
    }

    /// Returns true if anything was wrong so far.
    pub(super) fn has_violations(&self) -> bool {
        !self.violations.is_empty()
    }

    /// What was wrong, in the order of the lines.
    pub(super) fn violations(mut self) -> Vec<PolicyViolation> {
        self.violations.sort_by_key(|violation| violation.line);
        self.violations
    }

    /// Returns the table as a section.
    pub(super) fn section(&self, path: String, at: usize, table: &'t DeTable<'t>) -> Section<'t> {
        let keys = table
            .iter()
            .map(|(key, _)| (key.get_ref().as_ref(), key.span().start));
        Section {
            path,
            at,
            left: table
                .iter()
                .map(|(key, value)| (key.get_ref().as_ref(), value))
                .collect(),
            keys: keys.collect(),
        }
    }

    /// Notes every key that nobody took.
    pub(super) fn finish(&mut self, section: Section<'t>) {
        for key in section.left.keys() {
            let at = section.keys.get(key).copied().unwrap_or(section.at);
            self.wrong(at, &section.path_of(key), "is no key that a policy has here");
        }
    }

    /// Returns a table below this one, if there is one.
    pub(super) fn table(&mut self, section: &mut Section<'t>, key: &str) -> Option<Section<'t>> {
        let value = section.take(key)?;
        let Some(table) = value.value.as_table() else {
            self.wrong_value(&value, "must be a table");
            return None;
        };
        Some(self.section(value.path, value.at, table))
    }

    /// Returns the tables of a list, as `[[key]]` writes them.
    pub(super) fn tables(&mut self, section: &mut Section<'t>, key: &str) -> Vec<Section<'t>> {
        let mut tables = Vec::new();
        for item in self
            .items(section, key, "must be a list of tables")
            .unwrap_or_default()
        {
            match item.value.as_table() {
                Some(table) => tables.push(self.section(item.path, item.at, table)),
                None => self.wrong_value(&item, "must be a table"),
            }
        }
        tables
    }

    /// Returns a text, if the key is there.
    pub(super) fn text(&mut self, section: &mut Section<'t>, key: &str) -> Option<Placed<&'t str>> {
        let value = section.take(key)?;
        self.text_of(value)
    }

    /// Returns a text that must be there.
    pub(super) fn required_text(&mut self, section: &mut Section<'t>, key: &str) -> Option<Placed<&'t str>> {
        if !section.left.contains_key(key) {
            self.wrong(section.at, &section.path_of(key), "is required");
        }
        self.text(section, key)
    }

    /// Returns a list of texts, if the key is there.
    pub(super) fn texts(&mut self, section: &mut Section<'t>, key: &str) -> Option<Vec<Placed<&'t str>>> {
        let items = self.items(section, key, "must be a list of texts")?;
        Some(items.into_iter().filter_map(|item| self.text_of(item)).collect())
    }

    /// True or false, if the key is there.
    pub(super) fn boolean(&mut self, section: &mut Section<'t>, key: &str) -> Option<bool> {
        let value = section.take(key)?;
        let boolean = value.value.as_bool();
        if boolean.is_none() {
            self.wrong_value(&value, "must be true or false");
        }
        boolean
    }

    /// True, false or a text, if the key is there.
    pub(super) fn flag_or_text(
        &mut self,
        section: &mut Section<'t>,
        key: &str,
        otherwise: &str,
    ) -> Option<FlagOrText<'t>> {
        let value = section.take(key)?;
        match (value.value.as_bool(), value.value.as_str()) {
            (Some(flag), _) => Some(FlagOrText::Flag(flag)),
            (None, Some(text)) => Some(FlagOrText::Text(value.with(text))),
            (None, None) => {
                self.wrong_value(&value, otherwise);
                None
            }
        }
    }

    /// Returns a whole number within bounds, if the key is there.
    pub(super) fn number(
        &mut self,
        section: &mut Section<'t>,
        key: &str,
        bounds: core::ops::RangeInclusive<u32>,
    ) -> Option<u32> {
        let value = section.take(key)?;
        let number = value.value.as_integer();
        let number = number.and_then(|number| u32::from_str_radix(number.as_str(), number.radix()).ok());
        let number = number.filter(|number| bounds.contains(number));
        if number.is_none() {
            let (min, max) = bounds.into_inner();
            self.wrong_value(&value, format!("must be a whole number from {min} to {max}"));
        }
        number
    }

    fn text_of(&mut self, value: Placed<Value<'t>>) -> Option<Placed<&'t str>> {
        match value.value.as_str() {
            Some(text) => Some(value.with(text)),
            None => {
                self.wrong_value(&value, "must be a text");
                None
            }
        }
    }

    fn items(
        &mut self,
        section: &mut Section<'t>,
        key: &str,
        otherwise: &str,
    ) -> Option<Vec<Placed<Value<'t>>>> {
        let list = section.take(key)?;
        let Some(items) = list.value.as_array() else {
            self.wrong_value(&list, otherwise);
            return None;
        };
        let placed = |(index, item): (usize, &'t Spanned<DeValue<'t>>)| Placed {
            path: format!("{}[{index}]", list.path),
            at: item.span().start,
            value: item.get_ref(),
        };
        Some(items.iter().enumerate().map(placed).collect())
    }
}

impl<'t> Section<'t> {
    /// Where the section begins, for what is wrong with it as a whole.
    pub(super) fn placed(&self) -> Placed<()> {
        Placed {
            path: self.path.clone(),
            at: self.at,
            value: (),
        }
    }

    /// Returns the value of a key, if it is there; it counts as read.
    pub(super) fn take(&mut self, key: &str) -> Option<Placed<Value<'t>>> {
        let value = self.left.remove(key)?;
        Some(Placed {
            path: self.path_of(key),
            at: value.span().start,
            value: value.get_ref(),
        })
    }

    /// Returns every value that is left, in the order of the keys; they count as read.
    pub(super) fn take_all(&mut self) -> Vec<(&'t str, Placed<Value<'t>>)> {
        let keys: Vec<&'t str> = self.left.keys().copied().collect();
        let taken = keys.into_iter().map(|key| Some((key, self.take(key)?)));
        taken.flatten().collect()
    }

    fn path_of(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        }
    }
}

impl<T> Placed<T> {
    /// Returns another value in the same place.
    pub(super) fn with<U>(&self, value: U) -> Placed<U> {
        Placed {
            path: self.path.clone(),
            at: self.at,
            value,
        }
    }
}
