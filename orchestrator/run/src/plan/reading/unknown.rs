//! The message about an unknown field: the field that was probably meant, with its path, else the fields of the object.

use super::{Part, Place};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use escapement_model::spelling::Speller;

/// The objects of a document with their fields, each by its path without numbers, such as `steps[].retry`.
pub(crate) type Fields = &'static [(&'static str, &'static [&'static str])];

/// Returns the message about an unknown field of the object at a path. `here`: the fields of that object.
pub(super) fn message(name: &str, at: &[(usize, Part<'_>)], here: &[&'static str], all: Fields) -> String {
    let own: BTreeSet<&str> = here.iter().copied().collect();
    let meant = Speller::new(&own).suggestions(name);
    if let Some(meant) = meant.first() {
        return format!("unknown field; did you mean `{}`?", joined(&path(at), meant));
    }
    if let Some(elsewhere) = elsewhere(name, at, all) {
        return format!("unknown field; did you mean `{elsewhere}`?");
    }
    match here {
        [] => String::from("unknown field; the object has none"),
        here => format!("unknown field; the fields are {}", here.join(", ")),
    }
}

/// Returns the path of the most similar field of the objects inside this one, and of those that it is in.
fn elsewhere(name: &str, at: &[(usize, Part<'_>)], all: Fields) -> Option<String> {
    let here = pattern(at);
    let inside = all.iter().filter_map(|(object, fields)| {
        let below = object.strip_prefix(here.as_str())?;
        let is_below = here.is_empty() || below.starts_with(['.', '[']);
        (is_below && !below.is_empty()).then(|| (format!("{}{below}", path(at)), *fields))
    });
    let around = (0..at.len()).rev().filter_map(|n| {
        let outer = pattern(&at[..n]);
        let (_, fields) = all.iter().find(|(object, _)| *object == outer)?;
        Some((path(&at[..n]), *fields))
    });
    let objects: Vec<(String, &[&str])> = inside.chain(around).collect();
    let known = objects
        .iter()
        .flat_map(|(_, fields)| fields.iter().copied())
        .collect();
    let meant = Speller::new(&known).suggestions(name).into_iter().next()?;
    let (object, _) = objects
        .iter()
        .find(|(_, fields)| fields.contains(&meant.as_str()))?;
    Some(joined(object, &meant))
}

fn joined(object: &str, field: &str) -> String {
    match object {
        "" => String::from(field),
        object => format!("{object}.{field}"),
    }
}

fn path(at: &[(usize, Part<'_>)]) -> String {
    if at.is_empty() {
        return String::new();
    }
    Place::of(at).path
}

/// Returns the path without numbers.
pub(super) fn pattern(at: &[(usize, Part<'_>)]) -> String {
    let mut pattern = String::new();
    for (_, part) in at {
        match part {
            Part::Field(key) if pattern.is_empty() => pattern.push_str(key),
            Part::Field(key) => {
                pattern.push('.');
                pattern.push_str(key);
            }
            Part::Item(_) => pattern.push_str("[]"),
        }
    }
    pattern
}
