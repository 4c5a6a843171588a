//! Fields of JSON documents as protobuf writes them: 64-bit numbers may be texts, enums may be numbers, defaults are left out.
//! Knows no message; a field of another type is a [`Problem`] that names it.

use serde_json::{Map, Value};
use std::fmt;

/// Why an input cannot be drawn, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem(pub String);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Problem {}

/// An object and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Object<'a> {
    fields: &'a Map<String, Value>,
    path: String,
}

impl<'a> Object<'a> {
    pub(super) fn new(value: &'a Value, path: &str) -> Result<Self, Problem> {
        match value {
            Value::Object(fields) => Ok(Self {
                fields,
                path: path.to_owned(),
            }),
            other => Err(wrong(path, "an object", other)),
        }
    }

    /// Refuses fields that the message does not have: a misspelt one would be missing in the drawing.
    pub(super) fn has_only(&self, known: &[&str]) -> Result<(), Problem> {
        match self.fields.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => Err(Problem(format!("{} is no field that there is", self.at(name)))),
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn fields(&self) -> &'a Map<String, Value> {
        self.fields
    }

    /// `null` counts as absent.
    pub(super) fn value(&self, name: &str) -> Option<&'a Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn object(&self, name: &str) -> Result<Option<Object<'a>>, Problem> {
        self.value(name)
            .map(|value| Object::new(value, &self.at(name)))
            .transpose()
    }

    pub(super) fn text(&self, name: &str) -> Result<String, Problem> {
        match self.value(name) {
            None => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => Err(wrong(&self.at(name), "a text", other)),
        }
    }

    pub(super) fn list(&self, name: &str) -> Result<&'a [Value], Problem> {
        match self.value(name) {
            None => Ok(&[]),
            Some(Value::Array(items)) => Ok(items),
            Some(other) => Err(wrong(&self.at(name), "a list", other)),
        }
    }

    pub(super) fn objects(&self, name: &str) -> Result<Vec<Object<'a>>, Problem> {
        let item = |(at, value): (usize, &'a Value)| Object::new(value, &format!("{}[{at}]", self.at(name)));
        let list = self.list(name)?;
        if list.len() > OBJECTS_MAX {
            return Err(Problem(format!(
                "{} has more than {OBJECTS_MAX} items",
                self.at(name)
            )));
        }
        list.iter().enumerate().map(item).collect()
    }

    pub(super) fn texts(&self, name: &str) -> Result<Vec<String>, Problem> {
        let item = |(at, value): (usize, &Value)| match value {
            Value::String(text) => Ok(text.clone()),
            other => Err(wrong(&format!("{}[{at}]", self.at(name)), "a text", other)),
        };
        self.list(name)?.iter().enumerate().map(item).collect()
    }

    pub(super) fn integer(&self, name: &str) -> Result<Option<i64>, Problem> {
        let Some(value) = self.value(name) else {
            return Ok(None);
        };
        let found = match value {
            Value::Number(number) => number.as_i64().or_else(|| whole(number.as_f64()?)),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        found
            .map(Some)
            .ok_or_else(|| wrong(&self.at(name), "a whole number", value))
    }

    pub(super) fn integer32(&self, name: &str) -> Result<Option<i32>, Problem> {
        let narrow = |number: i64| {
            i32::try_from(number).map_err(|_| Problem(format!("{} is no 32-bit number", self.at(name))))
        };
        self.integer(name)?.map(narrow).transpose()
    }

    pub(super) fn double(&self, name: &str) -> Result<Option<f64>, Problem> {
        let Some(value) = self.value(name) else {
            return Ok(None);
        };
        let found = match value {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        found
            .map(Some)
            .ok_or_else(|| wrong(&self.at(name), "a number", value))
    }

    /// An enum by name, as the place of the name in the list, or by number; 0 where it is absent.
    pub(super) fn choice(&self, name: &str, names: &[&str]) -> Result<i32, Problem> {
        match self.value(name) {
            Some(Value::String(text)) => names
                .iter()
                .position(|known| known == text)
                .and_then(|at| i32::try_from(at).ok())
                .ok_or_else(|| Problem(format!("{} is none of {}", self.at(name), names.join(", ")))),
            _ => Ok(self.integer32(name)?.unwrap_or(0)),
        }
    }

    fn at(&self, name: &str) -> String {
        match self.path.as_str() {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        }
    }
}

/// Doubles hold whole numbers up to 2^53 exactly.
fn whole(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0).then_some(number as i64)
}

fn wrong(path: &str, expected: &str, found: &Value) -> Problem {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    let path = if path.is_empty() { "the document" } else { path };
    Problem(format!("{path} must be {expected} and is {found}"))
}

/// Objects in a list: more than a record or a simulation can have.
const OBJECTS_MAX: usize = 1 << 20;
