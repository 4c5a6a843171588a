//! Whether a value is what a JSON Schema asks for, as far as a small part of that language goes. Total: a schema that is none
//! asks for nothing.
//!
//! Looks at `type`, `properties`, `required`, `additionalProperties`, `items`, `enum` and `const` of plain values, and the bounds of
//! numbers, texts and lists. Every other word is left to the worker that has the action.

use alloc::format;
use alloc::string::{String, ToString};
use escapement_model::opaque::{ValueView, entries, items, value_of};

/// Says where and how a value is not what the schema asks for, as `/path: sentence`; `None` if it is.
pub(crate) fn violation(schema: ValueView<'_>, value: ValueView<'_>) -> Option<String> {
    let ValueView::Struct(schema) = schema else {
        // `true` and `false` are schemas: anything, and nothing.
        let nothing = schema == ValueView::Bool(false);
        return nothing.then(|| String::from(": nothing is allowed here"));
    };
    of_type(schema, value)
        .or_else(|| of_words(schema, value))
        .map(|why| format!(": {why}"))
        .or_else(|| match value {
            ValueView::Struct(object) => of_object(schema, object),
            ValueView::List(list) => of_list(schema, list),
            ValueView::Text(text) => of_length(
                schema,
                text.chars().count(),
                "minLength",
                "maxLength",
                "code points",
            ),
            ValueView::Number(number) => of_number(schema, number),
            ValueView::Null | ValueView::Bool(_) => None,
        })
}

fn of_type(schema: &[u8], value: ValueView<'_>) -> Option<String> {
    let is = |name: &str| match (name, value) {
        ("null", ValueView::Null)
        | ("boolean", ValueView::Bool(_))
        | ("string", ValueView::Text(_))
        | ("array", ValueView::List(_))
        | ("object", ValueView::Struct(_))
        | ("number", ValueView::Number(_)) => true,
        ("integer", ValueView::Number(number)) => number % 1.0 == 0.0,
        _ => false,
    };
    match value_of(schema, "type")? {
        ValueView::Text(name) if !is(name) => Some(format!("must be of type {name}")),
        ValueView::List(names) => {
            let mut names = items(names).filter_map(Result::ok);
            let fits = names.any(|name| matches!(name, ValueView::Text(name) if is(name)));
            (!fits).then(|| "is of none of the types that are allowed".to_string())
        }
        _ => None,
    }
}

/// `enum` and `const`, if they name plain values alone.
fn of_words(schema: &[u8], value: ValueView<'_>) -> Option<String> {
    let is_plain = |one: &ValueView<'_>| !matches!(one, ValueView::Struct(_) | ValueView::List(_));
    if let Some(ValueView::List(allowed)) = value_of(schema, "enum") {
        let mut allowed = items(allowed).filter_map(Result::ok);
        if allowed.clone().all(|one| is_plain(&one)) && !allowed.any(|one| one == value) {
            return Some("is none of the values that are allowed".to_string());
        }
    }
    let only = value_of(schema, "const").filter(is_plain)?;
    (only != value).then(|| "is not the value that is allowed".to_string())
}

fn of_object(schema: &[u8], object: &[u8]) -> Option<String> {
    if let Some(ValueView::List(required)) = value_of(schema, "required") {
        for name in items(required).filter_map(Result::ok) {
            if let ValueView::Text(name) = name
                && value_of(object, name).is_none()
            {
                return Some(format!("/{name}: is required"));
            }
        }
    }
    let properties = match value_of(schema, "properties") {
        Some(ValueView::Struct(properties)) => properties,
        _ => &[],
    };
    let others = value_of(schema, "additionalProperties");
    entries(object).filter_map(Result::ok).find_map(|(key, value)| {
        let schema = value_of(properties, key);
        match schema.or(others) {
            Some(ValueView::Bool(false)) => Some(format!("/{key}: is not a known field")),
            Some(schema) => violation(schema, value).map(|why| format!("/{key}{why}")),
            None => None,
        }
    })
}

fn of_list(schema: &[u8], list: &[u8]) -> Option<String> {
    let count = items(list).count();
    let length = of_length(schema, count, "minItems", "maxItems", "items");
    length.or_else(|| {
        let of_item = value_of(schema, "items")?;
        let mut items = (0..).zip(items(list).filter_map(Result::ok));
        items.find_map(|(n, item): (usize, _)| violation(of_item, item).map(|why| format!("/{n}{why}")))
    })
}

fn of_length(schema: &[u8], length: usize, min: &str, max: &str, what: &str) -> Option<String> {
    let bound = |name| match value_of(schema, name) {
        Some(ValueView::Number(bound)) => Some(bound),
        _ => None,
    };
    let length = length as f64;
    if let Some(min) = bound(min).filter(|min| length < *min) {
        return Some(format!(": must have at least {min} {what}"));
    }
    let max = bound(max).filter(|max| length > *max)?;
    Some(format!(": must have at most {max} {what}"))
}

fn of_number(schema: &[u8], number: f64) -> Option<String> {
    let bounds: [(&str, Holds, &str); 4] = [
        ("minimum", |number, bound| number >= bound, "at least"),
        ("maximum", |number, bound| number <= bound, "at most"),
        ("exclusiveMinimum", |number, bound| number > bound, "more than"),
        ("exclusiveMaximum", |number, bound| number < bound, "less than"),
    ];
    bounds
        .into_iter()
        .find_map(|(name, holds, words)| match value_of(schema, name) {
            Some(ValueView::Number(bound)) if !holds(number, bound) => {
                Some(format!(": must be {words} {bound}"))
            }
            _ => None,
        })
}

/// Whether a number keeps to a bound.
type Holds = fn(f64, f64) -> bool;
