//! How large an encoded result is at the most. Encodes nothing.
//!
//! Mirrors `escapement.v1.PlanResult`, `StructBuilder` and what `trace`, `outcome`, `interruption` and `start` put into contexts.

use crate::error::CAUSE_DEPTH_MAX;
use crate::execution::{Interruption, MISSING_KEYS_BYTES_MAX};
use crate::outcome::{payload_entry_bytes, varint_bytes};
use crate::plan::Plan;
use crate::trace::{ITEM_OVERHEAD_BYTES, TRACE_BYTES_MAX};
use alloc::string::String;
use escapement_model::codes;
use escapement_model::limits::{
    ERROR_CODE_CHARS_MAX, ERROR_CONTEXT_BYTES_MAX, ERROR_TRACE_CONTEXT_BYTES_MAX, MESSAGE_CHARS_MAX,
    OUTPUT_BYTES_MAX, RESULT_PAYLOAD_BYTES_MAX,
};

/// Returns the bytes of the result of a plan with so many attempts, of which so many are under way at a time.
pub(super) fn at_most(plan: &Plan, n_slots: u32, n_attempts: u64) -> u64 {
    // with an error one step at least has no output.
    let n_steps = plan.steps.len();
    let success = payload(n_steps);
    let otherwise = payload(n_steps - 1) + delimited(error(plan, n_slots as usize, n_attempts));
    (HEAD_BYTES + success.max(otherwise)) as u64
}

/// `result_payload` of so many steps.
fn payload(n_steps: usize) -> usize {
    //
    let bytes = n_steps * payload_entry_bytes(OUTPUT_BYTES_MAX);
    delimited(bytes.min(RESULT_PAYLOAD_BYTES_MAX))
}

/// Returns the error on top, with its causes and all errors of the run.
fn error(plan: &Plan, n_slots: usize, n_attempts: u64) -> usize {
    let of_plan = in_flight(n_slots).max(missing_keys(plan)).max(interrupted());
    // Each attempt fails once at the most; a step without an attempt has an error instead; one error more is of the plan.
    let n_errors = usize::try_from(n_attempts)
        .unwrap_or(usize::MAX)
        .saturating_add(1);
    // contexts are repeated as long as they fit.
    let contexts = n_errors
        .saturating_mul(STEP_CONTEXT_BYTES)
        .saturating_add(of_plan);
    let around = traced()
        .saturating_add(entry("context".len(), delimited(0)))
        .saturating_add(ROOM_OF_LENGTHS);
    let errors = n_errors
        .saturating_mul(around)
        .saturating_add(contexts.min(ERROR_TRACE_CONTEXT_BYTES_MAX))
        .min(TRACE_BYTES_MAX);
    let context = STEP_CONTEXT_BYTES.max(of_plan)
        + entry("errors".len(), delimited(errors))
        + entry("errors_omitted".len(), NUMBER_BYTES);
    // one below the other, and each is the error of another step or its promotion.
    let causes = 0..CAUSE_DEPTH_MAX.min(plan.steps.len());
    let cause = causes.fold(0, |cause, _| {
        delimited(cause + ERROR_BYTES + delimited(STEP_CONTEXT_BYTES))
    });
    ERROR_BYTES + delimited(context) + cause
}

/// Returns an error in the trace, without its context.
fn traced() -> usize {
    // only the error of a step that could not run has a cause, and that one has our own code and message.
    let reported = text("error_code", CODE_BYTES) + text("message", MESSAGE_BYTES);
    let ours = text("error_code", codes::DEPENDENCY_UNRESOLVED.len()) + text("message", OUR_MESSAGE_BYTES);
    let cause = entry("cause".len(), delimited(reported));
    reported.max(ours + cause)
        + text("step_id", ID_BYTES)
        + text("severity", "error".len())
        + entry("recoverable".len(), BOOL_BYTES)
        + entry("attempt".len(), NUMBER_BYTES)
        + entry("timestamp".len(), NUMBER_BYTES)
        + ITEM_OVERHEAD_BYTES
}

/// Returns the context of a limit that ran out.
fn in_flight(n_slots: usize) -> usize {
    //
    entry("limit_ms".len(), NUMBER_BYTES)
        + entry("started_at".len(), NUMBER_BYTES)
        + entry("deadline_ms".len(), NUMBER_BYTES)
        + entry(
            "steps_in_flight".len(),
            delimited(n_slots * delimited(delimited(ID_BYTES))),
        )
}

/// Returns the context of an environment that lacks every required key.
fn missing_keys(plan: &Plan) -> usize {
    //
    let lengths = plan.context_requirements.iter().map(String::len);
    let bytes: usize = lengths.clone().sum();
    let around: usize = lengths.map(|length| delimited(delimited(length)) - length).sum();
    entry(
        "missing_keys".len(),
        delimited(bytes.min(MISSING_KEYS_BYTES_MAX) + around),
    ) + entry("missing_keys_total".len(), NUMBER_BYTES)
}

/// Returns the context of what a restart or a restore ended.
fn interrupted() -> usize {
    //
    let restarted = Interruption::Restarted { started_at: 0 }.reason();
    text(
        "reason",
        restarted.len().max(Interruption::Restored.reason().len()),
    )
}

const fn text(key: &str, bytes: usize) -> usize {
    entry(key.len(), delimited(bytes))
}

/// Returns an entry of an object, given the bytes of its value.
const fn entry(key_bytes: usize, value_bytes: usize) -> usize {
    delimited(delimited(key_bytes) + delimited(value_bytes))
}

/// Returns a field with a length. All field numbers are below 16, so each key takes one byte.
const fn delimited(length: usize) -> usize {
    1 + varint_bytes(length as u64) + length
}

/// Ids, status, times and counts; a negative time takes ten bytes.
const HEAD_BYTES: usize = 2 * delimited(ID_BYTES) + 2 + 2 * (1 + 10) + 2 * (1 + 2);
/// An error of a step without cause and context: code, message, step, severity, recoverable.
const ERROR_BYTES: usize = delimited(CODE_BYTES) + delimited(MESSAGE_BYTES) + delimited(ID_BYTES) + 2 + 2;
/// What a worker says, and the code that it may not use.
const STEP_CONTEXT_BYTES: usize = ERROR_CONTEXT_BYTES_MAX + text("original_code", MESSAGE_BYTES);
/// A code point takes four bytes at the most.
const CODE_BYTES: usize = 4 * ERROR_CODE_CHARS_MAX;
const MESSAGE_BYTES: usize = 4 * MESSAGE_CHARS_MAX;
/// Longer than what `turn` says of a step that cannot run.
const OUR_MESSAGE_BYTES: usize = 80;
const ID_BYTES: usize = 36;
const NUMBER_BYTES: usize = 9;
const BOOL_BYTES: usize = 2;
/// The lengths of a context and of two messages around it take two bytes more than those of an empty one at the most.
const ROOM_OF_LENGTHS: usize = 3 * 2;
