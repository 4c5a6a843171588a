//! Saves and restores descriptions of actions in the store of runs. Runs that were created without the
//! description of an action wait for it.

use std::sync::Arc;

use bytes::Bytes;
use escapement_model::{Namespace, RunId};
use escapement_run::plan::Plan;
use escapement_run::spec::ActionProfile;
use escapement_runs_host::RunsHost;
use escapement_store::StoreFault;
use escapement_store::runs::{DefinitionChange, DefinitionKind, DefinitionPut, RunReader};
use tokio::time::sleep;
use tracing::warn;

use crate::catalogue::profiles_of;
use crate::error::CallError;
use crate::handle::RunsHandle;
use crate::limits::CHILD_PAUSE;
use crate::seen::SeenActions;

// RUN-2.6
/// Profiles of the actions of a run, once each of them is known or the wait is over. `known`: its profiles so far, which stay if the
/// store cannot be read.
pub(crate) async fn learnt(
    runs: &RunsHandle,
    run_id: RunId,
    plan: Arc<Plan>,
    own_actions: Vec<String>,
    known: Vec<ActionProfile>,
) -> Vec<ActionProfile> {
    let unknown = known.iter().filter(|profile| profile.unknown);
    let unknown: Vec<String> = unknown.map(|profile| profile.action.clone()).collect();
    runs.seen().known(&unknown).await;
    loop {
        let (plan, own_actions, seen) = (Arc::clone(&plan), own_actions.clone(), runs.seen().clone());
        let read = move |reader: &dyn RunReader| profiles_of(reader, &plan, &own_actions, &seen);
        match runs.readers().read(read).await {
            Ok(profiles) => return profiles,
            // Busy readers say nothing about the actions.
            Err(CallError::Overloaded) if runs.is_live(run_id) => sleep(CHILD_PAUSE).await,
            Err(error) => {
                warn!(%run_id, %error, "what is known of actions cannot be read");
                return known;
            }
        }
    }
}

/// Writes the latest words of workers to the store. Keeps what it does not take now for the next time.
pub(crate) async fn save_said(runs: &RunsHandle, seen: &SeenActions) {
    loop {
        let unsaved = seen.take_unsaved();
        if unsaved.is_empty() {
            return;
        }
        let names: Vec<String> = unsaved.iter().map(|(action, _)| action.clone()).collect();
        let n_bytes = unsaved
            .iter()
            .map(|(action, record)| action.len() + record.as_ref().map_or(0, Bytes::len))
            .sum();
        let change = move |host: &mut RunsHost, now| {
            for (action, record) in unsaved {
                let change = record.map_or(DefinitionChange::Delete, |record| kept(record, now));
                host.define(DefinitionKind::OfferedAction, &action, change);
            }
            Ok(())
        };
        if runs.change(n_bytes, change).await.is_err() {
            return seen.keep_unsaved(names.into_iter());
        }
    }
}

fn kept(record: Bytes, at: i64) -> DefinitionChange {
    DefinitionChange::Put(DefinitionPut {
        namespace: Namespace::default(),
        owner: None,
        priority: 0,
        at,
        record,
        contents: Vec::new(),
        pinned: Vec::new(),
    })
}

/// Reads the last words of workers that the store has kept.
///
/// # Errors
/// As the store fails.
pub(crate) fn recall_said(reader: &dyn RunReader, seen: &SeenActions) -> Result<(), StoreFault> {
    let mut before = None;
    loop {
        let page = reader.definitions(DefinitionKind::OfferedAction, None, before, PAGE)?;
        for definition in &page.definitions {
            seen.recall(&definition.name, &definition.record);
        }
        before = page.next();
        if before.is_none() {
            return Ok(());
        }
    }
}

/// Number of definitions in one read.
const PAGE: usize = 256;
