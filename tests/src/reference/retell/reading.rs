//! Entries of a record in the words of the second interpreter. Decides nothing.

use std::collections::BTreeMap;

use escapement_model::Severity;
use escapement_wire::v1::audit_entry::Event;
use escapement_wire::v1::{AuditEntry, ExecutionError, Plan, execution_error, plan_result};

use super::{Difference, at};
use crate::reference::decided::Said;
use crate::reference::errors::Classified;
use crate::reference::lists::mandatory_actions;
use crate::reference::words::{NotCompleted, Status};

/// An entry.
pub(super) struct Heard {
    pub(super) said: Said,
}

/// Where each step stands in the plan's list.
pub(super) struct Places {
    by_id: BTreeMap<String, usize>,
}

impl Places {
    pub(super) fn of(plan: &Plan) -> Self {
        let ids = plan.steps.iter().map(|step| step.id.to_ascii_lowercase());
        Self {
            by_id: ids.zip(0..).collect(),
        }
    }

    pub(super) fn of_step(&self, id: &str) -> Option<usize> {
        self.by_id.get(id).copied()
    }

    pub(super) fn read(&self, entry: &AuditEntry) -> Result<Heard, Difference> {
        let wrong = |part, found: &str| at(Some(entry), part, "one that exists", found);
        let place = |id: &str| self.of_step(id).ok_or_else(|| wrong("step_id", id));
        let number = |n: i32| u32::try_from(n).map_err(|_| wrong("attempt", &n.to_string()));
        let Some(event) = &entry.event else {
            return Err(wrong("event", "none"));
        };
        let said = match event {
            Event::Accepted(_) => return Err(wrong("event", "a second acceptance")),
            Event::Started(started) => Said::Started(started.started_at),
            Event::StepWaiting(waiting) => Said::Waiting(place(&waiting.step_id)?, number(waiting.attempt)?),
            Event::AttemptAssigned(assigned) => {
                Said::Assigned(place(&assigned.step_id)?, number(assigned.attempt)?)
            }
            Event::AttemptStarted(started) => {
                Said::AttemptStarted(place(&started.step_id)?, number(started.attempt)?)
            }
            Event::AttemptReturned(returned) => Said::Returned(
                place(&returned.step_id)?,
                number(returned.attempt)?,
                returned.evidence == "refused",
            ),
            Event::AttemptFailed(failed) => Said::Failed(
                place(&failed.step_id)?,
                number(failed.attempt)?,
                self.error(Some(entry), failed.error.as_ref())?,
            ),
            Event::RetryScheduled(retry) => Said::Retry(
                place(&retry.step_id)?,
                number(retry.next_attempt)?,
                u64::try_from(retry.delay_ms).map_err(|_| wrong("delay_ms", &retry.delay_ms.to_string()))?,
            ),
            Event::StepCompleted(completed) => {
                //
                for warning in &completed.warnings {
                    if warning.severity() != execution_error::Severity::Warn {
                        let found = warning.severity().as_str_name();
                        return Err(at(Some(entry), "warnings", "warn", found));
                    }
                }
                Said::Completed(place(&completed.step_id)?, number(completed.attempts)?)
            }
            Event::StepNotCompleted(ended) => Said::NotCompleted(
                place(&ended.step_id)?,
                number(ended.attempts)?,
                reason(&ended.reason).ok_or_else(|| wrong("reason", &ended.reason))?,
                self.error(Some(entry), ended.error.as_ref())?,
            ),
            Event::MandatoryAction(action) => {
                let number = number(action.number)?;
                let known = [Status::Success, Status::Partial, Status::Failure]
                    .into_iter()
                    .flat_map(mandatory_actions)
                    .find(|known| *known == (action.rule_set.as_str(), number, action.action.as_str()));
                let (rule_set, number, name) =
                    known.ok_or_else(|| wrong("mandatory_action", &format!("{action:?}")))?;
                Said::Action(rule_set, number, name)
            }
            Event::StepsIncomplete(incomplete) => Said::Incomplete(
                incomplete
                    .step_ids
                    .iter()
                    .map(|id| place(id))
                    .collect::<Result<_, _>>()?,
            ),
            Event::Settled(settled) => Said::Settled(
                status(settled.status()).ok_or_else(|| wrong("status", settled.status().as_str_name()))?,
            ),
        };
        Ok(Heard { said })
    }

    /// Returns an error with its causes.
    pub(super) fn error(
        &self,
        entry: Option<&AuditEntry>,
        error: Option<&ExecutionError>,
    ) -> Result<Classified, Difference> {
        let Some(error) = error else {
            return Err(at(entry, "error", "an error", "none"));
        };
        let severity = match error.severity() {
            execution_error::Severity::Unspecified => {
                return Err(at(entry, "severity", "one of three", "unspecified"));
            }
            execution_error::Severity::Warn => Severity::Warn,
            execution_error::Severity::Error => Severity::Error,
            execution_error::Severity::Fatal => Severity::Fatal,
        };
        //
        let is_recoverable = severity != Severity::Fatal;
        if error.recoverable != is_recoverable {
            let found = error.recoverable.to_string();
            return Err(at(entry, "recoverable", &is_recoverable.to_string(), &found));
        }
        let step = match &error.step_id {
            Some(id) => Some(
                self.of_step(id)
                    .ok_or_else(|| at(entry, "error.step_id", "a step of the plan", id))?,
            ),
            None => None,
        };
        let cause = match &error.cause {
            Some(cause) => Some(Box::new(self.error(entry, Some(cause))?)),
            None => None,
        };
        Ok(Classified {
            cause,
            ..Classified::new(&error.error_code, step, severity)
        })
    }
}

fn reason(text: &str) -> Option<NotCompleted> {
    Some(match text {
        "failed" => NotCompleted::Failed,
        "skipped" => NotCompleted::Skipped,
        "retries_exhausted" => NotCompleted::RetriesExhausted,
        "not_retryable" => NotCompleted::NotRetryable,
        "warned_without_output" => NotCompleted::WarnedWithoutOutput,
        "dependency_unresolved" => NotCompleted::DependencyUnresolved,
        _ => return None,
    })
}

pub(super) fn status(status: plan_result::Status) -> Option<Status> {
    match status {
        plan_result::Status::Unspecified => None,
        plan_result::Status::Success => Some(Status::Success),
        plan_result::Status::Partial => Some(Status::Partial),
        plan_result::Status::Failure => Some(Status::Failure),
    }
}
