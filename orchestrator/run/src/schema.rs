//! Whether a value is what a JSON Schema asks for, as far as a small part of that language goes. Total: a schema that is none
//! asks for nothing. Its reads are paid from a budget.
//!
//! Looks at `type`, `properties`, `required`, `additionalProperties`, `items`, `enum` and `const` of plain values, and the bounds of
//! numbers, texts and lists. Every other word is left to the worker that has the action.

use alloc::format;
use alloc::string::{String, ToString};
use escapement_model::opaque::{BudgetSpent, PaidList, PaidObject, PaidView, WalkBudget};

/// First violation of the schema by a value, with its path, if the budget pays for the answer.
type Violation = Result<Option<String>, BudgetSpent>;

// RUN-1.9
/// Says where and how a value is not what the schema asks for, as `/path: sentence`; `None` if it is.
///
/// # Errors
/// [`BudgetSpent`]: to say so takes more than the budget pays for.
pub(crate) fn violation(schema: PaidView<'_>, value: PaidView<'_>, budget: &mut WalkBudget) -> Violation {
    let PaidView::Object(schema) = schema else {
        // `true` and `false` are schemas: anything, and nothing.
        let nothing = schema == PaidView::Bool(false);
        return Ok(nothing.then(|| String::from(": nothing is allowed here")));
    };
    if let Some(why) = of_type(schema, value, budget)? {
        return Ok(Some(format!(": {why}")));
    }
    if let Some(why) = of_words(schema, value, budget)? {
        return Ok(Some(format!(": {why}")));
    }
    match value {
        PaidView::Object(object) => of_object(schema, object, budget),
        PaidView::List(list) => of_list(schema, list, budget),
        PaidView::Text(text) => {
            budget.spend_bytes(text.len())?;
            let length = text.chars().count();
            of_length(schema, length, ["minLength", "maxLength", "code points"], budget)
        }
        PaidView::Number(number) => of_number(schema, number, budget),
        PaidView::Null | PaidView::Bool(_) => Ok(None),
    }
}

fn of_type(schema: PaidObject<'_>, value: PaidView<'_>, budget: &mut WalkBudget) -> Violation {
    let is = |name: &str| match (name, value) {
        ("null", PaidView::Null)
        | ("boolean", PaidView::Bool(_))
        | ("string", PaidView::Text(_))
        | ("array", PaidView::List(_))
        | ("object", PaidView::Object(_))
        | ("number", PaidView::Number(_)) => true,
        ("integer", PaidView::Number(number)) => number % 1.0 == 0.0,
        _ => false,
    };
    match schema.value_of("type", budget)? {
        Some(PaidView::Text(name)) if !is(name) => Ok(Some(format!("must be of type {name}"))),
        Some(PaidView::List(names)) => {
            let mut names = names.items();
            while let Some(name) = names.next(budget)? {
                if matches!(name, PaidView::Text(name) if is(name)) {
                    return Ok(None);
                }
            }
            Ok(Some("is of none of the types that are allowed".to_string()))
        }
        _ => Ok(None),
    }
}

/// `enum` and `const`, if they name plain values alone.
fn of_words(schema: PaidObject<'_>, value: PaidView<'_>, budget: &mut WalkBudget) -> Violation {
    if let Some(PaidView::List(allowed)) = schema.value_of("enum", budget)? {
        let (mut are_plain, mut is_there) = (true, false);
        let mut allowed = allowed.items();
        while let Some(one) = allowed.next(budget)? {
            are_plain &= is_plain(one);
            is_there |= is_same(one, value, budget)?;
        }
        if are_plain && !is_there {
            return Ok(Some("is none of the values that are allowed".to_string()));
        }
    }
    let only = schema.value_of("const", budget)?.filter(|only| is_plain(*only));
    match only {
        Some(only) if !is_same(only, value, budget)? => {
            Ok(Some("is not the value that is allowed".to_string()))
        }
        _ => Ok(None),
    }
}

