//! The result of an execution against what the second interpreter came to. Looks at no texts.

use escapement_model::Severity;
use escapement_model::opaque::{ValueView, entries as fields, items};
use escapement_wire::v1::audit_entry::Event;
use escapement_wire::v1::{AuditEntry, Plan, PlanResult};

use super::reading::{Places, status};
use super::{Difference, at};
use crate::reference::decided::Ended;
use crate::reference::errors::Classified;
use crate::reference::interpret::Interpreter;

///
pub(super) fn is_interrupted(result: &PlanResult) -> bool {
    let Some(error) = &result.error else { return false };
    let reason = error
        .context
        .iter()
        .flat_map(|context| fields(context.as_encoded()));
    error.error_code == "UNKNOWN_ERROR"
        && error.step_id.is_none()
        && reason.flatten().any(|field| {
            field == ("reason", ValueView::Text("orchestrator_restarted"))
                || field == ("reason", ValueView::Text("restored_from_backup"))
        })
}

pub(super) fn compare(
    plan: &Plan,
    interpreter: &Interpreter,
    ended: &Ended,
    trace_at: &[i64],
    result: &PlanResult,
) -> Result<(), Difference> {
    let places = Places::of(plan);
    same("plan_id", &plan.id.to_ascii_lowercase(), &result.plan_id)?;
    same("status", &Some(ended.status), &status(result.status()))?;
    same(
        "steps_executed",
        &interpreter.outputs.len(),
        &size(result.steps_executed),
    )?;
    same("steps_total", &plan.steps.len(), &size(result.steps_total))?;
    //
    same("completed_at", &ended.completed_at, &result.completed_at)?;
    same(
        "duration_ms",
        &(ended.completed_at - ended.started_at),
        &result.duration_ms,
    )?;
    //
    let completed = interpreter
        .order
        .iter()
        .filter(|step| interpreter.outputs.contains_key(step))
        .map(|step| plan.steps[*step].id.to_ascii_lowercase())
        .collect::<Vec<_>>();
    same("result_payload", &completed, &keys(result)?)?;
    let error = match &result.error {
        Some(error) => Some(places.error(None, Some(error))?),
        None => None,
    };
    same("error", &ended.error, &error)?;
    if result.error.is_some() {
        compare_errors(plan, interpreter, trace_at, result)?;
    }
    Ok(())
}

/// The list in the context of the error.
fn compare_errors(
    plan: &Plan,
    interpreter: &Interpreter,
    trace_at: &[i64],
    result: &PlanResult,
) -> Result<(), Difference> {
    let context = result.error.as_ref().and_then(|error| error.context.as_ref());
    let context = context.map_or(&[][..], |context| context.as_encoded());
    let mut listed = Vec::new();
    let mut n_omitted = 0;
    for field in fields(context).flatten() {
        match field {
            ("errors", ValueView::List(list)) => listed = items(list).flatten().map(shown).collect(),
            ("errors_omitted", ValueView::Number(n)) => n_omitted = n as usize,
            _ => {}
        }
    }
    same(
        "errors_omitted",
        &interpreter.trace.len().saturating_sub(listed.len()),
        &n_omitted,
    )?;
    let expected = interpreter
        .trace
        .iter()
        .zip(trace_at)
        .map(|((error, attempt), at)| Shown {
            code: error.code.clone(),
            step: error.step.map(|step| plan.steps[step].id.to_ascii_lowercase()),
            severity: severity(error).to_owned(),
            is_recoverable: error.severity != Severity::Fatal,
            attempt: *attempt,
            timestamp: *at,
            cause: error.cause.as_ref().map(|cause| cause.code.clone()),
        });
    for (expected, found) in expected.zip(&listed) {
        same("error.context.errors", &expected, found)?;
    }
    Ok(())
}

#[derive(Debug, Default, PartialEq)]
struct Shown {
    code: String,
    step: Option<String>,
    severity: String,
    is_recoverable: bool,
    attempt: Option<u32>,
    timestamp: i64,
    cause: Option<String>,
}

fn shown(error: ValueView<'_>) -> Shown {
    let ValueView::Struct(error) = error else {
        return Shown::default();
    };
    let mut shown = Shown::default();
    for field in fields(error).flatten() {
        match field {
            ("error_code", ValueView::Text(code)) => shown.code = code.into(),
            ("step_id", ValueView::Text(id)) => shown.step = Some(id.into()),
            ("severity", ValueView::Text(severity)) => shown.severity = severity.into(),
            ("recoverable", ValueView::Bool(flag)) => shown.is_recoverable = flag,
            ("attempt", ValueView::Number(n)) => shown.attempt = Some(n as u32),
            ("timestamp", ValueView::Number(n)) => shown.timestamp = n as i64,
            ("cause", ValueView::Struct(cause)) => {
                let code = fields(cause).flatten().find(|(key, _)| *key == "error_code");
                if let Some((_, ValueView::Text(code))) = code {
                    shown.cause = Some(code.into());
                }
            }
            _ => {}
        }
    }
    shown
}

fn severity(error: &Classified) -> &'static str {
    match error.severity {
        Severity::Warn => "warn",
        Severity::Error => "error",
        Severity::Fatal => "fatal",
    }
}

fn keys(result: &PlanResult) -> Result<Vec<String>, Difference> {
    let payload = result
        .result_payload
        .as_ref()
        .map_or(&[][..], |payload| payload.as_encoded());
    fields(payload)
        .map(|field| match field {
            Ok((key, ValueView::Struct(_))) => Ok(key.to_owned()),
            other => Err(at(
                None,
                "result_payload",
                "an object for each step",
                &format!("{other:?}"),
            )),
        })
        .collect()
}

/// What a record that leaves out attempts still says: what became of the steps.
pub(super) fn compare_with_steps(
    plan: &Plan,
    entries: &[AuditEntry],
    result: &PlanResult,
) -> Result<(), Difference> {
    let completed = |entry: &AuditEntry| matches!(entry.event, Some(Event::StepCompleted(_)));
    let n_completed = entries.iter().filter(|entry| completed(entry)).count();
    same("steps_executed", &n_completed, &size(result.steps_executed))?;
    same("steps_total", &plan.steps.len(), &size(result.steps_total))?;
    same("result_payload", &n_completed, &keys(result)?.len())?;
    match entries.last().map(|entry| &entry.event) {
        Some(Some(Event::Settled(settled))) => same("status", &settled.status(), &result.status()),
        other => Err(at(None, "record", "settled at its end", &format!("{other:?}"))),
    }
}

fn size(n: i32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

fn same<T: PartialEq + std::fmt::Debug>(
    part: &'static str,
    expected: &T,
    found: &T,
) -> Result<(), Difference> {
    if expected == found {
        return Ok(());
    }
    Err(at(None, part, &format!("{expected:?}"), &format!("{found:?}")))
}
