//! Matches events with the filters of triggers: by equality, and by lists of values. Every read of an event
//! is charged to a budget.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

use escapement_model::Opaque;
use escapement_model::opaque::{BudgetSpent, PaidList, PaidObject, PaidView, ValueView, WalkBudget, items};

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
/// Returns true if the data has each value of `equals`, and one of each list of `any_of`.
///
/// Keys are JSON pointers, or names of keys of the data. Values are texts, numbers, booleans and null. A
/// number equals a number of the same value, and nothing equals an absent value. Each key is searched once.
///
/// # Errors
/// [`BudgetSpent`]: looking for the keys takes more than the budget pays for.
pub fn matches(
    equals: &Opaque,
    any_of: &Opaque,
    data: &Opaque,
    budget: &mut WalkBudget,
) -> Result<bool, BudgetSpent> {
    let mut each = PaidObject::of(equals.as_encoded()).entries();
    while let Some((key, wanted)) = each.next(budget)? {
        match find(data, key, budget)? {
            Some(found) if is_same(found, wanted, budget)? => {}
            _ => return Ok(false),
        }
    }
    let mut lists = PaidObject::of(any_of.as_encoded()).entries();
    while let Some((key, list)) = lists.next(budget)? {
        let PaidView::List(list) = list else {
            return Ok(false);
        };
        let found = find(data, key, budget)?;
        if !is_one_of(found, list, budget)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns true if a list contains the found value.
fn is_one_of(
    found: Option<PaidView<'_>>,
    list: PaidList<'_>,
    budget: &mut WalkBudget,
) -> Result<bool, BudgetSpent> {
    let Some(found) = found else {
        return Ok(false);
    };
    let mut items = list.items();
    while let Some(wanted) = items.next(budget)? {
        if is_same(found, wanted, budget)? {
            return Ok(true);
        }
    }
    Ok(false)
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

fn is_same(one: PaidView<'_>, other: PaidView<'_>, budget: &mut WalkBudget) -> Result<bool, BudgetSpent> {
    Ok(match (one, other) {
        (PaidView::Text(one), PaidView::Text(other)) => {
            budget.spend_bytes(one.len().min(other.len()))?;
            one == other
        }
        (PaidView::Bool(one), PaidView::Bool(other)) => one == other,
        (PaidView::Null, PaidView::Null) => true,
        (PaidView::Number(one), PaidView::Number(other)) => one == other,
        _ => false,
    })
}

/// What stands in the data at a pointer, or under a key of its own if the text does not begin with a slash.
fn find<'a>(
    data: &'a Opaque,
    key: &str,
    budget: &mut WalkBudget,
) -> Result<Option<PaidView<'a>>, BudgetSpent> {
    let data = PaidObject::of(data.as_encoded());
    let Some(pointer) = key.strip_prefix('/') else {
        return data.value_of(key, budget);
    };
    let mut found = PaidView::Object(data);
    for part in pointer.split('/') {
        let part = unescaped(part);
        let inside = match found {
            PaidView::Object(object) => object.value_of(&part, budget)?,
            PaidView::List(list) => match part.parse() {
                Ok(n) => list.nth(n, budget)?,
                Err(_) => None,
            },
            _ => None,
        };
        let Some(inside) = inside else {
            return Ok(None);
        };
        found = inside;
    }
    Ok(Some(found))
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
    use super::check;
    use escapement_model::Opaque;
    use escapement_model::opaque::{BudgetSpent, ListBuilder, StructBuilder, WalkBudget};

    fn matches(equals: &Opaque, any_of: &Opaque, data: &Opaque) -> bool {
        super::matches(equals, any_of, data, &mut WalkBudget::new(10_000)).unwrap()
    }

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

    // TRIG-3.5
    #[test]
    fn each_key_is_looked_for_once_and_paid_for() {
        let none = Opaque::default();
        let data = (0..1_000).fold(StructBuilder::new(), |data, n| data.null(&alloc::format!("{n}")));
        let data = data.text("branch", "main").build();
        let names: alloc::vec::Vec<_> = (0..256).map(|n| alloc::format!("branch {n}")).collect();
        let names: alloc::vec::Vec<&str> = names.iter().map(alloc::string::String::as_str).collect();
        let mut budget = WalkBudget::new(10_000);
        let found = super::matches(&none, &texts("branch", &names), &data, &mut budget);
        assert_eq!(found, Ok(false));
        assert!(budget.left() > 8_000, "{}", budget.left());
        let found = super::matches(
            &none,
            &texts("branch", &names),
            &data,
            &mut WalkBudget::new(1_000),
        );
        assert_eq!(found, Err(BudgetSpent));
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
