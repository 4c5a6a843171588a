//! Single values of a document: texts, numbers, objects, lists. Knows no field.

use super::super::violations::Code;
use super::{Reading, cut};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Display;
use core::ops::RangeInclusive;
use escapement_model::opaque::{ValueView, items};

/// A text of this many code points.
pub(crate) fn text<'a>(
    reading: &mut Reading<'a>,
    value: ValueView<'a>,
    chars: RangeInclusive<usize>,
) -> Option<&'a str> {
    let ValueView::Text(text) = value else {
        return wrong_type(reading, "a text", value);
    };
    match length(text, chars) {
        Ok(()) => Some(text),
        Err(message) => {
            reading.violation(Code::InvalidField, || message);
            None
        }
    }
}

/// Says what is wrong with the length of a text.
pub(crate) fn length(text: &str, chars: RangeInclusive<usize>) -> Result<(), String> {
    let n_chars = text.chars().count();
    match (n_chars < *chars.start(), n_chars > *chars.end()) {
        (true, _) => Err("Must not be empty.".to_string()),
        (false, true) => Err(format!(
            "Must have at most {} characters, has {n_chars}.",
            chars.end()
        )),
        (false, false) => Ok(()),
    }
}

/// A whole number.
pub(crate) fn whole(
    reading: &mut Reading<'_>,
    value: ValueView<'_>,
    range: RangeInclusive<u64>,
) -> Option<u64> {
    let ValueView::Number(number) = value else {
        return wrong_type(reading, "a whole number", value);
    };
    let (min, max) = (*range.start() as f64, *range.end() as f64);
    // A number within the range is cut at its fraction; NaN lies in no range.
    let cut = number as u64;
    if (min..=max).contains(&number) && cut as f64 == number {
        Some(cut)
    } else {
        out_of_range(reading, "a whole number", range, number)
    }
}

/// One of several texts.
pub(crate) fn one_of<T: Copy>(
    reading: &mut Reading<'_>,
    value: ValueView<'_>,
    all: &[(&str, T)],
) -> Option<T> {
    let ValueView::Text(text) = value else {
        return wrong_type(reading, "a text", value);
    };
    let found = all.iter().find(|(known, _)| *known == text);
    if found.is_none() {
        reading.violation(Code::InvalidField, || {
            let known: Vec<&str> = all.iter().map(|(known, _)| *known).collect();
            format!("Must be one of {}, is {:?}.", known.join(", "), cut(text))
        });
    }
    found.map(|(_, meaning)| *meaning)
}

/// An encoded object.
pub(crate) fn object<'a>(reading: &mut Reading<'a>, value: ValueView<'a>) -> Option<&'a [u8]> {
    match value {
        ValueView::Struct(object) => Some(object),
        other => wrong_type(reading, "an object", other),
    }
}

/// A list, read item by item; items without a value are left out.
pub(crate) fn list<'a, T>(
    reading: &mut Reading<'a>,
    value: ValueView<'a>,
    n_items: RangeInclusive<usize>,
    read: impl FnMut(&mut Reading<'a>, ValueView<'a>) -> Option<T>,
) -> Option<Vec<T>> {
    let ValueView::List(list) = value else {
        return wrong_type(reading, "a list", value);
    };
    let found = items(list).count();
    if !n_items.contains(&found) {
        let (min, max) = (n_items.start(), n_items.end());
        let message = || format!("Must have {min} to {max} items, has {found}.");
        reading.violation(Code::InvalidField, message);
        return None;
    }
    let items = items(list).map(|item| item.expect("only objects that were checked are read"));
    Some(reading.each(items, read).into_iter().flatten().collect())
}

/// Notes that a value has the wrong type.
pub(crate) fn wrong_type<T>(
    reading: &mut Reading<'_>,
    expected: &'static str,
    value: ValueView<'_>,
) -> Option<T> {
    let found = match value {
        ValueView::Null => "null",
        ValueView::Number(_) => "a number",
        ValueView::Text(_) => "a text",
        ValueView::Bool(_) => "true or false",
        ValueView::Struct(_) => "an object",
        ValueView::List(_) => "a list",
    };
    reading.violation(Code::InvalidField, || format!("Must be {expected}, is {found}."));
    None
}

/// Notes that a number is out of its range.
pub(super) fn out_of_range<T>(
    reading: &mut Reading<'_>,
    what: &str,
    range: RangeInclusive<impl Display>,
    found: f64,
) -> Option<T> {
    let (min, max) = (range.start(), range.end());
    reading.violation(Code::InvalidField, || {
        format!("Must be {what} from {min} to {max}, is {found}.")
    });
    None
}
