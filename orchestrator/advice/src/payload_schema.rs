//! Holds a payload against the JSON Schema that a worker published for it. Decides nothing: what it finds is advice.
//! Reads no network and no file, follows no pattern, and stops when its budget is used up.
//!
//! It knows the keywords that say which fields there are and what they hold, and passes over all others, so it finds only
//! what no reading of the schema allows. A library that knows them all would bring some 36 crates, and no bound on
//! what a schema costs.

use escapement_model::opaque::{ValueView, entries, items};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Something in a payload that its schema does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    /// The path in the payload, such as `.headers.accept[0]`; empty for the payload itself.
    pub(crate) path: String,
    /// What is wrong there, without a full stop.
    pub(crate) problem: String,
}

/// Returns what is wrong with a payload, at most 8.
///
/// Takes what it looks at from the budget, and finds nothing more once that is used up.
/// An open value fits every schema.
pub(crate) fn mismatches(
    schema: &Value,
    payload: &[u8],
    budget: &mut usize,
    is_open: fn(ValueView<'_>) -> bool,
) -> Vec<Mismatch> {
    let mut check = Check {
        root: schema,
        budget,
        path: Vec::new(),
        n_found: 0,
        found: Vec::new(),
        is_trial: false,
        is_open,
    };
    check.value(schema, ValueView::Struct(payload), 0);
    check.found
}

struct Check<'a> {
    root: &'a Value,
    /// Values, keys and alternatives that may still be looked at.
    budget: &'a mut usize,
    path: Vec<Part<'a>>,
    n_found: usize,
    found: Vec<Mismatch>,
    /// True while an alternative is tried: then findings are counted only.
    is_trial: bool,
    is_open: fn(ValueView<'_>) -> bool,
}

#[derive(Clone, Copy)]
enum Part<'a> {
    Key(&'a str),
    Item(usize),
}

impl<'a> Check<'a> {
    fn value(&mut self, schema: &'a Value, value: ValueView<'a>, depth: usize) {
        // `true` allows everything, and so does what is no schema; `false` in the place of one is met where fields are.
        let Value::Object(schema) = schema else { return };
        if depth > DEPTH_MAX || !self.spend(1 + schema.len()) || (self.is_open)(value) {
            return;
        }
        if let Some(Value::String(reference)) = schema.get("$ref") {
            if let Some(target) = self.resolve(reference) {
                self.value(target, value, depth + 1);
            }
            return;
        }
        if let Some(expected) = wrong_type(schema, value) {
            let problem = format!("must be {expected}, is {}", kind(value));
            return self.find(problem);
        }
        if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
            && self.spend(allowed.len())
            && !allowed.iter().any(|allowed| may_equal(allowed, value))
        {
            self.find("is none of the allowed values".to_owned());
        }
        if let Some(only) = schema.get("const")
            && !may_equal(only, value)
        {
            self.find("is not the only allowed value".to_owned());
        }
        match value {
            ValueView::Struct(object) => self.object(schema, object, depth),
            ValueView::List(list) => self.list(schema, list, depth),
            ValueView::Number(number) => self.number(schema, number),
            ValueView::Text(text) => self.text(schema, text),
            ValueView::Null | ValueView::Bool(_) => {}
        }
        self.alternatives(schema, value, depth);
    }

    fn object(&mut self, schema: &'a Map<String, Value>, object: &'a [u8], depth: usize) {
        let mut fields = BTreeMap::new();
        for (key, value) in entries(object).filter_map(Result::ok) {
            if !self.spend(1) {
                return;
            }
            fields.insert(key, value);
        }
        let required = schema.get("required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            if !self.spend(1) {
                return;
            }
            if !fields.contains_key(name) {
                self.find(format!("lacks {:?}", shown(name)));
            }
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        // Which fields a pattern stands for is not known here.
        let others = schema
            .get("additionalProperties")
            .filter(|_| !schema.contains_key("patternProperties"));
        for (key, value) in fields {
            self.path.push(Part::Key(key));
            match (properties.and_then(|known| known.get(key)), others) {
                (Some(of_field), _) => self.value(of_field, value, depth + 1),
                (None, Some(Value::Bool(false))) => self.find("is a field that there is not".to_owned()),
                (None, Some(of_others)) => self.value(of_others, value, depth + 1),
                (None, None) => {}
            }
            self.path.pop();
        }
    }

    fn list(&mut self, schema: &'a Map<String, Value>, list: &'a [u8], depth: usize) {
        let of_items = schema
            .get("items")
            .filter(|_| !schema.contains_key("prefixItems"));
        let mut n_items = 0;
        for item in items(list).filter_map(Result::ok) {
            if !self.spend(1) {
                return;
            }
            if let Some(of_items) = of_items {
                self.path.push(Part::Item(n_items));
                self.value(of_items, item, depth + 1);
                self.path.pop();
            }
            n_items += 1;
        }
        self.range(schema, n_items as f64, ["minItems", "maxItems"], "items");
    }

    fn number(&mut self, schema: &Map<String, Value>, number: f64) {
        self.range(schema, number, ["minimum", "maximum"], "");
        let bound = |name| schema.get(name).and_then(Value::as_f64);
        if let Some(bound) = bound("exclusiveMinimum").filter(|bound| number <= *bound) {
            self.find(format!("must be above {bound}, is {number}"));
        }
        if let Some(bound) = bound("exclusiveMaximum").filter(|bound| number >= *bound) {
            self.find(format!("must be below {bound}, is {number}"));
        }
    }

    fn text(&mut self, schema: &Map<String, Value>, text: &str) {
        if (schema.contains_key("minLength") || schema.contains_key("maxLength"))
            && self.spend(text.len() / BYTES_PER_STEP)
        {
            let n_chars = text.chars().count();
            self.range(schema, n_chars as f64, ["minLength", "maxLength"], "characters");
        }
    }

    fn range(&mut self, schema: &Map<String, Value>, number: f64, [min, max]: [&str; 2], of: &str) {
        let bound = |name| schema.get(name).and_then(Value::as_f64);
        let (is, of) = match of {
            "" => ("be", String::new()),
            of => ("have", format!(" {of}")),
        };
        if let Some(bound) = bound(min).filter(|bound| number < *bound) {
            self.find(format!("must {is} at least {bound}{of}, not {number}"));
        }
        if let Some(bound) = bound(max).filter(|bound| number > *bound) {
            self.find(format!("must {is} at most {bound}{of}, not {number}"));
        }
    }

    /// What all of, and what one of several schemas asks for. That no second one fits is not asked: they may differ in
    /// what is passed over here.
    fn alternatives(&mut self, schema: &'a Map<String, Value>, value: ValueView<'a>, depth: usize) {
        for part in schema
            .get("allOf")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            self.value(part, value, depth + 1);
        }
        for name in ["anyOf", "oneOf"] {
            let alternatives = schema.get(name).and_then(Value::as_array);
            let Some(alternatives) = alternatives.filter(|alternatives| !alternatives.is_empty()) else {
                continue;
            };
            let fits = alternatives.iter().any(|schema| self.fits(schema, value, depth));
            if !fits {
                self.find(format!("fits none of the {} alternatives", alternatives.len()));
            }
        }
    }

    fn fits(&mut self, schema: &'a Value, value: ValueView<'a>, depth: usize) -> bool {
        let (n_before, was_trial) = (self.n_found, self.is_trial);
        self.is_trial = true;
        self.value(schema, value, depth + 1);
        self.is_trial = was_trial;
        let fits = self.n_found == n_before;
        self.n_found = n_before;
        fits
    }

    /// A part of the same schema; `None` for everything else.
    fn resolve(&self, reference: &str) -> Option<&'a Value> {
        self.root.pointer(reference.strip_prefix('#')?)
    }

    /// False if the budget is used up; then nothing more is found.
    fn spend(&mut self, steps: usize) -> bool {
        *self.budget = self.budget.saturating_sub(steps);
        *self.budget > 0
    }

    fn find(&mut self, problem: String) {
        // Behind the end of the budget an alternative that fits may not have been tried.
        if *self.budget == 0 {
            return;
        }
        self.n_found += 1;
        if !self.is_trial && self.found.len() < MISMATCHES_MAX {
            let path = path_text(&self.path);
            self.found.push(Mismatch { path, problem });
        }
    }
}

