//! Values of the interpreter as encoded `google.protobuf.Value`s, and back.

use bytes::Bytes;
use escapement_model::Opaque;
use escapement_model::opaque::{ListBuilder, StructBuilder, ValueView, encode_value, entries, items};

use crate::reference::words::Value;

pub(super) fn encoded(value: &Value) -> Bytes {
    let object = add(StructBuilder::new(), value).build();
    let (_, view) = object.entries().next().expect("one entry").expect("well formed");
    let mut bytes = Vec::new();
    encode_value(view, &mut bytes);
    Bytes::from(bytes)
}

fn add(object: StructBuilder, value: &Value) -> StructBuilder {
    match value {
        Value::Null => object.null("v"),
        Value::Bool(flag) => object.boolean("v", *flag),
        Value::Number(number) => object.number("v", *number as f64),
        Value::Text(text) => object.text("v", text),
        Value::List(values) => object.list("v", values.iter().fold(ListBuilder::new(), add_item)),
        Value::Pause => object.object("v", pause().as_encoded()),
    }
}

fn add_item(list: ListBuilder, value: &Value) -> ListBuilder {
    match value {
        Value::Null => list.null(),
        Value::Bool(flag) => list.boolean(*flag),
        Value::Number(number) => list.number(*number as f64),
        Value::Text(text) => list.text(text),
        Value::List(_) | Value::Pause => list.object(pause().as_encoded()),
    }
}

fn pause() -> Opaque {
    StructBuilder::new().boolean("$pause", true).build()
}

/// An output, and whether it asks for a pause.
pub(super) fn encoded_output(value: &Value) -> (Bytes, bool) {
    (encoded(value), *value == Value::Pause)
}

/// What a safety action says.
pub(super) fn verdict(value: &Value) -> Bytes {
    let object = StructBuilder::new()
        .boolean("safe", *value == Value::Bool(true))
        .build();
    escapement_run::outcome::value_of_object(&object)
}

/// What a model says.
pub(super) fn answer_of_model(value: &Value) -> (Bytes, bool) {
    let text = if let Value::Text(text) = value {
        text.as_str()
    } else {
        ""
    };
    let object = StructBuilder::new().text("content", text).build();
    (escapement_run::outcome::value_of_object(&object), false)
}

pub(super) fn decoded(bytes: &[u8]) -> Value {
    if bytes.is_empty() {
        Value::Null
    } else {
        of_view(escapement_model::opaque::value(bytes).expect("well formed"))
    }
}

fn of_view(view: ValueView<'_>) -> Value {
    match view {
        ValueView::Null => Value::Null,
        ValueView::Bool(flag) => Value::Bool(flag),
        ValueView::Number(number) => Value::Number(number as i64),
        ValueView::Text(text) => Value::Text(text.to_owned()),
        ValueView::List(list) => Value::List(
            items(list)
                .map(|item| of_view(item.expect("well formed")))
                .collect(),
        ),
        ValueView::Struct(object) => {
            let mut decision = None;
            for (key, value) in entries(object).filter_map(Result::ok) {
                if let ("decision" | "content" | "default", value) = (key, value) {
                    decision = Some(of_view(value));
                }
            }
            decision.unwrap_or(Value::Pause)
        }
    }
}

/// An object of about so many bytes.
pub(super) fn object_of(n_bytes: usize) -> Opaque {
    StructBuilder::new().text("data", &"x".repeat(n_bytes)).build()
}
