//! Records as short lines and results as the contract's JSON, for comparison with what a test expects.

use crate::plans::step_number;
use escapement_wire::v1::AuditEntry;
use escapement_wire::v1::audit_entry::Event;

/// What happened to the steps of an execution: one line for each entry about a step, in order.
pub(crate) fn steps(record: &[AuditEntry]) -> Vec<String> {
    record
        .iter()
        .filter_map(|entry| step_line(entry.event.as_ref().unwrap()))
        .collect()
}

/// What happened to one step.
pub(crate) fn step(record: &[AuditEntry], number: usize) -> Vec<String> {
    let suffix = format!("step {number}");
    steps(record)
        .into_iter()
        .filter_map(|line| line.strip_suffix(&suffix).map(|line| line.trim_end().to_owned()))
        .collect()
}

fn step_line(event: &Event) -> Option<String> {
    let (what, step_id) = match event {
        Event::StepWaiting(waiting) => (format!("{} waits", waiting.attempt), &waiting.step_id),
        Event::AttemptAssigned(assigned) => (format!("{} assigned", assigned.attempt), &assigned.step_id),
        Event::AttemptStarted(started) => (format!("{} started", started.attempt), &started.step_id),
        Event::AttemptReturned(returned) => (
            format!("{} returned: {}", returned.attempt, returned.evidence),
            &returned.step_id,
        ),
        Event::AttemptFailed(failed) => {
            let error = failed.error.as_ref().unwrap();
            let severity = error.severity().as_str_name();
            (
                format!("{} failed: {} {severity}", failed.attempt, error.error_code),
                &failed.step_id,
            )
        }
        Event::RetryScheduled(retry) => (
            format!("{} follows in {} ms", retry.next_attempt, retry.delay_ms),
            &retry.step_id,
        ),
        Event::StepCompleted(completed) => (
            format!("completed after {}", completed.attempts),
            &completed.step_id,
        ),
        Event::StepNotCompleted(ended) => (
            format!("not completed after {}: {}", ended.attempts, ended.reason),
            &ended.step_id,
        ),
        Event::Accepted(_)
        | Event::Started(_)
        | Event::MandatoryAction(_)
        | Event::StepsIncomplete(_)
        | Event::Settled(_) => return None,
    };
    Some(format!("{what} step {}", step_number(step_id)))
}

/// Returns the mandatory actions of an execution as `number action`, after checking that all are of one rule set.
pub(crate) fn mandatory_actions(record: &[AuditEntry], rule_set: &str) -> Vec<String> {
    let actions = record
        .iter()
        .filter_map(|entry| match entry.event.as_ref().unwrap() {
            Event::MandatoryAction(action) => Some(action),
            _ => None,
        });
    actions
        .map(|action| {
            assert_eq!(action.rule_set, rule_set);
            format!("{} {}", action.number, action.action)
        })
        .collect()
}
