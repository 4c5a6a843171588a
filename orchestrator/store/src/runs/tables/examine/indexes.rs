//! True if a run stands in every index that has a place for it. Reads no entry of its journal.

use escapement_model::RunId;
use rusqlite::types::Value;
use rusqlite::{Connection, params};

use crate::StoreFault;
use crate::database::connection::{is_damage, working};
use crate::database::namespaces;
use crate::database::values::column_number;
use crate::runs::stored::RunSummary;

/// The indexes in which a run must stand: what is wrong without its entry, its name, and the condition on its key.
const INDEXES: [(&str, &str, &str); 15] = [
    ("index by run id", "run_by_id", "run_id = ?1"),
    ("index in order", "run_in_order", "?1 IS NULL"),
    ("index by state", "run_by_state", "state = ?1"),
    ("index of ended runs", "run_ended", "ended_at = ?1"),
    ("index by request", "run_by_request", "request_key = ?1"),
    ("index by owner", "run_by_owner", "owner = ?1"),
    ("index by plan", "run_by_plan", "plan = ?1"),
    ("index by plan and number", "run_by_plan_and_number", "plan = ?1"),
    ("index by goal", "run_by_goal", "goal = ?1"),
    ("index by trigger", "run_by_trigger", "trigger_id = ?1"),
    ("index by session", "run_by_session", "session = ?1"),
    ("index by parent", "run_by_parent", "parent = ?1"),
    ("index by namespace", "run_by_namespace", "?1 IS NULL"),
    (
        "index by namespace and owner",
        "run_by_namespace_and_owner",
        "owner = ?1",
    ),
    (
        "index by namespace and state",
        "run_by_namespace_and_state",
        "state = ?1",
    ),
];
/// The same for those that have not ended.
const LIVE: [(&str, &str, &str); 2] = [
    (
        "index of live runs",
        "run_live",
        "ended_at IS NULL AND ?1 IS NULL",
    ),
    (
        "index of live runs by owner",
        "run_live_by_owner",
        "ended_at IS NULL AND owner = ?1",
    ),
];

/// Notes each index that lacks a run.
pub(super) fn note(
    connection: &Connection,
    run: &RunSummary,
    parts: &mut Vec<&'static str>,
) -> Result<(), StoreFault> {
    let RunSummary {
        created, progress, ..
    } = run;
    let text = |name: &Option<String>| name.clone().map(Value::Text);
    let id = |id: &RunId| Value::Blob(id.as_bytes().to_vec());
    let request = created.request.as_ref();
    // In the order of the table; `None` if the index leaves the run out.
    let keys = [
        Some(id(&run.run_id)),
        Some(Value::Null),
        Some(Value::Integer(progress.state.into())),
        progress.ended_at.map(Value::Integer),
        request.map(|request| Value::Text(request.key.clone())),
        text(&created.owner),
        text(&created.plan),
        text(&created.plan),
        text(&created.goal),
        text(&created.trigger),
        text(&created.session),
        created.parent.as_ref().map(id),
        Some(Value::Null),
        text(&created.owner),
        Some(Value::Integer(progress.state.into())),
    ];
    let live = LIVE.into_iter().zip([Some(Value::Null), text(&created.owner)]);
    let live = live.filter(|_| progress.ended_at.is_none());
    let (at, namespace) = (
        column_number(run.number),
        namespaces::column_of(&created.namespace),
    );
    for ((part, index, condition), key) in INDEXES.into_iter().zip(keys).chain(live) {
        let Some(key) = key else { continue };
        let sql = format!(
            "SELECT number FROM run INDEXED BY {index} \
             WHERE {condition} AND namespace IS ?5 AND priority = ?2 AND created_at = ?3 AND number = ?4"
        );
        let values = params![key, created.priority, created.created_at, at, namespace];
        let found = connection
            .prepare_cached(&sql)
            .and_then(|mut select| select.exists(values));
        match found {
            Ok(true) => {}
            Ok(false) => parts.push(part),
            Err(error) if is_damage(&error) => parts.push(part),
            Err(error) => return Err(working(error)),
        }
    }
    Ok(())
}
