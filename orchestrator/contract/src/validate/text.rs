//! Checks of single values: lengths, numbers, ids, objects. Pure leaves that know no field.

use alloc::format;
use alloc::string::{String, ToString};
use core::ops::RangeInclusive;
use escapement_model::Opaque;
use escapement_model::opaque::Malformed;

/// What is wrong with the length of a text.
pub(super) fn length(text: &str, chars: RangeInclusive<usize>) -> Result<(), String> {
    // a code point has at least one byte, so most texts need no count.
    let n_chars = if text.len() <= *chars.end() {
        text.len()
    } else {
        text.chars().count()
    };
    match (n_chars < *chars.start(), n_chars > *chars.end()) {
        (true, _) => Err("Must not be empty.".to_string()),
        (false, true) => Err(format!(
            "Must have at most {} characters, has {n_chars}.",
            chars.end()
        )),
        (false, false) => Ok(()),
    }
}

/// What is wrong with how many items a list has.
pub(super) fn count(n_items: usize, max: usize) -> Result<(), String> {
    if n_items > max {
        Err(format!("Must have at most {max} entries, has {n_items}."))
    } else {
        Ok(())
    }
}

/// Returns a number that is not below its minimum, or the default.
pub(super) fn at_least(number: Option<i64>, min: u64, default: u64) -> Result<u64, String> {
    //
    let Some(number) = number else {
        return Ok(default);
    };
    let valid = u64::try_from(number).ok().filter(|number| *number >= min);
    valid.ok_or_else(|| format!("Must be at least {min}, is {number}."))
}

/// A point in time.
pub(super) fn timestamp(unix_ms: i64) -> Result<(), String> {
    //
    if unix_ms > 0 {
        Ok(())
    } else {
        Err(format!(
            "Must be a positive time in Unix milliseconds, is {unix_ms}."
        ))
    }
}

/// What is wrong with a free-form object.
pub(super) fn object(object: &Opaque, bytes_max: usize) -> Result<(), String> {
    //
    if object.len() > bytes_max {
        return Err(format!(
            "Must have at most {bytes_max} bytes encoded, has {}.",
            object.len()
        ));
    }
    object
        .check()
        .map_err(|malformed| match (malformed, object.first_too_deep()) {
            (Malformed::TooDeep { .. }, Some(path)) => format!(
                "The object {malformed}, where an object inside another counts as 3 and a list as 2; too deep is {path}."
            ),
            _ => format!("The object {malformed}."),
        })
}

/// Returns an id in its canonical form.
pub(super) fn id<T: core::str::FromStr>(text: &str) -> Result<T, String>
where
    T::Err: core::fmt::Display,
{
    //
    text.parse()
        .map_err(|invalid: T::Err| format!("The id {invalid}."))
}
