//! One step: the fields that all types have. Knows no other step but by key.

use super::config;
use super::document::DESCRIPTION_CHARS_MAX;
use super::links::{Before, Keys, Links, Rendered, named, named_by};
use super::reading::{self, Object, Reading, cut};
use super::violations::Code;
use super::{Call, OnDependencyFailure, OnFailure, RetrySpec, Step, StepKind};
use crate::template::is_source;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use escapement_model::Opaque;
use escapement_model::limits::{NAME_CHARS_MAX, STEPS_MAX};
use escapement_model::opaque::ValueView;

/// Reads a step; other steps are their places.
pub(super) fn read<'a>(
    reading: &mut Reading<'a>,
    keys: &Keys<'a>,
    place: usize,
    value: ValueView<'a>,
) -> Option<(Step, Links)> {
    let mut object = Object::new(reading::object(reading, value)?);
    let (mut step, mut links) = stand_in(place);
    step.key = key(reading, keys, place, &mut object);
    if let Some(order) = object.whole(reading, "order", 0..=ORDER_MAX) {
        step.order = u32::try_from(order).expect("the range is smaller");
    }
    let read_config = object.required(reading, "type", config::of_type);
    let name = object.text(reading, "name", 1..=NAME_CHARS_MAX);
    step.name = name.unwrap_or_else(|| step.key.clone());
    let description = object.text(reading, "description", 0..=DESCRIPTION_CHARS_MAX);
    step.description = description.unwrap_or_default();
    object.or_empty(reading, "config", |reading, config| {
        links.config = Some(reading.place());
        // Nothing can be said about the configuration of an unknown type.
        if let Some(read_config) = read_config {
            let mut config = Object::new(config);
            step.kind = read_config(reading, keys, &mut links, &mut config);
            config.finish(reading);
        }
    });
    depends_on(reading, keys, &mut links, &mut object);
    step.required = object.boolean(reading, "required");
    step.is_async = object.boolean(reading, "async").unwrap_or(false);
    step.timeout_ms = object.whole(reading, "timeout_ms", 1..=DAY_MS);
    step.retry = retry(reading, &mut object);
    step.on_success = jump(reading, keys, &mut links, &mut object, "on_success");
    step.on_failure = on_failure(reading, keys, &mut links, &mut object);
    check_required(reading, &mut object, &step);
    step.on_dependency_failure = object.one_of(reading, "on_dependency_failure", &ON_DEPENDENCY_FAILURE);
    step.verify = object.field(reading, "verify", |reading, value| {
        let mut object = Object::new(reading::object(reading, value)?);
        let call = config::call(reading, keys, &mut Links::default(), Rendered::AtEnd, &mut object);
        object.finish(reading);
        Some(call)
    });
    let freshness = object.one_of(reading, "freshness", &[("attempt", false), ("run", true)]);
    step.is_fresh_for_run = freshness.unwrap_or(false);
    let metadata = object.object(reading, "metadata");
    step.metadata = metadata.map(config::opaque).unwrap_or_default();
    object.finish(reading);
    Some((step, links))
}

/// Returns a step that says nothing.
pub(super) fn stand_in(place: usize) -> (Step, Links) {
    let call = Call {
        tool_name: String::new(),
        tool_args: Opaque::default(),
    };
    let step = Step {
        key: String::new(),
        order: u32::try_from(place + 1).expect("a plan has few steps"),
        place,
        name: String::new(),
        description: String::new(),
        kind: StepKind::ToolCall(call),
        depends_on: Vec::new(),
        required: None,
        is_async: false,
        timeout_ms: None,
        retry: RetrySpec::default(),
        on_success: None,
        on_failure: None,
        on_dependency_failure: None,
        verify: None,
        is_fresh_for_run: false,
        metadata: Opaque::default(),
    };
    (step, Links::default())
}

fn key<'a>(reading: &mut Reading<'a>, keys: &Keys<'a>, place: usize, object: &mut Object<'a>) -> String {
    let key = object.required(reading, "key", |reading, value| {
        let key = reading::text(reading, value, 1..=usize::MAX)?;
        let first = keys.get(key).copied().unwrap_or(place);
        if !is_source(key) {
            reading.violation(Code::InvalidField, || {
                let shown = cut(key);
                format!("Must be 1 to 64 letters, digits, dots, hyphens or underscores, is {shown:?}.")
            });
        } else if RESERVED_KEYS.contains(&key) {
            reading.violation(Code::InvalidField, || {
                format!("Must not be one of {}.", RESERVED_KEYS.join(", "))
            });
        } else if first != place {
            reading.violation(Code::DuplicateKey, || {
                format!("The key {key:?} is that of an earlier step too.")
            });
        }
        Some(key)
    });
    key.unwrap_or_default().to_string()
}

