//! What makes two documents the same plan: SHA-256 over one canonical encoding of what was checked. Keeps no content.
//!
//! Two documents are the same if they differ in nothing but
//! - the order of fields, and of the keys of any object;
//! - a field that is absent, null, or its documented default;
//! - the order of steps in the list, if the order numbers, given or by position, stay and so does canonical order;
//! - dependencies that are listed although a reference implies them, or listed twice;
//! - a parallel call given as a text, and a loop that names the step whose call it repeats.
//!
//! Templates are compared as they are written: `"${a}"` and `{"$from": "a"}` are different.
//! A field that a preset fills in is absent here; what a preset says is part of the run.
//! The encoding has the fields in the order of their types, steps as their positions; a variant is its name, then its fields.

use super::{
    Call, Condition, Constraints, Expression, InputType, LlmContext, LlmDecision, Loop, OnDependencyFailure,
    OnFailure, Parallel, Plan, RetrySpec, Step, StepIndex, StepKind, SubPlan, Template, UserInput,
};
use escapement_model::encoder::Encoder;
use escapement_model::opaque;

/// Names this encoding; a change of it must change this text.
pub(super) const ENCODING: &str = "escapement run plan 1";

// RUN-1.2
/// Returns the digest of a plan without its digest.
pub(super) fn digest(plan: &Plan) -> [u8; 32] {
    let Plan {
        name,
        goal,
        description,
        parallel,
        narrative,
        output,
        constraints,
        steps,
        document: _,
        digest: _,
    } = plan;
    let Constraints {
        must_produce,
        expected_artifact_type,
    } = constraints;
    Encoder::named(ENCODING, |encoder| {
        encoder.text(name);
        encoder.text(goal);
        encoder.text(description);
        flag(encoder, *parallel);
        encoder.optional(narrative.as_deref(), Encoder::text);
        encoder.optional(output.as_ref(), |encoder, Template(bytes)| value(encoder, bytes));
        encoder.texts(must_produce);
        encoder.optional(expected_artifact_type.as_deref(), Encoder::text);
        encoder.number(steps.len() as u64);
        for one in steps {
            step(encoder, one);
        }
    })
}

fn step<'a>(encoder: &mut Encoder<'a>, step: &'a Step) {
    let Step {
        key,
        order,
        // Its position in the list of steps says nothing more.
        place: _,
        name,
        description,
        kind,
        depends_on,
        required,
        is_async,
        timeout_ms,
        retry: repetition,
        on_success,
        on_failure: _,
        on_dependency_failure: _,
        verify,
        is_fresh_for_run,
        metadata,
    } = step;
    encoder.text(key);
    encoder.number(u64::from(*order));
    encoder.text(name);
    encoder.text(description);
    self::kind(encoder, kind);
    indices(encoder, depends_on);
    encoder.optional(*required, flag);
    flag(encoder, *is_async);
    encoder.optional(*timeout_ms, Encoder::number);
    retry(encoder, repetition);
    encoder.optional(*on_success, index);
    self::on_failure(encoder, step);
    self::on_dependency_failure(encoder, step);
    encoder.optional(verify.as_ref(), call);
    encoder.object(metadata);
    // No key of a step has a blank, so this is told from the step behind it.
    if *is_fresh_for_run {
        encoder.text("freshness run");
    }
}

pub(super) fn on_failure(encoder: &mut Encoder<'_>, step: &Step) {
    encoder.optional(step.on_failure, |encoder, on_failure| match on_failure {
        OnFailure::Abort => encoder.text("abort"),
        OnFailure::Drain => encoder.text("drain"),
        OnFailure::Skip => encoder.text("skip"),
        OnFailure::Jump(step) => {
            encoder.text("jump");
            index(encoder, step);
        }
    });
}

pub(super) fn on_dependency_failure(encoder: &mut Encoder<'_>, step: &Step) {
    encoder.optional(step.on_dependency_failure, |encoder, on_dependency_failure| {
        encoder.text(match on_dependency_failure {
            OnDependencyFailure::Skip => "skip",
            OnDependencyFailure::NullInput => "null_input",
            OnDependencyFailure::Synthetic => "synthetic",
            OnDependencyFailure::Block => "block",
        });
    });
}

