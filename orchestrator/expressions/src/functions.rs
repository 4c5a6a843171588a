//! The functions of expressions.

use crate::value::{Value, View, too_large, truncated};
use alloc::format;
use alloc::string::{String, ToString};
use escapement_model::opaque::{PaidView, WalkBudget};

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Size,
    Int,
    Double,
    String,
    StartsWith,
    EndsWith,
    Contains,
}

impl Function {
    /// Returns the function of this name, called by itself or behind a value and a point.
    pub(crate) fn named(name: &str, is_method: bool) -> Option<Self> {
        match (name, is_method) {
            ("size", _) => Some(Function::Size),
            ("int", false) => Some(Function::Int),
            ("double", false) => Some(Function::Double),
            ("string", false) => Some(Function::String),
            ("startsWith", true) => Some(Function::StartsWith),
            ("endsWith", true) => Some(Function::EndsWith),
            ("contains", true) => Some(Function::Contains),
            _ => None,
        }
    }

    /// Returns the number of arguments that it takes, with the value before the point.
    pub(crate) fn n_arguments(self) -> usize {
        match self {
            Function::Size | Function::Int | Function::Double | Function::String => 1,
            Function::StartsWith | Function::EndsWith | Function::Contains => 2,
        }
    }

    /// Returns the value for as many arguments as the function takes. What it reads is charged to the budget.
    pub(crate) fn call<'a>(
        self,
        arguments: &[Value<'a>],
        budget: &mut WalkBudget,
    ) -> Result<Value<'a>, String> {
        for argument in arguments {
            if let View::Text(text) = argument.view() {
                budget.spend_bytes(text.len()).map_err(too_large)?;
            }
        }
        match (self, arguments) {
            (Function::Size, [of]) => size(&of.view(), budget).map(Value::Int),
            (Function::Int, [of]) => int(&of.view()).map(Value::Int),
            (Function::Double, [of]) => double(&of.view()).map(Value::double),
            (Function::String, [of]) => string(of),
            (Function::StartsWith, [text, part]) => {
                ask(text, part, "startsWith", |text, part| text.starts_with(part))
            }
            (Function::EndsWith, [text, part]) => {
                ask(text, part, "endsWith", |text, part| text.ends_with(part))
            }
            (Function::Contains, [text, part]) => {
                ask(text, part, "contains", |text, part| text.contains(part))
            }
            _ => Err("the function takes another number of arguments".to_string()),
        }
    }
}

fn size(of: &View<'_>, budget: &mut WalkBudget) -> Result<i64, String> {
    let n = match of {
        View::Text(text) => text.chars().count(),
        View::List(list) => list.clone().count(budget).map_err(too_large)?,
        View::Map(map) => map.clone().by_key(budget).map_err(too_large)?.len(),
        View::Null | View::Bool(_) | View::Int(_) | View::Double(_) => {
            return Err(format!("size takes a text, a list or a map, not {}", of.kind()));
        }
    };
    i64::try_from(n).map_err(|_| "the size is no int".to_string())
}

fn int(of: &View<'_>) -> Result<i64, String> {
    let out_of_range = || "the number is no int of 64 bits".to_string();
    match of {
        View::Int(int) => Ok(*int),
        View::Double(number) => truncated(*number).ok_or_else(out_of_range),
        View::Text(text) => text
            .parse()
            .map_err(|_| "the text is no int of 64 bits".to_string()),
        View::Null | View::Bool(_) | View::List(_) | View::Map(_) => {
            Err(format!("int takes a number or a text, not {}", of.kind()))
        }
    }
}

fn double(of: &View<'_>) -> Result<f64, String> {
    match of {
        View::Int(int) => Ok(*int as f64),
        View::Double(number) => Ok(*number),
        View::Text(text) => text.parse().map_err(|_| "the text is no number".to_string()),
        View::Null | View::Bool(_) | View::List(_) | View::Map(_) => {
            Err(format!("double takes a number or a text, not {}", of.kind()))
        }
    }
}

fn string<'a>(of: &Value<'a>) -> Result<Value<'a>, String> {
    Ok(match (of, of.view()) {
        (Value::Data(PaidView::Text(_)), _) => of.clone(),
        (_, View::Text(text)) => Value::Text(text.to_string()),
        (_, View::Bool(flag)) => Value::Text(flag.to_string()),
        (_, View::Int(int)) => Value::Text(int.to_string()),
        (_, View::Double(number)) => Value::Text(number.to_string()),
        (_, other @ (View::Null | View::List(_) | View::Map(_))) => {
            return Err(format!(
                "string takes a number, a boolean or a text, not {}",
                other.kind()
            ));
        }
    })
}

fn ask<'a>(
    text: &Value<'_>,
    part: &Value<'_>,
    name: &str,
    answer: impl Fn(&str, &str) -> bool,
) -> Result<Value<'a>, String> {
    match (text.view(), part.view()) {
        (View::Text(text), View::Text(part)) => Ok(Value::bool(answer(text, part))),
        (text, part) => Err(format!(
            "{name} is asked of a text about a text, not of {} about {}",
            text.kind(),
            part.kind()
        )),
    }
}
