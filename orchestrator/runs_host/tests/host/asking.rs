//! A run that asks a person and therefore does not end; writes to a store in memory, and reads of it.

use std::sync::Arc;

use escapement_model::RunId;
use escapement_model::opaque::{ListBuilder, StructBuilder};
use escapement_run::journal::Entry;
use escapement_run::plan::{self, Plan};
use escapement_run::presets::Preset;
use escapement_run::spec::{Limits, Spec};
use escapement_runs::NewRun;
use escapement_runs_host::{Create, RunsHost};
use escapement_store::runs::{RunReader, RunStore};
use escapement_store_kit::runs::MemoryRuns;
use prost::Message;

pub(crate) const START: i64 = 1_763_700_000_000;

/// Returns a plan that asks a person.
pub(crate) fn asks() -> Arc<Plan> {
    let question = StructBuilder::new().text("question", "Go on?").build();
    let step = StructBuilder::new()
        .text("key", "ask")
        .text("type", "user_input")
        .object("config", question.as_encoded())
        .build();
    let document = StructBuilder::new()
        .text("schema", "escapement.plan/1")
        .text("name", "Asks")
        .list("steps", ListBuilder::new().object(step.as_encoded()))
        .build();
    Arc::new(plan::read(&document).unwrap())
}

/// Returns the request for a run of the plan with these limits.
pub(crate) fn waiting(run_id: RunId, plan: &Arc<Plan>, limits: Limits) -> Create {
    Create {
        run: NewRun {
            run_id,
            spec: Spec {
                limits,
                policy: Preset::Standard.policy(),
                autonomy_level: 4,
                priority: 5,
                user_id: "ada".to_owned(),
                ..Spec::default()
            },
            plan: Arc::clone(plan),
            profiles: Vec::new(),
        },
        request: None,
        saved_plan: None,
    }
}

/// Commits everything that the host has to write.
pub(crate) fn write(host: &mut RunsHost, store: &mut MemoryRuns) {
    while let Some(batch) = host.poll_batch() {
        let outcome = store.commit(&batch).unwrap();
        host.handle_committed(outcome);
    }
}

/// Returns the names of the entries of a run's journal; none without a journal.
pub(crate) fn names(reader: &dyn RunReader, run_id: RunId) -> Vec<&'static str> {
    let Some(page) = reader.journal(run_id, 1, usize::MAX).unwrap() else {
        return Vec::new();
    };
    let entries = page
        .entries
        .iter()
        .map(|entry| Entry::decode(entry.bytes.clone()).unwrap());
    entries.map(|entry| entry.event.unwrap().name()).collect()
}
