//! How far goals are, by their saved plans. Writes nothing.

use std::collections::BTreeMap;

use escapement_model::Namespace;
use escapement_runs_shell::saved::decoded;
use escapement_store::StoreFault;
use escapement_store::runs::limits::ROWS_LOOKED_AT_MAX;
use escapement_store::runs::{Definition, DefinitionKey, DefinitionKind, RunReader, Scope};

use crate::plan_service::view::status;

/// Saved plans of a goal: all of them, and those whose newest run has completed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plans {
    pub(super) all: u32,
    pub(super) completed: u32,
}

/// Goals by their ids, each with its owner.
type Owners<'a> = BTreeMap<&'a str, Option<&'a str>>;

pub(super) type Progress = BTreeMap<String, Plans>;

/// How far the saved plans of these goals are. Reads [`ROWS_LOOKED_AT_MAX`] saved plans of each of their namespaces, those of the
/// highest priority first and then the newest, and the runs of those that serve the goals.
pub(super) fn progress<'a>(
    reader: &dyn RunReader,
    goals: impl IntoIterator<Item = &'a Definition>,
) -> Result<Progress, StoreFault> {
    progress_of(reader, goals, ROWS_LOOKED_AT_MAX)
}

fn progress_of<'a>(
    reader: &dyn RunReader,
    goals: impl IntoIterator<Item = &'a Definition>,
    n_plans_max: usize,
) -> Result<Progress, StoreFault> {
    let mut by_namespace: BTreeMap<&Namespace, Owners<'_>> = BTreeMap::new();
    for goal in goals {
        by_namespace
            .entry(&goal.namespace)
            .or_default()
            .insert(&goal.name, goal.owner.as_deref());
    }
    let mut progress = Progress::new();
    for (namespace, goals) in by_namespace {
        progress_in(reader, namespace, &goals, n_plans_max, &mut progress)?;
    }
    Ok(progress)
}

fn progress_in(
    reader: &dyn RunReader,
    namespace: &Namespace,
    goals: &Owners<'_>,
    n_plans_max: usize,
    progress: &mut Progress,
) -> Result<(), StoreFault> {
    let scopes = Scope::each(None, Some(std::slice::from_ref(namespace)));
    let mut before: Option<DefinitionKey> = None;
    let mut n_left = n_plans_max;
    while n_left > 0 {
        let page = reader.definitions(
            DefinitionKind::SavedPlan,
            scopes.as_deref(),
            before,
            PAGE.min(n_left),
        )?;
        n_left -= page.definitions.len();
        for plan in &page.definitions {
            let Ok(saved) = decoded(plan) else { continue };
            // Plans of another user serve their own goals, even if they name this one.
            if goals.get(saved.goal_id.as_str()) != Some(&plan.owner.as_deref()) {
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
        before = page.next();
        if before.is_none() {
            break;
        }
    }
    Ok(())
}

/// Definitions that are read at a time.
pub(super) const PAGE: usize = 500;

#[cfg(test)]
mod tests {
    use super::{PAGE, progress_of};
    use escapement_model::Namespace;
    use escapement_runs_shell::saved::SavedPlan;
    use escapement_store::runs::{
        DefinitionChange, DefinitionKind, DefinitionPut, DefinitionWrite, ExpectedVersion, RunBatch, RunStore,
    };
    use escapement_store_kit::runs::MemoryRuns;
    use prost::Message;

    /// More than a page.
    const PLANS_MAX: usize = PAGE + 20;

    fn write(kind: DefinitionKind, name: &str, record: Vec<u8>) -> DefinitionWrite {
        DefinitionWrite {
            kind,
            name: name.to_owned(),
            expected: ExpectedVersion::Any,
            change: DefinitionChange::Put(DefinitionPut {
                namespace: Namespace::default(),
                owner: Some("ada".to_owned()),
                priority: 5,
                at: 1,
                record: record.into(),
                contents: Vec::new(),
                pinned: Vec::new(),
            }),
        }
    }

    #[test]
    fn the_progress_of_a_goal_reads_no_more_plans_than_it_may() {
        let mut store = MemoryRuns::new();
        let saved = SavedPlan {
            goal_id: "g".to_owned(),
            ..SavedPlan::default()
        };
        let names: Vec<String> = (0..PLANS_MAX + 1).map(|n| format!("{n}")).collect();
        for names in names.chunks(PAGE) {
            let mut batch = RunBatch::new();
            for name in names {
                batch.define(write(DefinitionKind::SavedPlan, name, saved.encode_to_vec()));
            }
            store.commit(&batch).unwrap();
        }
        let mut batch = RunBatch::new();
        batch.define(write(DefinitionKind::Goal, "g", Vec::new()));
        let mut of_another = write(DefinitionKind::SavedPlan, "another", saved.encode_to_vec());
        if let DefinitionChange::Put(put) = &mut of_another.change {
            put.owner = Some("bob".to_owned());
        }
        batch.define(of_another);
        store.commit(&batch).unwrap();
        let reader = store.reader().unwrap();
        let goal = reader.definition(DefinitionKind::Goal, "g").unwrap().unwrap();
        let plans = progress_of(&*reader, [&goal], PLANS_MAX).unwrap()["g"];
        assert_eq!(
            plans.all as usize,
            PLANS_MAX - 1,
            "the newest one is another user's"
        );
        let plans = progress_of(&*reader, [&goal], 2 * PLANS_MAX).unwrap()["g"];
        assert_eq!(plans.all as usize, PLANS_MAX + 1);
    }
}
