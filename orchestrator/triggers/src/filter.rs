//! Which events a trigger listens to: by equality, and by lists of values. Evaluates no expression.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

use escapement_model::Opaque;
use escapement_model::opaque::{ValueView, entries, items, value_of};

/// Why a filter can never be applied: a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidFilter(String);

impl fmt::Display for InvalidFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for InvalidFilter {}

// TRIG-3.1
/// True if the data has each value of `equals`, and one of each list of `any_of`.
///
/// Keys are JSON pointers, or names of keys of the data. Values are texts, numbers, booleans and null; a number equals a
/// number of the same value, and nothing equals what is absent.
pub fn matches(equals: &Opaque, any_of: &Opaque, data: &Opaque) -> bool {
    let has = |key: &str, wanted: ValueView<'_>| find(data, key).is_some_and(|found| is_same(found, wanted));
    let each = equals.entries().filter_map(Result::ok);
    let mut lists = any_of.entries().filter_map(Result::ok);
    each.into_iter().all(|(key, wanted)| has(key, wanted))
        && lists.all(|(key, list)| match list {
            ValueView::List(list) => items(list).filter_map(Result::ok).any(|wanted| has(key, wanted)),
            _ => false,
        })
}

/// Checks that a filter can be applied.
///
/// # Errors
/// [`InvalidFilter`].
pub fn check(equals: &Opaque, any_of: &Opaque) -> Result<(), InvalidFilter> {
    let n_keys = equals.entries().count() + any_of.entries().count();
    if n_keys > KEYS_MAX {
        return Err(InvalidFilter(format!("has {n_keys} keys, more than {KEYS_MAX}")));
    }
    for (key, value) in equals.entries().filter_map(Result::ok) {
        if !is_scalar(value) {
            return Err(InvalidFilter(format!(
                "{key:?} must be a text, a number, a boolean or null"
            )));
        }
    }
    for (key, value) in any_of.entries().filter_map(Result::ok) {
        let ValueView::List(list) = value else {
            return Err(InvalidFilter(format!("{key:?} must be a list")));
        };
        let mut values = items(list).filter_map(Result::ok);
        if items(list).count() > VALUES_MAX || !values.all(is_scalar) {
            let what = "texts, numbers, booleans and nulls";
            return Err(InvalidFilter(format!(
                "{key:?} must be a list of at most {VALUES_MAX} {what}"
            )));
        }
    }
    Ok(())
}

fn is_scalar(value: ValueView<'_>) -> bool {
    !matches!(value, ValueView::Struct(_) | ValueView::List(_))
}

fn is_same(one: ValueView<'_>, other: ValueView<'_>) -> bool {
    match (one, other) {
        (ValueView::Text(one), ValueView::Text(other)) => one == other,
        (ValueView::Bool(one), ValueView::Bool(other)) => one == other,
        (ValueView::Null, ValueView::Null) => true,
        (ValueView::Number(one), ValueView::Number(other)) => one == other,
        _ => false,
    }
}

/// What stands in the data at a pointer, or under a key of its own if the text does not begin with a slash.
fn find<'a>(data: &'a Opaque, key: &str) -> Option<ValueView<'a>> {
    let Some(pointer) = key.strip_prefix('/') else {
        return value_of(data.as_encoded(), key);
    };
    let mut found = ValueView::Struct(data.as_encoded());
    for part in pointer.split('/') {
        let part = unescaped(part);
        found = match found {
            ValueView::Struct(object) => entries(object)
                .filter_map(Result::ok)
                .filter_map(|(key, value)| (key == part).then_some(value))
                .last()?,
            ValueView::List(list) => items(list).nth(part.parse().ok()?)?.ok()?,
            _ => return None,
        };
    }
    Some(found)
}

fn unescaped(part: &str) -> Cow<'_, str> {
    if part.contains('~') {
        Cow::Owned(part.replace("~1", "/").replace("~0", "~").to_string())
    } else {
        Cow::Borrowed(part)
    }
}

/// Keys of both parts of a filter together.
const KEYS_MAX: usize = 64;
/// Values of one list.
const VALUES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::{check, matches};
    use escapement_model::Opaque;
    use escapement_model::opaque::{ListBuilder, StructBuilder};

    fn data() -> Opaque {
        let inner = StructBuilder::new().text("a/b", "deep").build();
        let list = ListBuilder::new().text("zero").number(1.0);
        StructBuilder::new()
            .text("branch", "main")
            .number("n", 3.0)
            .boolean("draft", false)
            .null("nothing")
            .object("inner", inner.as_encoded())
            .list("list", list)
            .build()
    }

    fn texts(key: &str, texts: &[&str]) -> Opaque {
        let list = texts
            .iter()
            .fold(ListBuilder::new(), |list, text| list.text(text));
        StructBuilder::new().list(key, list).build()
    }

    // TRIG-3.1
    #[test]
    fn an_event_matches_if_each_value_is_there() {
        let none = Opaque::default();
        let all = StructBuilder::new()
            .text("branch", "main")
            .text("/branch", "main")
            .number("n", 3.0)
            .boolean("draft", false)
            .null("nothing")
            .text("/inner/a~1b", "deep")
            .text("/list/0", "zero")
            .number("/list/1", 1.0)
            .build();
        assert!(matches(&none, &none, &data()));
        assert!(matches(&all, &none, &data()));
        for wrong in [
            StructBuilder::new().text("branch", "other").build(),
            StructBuilder::new().text("n", "3").build(),
            StructBuilder::new().null("absent").build(),
            StructBuilder::new().text("/branch/x", "main").build(),
            StructBuilder::new().text("/list/7", "zero").build(),
            StructBuilder::new().text("/list/-1", "zero").build(),
        ] {
            assert!(!matches(&wrong, &none, &data()));
        }
    }

    // TRIG-3.1
    #[test]
    fn an_event_matches_if_one_value_of_each_list_is_there() {
        let none = Opaque::default();
        assert!(matches(&none, &texts("branch", &["release", "main"]), &data()));
        assert!(!matches(&none, &texts("branch", &["release"]), &data()));
        assert!(!matches(&none, &texts("branch", &[]), &data()), "none of none");
        assert!(!matches(
            &none,
            &StructBuilder::new().text("branch", "main").build(),
            &data()
        ));
    }

    #[test]
    fn a_filter_that_cannot_be_applied_is_told() {
        let none = Opaque::default();
        let object = StructBuilder::new().object("k", none.as_encoded()).build();
        assert!(check(&object, &none).is_err());
        assert!(check(&none, &StructBuilder::new().text("k", "v").build()).is_err());
        assert!(check(&none, &texts("k", &["v"; 257])).is_err());
        assert!(check(&none, &texts("k", &["v"; 256])).is_ok());
        let many = (0..65).fold(StructBuilder::new(), |many, n| many.null(&alloc::format!("{n}")));
        assert!(check(&many.build(), &none).is_err());
    }
}
