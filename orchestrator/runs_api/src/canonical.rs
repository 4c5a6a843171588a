//! Requests reduced to their meaning, so that equal ones have equal digests: documents of plans by their digests, and objects with
//! their keys in order, since many languages write them in another one each time. Judges nothing.

mod requests;

use escapement_model::opaque::{ListBuilder, StructBuilder, ValueView, entries, items};
use escapement_model::{Opaque, OpaqueValue};
use escapement_run::plan;

pub(crate) use requests::Repeatable;

/// The object with the keys of all objects in it sorted. One that is malformed stays as it is.
fn sorted(object: &Opaque) -> Opaque {
    if object.check().is_err() {
        return object.clone();
    }
    sorted_object(object.as_encoded())
}

// RUN-1.2
/// Replaces the document of a plan by the digest of the plan. Any other document stays as it is.
fn mean(document: &mut Opaque) {
    if let Ok(plan) = plan::read(document) {
        *document = StructBuilder::new()
            .text("", &plan::revision_text(&plan.digest))
            .build();
    }
}

/// Leaves an object without fields out where that means the same.
fn without_empty(object: &mut Option<Opaque>) {
    if object.as_ref().is_some_and(Opaque::is_empty) {
        *object = None;
    }
}

/// Writes an id as it is kept: in lower case.
fn lower(id: &mut str) {
    id.make_ascii_lowercase();
}

fn sort_object(object: &mut Opaque) {
    *object = sorted(object);
}

/// Sorts an object that may be absent.
fn sort(object: &mut Option<Opaque>) {
    if let Some(object) = object {
        sort_object(object);
    }
}

/// Sorts the objects in a value that may be absent. One that is malformed stays as it is.
fn sort_value(value: &mut Option<OpaqueValue>) {
    let Some(given) = value else { return };
    if given.check().is_err() {
        return;
    }
    // As the only item of an object it is sorted with it.
    let Ok(view) = given.view() else { return };
    let within = StructBuilder::new().value("", view).build();
    let sorted = sorted_object(within.as_encoded());
    if let Some(Ok((_, view))) = entries(sorted.as_encoded()).next() {
        *given = OpaqueValue::from_view(view);
    }
}

// The depth of an object was checked before.
fn sorted_object(object: &[u8]) -> Opaque {
    let mut all: Vec<(&str, ValueView<'_>)> = entries(object).filter_map(Result::ok).collect();
    // Equal keys keep their order, since the last one counts.
    all.sort_by_key(|(key, _)| *key);
    let sorted = all
        .into_iter()
        .fold(StructBuilder::new(), |sorted, (key, value)| match value {
            ValueView::Struct(inner) => sorted.object(key, sorted_object(inner).as_encoded()),
            ValueView::List(list) => sorted.list(key, sorted_list(list)),
            other => sorted.value(key, other),
        });
    sorted.build()
}

fn sorted_list(list: &[u8]) -> ListBuilder {
    let items = items(list).filter_map(Result::ok);
    items.fold(ListBuilder::new(), |sorted, item| match item {
        ValueView::Struct(inner) => sorted.object(sorted_object(inner).as_encoded()),
        ValueView::List(inner) => sorted.list(sorted_list(inner)),
        other => sorted.value(other),
    })
}

#[cfg(test)]
mod tests {
    use super::sorted;
    use escapement_model::opaque::{ListBuilder, StructBuilder};

    #[test]
    fn the_order_of_keys_does_not_matter_and_that_of_items_does() {
        let inner = |one: &str, other: &str| StructBuilder::new().text(one, "x").text(other, "x").build();
        let list = |first: f64| {
            let objects = ListBuilder::new().object(inner("a", "b").as_encoded());
            objects.number(first).number(3.0 - first)
        };
        let one = StructBuilder::new()
            .object("o", inner("a", "b").as_encoded())
            .list("l", list(1.0))
            .build();
        let same = StructBuilder::new()
            .list("l", list(1.0))
            .object("o", inner("b", "a").as_encoded())
            .build();
        let other = StructBuilder::new()
            .list("l", list(2.0))
            .object("o", inner("b", "a").as_encoded())
            .build();
        assert_eq!(sorted(&one), sorted(&same));
        assert_ne!(sorted(&one), sorted(&other));
    }
}
