//! The fields of a message that have a size, and messages in which one of them has another one.

use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage, Value,
};
use serde_json::json;

/// A field by the names that lead to it.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) path: String,
    steps: Vec<FieldDescriptor>,
    shape: Shape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Text,
    Texts,
    Map,
    Object,
    Value,
    Bytes,
    Messages,
}

/// Returns the fields of a message with a size, down to those of nested messages. `fixed` are paths that
/// requests need as they are.
pub(crate) fn fields_of(message: &DynamicMessage, fixed: &[&str]) -> Vec<Field> {
    let mut found = Vec::new();
    collect(&message.descriptor(), &mut Vec::new(), fixed, &mut found);
    found
}

fn collect(
    message: &MessageDescriptor,
    steps: &mut Vec<FieldDescriptor>,
    fixed: &[&str],
    found: &mut Vec<Field>,
) {
    for field in message.fields() {
        steps.push(field.clone());
        let names: Vec<&str> = steps.iter().map(FieldDescriptor::name).collect();
        let path = names.join(".");
        let shape = shape_of(&field);
        if let Some(shape) = shape.filter(|_| !fixed.contains(&path.as_str())) {
            found.push(Field {
                path,
                steps: steps.clone(),
                shape,
            });
        } else if let (Kind::Message(inner), false) = (field.kind(), field.is_list() || field.is_map())
            && shape.is_none()
            && steps.len() < DEPTH_MAX
        {
            collect(&inner, steps, fixed, found);
        }
        steps.pop();
    }
}

fn shape_of(field: &FieldDescriptor) -> Option<Shape> {
    match field.kind() {
        Kind::Message(entry) if field.is_map() => {
            let is_text = |field: FieldDescriptor| field.kind() == Kind::String;
            let is_of_texts = is_text(entry.map_entry_key_field()) && is_text(entry.map_entry_value_field());
            assert!(is_of_texts, "{} has no sizes to try", field.full_name());
            Some(Shape::Map)
        }
        Kind::String if field.is_list() => Some(Shape::Texts),
        Kind::String => Some(Shape::Text),
        Kind::Bytes if !field.is_list() => Some(Shape::Bytes),
        Kind::Message(inner) if inner.full_name() == "google.protobuf.Struct" && !field.is_list() => {
            Some(Shape::Object)
        }
        Kind::Message(inner) if inner.full_name() == "google.protobuf.Value" && !field.is_list() => {
            Some(Shape::Value)
        }
        Kind::Message(_) if field.is_list() => Some(Shape::Messages),
        _ => None,
    }
}

impl Field {
    /// Sizes to try, the largest first: one of them is the largest that is allowed.
    pub(crate) fn sizes(&self) -> Vec<usize> {
        match self.shape {
            Shape::Text => [
                65_536, 20_000, 5_000, 4_096, 1_024, 1_000, 255, 128, 100, 60, 35, 16, 1,
            ]
            .into(),
            Shape::Texts => [5_000, 1_024, 512, 256, 64, 16, 4, 1].into(),
            Shape::Map | Shape::Messages => [1_024, 64, 16, 1].into(),
            Shape::Object | Shape::Value | Shape::Bytes => {
                [5 << 20, 1 << 20, 900 << 10, 512_000, 64 << 10, 16 << 10, 1].into()
            }
        }
    }

    /// Returns the approximate number of bytes for that size.
    pub(crate) fn n_bytes(&self, size: usize) -> usize {
        match self.shape {
            Shape::Text => 4 * size,
            Shape::Texts => 400 * size,
            Shape::Map => 5_000 * size,
            Shape::Messages => 1_000 * size,
            Shape::Object | Shape::Value | Shape::Bytes => size,
        }
    }

    fn value(&self, size: usize) -> Value {
        let wide = |n: usize| "\u{10348}".repeat(n);
        // Each of a list is another one.
        let named = |n: usize, chars: usize| format!("{n:04}{}", wide(chars - 4));
        match self.shape {
            Shape::Text => Value::String(wide(size)),
            Shape::Texts => {
                let texts = (0..size).map(|n| Value::String(named(n, 100)));
                Value::List(texts.collect())
            }
            Shape::Map => {
                let entries = (0..size).map(|n| (MapKey::String(named(n, 255)), Value::String(wide(1_024))));
                Value::Map(entries.collect())
            }
            Shape::Messages => {
                let Kind::Message(item) = self.steps.last().unwrap().kind() else {
                    unreachable!("the items are messages")
                };
                let filled = |n: usize| {
                    let mut message = DynamicMessage::new(item.clone());
                    let is_text = |field: &FieldDescriptor| field.kind() == Kind::String && !field.is_list();
                    for field in item.fields().filter(is_text) {
                        message.set_field(&field, Value::String(named(n, 100)));
                    }
                    Value::Message(message)
                };
                Value::List((0..size).map(filled).collect())
            }
            Shape::Bytes => Value::Bytes(vec![b'x'; size].into()),
            Shape::Object | Shape::Value => {
                // The object around the text has a few bytes.
                let text = wide(size.saturating_sub(32) / 4);
                let last = self.steps.last().unwrap();
                let Kind::Message(descriptor) = last.kind() else {
                    unreachable!("objects are messages")
                };
                let message = DynamicMessage::deserialize(descriptor, json!({ "text": text }));
                Value::Message(message.unwrap())
            }
        }
    }
}

/// Returns the message with that field at that size.
pub(crate) fn grown(message: &DynamicMessage, field: &Field, size: usize) -> DynamicMessage {
    let mut message = message.clone();
    set(&mut message, &field.steps, field.value(size), true);
    message
}

/// Returns the same, unless it would replace another field.
pub(crate) fn fitting(mut message: DynamicMessage, field: &Field, size: usize) -> DynamicMessage {
    set(&mut message, &field.steps, field.value(size), false);
    message
}

fn set(message: &mut DynamicMessage, steps: &[FieldDescriptor], value: Value, replaces: bool) {
    let (first, rest) = steps.split_first().unwrap();
    if let Some(oneof) = first.containing_oneof().filter(|_| !replaces) {
        let is_taken = |other: &FieldDescriptor| other != first && message.has_field(other);
        if oneof.fields().any(|other| is_taken(&other)) {
            return;
        }
    }
    if rest.is_empty() {
        return message.set_field(first, value);
    }
    if let Value::Message(inner) = message.get_field_mut(first) {
        set(inner, rest, value, replaces);
    }
}

/// Messages inside one another that are looked into.
const DEPTH_MAX: usize = 5;
