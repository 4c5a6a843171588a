//! Opaque objects and values to JSON values and back.
//! Used by workers and tools, and by the orchestrator for what leaves it as JSON; what it decides needs no JSON.

pub mod outside;

use escapement_model::opaque::{ListBuilder, Malformed, StructBuilder, ValueView, entries, items, value_of};
use escapement_model::{Opaque, OpaqueValue};
use serde_json::{Map, Number, Value};

/// Decodes an object. Whole numbers up to 2^53 become JSON integers, all others doubles; NaN and infinities become `null`.
///
/// # Errors
/// [`Malformed`] if the bytes are not a Struct within the limits.
pub fn from_opaque(object: &Opaque) -> Result<Map<String, Value>, Malformed> {
    // The check bounds the recursion below.
    object.check()?;
    object_from(object.as_encoded())
}

/// Encodes an object. Numbers become doubles; integers beyond 2^53 lose digits, so send those as texts.
pub fn to_opaque(object: &Map<String, Value>) -> Opaque {
    object_to(object).build()
}

/// Decodes a value, as [`from_opaque`] does.
///
/// # Errors
/// [`Malformed`] if the bytes are not a Value within the limits.
pub fn from_opaque_value(value: &OpaqueValue) -> Result<Value, Malformed> {
    value.check()?;
    value_from(value.view()?)
}

/// Encodes a value, as [`to_opaque`] does.
pub fn to_opaque_value(value: &Value) -> OpaqueValue {
    const KEY: &str = "value";
    let object = to_opaque(&Map::from_iter([(KEY.to_owned(), value.clone())]));
    let view = value_of(object.as_encoded(), KEY).expect("it was put there just now");
    OpaqueValue::from_view(view)
}

fn object_from(bytes: &[u8]) -> Result<Map<String, Value>, Malformed> {
    entries(bytes)
        .map(|entry| {
            let (key, value) = entry?;
            Ok((key.to_owned(), value_from(value)?))
        })
        .collect()
}

fn value_from(value: ValueView<'_>) -> Result<Value, Malformed> {
    Ok(match value {
        ValueView::Null => Value::Null,
        ValueView::Number(number) => number_from(number),
        ValueView::Text(text) => Value::String(text.to_owned()),
        ValueView::Bool(flag) => Value::Bool(flag),
        ValueView::Struct(bytes) => Value::Object(object_from(bytes)?),
        ValueView::List(bytes) => Value::Array(
            items(bytes)
                .map(|item| value_from(item?))
                .collect::<Result<_, _>>()?,
        ),
    })
}

fn number_from(number: f64) -> Value {
    const INTEGER_MAX: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= INTEGER_MAX {
        return Value::from(number as i64);
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

fn object_to(object: &Map<String, Value>) -> StructBuilder {
    object
        .iter()
        .fold(StructBuilder::new(), |builder, (key, value)| match value {
            Value::Null => builder.null(key),
            Value::Bool(flag) => builder.boolean(key, *flag),
            Value::Number(number) => builder.number(key, number.as_f64().unwrap_or(f64::NAN)),
            Value::String(text) => builder.text(key, text),
            Value::Array(list) => builder.list(key, list_to(list)),
            Value::Object(object) => builder.object(key, object_to(object).build().as_encoded()),
        })
}

fn list_to(list: &[Value]) -> ListBuilder {
    list.iter()
        .fold(ListBuilder::new(), |builder, value| match value {
            Value::Null => builder.null(),
            Value::Bool(flag) => builder.boolean(*flag),
            Value::Number(number) => builder.number(number.as_f64().unwrap_or(f64::NAN)),
            Value::String(text) => builder.text(text),
            Value::Array(list) => builder.list(list_to(list)),
            Value::Object(object) => builder.object(object_to(object).build().as_encoded()),
        })
}
