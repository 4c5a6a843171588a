//! What a record says about attempts, for the expectations of tests. Judges nothing.

use escapement_wire::v1::AuditEntry;
use escapement_wire::v1::audit_entry::Event;

/// How often a step's attempt was handed out.
pub(crate) fn n_assigned(record: &[AuditEntry]) -> usize {
    events(record)
        .filter(|event| matches!(event, Event::AttemptAssigned(_)))
        .count()
}

/// Returns the evidence of every attempt that was handed out again uncounted, in order.
pub(crate) fn returns(record: &[AuditEntry]) -> Vec<&str> {
    let returned = events(record).filter_map(|event| match event {
        Event::AttemptReturned(returned) => Some(returned.evidence.as_str()),
        _ => None,
    });
    returned.collect()
}

/// Returns every attempt that failed, in order: its number, its code, and when in Unix milliseconds.
pub(crate) fn failures(record: &[AuditEntry]) -> Vec<(i32, &str, i64)> {
    let failed = record.iter().filter_map(|entry| match entry.event.as_ref()? {
        Event::AttemptFailed(failed) => {
            let code = failed.error.as_ref()?.error_code.as_str();
            Some((failed.attempt, code, entry.at))
        }
        _ => None,
    });
    failed.collect()
}

/// Returns the time at which each attempt was handed out, in Unix milliseconds.
pub(crate) fn assigned_unix_ms(record: &[AuditEntry]) -> Vec<i64> {
    let assigned = record
        .iter()
        .filter(|entry| matches!(entry.event, Some(Event::AttemptAssigned(_))));
    assigned.map(|entry| entry.at).collect()
}

fn events(record: &[AuditEntry]) -> impl Iterator<Item = &Event> {
    record.iter().filter_map(|entry| entry.event.as_ref())
}