pub(super) fn kind<'a>(encoder: &mut Encoder<'a>, kind: &'a StepKind) {
    match kind {
        StepKind::ToolCall(one) => {
            encoder.text("tool_call");
            call(encoder, one);
        }
        StepKind::LlmDecision(decision) => llm_decision(encoder, decision),
        StepKind::UserInput(input) => user_input(encoder, input),
        StepKind::Condition(Condition {
            condition,
            true_step,
            false_step,
        }) => {
            encoder.text("condition");
            expression(encoder, condition);
            encoder.optional(*true_step, index);
            encoder.optional(*false_step, index);
        }
        StepKind::Parallel(Parallel {
            items,
            batch_size,
            wait_all,
        }) => {
            encoder.text("parallel");
            encoder.number(items.len() as u64);
            for item in items {
                call(encoder, item);
            }
            encoder.optional(*batch_size, small);
            flag(encoder, *wait_all);
        }
        StepKind::Loop(Loop {
            call: repeated,
            pass_iteration,
            max_iterations,
            loop_condition,
        }) => {
            encoder.text("loop");
            call(encoder, repeated);
            flag(encoder, *pass_iteration);
            encoder.optional(*max_iterations, small);
            encoder.optional(loop_condition.as_ref(), expression);
        }
        StepKind::SubPlan(SubPlan {
            plan_id,
            revision_digest,
            input,
        }) => {
            encoder.text("sub_plan");
            encoder.optional(plan_id.as_deref(), Encoder::text);
            encoder.optional(revision_digest.as_deref(), Encoder::text);
            encoder.object(input);
        }
    }
}

fn llm_decision<'a>(encoder: &mut Encoder<'a>, decision: &'a LlmDecision) {
    let LlmDecision {
        prompt,
        choices,
        context,
        tools,
        model,
        max_iterations,
    } = decision;
    encoder.text("llm_decision");
    encoder.text(prompt);
    encoder.texts(choices);
    match context {
        LlmContext::All => encoder.text("all"),
        LlmContext::Dependencies => encoder.text("dependencies"),
        LlmContext::Steps(steps) => {
            encoder.text("steps");
            indices(encoder, steps);
        }
        LlmContext::None => encoder.text("none"),
    }
    encoder.texts(tools);
    encoder.optional(model.as_deref(), Encoder::text);
    encoder.optional(*max_iterations, small);
}

fn user_input<'a>(encoder: &mut Encoder<'a>, input: &'a UserInput) {
    let UserInput {
        question,
        input_type,
        options,
        timeout_ms,
        default_answer,
    } = input;
    encoder.text("user_input");
    encoder.text(question);
    encoder.text(match input_type {
        InputType::Text => "text",
        InputType::Choice => "choice",
        InputType::Confirm => "confirm",
        InputType::Form => "form",
    });
    encoder.texts(options);
    encoder.optional(*timeout_ms, Encoder::number);
    encoder.optional(default_answer.as_ref(), |encoder, bytes| value(encoder, bytes));
}

fn expression(encoder: &mut Encoder<'_>, expression: &Expression) {
    match expression {
        Expression::Literal(literal) => {
            encoder.text("literal");
            flag(encoder, *literal);
        }
        Expression::ResultOf(step) => {
            encoder.text("result");
            index(encoder, *step);
        }
        Expression::Text(text) => {
            encoder.text("text");
            encoder.text(text);
        }
    }
}

pub(super) fn call<'a>(encoder: &mut Encoder<'a>, call: &'a Call) {
    let Call { tool_name, tool_args } = call;
    encoder.text(tool_name);
    encoder.object(tool_args);
}

pub(super) fn retry(encoder: &mut Encoder<'_>, retry: &RetrySpec) {
    let RetrySpec {
        max_retries,
        backoff_ms,
        multiplier,
        max_backoff_ms,
        escalate,
    } = retry;
    encoder.optional(*max_retries, small);
    encoder.optional(*backoff_ms, Encoder::number);
    encoder.optional(multiplier.map(f64::to_bits), Encoder::number);
    encoder.optional(*max_backoff_ms, Encoder::number);
    encoder.optional(*escalate, flag);
}

fn value<'a>(encoder: &mut Encoder<'a>, bytes: &'a [u8]) {
    encoder.value(opaque::value(bytes).expect("it was part of a document that was checked"));
}

pub(super) fn indices(encoder: &mut Encoder<'_>, steps: &[StepIndex]) {
    encoder.number(steps.len() as u64);
    for step in steps {
        index(encoder, *step);
    }
}

pub(super) fn index(encoder: &mut Encoder<'_>, step: StepIndex) {
    encoder.number(step as u64);
}

fn small(encoder: &mut Encoder<'_>, number: u32) {
    encoder.number(u64::from(number));
}

pub(super) fn flag(encoder: &mut Encoder<'_>, flag: bool) {
    encoder.bytes(&[u8::from(flag)]);
}
