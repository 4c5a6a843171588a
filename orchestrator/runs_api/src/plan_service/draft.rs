//! A saved plan while it is changed, and as it is shown afterwards. Changes none.

use escapement_model::{Namespace, Opaque};
use escapement_run::plan::Plan;
use escapement_runs_shell::saved::{SavedPlan, SavedRequest, document_of};
use escapement_store::StoreFault;
use escapement_store::runs::{Definition, RunReader, RunSummary};

use crate::caller::Caller;
use crate::errors::Rejection;
use crate::header::Header;
use crate::journal::spec_of;

/// A saved plan as it is shown.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    /// The index columns.
    pub(crate) definition: Definition,
    /// The record.
    pub(crate) saved: SavedPlan,
    /// The document of the newest revision; `None` in lists.
    pub(crate) document: Option<Opaque>,
    /// The run of it that was created last.
    pub(crate) newest_run: Option<RunSummary>,
    /// Retries in the chain of that run.
    pub(crate) retry_count: u32,
    /// The step that the call has added.
    pub(crate) step_key: String,
}

/// The plan that a call changes, and the time of the change.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The plan.
    pub(crate) plan_id: String,
    /// User who must own the plan; empty if any user may.
    pub(crate) user_id: String,
    /// Only in this version.
    pub(crate) version: Option<u64>,
    /// The request that its caller may repeat.
    pub(crate) request: Option<SavedRequest>,
    /// Caller who states the actions that it calls; `None` if the call brings none.
    pub(crate) caller: Option<Caller>,
}

impl Target {
    /// Returns the reason for which its caller may not save this plan in the namespace.
    pub(super) fn refusal_of(&self, namespace: &Namespace, plan: &Plan) -> Option<Rejection> {
        let caller = self.caller.as_ref()?;
        caller.check_plan(namespace, "document", plan).err()
    }
}

/// A plan while it is changed.
#[derive(Clone)]
pub(crate) struct Draft {
    /// Higher first in lists.
    pub(crate) priority: i32,
    /// The record.
    pub(crate) saved: SavedPlan,
    /// The document of the newest revision.
    pub(crate) document: Opaque,
    /// The plan of the document that replaces it.
    pub(crate) plan: Option<Plan>,
    /// The step that is added.
    pub(crate) step_key: String,
}

/// Returns a plan with its document.
pub(crate) fn shown(
    reader: &dyn RunReader,
    definition: Definition,
    saved: SavedPlan,
) -> Result<Shown, StoreFault> {
    let newest_run = newest_run(reader, &definition.name)?;
    Ok(Shown {
        document: Some(document_of(reader, &definition, &saved)?),
        retry_count: retries_of(reader, newest_run.as_ref())?,
        newest_run,
        definition,
        saved,
        step_key: String::new(),
    })
}

/// Returns the run of a saved plan that was created last; none if it is damaged.
pub(crate) fn newest_run(reader: &dyn RunReader, plan_id: &str) -> Result<Option<RunSummary>, StoreFault> {
    match reader.newest_run_of(plan_id) {
        Err(StoreFault::CorruptRun { .. }) => Ok(None),
        found => found,
    }
}

/// Returns the retries in the chain of a run; 0 without one, and for one that cannot be read.
pub(crate) fn retries_of(reader: &dyn RunReader, run: Option<&RunSummary>) -> Result<u32, StoreFault> {
    let spec = match run {
        Some(run) => spec_of(reader, run.run_id)?,
        None => None,
    };
    Ok(spec.map_or(0, |spec| Header::of(&spec).retry_count))
}