/// The types that are expected, if the value has none of them.
fn wrong_type(schema: &Map<String, Value>, value: ValueView<'_>) -> Option<String> {
    let may_be_null = schema.get("nullable") == Some(&Value::Bool(true));
    if may_be_null && value == ValueView::Null {
        return None;
    }
    let names: Vec<&str> = match schema.get("type")? {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    let fits = |name: &&str| match *name {
        "null" => value == ValueView::Null,
        "boolean" => matches!(value, ValueView::Bool(_)),
        "number" => matches!(value, ValueView::Number(_)),
        // 64-bit integers travel as texts, but only a handler knows which texts it takes for one.
        "integer" => matches!(value, ValueView::Number(number) if number.fract() == 0.0),
        "string" => matches!(value, ValueView::Text(_)),
        "object" => matches!(value, ValueView::Struct(_)),
        "array" => matches!(value, ValueView::List(_)),
        _ => true,
    };
    let article = |name: &str| match name {
        "null" => "null".to_owned(),
        "integer" | "object" | "array" => format!("an {name}"),
        name => format!("a {name}"),
    };
    let names_known: Vec<String> = names.iter().take(KINDS_MAX).map(|name| article(name)).collect();
    (!names.is_empty() && !names.iter().any(fits)).then(|| names_known.join(" or "))
}

fn kind(value: ValueView<'_>) -> String {
    match value {
        ValueView::Null => "null".to_owned(),
        ValueView::Bool(flag) => format!("{flag}"),
        ValueView::Number(number) => format!("{number}"),
        ValueView::Text(_) => "a string".to_owned(),
        ValueView::Struct(_) => "an object".to_owned(),
        ValueView::List(_) => "an array".to_owned(),
    }
}

/// False if they certainly differ. Objects and lists are not compared.
fn may_equal(allowed: &Value, value: ValueView<'_>) -> bool {
    match (allowed, value) {
        (Value::Null, ValueView::Null) => true,
        (Value::Bool(allowed), ValueView::Bool(flag)) => *allowed == flag,
        (Value::Number(allowed), ValueView::Number(number)) => allowed.as_f64() == Some(number),
        (Value::String(allowed), ValueView::Text(text)) => allowed == text,
        (Value::Object(_), ValueView::Struct(_)) | (Value::Array(_), ValueView::List(_)) => true,
        _ => false,
    }
}

fn path_text(path: &[Part<'_>]) -> String {
    let mut text = String::new();
    for part in path {
        if text.len() > PATH_BYTES_MAX {
            text.push_str("...");
            break;
        }
        let _written = match part {
            Part::Key(key) => write!(text, ".{}", shown(key)),
            Part::Item(n) => write!(text, "[{n}]"),
        };
    }
    text
}

/// As much of a name as is shown.
fn shown(name: &str) -> &str {
    &name[..name.floor_char_boundary(NAME_BYTES_MAX)]
}

/// Findings about one payload.
const MISMATCHES_MAX: usize = 8;
/// Schemas inside one another, references included.
const DEPTH_MAX: usize = 128;
/// Bytes of a text that are counted for one step of the budget.
const BYTES_PER_STEP: usize = 256;
/// Bytes of a name that are shown.
const NAME_BYTES_MAX: usize = 64;
/// Bytes of a path behind which it is cut.
const PATH_BYTES_MAX: usize = 256;
/// Types that are named.
const KINDS_MAX: usize = 7;

#[cfg(test)]
mod tests;