fn is_plain(one: PaidView<'_>) -> bool {
    !matches!(one, PaidView::Object(_) | PaidView::List(_))
}

/// Returns true if a plain value is that value.
fn is_same(plain: PaidView<'_>, value: PaidView<'_>, budget: &mut WalkBudget) -> Result<bool, BudgetSpent> {
    if let (PaidView::Text(plain), PaidView::Text(value)) = (plain, value) {
        budget.spend_bytes(plain.len().min(value.len()))?;
    }
    Ok(is_plain(plain) && plain == value)
}

fn of_object(schema: PaidObject<'_>, object: PaidObject<'_>, budget: &mut WalkBudget) -> Violation {
    if let Some(PaidView::List(required)) = schema.value_of("required", budget)? {
        let mut required = required.items();
        while let Some(name) = required.next(budget)? {
            if let PaidView::Text(name) = name
                && object.value_of(name, budget)?.is_none()
            {
                return Ok(Some(format!("/{name}: is required")));
            }
        }
    }
    let properties = match schema.value_of("properties", budget)? {
        Some(PaidView::Object(properties)) => properties,
        _ => PaidObject::of(&[]),
    };
    let others = schema.value_of("additionalProperties", budget)?;
    let mut entries = object.entries();
    while let Some((key, value)) = entries.next(budget)? {
        let found = match properties.value_of(key, budget)?.or(others) {
            Some(PaidView::Bool(false)) => Some(": is not a known field".to_string()),
            Some(schema) => violation(schema, value, budget)?,
            None => None,
        };
        if let Some(why) = found {
            return Ok(Some(format!("/{key}{why}")));
        }
    }
    Ok(None)
}

fn of_list(schema: PaidObject<'_>, list: PaidList<'_>, budget: &mut WalkBudget) -> Violation {
    let (mut items, mut count) = (list.items(), 0);
    while items.next(budget)?.is_some() {
        count += 1;
    }
    let length = of_length(schema, count, ["minItems", "maxItems", "items"], budget)?;
    if length.is_some() {
        return Ok(length);
    }
    let Some(of_item) = schema.value_of("items", budget)? else {
        return Ok(None);
    };
    let (mut items, mut n) = (list.items(), 0_usize);
    while let Some(item) = items.next(budget)? {
        if let Some(why) = violation(of_item, item, budget)? {
            return Ok(Some(format!("/{n}{why}")));
        }
        n += 1;
    }
    Ok(None)
}

fn of_length(
    schema: PaidObject<'_>,
    length: usize,
    [min, max, what]: [&str; 3],
    budget: &mut WalkBudget,
) -> Violation {
    let length = length as f64;
    if let Some(min) = bound(schema, min, budget)?.filter(|min| length < *min) {
        return Ok(Some(format!(": must have at least {min} {what}")));
    }
    let max = bound(schema, max, budget)?.filter(|max| length > *max);
    Ok(max.map(|max| format!(": must have at most {max} {what}")))
}

fn bound(schema: PaidObject<'_>, name: &str, budget: &mut WalkBudget) -> Result<Option<f64>, BudgetSpent> {
    Ok(match schema.value_of(name, budget)? {
        Some(PaidView::Number(bound)) => Some(bound),
        _ => None,
    })
}

fn of_number(schema: PaidObject<'_>, number: f64, budget: &mut WalkBudget) -> Violation {
    let bounds: [(&str, Holds, &str); 4] = [
        ("minimum", |number, bound| number >= bound, "at least"),
        ("maximum", |number, bound| number <= bound, "at most"),
        ("exclusiveMinimum", |number, bound| number > bound, "more than"),
        ("exclusiveMaximum", |number, bound| number < bound, "less than"),
    ];
    for (name, holds, words) in bounds {
        if let Some(bound) = bound(schema, name, budget)?.filter(|bound| !holds(number, *bound)) {
            return Ok(Some(format!(": must be {words} {bound}")));
        }
    }
    Ok(None)
}

/// Whether a number keeps to a bound.
type Holds = fn(f64, f64) -> bool;
