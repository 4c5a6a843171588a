//! What a step does: the configuration of each type. Knows no other field of a step.

use super::links::{Before, Keys, Links, Rendered, named, named_by};
use super::reading::{self, Object, Reading, cut, wrong_type};
use super::step::jump;
use super::violations::Code;
use super::{
    Call, Condition, Expression, InputType, LlmContext, LlmDecision, Loop, Parallel, StepKind, SubPlan,
    UserInput,
};
use crate::template::{self, Piece};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use bytes::Bytes;
use core::ops::RangeInclusive;
use escapement_model::limits::{ACTION_CHARS_MAX, LABEL_CHARS_MAX, MESSAGE_CHARS_MAX, STEPS_MAX};
use escapement_model::opaque::{ValueView, encode_value};
use escapement_model::{Opaque, PlanId};

/// What reads the configuration of one type.
pub(super) type Read<'a> = fn(&mut Reading<'a>, &Keys<'a>, &mut Links, &mut Object<'a>) -> StepKind;

/// Finds what reads the configuration of the type that is spelled so.
pub(super) fn of_type<'a>(reading: &mut Reading<'a>, value: ValueView<'a>) -> Option<Read<'a>> {
    let types: [(&str, Read<'a>); 7] = [
        ("tool_call", tool_call),
        ("llm_decision", llm_decision),
        ("user_input", user_input),
        ("condition", condition),
        ("parallel", parallel),
        ("loop", repeated),
        ("sub_plan", sub_plan),
    ];
    let kind = reading::text(reading, value, 0..=usize::MAX)?;
    let found = types.iter().find(|(known, _)| *known == kind);
    if found.is_none() {
        reading.violation(Code::UnknownStepType, || {
            let known: Vec<&str> = types.iter().map(|(known, _)| *known).collect();
            format!("Must be one of {}, is {:?}.", known.join(", "), cut(kind))
        });
    }
    found.map(|(_, read)| *read)
}

fn tool_call<'a>(
    reading: &mut Reading<'a>,
    keys: &Keys<'a>,
    links: &mut Links,
    config: &mut Object<'a>,
) -> StepKind {
    StepKind::ToolCall(call(reading, keys, links, Rendered::BeforeStep, config))
}

/// Reads an action and its arguments.
pub(super) fn call<'a>(
    reading: &mut Reading<'a>,
    keys: &Keys<'a>,
    links: &mut Links,
    rendered: Rendered,
    object: &mut Object<'a>,
) -> Call {
    Call {
        tool_name: object.required_text(reading, "tool_name", 1..=ACTION_CHARS_MAX),
        tool_args: object_template(reading, keys, links, rendered, object, "tool_args"),
    }
}

fn object_template<'a>(
    reading: &mut Reading<'a>,
    keys: &Keys<'a>,
    links: &mut Links,
    rendered: Rendered,
    object: &mut Object<'a>,
    name: &'static str,
) -> Opaque {
    let object = object.field(reading, name, |reading, value| {
        let object = reading::object(reading, value)?;
        links.value_template(reading, keys, rendered, value);
        Some(opaque(object))
    });
    object.unwrap_or_default()
}

fn llm_decision<'a>(
    reading: &mut Reading<'a>,
    keys: &Keys<'a>,
    links: &mut Links,
    config: &mut Object<'a>,
) -> StepKind {
    StepKind::LlmDecision(LlmDecision {
        prompt: required_text_template(reading, keys, links, config, "prompt"),
        choices: config.texts(reading, "choices", 0..=OPTIONS_MAX, 1..=MESSAGE_CHARS_MAX),
        context: context(reading, keys, links, config),
        tools: config.texts(reading, "tools", 0..=TOOLS_MAX, 1..=ACTION_CHARS_MAX),
        model: config.text(reading, "model", 1..=LABEL_CHARS_MAX),
        max_iterations: small(config.whole(reading, "max_iterations", 1..=TURNS_MAX)),
    })
}

fn context<'a>(
    reading: &mut Reading<'a>,
    keys: &Keys<'a>,
    links: &mut Links,
    config: &mut Object<'a>,
) -> LlmContext {
    let context = config.field(reading, "context", |reading, value| match value {
        ValueView::Text("all") => Some(LlmContext::All),
        ValueView::Text("dependencies") => Some(LlmContext::Dependencies),
        ValueView::Text("none") => Some(LlmContext::None),
        ValueView::List(_) => {
            let steps = reading::list(reading, value, 0..=STEPS_MAX, |reading, value| {
                let step = named(reading, keys, value)?;
                links.depend_on(step);
                Some(step)
            });
            steps.map(LlmContext::Steps)
        }
        other => wrong_type(reading, "all, dependencies, none, or a list of keys", other),
    });
    context.unwrap_or(LlmContext::All)
}

