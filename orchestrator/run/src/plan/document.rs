//! A document as a whole: its own fields, its steps, their order. Knows no field of a step.

use super::graph;
use super::links::{Keys, Links, Rendered};
use super::reading::{self, Fields, Object, Reading};
use super::step;
use super::violations::{Code, Violations};
use super::{Constraints, Plan, Step, StepKind, Template};
use crate::template::references;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::Opaque;
use escapement_model::limits::{LABEL_CHARS_MAX, NAME_CHARS_MAX, STEPS_MAX};
use escapement_model::opaque::{Malformed, ValueView, encode_value, items, value_of};

// RUN-1.1
/// Reads a document. `new_step` is the key of the step that messages call `(new step)`.
pub(super) fn read(document: &Opaque, new_step: Option<&str>) -> Result<Plan, Violations> {
    let mut reading = Reading::of(FIELDS);
    if !is_readable(&mut reading, document) {
        return Err(reading.conclude(()).expect_err("it has a violation"));
    }
    let keys = keys_of(document);
    let mut object = Object::new(document.as_encoded());
    object.required(&mut reading, "schema", |reading, schema| {
        reading::one_of(reading, schema, &[(SCHEMA, ())])
    });
    let mut plan = Plan {
        name: object.required_text(&mut reading, "name", 1..=NAME_CHARS_MAX),
        goal: object
            .text(&mut reading, "goal", 0..=DESCRIPTION_CHARS_MAX)
            .unwrap_or_default(),
        description: object
            .text(&mut reading, "description", 0..=DESCRIPTION_CHARS_MAX)
            .unwrap_or_default(),
        parallel: object.boolean(&mut reading, "parallel").unwrap_or(false),
        narrative: object.text(&mut reading, "narrative", 0..=usize::MAX),
        output: output(&mut reading, &keys, &mut object),
        constraints: constraints(&mut reading, &mut object),
        steps: Vec::new(),
        document: document.clone(),
        digest: [0; 32],
    };
    let (steps, mut links) = steps(&mut reading, &keys, &mut object);
    object.finish(&mut reading);
    plan.steps = steps;
    repeat_calls(&mut reading, &keys, &mut plan.steps, &mut links);
    let new_step = new_step.and_then(|key| keys.get(key).copied());
    let positions = graph::positions(&mut reading, &plan.steps, &links, new_step);
    if let (true, Some(positions)) = (reading.is_clean(), positions) {
        graph::sort(&mut plan.steps, &links, &positions);
        plan.digest = super::digest::digest(&plan);
    }
    reading.conclude(plan)
}

/// Notes what makes it impossible to read on.
pub(super) fn is_readable(reading: &mut Reading<'_>, document: &Opaque) -> bool {
    let n_bytes = document.len();
    if n_bytes > DOCUMENT_BYTES_MAX {
        let message = || format!("Must have at most {DOCUMENT_BYTES_MAX} bytes encoded, has {n_bytes}.");
        reading.violation(Code::PlanSize, message);
    } else if let Err(malformed) = document.check() {
        let code = match malformed {
            Malformed::TooDeep { .. } => Code::PlanSize,
            Malformed::Wire | Malformed::Utf8 => Code::InvalidField,
        };
        reading.violation(code, || match document.first_too_deep() {
            Some(path) => format!("The document {malformed}; too deep is {path}."),
            None => format!("The document {malformed}."),
        });
    }
    reading.is_clean()
}

/// The keys of all steps, so that a step can name a later one.
fn keys_of(document: &Opaque) -> Keys<'_> {
    let mut keys = Keys::new();
    if let Some(ValueView::List(steps)) = value_of(document.as_encoded(), "steps") {
        for (place, step) in items(steps).enumerate() {
            if let Ok(ValueView::Struct(step)) = step
                && let Some(ValueView::Text(key)) = value_of(step, "key")
            {
                keys.entry(key).or_insert(place);
            }
        }
    }
    keys
}

fn output<'a>(reading: &mut Reading<'a>, keys: &Keys<'a>, object: &mut Object<'a>) -> Option<Template> {
    object.field(reading, "output", |reading, value| {
        Links::default().value_template(reading, keys, Rendered::AtEnd, value);
        let mut bytes = Vec::new();
        encode_value(value, &mut bytes);
        Some(Template(Bytes::from(bytes)))
    })
}