fn depends_on<'a>(reading: &mut Reading<'a>, keys: &Keys<'a>, links: &mut Links, object: &mut Object<'a>) {
    object.field(reading, "depends_on", |reading, value| {
        links.depends_on = Some(reading.place());
        let mut item = 0..;
        reading::list(reading, value, 0..=DEPENDENCIES_MAX, |reading, value| {
            let item = item.next();
            let step = named(reading, keys, value)?;
            let before = Before {
                item,
                is_dependency: true,
            };
            links.put_before(step, before);
            Some(())
        })
    });
}

fn retry<'a>(reading: &mut Reading<'a>, object: &mut Object<'a>) -> RetrySpec {
    let retry = object.field(reading, "retry", |reading, value| {
        let mut object = Object::new(reading::object(reading, value)?);
        let max_retries = object.whole(reading, "max_retries", 0..=RETRIES_MAX);
        let retry = RetrySpec {
            max_retries: max_retries.map(|n| u32::try_from(n).expect("the range is smaller")),
            backoff_ms: object.whole(reading, "backoff_ms", 0..=DAY_MS),
            multiplier: object.number(reading, "multiplier", 1.0..=MULTIPLIER_MAX),
            max_backoff_ms: object.whole(reading, "max_backoff_ms", 0..=DAY_MS),
            escalate: object.boolean(reading, "escalate"),
        };
        object.finish(reading);
        Some(retry)
    });
    retry.unwrap_or_default()
}

/// A field that names a step to go on with.
pub(super) fn jump<'a>(
    reading: &mut Reading<'a>,
    keys: &Keys<'a>,
    links: &mut Links,
    object: &mut Object<'a>,
    name: &'static str,
) -> Option<usize> {
    object.field(reading, name, |reading, value| {
        let step = named(reading, keys, value)?;
        links.jumps.push((step, reading.place()));
        Some(step)
    })
}

fn on_failure<'a>(
    reading: &mut Reading<'a>,
    keys: &Keys<'a>,
    links: &mut Links,
    object: &mut Object<'a>,
) -> Option<OnFailure> {
    object.field(reading, "on_failure", |reading, value| {
        match reading::text(reading, value, 1..=usize::MAX)? {
            "abort" => Some(OnFailure::Abort),
            "drain" => Some(OnFailure::Drain),
            "skip" => Some(OnFailure::Skip),
            key => {
                let step = named_by(reading, keys, key)?;
                links.jumps.push((step, reading.place()));
                Some(OnFailure::Jump(step))
            }
        }
    })
}

/// A step that is not required is skipped if it fails, and one that is required is not; both may jump.
fn check_required<'a>(reading: &mut Reading<'a>, object: &mut Object<'a>, step: &Step) {
    let message = match (step.required, step.on_failure) {
        (Some(false), Some(OnFailure::Abort | OnFailure::Drain)) => {
            "A step that is not required is skipped if it fails, so its on_failure must be skip."
        }
        (Some(true), Some(OnFailure::Skip)) => {
            "A step that is required is not skipped if it fails, so its on_failure must be abort or drain."
        }
        _ => return,
    };
    object.violation(reading, "on_failure", Code::ConstraintViolated, message);
}

const ON_DEPENDENCY_FAILURE: [(&str, OnDependencyFailure); 4] = [
    ("skip", OnDependencyFailure::Skip),
    ("null_input", OnDependencyFailure::NullInput),
    ("synthetic", OnDependencyFailure::Synthetic),
    ("block", OnDependencyFailure::Block),
];

/// Keys that no step has: other sources of references, and what `on_failure` says beside keys.
const RESERVED_KEYS: [&str; 8] = [
    "input",
    "session",
    "run",
    "iteration",
    "item",
    "abort",
    "drain",
    "skip",
];

const ORDER_MAX: u64 = 1_000_000;
const DAY_MS: u64 = 86_400_000;
const RETRIES_MAX: u64 = 100;
const MULTIPLIER_MAX: f64 = 10.0;
/// Items of `depends_on`; each step counts once, however often it is named.
const DEPENDENCIES_MAX: usize = STEPS_MAX;
