//! The statement of a list. Runs none.

use rusqlite::types::Value;

use super::columns::{SUMMARY, column_state, encode_tags};
use crate::database::namespaces;
use crate::{ListFilter, StoredState};

/// The statement of a list and what is bound to it.
///
/// Filters other than state and parent are checked along the narrow table, newest first: an index for each of
/// them would be paid by every accept, and lists are an operator's affair.
pub(crate) fn list_query(filter: &ListFilter, before: Option<u64>) -> (String, Vec<Value>) {
    let text = |text: &String| Value::Text(text.clone());
    let conditions = [
        (
            "e.number < ?",
            before.map(|before| Value::Integer(saturated(before))),
        ),
        (
            "e.state = ?",
            filter.state.map(|state| Value::Integer(column_state(state))),
        ),
        (
            "e.status = ?",
            filter.status.map(|status| Value::Integer(status.into())),
        ),
        ("e.plan_name = ?", filter.plan_name.as_ref().map(text)),
        (
            "instr(e.tags, ?) > 0",
            filter.tag.as_ref().map(|tag| Value::Blob(encode_tags([tag]))),
        ),
        ("e.user_id = ?", filter.user_id.as_ref().map(text)),
        ("e.accepted_at >= ?", filter.accepted_after.map(Value::Integer)),
        ("e.accepted_at < ?", filter.accepted_before.map(Value::Integer)),
        (
            "e.parent_execution_id = ?",
            filter
                .parent_execution_id
                .map(|id| Value::Blob(id.as_bytes().to_vec())),
        ),
    ];
    let walk = match (filter.parent_execution_id, filter.state) {
        (Some(_), _) => "INDEXED BY execution_by_parent",
        (None, Some(StoredState::Queued | StoredState::Running)) => "INDEXED BY execution_unsettled",
        (None, Some(StoredState::Settled) | None) if namespaces::is_one(filter.namespaces.as_deref()) => {
            "INDEXED BY execution_by_namespace"
        }
        (None, Some(StoredState::Settled) | None) => "NOT INDEXED",
    };
    let mut sql = format!("SELECT {SUMMARY} FROM execution e {walk} WHERE true");
    if walk.ends_with("unsettled") {
        // Says in the index's own words that it holds every row asked for.
        sql.push_str(" AND e.state < 2");
    }
    let mut parameters = Vec::new();
    for (condition, parameter) in conditions {
        if let Some(parameter) = parameter {
            sql.push_str(" AND ");
            sql.push_str(condition);
            parameters.push(parameter);
        }
    }
    if let Some(namespaces) = &filter.namespaces {
        sql.push_str(&namespaces::condition("e.namespace", namespaces, &mut parameters));
    }
    sql.push_str(" ORDER BY e.number DESC");
    (sql, parameters)
}

/// A limit beyond what a column holds is none.
pub(crate) fn saturated_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Numbers stop far below what a column holds.
pub(crate) fn saturated(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
