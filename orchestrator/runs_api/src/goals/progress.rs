//! How far goals are, by their saved plans. Writes nothing.

use std::collections::{BTreeMap, BTreeSet};

use escapement_model::Namespace;
use escapement_runs_shell::saved::decoded;
use escapement_store::StoreFault;
use escapement_store::runs::limits::ROWS_LOOKED_AT_MAX;
use escapement_store::runs::{DefinitionKey, DefinitionKind, RunReader};

use crate::plan_service::view::status;

/// Saved plans of a goal: all of them, and those whose newest run has completed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plans {
    pub(super) all: u32,
    pub(super) completed: u32,
}

pub(super) type Progress = BTreeMap<String, Plans>;

/// How far the saved plans of these goals are. Reads the saved plans of these namespaces, or of all, that a list shows first, and
/// the runs of those that serve them.
pub(super) fn progress(
    reader: &dyn RunReader,
    namespaces: Option<&[Namespace]>,
    goals: &BTreeSet<&str>,
) -> Result<Progress, StoreFault> {
    let mut progress = Progress::new();
    if goals.is_empty() {
        return Ok(progress);
    }
    let (mut before, mut n_looked_at): (Option<DefinitionKey>, usize) = (None, 0);
    loop {
        let page = reader.definitions(DefinitionKind::SavedPlan, None, namespaces, before, PAGE)?;
        for plan in &page.definitions {
            let Ok(saved) = decoded(plan) else { continue };
            if !goals.contains(saved.goal_id.as_str()) {
                continue;
            }
            let newest = match reader.newest_run_of(&plan.name) {
                Err(StoreFault::CorruptRun { .. }) => None,
                found => found?,
            };
            let plans = progress.entry(saved.goal_id).or_default();
            plans.all += 1;
            plans.completed += u32::from(status(newest.as_ref()) == "completed");
        }
        n_looked_at += page.definitions.len();
        before = page.next();
        if before.is_none() || n_looked_at >= ROWS_LOOKED_AT_MAX {
            return Ok(progress);
        }
    }
}

/// Definitions that are read at a time.
pub(super) const PAGE: usize = 500;