fn constraints<'a>(reading: &mut Reading<'a>, object: &mut Object<'a>) -> Constraints {
    let constraints = object.field(reading, "constraints", |reading, value| {
        let mut object = Object::new(reading::object(reading, value)?);
        let n_types = 0..=ARTIFACT_TYPES_MAX;
        let constraints = Constraints {
            must_produce: object.texts(reading, "must_produce", n_types, 1..=LABEL_CHARS_MAX),
            expected_artifact_type: object.text(reading, "expected_artifact_type", 1..=LABEL_CHARS_MAX),
        };
        object.finish(reading);
        Some(constraints)
    });
    constraints.unwrap_or_default()
}

fn steps<'a>(reading: &mut Reading<'a>, keys: &Keys<'a>, object: &mut Object<'a>) -> (Vec<Step>, Vec<Links>) {
    let steps = object.required(reading, "steps", |reading, value| {
        if let ValueView::List(steps) = value
            && let n_steps @ STEPS_EXCEEDED.. = items(steps).count()
        {
            // One violation says enough about a plan that is too long.
            let message = || format!("Must have at most {STEPS_MAX} steps, has {n_steps}.");
            reading.violation(Code::PlanSize, message);
            return None;
        }
        let mut place = 0..;
        reading::list(reading, value, 0..=STEPS_MAX, |reading, value| {
            let place = place.next()?;
            // Stands in for a step that is none, so that places stay.
            Some(step::read(reading, keys, place, value).unwrap_or_else(|| step::stand_in(place)))
        })
    });
    steps.unwrap_or_default().into_iter().unzip()
}

/// Gives each loop that names a step the call of that step, and the dependencies that come with its arguments.
fn repeat_calls(reading: &mut Reading<'_>, keys: &Keys<'_>, steps: &mut [Step], links: &mut [Links]) {
    for (step, links) in (0..).zip(links) {
        let Some((repeated, place)) = links.repeats.clone() else {
            continue;
        };
        let StepKind::ToolCall(call) = &steps[repeated].kind else {
            let message = || "Must name a step of the type tool_call.".to_string();
            reading.violation_at(place, Code::InvalidField, message);
            continue;
        };
        let call = call.clone();
        for reference in references(&call.tool_args) {
            if let Some(step) = keys.get(reference.source) {
                links.depend_on(*step);
            }
        }
        if let StepKind::Loop(repeating) = &mut steps[step].kind {
            repeating.call = call;
        }
    }
}

/// The objects of a document and their fields, for messages about unknown fields. The first object that has a field is named.
const FIELDS: Fields = &[
    (
        "steps[].retry",
        &[
            "max_retries",
            "backoff_ms",
            "multiplier",
            "max_backoff_ms",
            "escalate",
        ],
    ),
    ("steps[].config", CONFIG),
    ("steps[].verify", &["tool_name", "tool_args"]),
    ("steps[]", STEP),
    ("constraints", &["must_produce", "expected_artifact_type"]),
    (
        "",
        &[
            "schema",
            "name",
            "goal",
            "description",
            "parallel",
            "narrative",
            "output",
            "constraints",
            "steps",
        ],
    ),
];
const STEP: &[&str] = &[
    "key",
    "order",
    "type",
    "name",
    "description",
    "config",
    "depends_on",
    "required",
    "async",
    "timeout_ms",
    "retry",
    "on_success",
    "on_failure",
    "on_dependency_failure",
    "verify",
    "freshness",
    "metadata",
];
/// Fields of the configurations of all types.
const CONFIG: &[&str] = &[
    "tool_name",
    "tool_args",
    "prompt",
    "choices",
    "context",
    "tools",
    "model",
    "max_iterations",
    "question",
    "input_type",
    "options",
    "default_answer",
    "condition",
    "true_step",
    "false_step",
    "steps",
    "batch_size",
    "wait_all",
    "loop_step",
    "pass_iteration",
    "loop_condition",
    "plan_id",
    "revision_digest",
    "input",
];
/// What a document says first.
const SCHEMA: &str = "escapement.plan/1";
/// Bytes of an encoded document: 1 MiB.
const DOCUMENT_BYTES_MAX: usize = 1 << 20;
/// The first number of steps that is too large.
const STEPS_EXCEEDED: usize = STEPS_MAX + 1;
/// Code points of a goal, or of a description.
pub(super) const DESCRIPTION_CHARS_MAX: usize = 5000;
/// Types of artifacts that a plan must produce.
const ARTIFACT_TYPES_MAX: usize = 16;
