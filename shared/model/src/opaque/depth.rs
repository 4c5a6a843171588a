//! The place at which an object is nested too deep, for the error message. Judges nothing: see `check`.

use super::view::{ValueView, entries, items};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Returns the path of the first value that has more than `nesting_max` messages around it.
pub(super) fn first_too_deep(object: &[u8], nesting_max: usize) -> Option<String> {
    let mut path = Vec::new();
    in_object(object, nesting_max, &mut path).then(|| text_of(&path))
}

/// A part of a path.
#[derive(Clone, Copy)]
enum Part<'a> {
    Key(&'a str),
    Item(usize),
}

/// Returns true if something in the object is too deep; then `path` leads to it. What is left bounds the recursion.
fn in_object<'a>(object: &'a [u8], n_left: usize, path: &mut Vec<Part<'a>>) -> bool {
    for (key, value) in entries(object).filter_map(Result::ok) {
        path.push(Part::Key(key));
        // An entry and its value are a message each.
        if n_left < 2 || in_value(value, n_left - 2, path) {
            return true;
        }
        path.pop();
    }
    false
}

fn in_value<'a>(value: ValueView<'a>, n_left: usize, path: &mut Vec<Part<'a>>) -> bool {
    let Some(n_left_inside) = n_left.checked_sub(1) else {
        return matches!(value, ValueView::Struct(_) | ValueView::List(_));
    };
    match value {
        ValueView::Struct(object) => in_object(object, n_left_inside, path),
        ValueView::List(list) => {
            for (n, item) in items(list).filter_map(Result::ok).enumerate() {
                path.push(Part::Item(n));
                if n_left_inside < 1 || in_value(item, n_left_inside - 1, path) {
                    return true;
                }
                path.pop();
            }
            false
        }
        ValueView::Null | ValueView::Number(_) | ValueView::Text(_) | ValueView::Bool(_) => false,
    }
}

fn text_of(path: &[Part<'_>]) -> String {
    let mut text = String::new();
    for (n, part) in path.iter().enumerate() {
        if (PARTS_SHOWN_MAX..path.len().saturating_sub(PARTS_SHOWN_MAX)).contains(&n) {
            if n == PARTS_SHOWN_MAX {
                text.push_str(&format!(" ({} more)", path.len() - 2 * PARTS_SHOWN_MAX));
            }
            continue;
        }
        match part {
            Part::Key(key) => {
                let shown: String = key.chars().take(KEY_CHARS_MAX).collect();
                let dot = if n == 0 { "" } else { "." };
                text.push_str(&format!("{dot}{shown:?}"));
            }
            Part::Item(n) => text.push_str(&format!("[{n}]")),
        }
    }
    text
}

/// Parts that a text shows of each end of a path.
const PARTS_SHOWN_MAX: usize = 6;
/// Code points that a text shows of a key.
const KEY_CHARS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    //! Agrees with the check, and names the place.

    use crate::limits::OBJECT_NESTING_MAX;
    use crate::opaque::{ListBuilder, Opaque, StructBuilder};

    fn objects(n: usize) -> Opaque {
        (1..n).fold(StructBuilder::new().number("x", 1.0).build(), |inner, _| {
            StructBuilder::new().object("in", inner.as_encoded()).build()
        })
    }

    #[test]
    fn the_first_value_that_is_too_deep_is_named() {
        for n in 1..40 {
            let object = objects(n);
            let path = object.first_too_deep();
            assert_eq!(path.is_some(), object.check().is_err(), "{n} objects");
        }
        // Each takes three of them: entry, value, object.
        let n = OBJECT_NESTING_MAX / 3 + 1;
        let deep = StructBuilder::new()
            .number("first", 1.0)
            .list("list", ListBuilder::new().null().object(objects(n).as_encoded()))
            .build();
        assert_eq!(
            deep.first_too_deep().unwrap(),
            r#""list"[1]."in"."in"."in"."in" (19 more)."in"."in"."in"."in"."in"."in""#
        );
    }
}