fn user_input<'a>(
    reading: &mut Reading<'a>,
    keys: &Keys<'a>,
    links: &mut Links,
    config: &mut Object<'a>,
) -> StepKind {
    let question = required_text_template(reading, keys, links, config, "question");
    let input_type = config.one_of(reading, "input_type", &INPUT_TYPES);
    let input_type = input_type.unwrap_or(InputType::Text);
    let options = config.list(reading, "options", 0..=OPTIONS_MAX, |reading, value| {
        let option = reading::text(reading, value, 1..=MESSAGE_CHARS_MAX)?;
        links.text_template(reading, keys, option);
        Some(option.to_string())
    });
    let options = options.unwrap_or_default();
    if options.is_empty() == (input_type == InputType::Choice) {
        let message = "A choice has at least one option, and no other type has any.";
        config.violation(reading, "options", Code::ConstraintViolated, message);
    }
    let timeout_ms = config.whole(reading, "timeout_ms", 1..=YEAR_MS);
    let default_answer = config.field(reading, "default_answer", |reading, value| {
        if let Some(expected) = wrong_answer(input_type, &options, value) {
            reading.violation(Code::ConstraintViolated, || {
                format!("The default answer must be {expected}.")
            });
        }
        let mut bytes = Vec::new();
        encode_value(value, &mut bytes);
        Some(Bytes::from(bytes))
    });
    StepKind::UserInput(UserInput {
        question,
        input_type,
        options,
        timeout_ms,
        default_answer,
    })
}

/// Returns what the answer must be if it is something else. Options with references are known only when it is asked.
fn wrong_answer(input_type: InputType, options: &[String], answer: ValueView<'_>) -> Option<&'static str> {
    match (input_type, answer) {
        (InputType::Text, ValueView::Text(_))
        | (InputType::Confirm, ValueView::Bool(_))
        | (InputType::Form, ValueView::Struct(_)) => None,
        (InputType::Choice, ValueView::Text(text)) => {
            let may_be = |option: &String| {
                let is_plain = |piece| matches!(piece, Ok(Piece::Text(_)));
                option == text || !template::pieces(option).all(is_plain)
            };
            (!options.iter().any(may_be)).then_some("one of the options")
        }
        (InputType::Text, _) => Some("a text"),
        (InputType::Choice, _) => Some("one of the options"),
        (InputType::Confirm, _) => Some("true or false"),
        (InputType::Form, _) => Some("an object"),
    }
}

fn condition<'a>(
    reading: &mut Reading<'a>,
    keys: &Keys<'a>,
    links: &mut Links,
    config: &mut Object<'a>,
) -> StepKind {
    let condition = config.required(reading, "condition", |reading, value| {
        expression(reading, keys, links, value)
    });
    StepKind::Condition(Condition {
        condition: condition.unwrap_or(Expression::Literal(false)),
        true_step: jump(reading, keys, links, config, "true_step"),
        false_step: jump(reading, keys, links, config, "false_step"),
    })
}

fn expression<'a>(
    reading: &mut Reading<'a>,
    keys: &Keys<'a>,
    links: &mut Links,
    value: ValueView<'a>,
) -> Option<Expression> {
    let text = reading::text(reading, value, 1..=usize::MAX)?;
    match text {
        "true" => return Some(Expression::Literal(true)),
        "false" => return Some(Expression::Literal(false)),
        _ => {}
    }
    if let Some(key) = text.strip_prefix("result:") {
        let step = named_by(reading, keys, key)?;
        let before = Before {
            item: None,
            is_dependency: false,
        };
        links.put_before(step, before);
        return Some(Expression::ResultOf(step));
    }
    let n_bytes = text.len();
    if n_bytes > EXPRESSION_BYTES_MAX {
        let message = || format!("Must have at most {EXPRESSION_BYTES_MAX} bytes, has {n_bytes}.");
        reading.violation(Code::InvalidField, message);
    }
    Some(Expression::Text(text.to_string()))
}

fn parallel<'a>(
    reading: &mut Reading<'a>,
    keys: &Keys<'a>,
    links: &mut Links,
    config: &mut Object<'a>,
) -> StepKind {
    let items = config.required(reading, "steps", |reading, value| {
        reading::list(reading, value, 0..=ITEMS_MAX, |reading, value| match value {
            // A text is an action without arguments.
            ValueView::Text(_) => {
                let tool_name = reading::text(reading, value, 1..=ACTION_CHARS_MAX)?;
                Some(Call {
                    tool_name: tool_name.to_string(),
                    tool_args: Opaque::default(),
                })
            }
            ValueView::Struct(object) => {
                let mut object = Object::new(object);
                let call = call(reading, keys, links, Rendered::BeforeItem, &mut object);
                object.finish(reading);
                Some(call)
            }
            other => wrong_type(reading, "a text or an object", other),
        })
    });
    StepKind::Parallel(Parallel {
        items: items.unwrap_or_default(),
        batch_size: small(config.whole(reading, "batch_size", 1..=ITEMS_MAX as u64)),
        wait_all: config.boolean(reading, "wait_all").unwrap_or(true),
    })
}

