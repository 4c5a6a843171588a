//! Executions as the store holds them, to the wire. Reads no store.

use crate::stored::{self, Unreadable};
use escapement_store::{StoredExecution, StoredState, StoredSummary};
use escapement_wire::v1;
use escapement_wire::v1::execution::State;

/// Who handed in what the store has, or the outermost one above it; `None` if that was not proved, or cannot be read.
pub fn owner(stored: &StoredExecution) -> Option<String> {
    let provenance = stored::accepted_provenance(&stored.record).ok()?;
    Some(provenance.accepted_by?.name)
}

/// Returns an execution as the store holds it, with its result and the progress that follows from it.
///
/// # Errors
/// [`Unreadable`] if a record does not decode, or if the request is damaged and the result has other ids.
pub fn stored_execution(stored: &StoredExecution) -> Result<v1::Execution, Unreadable> {
    let mut execution = listed_execution(&stored.summary);
    if !stored.record.is_empty() {
        execution.accepted_by = stored::accepted_provenance(&stored.record)?.accepted_by;
    }
    if stored.summary.state == StoredState::Queued {
        // The same as an engine would show.
        let steps_total = stored::accepted_steps(&stored.record)?;
        execution.progress = Some(v1::ExecutionProgress {
            steps_total,
            steps_pending: steps_total,
            ..v1::ExecutionProgress::default()
        });
    }
    if let Some(record) = &stored.result {
        let result = stored::decode_result(record)?;
        if stored.record.is_empty() {
            execution = vouched_for_by(&result, execution)?;
        }
        execution.progress = Some(v1::ExecutionProgress {
            steps_total: result.steps_total,
            steps_completed: result.steps_executed,
            steps_not_completed: result.steps_total.saturating_sub(result.steps_executed),
            ..v1::ExecutionProgress::default()
        });
        execution.result = Some(result);
    }
    Ok(execution)
}

/// What is certain of an execution whose request is damaged: what its result says, and the columns that the result's
/// checksum covers.
fn vouched_for_by(result: &v1::PlanResult, row: v1::Execution) -> Result<v1::Execution, Unreadable> {
    let v1::Execution {
        execution_id,
        plan_id,
        state,
        status,
        started_at,
        settled_at,
        error_code,
        duration_ms,
        steps_executed,
        steps_total,
        interrupted,
        plan_name: _,
        priority: _,
        accepted_at: _,
        deadline_ms: _,
        parent_execution_id: _,
        user_id: _,
        request_id: _,
        tags: _,
        progress: _,
        result: _,
        certificate: _,
        namespace: _,
        accepted_by: _,
    } = row;
    if (&result.execution_id, &result.plan_id) != (&execution_id, &plan_id) {
        return Err(Unreadable::Meaningless(
            "the result is of another execution or plan".to_owned(),
        ));
    }
    Ok(v1::Execution {
        execution_id,
        plan_id,
        state,
        status,
        started_at,
        settled_at,
        error_code,
        duration_ms,
        steps_executed,
        steps_total,
        interrupted,
        ..v1::Execution::default()
    })
}

/// Returns an execution as lists show it: without progress and result.
pub fn listed_execution(summary: &StoredSummary) -> v1::Execution {
    let StoredSummary {
        number: _,
        execution_id,
        plan_id,
        request_digest: _,
        priority,
        state,
        status,
        accepted_at,
        started_at,
        settled_at,
        deadline_ms,
        parent_execution_id,
        plan_name,
        user_id,
        request_id,
        tags,
        outline,
        namespace,
    } = summary;
    let outline = outline.as_ref().and_then(stored::decode_outline);
    let number = |of: fn(&v1::StoredOutline) -> i32| outline.as_ref().map(of);
    v1::Execution {
        duration_ms: outline.as_ref().map(|outline| outline.duration_ms),
        steps_executed: number(|outline| outline.steps_executed),
        steps_total: number(|outline| outline.steps_total),
        interrupted: outline.as_ref().is_some_and(|outline| outline.interrupted),
        error_code: outline.and_then(|outline| outline.error_code),
        execution_id: execution_id.to_string(),
        plan_id: plan_id.to_string(),
        plan_name: plan_name.clone(),
        state: match state {
            StoredState::Queued => State::Queued as i32,
            StoredState::Running => State::Running as i32,
            StoredState::Settled => State::Settled as i32,
        },
        priority: *priority,
        accepted_at: *accepted_at,
        started_at: *started_at,
        settled_at: *settled_at,
        deadline_ms: *deadline_ms,
        parent_execution_id: parent_execution_id.map(|id| id.to_string()),
        user_id: user_id.clone(),
        request_id: request_id.clone(),
        tags: tags.clone(),
        progress: None,
        result: None,
        status: i32::from(*status),
        certificate: None,
        namespace: namespace.to_string(),
        accepted_by: None,
    }
}
