//! Changes of plan documents: the same document with other steps. Checks nothing: a document is read once it is whole.

use bytes::Bytes;
use escapement_model::Opaque;
use escapement_model::opaque::{ListBuilder, StructBuilder, ValueView, entries, items, value_of};

/// A document without steps.
pub(crate) fn empty(name: &str, goal: &str, description: &str) -> Opaque {
    let mut document = StructBuilder::new().text("schema", SCHEMA).text("name", name);
    for (field, text) in [("goal", goal), ("description", description)] {
        if !text.is_empty() {
            document = document.text(field, text);
        }
    }
    document.list("steps", ListBuilder::new()).build()
}

/// The steps as the document has them, in its order.
pub(crate) fn steps_of(document: &Opaque) -> Vec<Opaque> {
    let Some(ValueView::List(steps)) = value_of(document.as_encoded(), "steps") else {
        return Vec::new();
    };
    let steps = items(steps).map(|step| match step {
        Ok(ValueView::Struct(step)) => Opaque::from_encoded(Bytes::copy_from_slice(step)),
        _ => Opaque::default(),
    });
    steps.collect()
}

/// The document with these steps.
pub(crate) fn with_steps(document: &Opaque, steps: &[Opaque]) -> Opaque {
    let list = steps
        .iter()
        .fold(ListBuilder::new(), |list, step| list.object(step.as_encoded()));
    without(document, "steps").list("steps", list).build()
}

/// A text of an object; `None` if it has none under that name.
pub(crate) fn text_of<'a>(object: &'a Opaque, name: &str) -> Option<&'a str> {
    match value_of(object.as_encoded(), name) {
        Some(ValueView::Text(text)) => Some(text),
        _ => None,
    }
}

/// The key of a step.
pub(crate) fn key_of(step: &Opaque) -> &str {
    text_of(step, "key").unwrap_or_default()
}

/// The step with that key.
pub(crate) fn with_key(step: &Opaque, key: &str) -> Opaque {
    without(step, "key").text("key", key).build()
}

/// `step_` and the lowest number from 1 that no step has.
pub(crate) fn free_key(steps: &[Opaque]) -> String {
    let is_free = |key: &String| steps.iter().all(|step| key_of(step) != key);
    let mut keys = (1..=steps.len() + 1).map(|n| format!("step_{n}"));
    keys.find(is_free).expect("fewer keys are taken than are tried")
}

fn without(object: &Opaque, name: &str) -> StructBuilder {
    let kept = entries(object.as_encoded()).filter_map(Result::ok);
    kept.filter(|(key, _)| *key != name)
        .fold(StructBuilder::new(), |object, (key, value)| {
            object.value(key, value)
        })
}

/// What a document says first.
const SCHEMA: &str = "escapement.plan/1";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use escapement_run::plan;

    fn step(key: &str) -> Opaque {
        StructBuilder::new()
            .text("key", key)
            .text("type", "sub_plan")
            .build()
    }

    #[test]
    fn an_empty_document_is_a_plan_and_its_steps_can_be_changed() {
        let document = empty("p", "g", "");
        let read = plan::read(&document).unwrap();
        assert_eq!(
            (read.name.as_str(), read.goal.as_str(), read.steps.len()),
            ("p", "g", 0)
        );
        let changed = with_steps(&document, &[step("a"), step("b")]);
        let steps = steps_of(&changed);
        assert_eq!(steps.iter().map(key_of).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(text_of(&changed, "goal"), Some("g"));
        assert_eq!(with_steps(&changed, &[]), with_steps(&document, &[]));
    }

    #[test]
    fn a_free_key_is_the_lowest() {
        assert_eq!(free_key(&[]), "step_1");
        assert_eq!(free_key(&[step("step_1"), step("step_3")]), "step_2");
        assert_eq!(free_key(&[step("step_2"), step("step_1")]), "step_3");
    }

    #[test]
    fn a_step_gets_another_key() {
        let renamed = with_key(&step("a"), "b");
        assert_eq!(
            (key_of(&renamed), text_of(&renamed, "type")),
            ("b", Some("sub_plan"))
        );
    }
}
