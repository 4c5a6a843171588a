//! The hash of one entry over the hash before it. Knows no order of events.

use super::Hash;
use super::canonical::Canonical;
use super::request::put_object;
use escapement_wire::v1;
use escapement_wire::v1::audit_entry::Event;

pub(super) fn hash(before: &Hash, entry: &v1::AuditEntry) -> Result<Hash, String> {
    let mut to = Canonical::new();
    to.raw(before);
    to.number(entry.sequence);
    to.number(entry.at);
    put_event(&mut to, entry.event.as_ref().ok_or("it has no event")?)?;
    Ok(to.hash())
}

fn put_event(to: &mut Canonical, event: &Event) -> Result<(), String> {
    match event {
        Event::Accepted(event) => {
            to.text("accepted");
            to.number(event.deadline_ms);
            // None or 32 bytes, behind which nothing stands.
            to.raw(&event.provenance_digest);
        }
        Event::Started(event) => {
            to.text("started");
            to.number(event.started_at);
        }
        Event::StepWaiting(event) => put_attempt(to, "step_waiting", &event.step_id, event.attempt)?,
        Event::AttemptAssigned(event) => {
            put_attempt(to, "attempt_assigned", &event.step_id, event.attempt)?;
            to.text(&event.worker_id);
        }
        Event::AttemptStarted(event) => put_attempt(to, "attempt_started", &event.step_id, event.attempt)?,
        Event::AttemptReturned(event) => {
            put_attempt(to, "attempt_returned", &event.step_id, event.attempt)?;
            to.text(&event.evidence);
        }
        Event::AttemptFailed(event) => {
            put_attempt(to, "attempt_failed", &event.step_id, event.attempt)?;
            put_error(to, event.error.as_ref().ok_or("a failure has no error")?)?;
        }
        Event::RetryScheduled(event) => {
            put_attempt(to, "retry_scheduled", &event.step_id, event.next_attempt)?;
            to.number(event.delay_ms);
        }
        Event::StepCompleted(event) => {
            put_attempt(to, "step_completed", &event.step_id, event.attempts)?;
            to.count(event.warnings.len());
            for warning in &event.warnings {
                put_error(to, warning)?;
            }
        }
        Event::StepNotCompleted(event) => {
            put_attempt(to, "step_not_completed", &event.step_id, event.attempts)?;
            to.text(&event.reason);
            put_error(to, event.error.as_ref().ok_or("a step that failed has no error")?)?;
        }
        Event::MandatoryAction(event) => {
            to.text("mandatory_action");
            to.text(&event.rule_set);
            to.number(event.number.into());
            to.text(&event.action);
        }
        Event::StepsIncomplete(event) => {
            to.text("steps_incomplete");
            to.count(event.step_ids.len());
            for id in &event.step_ids {
                to.id(id)?;
            }
        }
        Event::Settled(event) => {
            to.text("settled");
            to.text(match v1::plan_result::Status::try_from(event.status) {
                Ok(v1::plan_result::Status::Success) => "success",
                Ok(v1::plan_result::Status::Partial) => "partial",
                Ok(v1::plan_result::Status::Failure) => "failure",
                Ok(v1::plan_result::Status::Unspecified) | Err(_) => return Err("it has no status".into()),
            });
        }
    }
    Ok(())
}

fn put_attempt(to: &mut Canonical, name: &str, step_id: &str, attempt: i32) -> Result<(), String> {
    to.text(name);
    to.id(step_id)?;
    to.number(attempt.into());
    Ok(())
}

fn put_error(to: &mut Canonical, error: &v1::ExecutionError) -> Result<(), String> {
    put_cause(to, error)?;
    put_object(to, error.context.as_ref())
}

/// An error without its context.
fn put_cause(to: &mut Canonical, error: &v1::ExecutionError) -> Result<(), String> {
    to.text(&error.error_code);
    to.text(&error.message);
    to.maybe_id(error.step_id.as_deref())?;
    to.text(match v1::execution_error::Severity::try_from(error.severity) {
        Ok(v1::execution_error::Severity::Warn) => "warn",
        Ok(v1::execution_error::Severity::Error) => "error",
        Ok(v1::execution_error::Severity::Fatal) => "fatal",
        Ok(v1::execution_error::Severity::Unspecified) | Err(_) => {
            return Err("an error has no severity".into());
        }
    });
    match &error.cause {
        None => to.byte(0),
        Some(cause) => {
            to.byte(1);
            put_cause(to, cause)?;
        }
    }
    Ok(())
}
