//! Free-form objects: whether they keep the limits. Reads no value.

use escapement_model::Opaque;
use escapement_model::opaque::{ValueView, check, entries, items};

/// Whether the bytes are an object within the limits.
pub fn is_object(object: &Opaque, bytes_max: Option<usize>) -> bool {
    bytes_max.is_none_or(|max| object.len() <= max)
        && check(object.as_encoded(), usize::MAX).is_ok()
        && messages_in_object(object.as_encoded()) <= 90
}

/// Protobuf messages on the deepest path inside of an object.
fn messages_in_object(encoded: &[u8]) -> usize {
    entries(encoded)
        .map(|entry| 2 + messages_in_value(entry.expect("it was checked").1))
        .max()
        .unwrap_or(0)
}

fn messages_in_value(value: ValueView<'_>) -> usize {
    match value {
        ValueView::Struct(object) => 1 + messages_in_object(object),
        ValueView::List(list) => {
            1 + items(list)
                .map(|item| 1 + messages_in_value(item.expect("it was checked")))
                .max()
                .unwrap_or(0)
        }
        _ => 0,
    }
}
