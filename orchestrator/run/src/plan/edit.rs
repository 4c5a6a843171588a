//! A document with one action in the place of another. Checks nothing: what comes out is read as any other document.

use super::{Step, StepKind};
use crate::outcome::encoded;
use bytes::Bytes;
use escapement_model::Opaque;
use escapement_model::opaque::{ListBuilder, StructBuilder, ValueView, entries, items, value};

/// The document in which the step calls `to` instead of `from`. `None` if the step names its action nowhere.
pub(crate) fn with_action(document: &Opaque, step: &Step, from: &str, to: &str) -> Option<Opaque> {
    let renamed = |config: ValueView<'_>| match &step.kind {
        StepKind::ToolCall(_) | StepKind::Loop(_) => named(config, from, to),
        StepKind::Parallel(_) => of_object(config, "steps", |items| {
            of_items(items, |_, item| match item {
                ValueView::Text(text) if text == from => Some(encoded(ValueView::Text(to))),
                item => named(item, from, to),
            })
        }),
        StepKind::LlmDecision(_) | StepKind::UserInput(_) | StepKind::Condition(_) | StepKind::SubPlan(_) => {
            None
        }
    };
    let changed = of_object(ValueView::Struct(document.as_encoded()), "steps", |steps| {
        of_items(steps, |place, item| match place == step.place {
            true => of_object(item, "config", renamed),
            false => None,
        })
    })?;
    match value(&changed).ok()? {
        ValueView::Struct(object) => Some(Opaque::from_encoded(Bytes::copy_from_slice(object))),
        _ => None,
    }
}

/// A call with another action, if it calls `from`.
fn named(call: ValueView<'_>, from: &str, to: &str) -> Option<Bytes> {
    of_object(call, "tool_name", |name| {
        (name == ValueView::Text(from)).then(|| encoded(ValueView::Text(to)))
    })
}

/// The object with another value at the key, if `change` gives one.
fn of_object(
    object: ValueView<'_>,
    wanted: &str,
    change: impl Fn(ValueView<'_>) -> Option<Bytes>,
) -> Option<Bytes> {
    let ValueView::Struct(object) = object else {
        return None;
    };
    let (mut built, mut is_changed) = (StructBuilder::new(), false);
    for (key, one) in entries(object).filter_map(Result::ok) {
        let changed = if key == wanted { change(one) } else { None };
        is_changed |= changed.is_some();
        built = match &changed {
            Some(changed) => built.value(key, value(changed).ok()?),
            None => built.value(key, one),
        };
    }
    is_changed.then(|| encoded(ValueView::Struct(built.build().as_encoded())))
}

/// The list with other items, if `change` gives at least one.
fn of_items(list: ValueView<'_>, change: impl Fn(usize, ValueView<'_>) -> Option<Bytes>) -> Option<Bytes> {
    let ValueView::List(list) = list else {
        return None;
    };
    let (mut built, mut is_changed) = (ListBuilder::new(), false);
    for (place, one) in items(list).filter_map(Result::ok).enumerate() {
        let changed = change(place, one);
        is_changed |= changed.is_some();
        built = match &changed {
            Some(changed) => built.value(value(changed).ok()?),
            None => built.value(one),
        };
    }
    let list = StructBuilder::new().list("l", built).build();
    let (_, list) = list.entries().next()?.ok()?;
    is_changed.then(|| encoded(list))
}
