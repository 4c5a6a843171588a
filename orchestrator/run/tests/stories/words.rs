//! Steps of plans, objects and values in few words. Judges nothing.

use bytes::Bytes;
use escapement_model::Opaque;
use escapement_model::opaque::{ListBuilder, StructBuilder, ValueView, encode_value};
use serde_json::{Value, json};

/// A step that calls a pure action of its own name.
pub(crate) fn call(key: &str) -> Value {
    tool(key, "pure.work", &[])
}

pub(crate) fn call_after(key: &str, depends_on: &[&str]) -> Value {
    tool(key, "pure.work", depends_on)
}

pub(crate) fn tool(key: &str, action: &str, depends_on: &[&str]) -> Value {
    json!({"key": key, "type": "tool_call", "depends_on": depends_on,
        "config": {"tool_name": action, "tool_args": {"of": key}}})
}

/// The value with these fields more.
pub(crate) fn and(mut value: Value, more: Value) -> Value {
    let object = value.as_object_mut().unwrap();
    object.extend(more.as_object().unwrap().clone());
    value
}

pub(crate) fn opaque(value: &Value) -> Opaque {
    let object = value.as_object().expect("an object");
    let entries = object.iter();
    entries
        .fold(StructBuilder::new(), |builder, (key, value)| match value {
            Value::Null => builder.null(key),
            Value::Bool(flag) => builder.boolean(key, *flag),
            Value::Number(number) => builder.number(key, number.as_f64().unwrap()),
            Value::String(text) => builder.text(key, text),
            Value::Array(items) => builder.list(key, list(items)),
            Value::Object(_) => builder.object(key, opaque(value).as_encoded()),
        })
        .build()
}

fn list(items: &[Value]) -> ListBuilder {
    items.iter().fold(ListBuilder::new(), |builder, item| match item {
        Value::Null => builder.null(),
        Value::Bool(flag) => builder.boolean(*flag),
        Value::Number(number) => builder.number(number.as_f64().unwrap()),
        Value::String(text) => builder.text(text),
        Value::Array(items) => builder.list(list(items)),
        Value::Object(_) => builder.object(opaque(item).as_encoded()),
    })
}

pub(crate) fn encoded(value: &Value) -> Bytes {
    let object = opaque(&json!({"v": value}));
    let (_, value) = object.entries().next().unwrap().unwrap();
    let mut bytes = Vec::new();
    encode_value(value, &mut bytes);
    Bytes::from(bytes)
}

pub(crate) fn json_of_value(bytes: &[u8]) -> Value {
    json_of(escapement_model::opaque::value(bytes).unwrap())
}

pub(crate) fn json_of(value: ValueView<'_>) -> Value {
    match value {
        ValueView::Null => Value::Null,
        ValueView::Bool(flag) => json!(flag),
        ValueView::Number(number) if number.fract() == 0.0 => json!(number as i64),
        ValueView::Number(number) => json!(number),
        ValueView::Text(text) => json!(text),
        ValueView::List(list) => escapement_model::opaque::items(list)
            .map(|item| json_of(item.unwrap()))
            .collect(),
        ValueView::Struct(object) => {
            let entries = escapement_model::opaque::entries(object).map(Result::unwrap);
            Value::Object(
                entries
                    .map(|(key, value)| (key.to_owned(), json_of(value)))
                    .collect(),
            )
        }
    }
}

/// The last field with this number of an encoded message.
pub(crate) fn message_field(message: &[u8], number: u64) -> Bytes {
    use prost::encoding::{DecodeContext, WireType, decode_varint, skip_field};
    let (mut rest, mut found) = (message, Bytes::new());
    while !rest.is_empty() {
        let key = decode_varint(&mut rest).unwrap();
        if key >> 3 == number && key & 7 == 2 {
            let length = decode_varint(&mut rest).unwrap() as usize;
            found = Bytes::copy_from_slice(&rest[..length]);
            rest = &rest[length..];
        } else {
            let wire_type = WireType::try_from(key & 7).unwrap();
            skip_field(wire_type, (key >> 3) as u32, &mut rest, DecodeContext::default()).unwrap();
        }
    }
    found
}

pub(crate) fn text_field(message: &[u8], number: u64) -> String {
    String::from_utf8(message_field(message, number).to_vec()).unwrap()
}