fn repeated<'a>(
    reading: &mut Reading<'a>,
    keys: &Keys<'a>,
    links: &mut Links,
    config: &mut Object<'a>,
) -> StepKind {
    let names_step = config.has("loop_step");
    let names_tool = config.has("tool_name") || config.has("tool_args");
    if names_step && names_tool {
        let message = "A loop repeats a step or an action of its own, not both.";
        config.violation(reading, "loop_step", Code::ConstraintViolated, message);
    }
    let call = if names_step && !names_tool {
        Call {
            tool_name: String::new(),
            tool_args: Opaque::default(),
        }
    } else {
        call(reading, keys, links, Rendered::BeforeIteration, config)
    };
    config.field(reading, "loop_step", |reading, value| {
        let step = named(reading, keys, value)?;
        links.repeats = Some((step, reading.place()));
        Some(())
    });
    StepKind::Loop(Loop {
        call,
        pass_iteration: config.boolean(reading, "pass_iteration").unwrap_or(true),
        max_iterations: small(config.whole(reading, "max_iterations", 0..=ITERATIONS_MAX)),
        loop_condition: config.field(reading, "loop_condition", |reading, value| {
            expression(reading, keys, links, value)
        }),
    })
}

fn sub_plan<'a>(
    reading: &mut Reading<'a>,
    keys: &Keys<'a>,
    links: &mut Links,
    config: &mut Object<'a>,
) -> StepKind {
    if config.has("plan_id") == config.has("revision_digest") {
        let message = "Either plan_id or revision_digest is required, and not both.";
        config.violation(reading, "plan_id", Code::ConstraintViolated, message);
    }
    let plan_id = config.field(reading, "plan_id", |reading, value| {
        let text = reading::text(reading, value, 0..=usize::MAX)?;
        let id = text.parse::<PlanId>();
        if let Err(invalid) = id {
            reading.violation(Code::InvalidField, || format!("The id {invalid}."));
        }
        id.ok().map(|id| id.to_string())
    });
    let revision_digest = config.field(reading, "revision_digest", |reading, value| {
        let text = reading::text(reading, value, 0..=usize::MAX)?;
        if !is_digest(text) {
            let message = || "Must be sha256: and 64 hexadecimal digits in lower case.".to_string();
            reading.violation(Code::InvalidField, message);
        }
        Some(text.to_string())
    });
    StepKind::SubPlan(SubPlan {
        plan_id,
        revision_digest,
        input: object_template(reading, keys, links, Rendered::BeforeStep, config, "input"),
    })
}

fn is_digest(text: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let digits = text.strip_prefix("sha256:");
    digits.is_some_and(|digits| digits.len() == 64 && digits.bytes().all(is_digit))
}

fn required_text_template<'a>(
    reading: &mut Reading<'a>,
    keys: &Keys<'a>,
    links: &mut Links,
    config: &mut Object<'a>,
    name: &'static str,
) -> String {
    let text = config.required(reading, name, |reading, value| {
        let text = reading::text(reading, value, ANY_TEXT)?;
        links.text_template(reading, keys, text);
        Some(text)
    });
    text.unwrap_or_default().to_string()
}

fn small(number: Option<u64>) -> Option<u32> {
    number.map(|number| u32::try_from(number).expect("the range is smaller"))
}

/// Copies an encoded object, so that a plan does not hold its document.
pub(super) fn opaque(object: &[u8]) -> Opaque {
    Opaque::from_encoded(Bytes::copy_from_slice(object))
}

const INPUT_TYPES: [(&str, InputType); 4] = [
    ("text", InputType::Text),
    ("choice", InputType::Choice),
    ("confirm", InputType::Confirm),
    ("form", InputType::Form),
];

/// Not empty; the size of the document bounds it.
const ANY_TEXT: RangeInclusive<usize> = 1..=usize::MAX;
/// Choices of a model, or options of a person.
const OPTIONS_MAX: usize = 100;
/// Actions that a model may call.
const TOOLS_MAX: usize = 256;
/// Turns of a model.
const TURNS_MAX: u64 = 100;
/// Calls of a parallel step.
const ITEMS_MAX: usize = 256;
/// Iterations of a loop.
const ITERATIONS_MAX: u64 = 1000;
/// Bytes of an expression: 4 KiB.
const EXPRESSION_BYTES_MAX: usize = 4 << 10;
const YEAR_MS: u64 = 31_536_000_000;
