//! Looks at conditions: what they are about, and what they come to. Keeps nothing but that.

use escapement_model::Opaque;
use escapement_model::opaque::StructBuilder;
use escapement_run::ShownState;
use escapement_runs_host::{RunsHost, state_byte};
use escapement_store::StoreFault;
use escapement_store::runs::{DefinitionKind, RunFilter, RunReader};
use escapement_triggers::Cause;
use escapement_wire::runs::v1;
use tracing::warn;

use super::Triggers;
use super::firing::{Found, keep, now_ms, of_store};
use super::record::{Kept, kept};
use crate::errors::Rejection;

impl Triggers {
    // TRIG-4.1
    /// Looks at a condition, and fires its trigger if it has become true. One that has no value is as it was.
    pub(super) async fn look_at(
        &self,
        trigger_id: &str,
        condition: &v1::Condition,
        before: &Kept,
    ) -> Result<(), Rejection> {
        let user_id = before.trigger.user_id.clone();
        let read = self
            .0
            .maker
            .handle()
            .readers()
            .read(move |reader| counts(reader, &user_id));
        let bindings = bindings(read.await?.as_encoded());
        let is_true = match escapement_expressions::evaluate(&condition.expression, &bindings) {
            Ok(is_true) => is_true,
            Err(why) => {
                warn!(trigger_id, why, "condition of a trigger has no value");
                return Ok(());
            }
        };
        match (before.was_true, is_true) {
            (true, true) | (false, false) => {}
            (false, true) => {
                let found = Found::new(Cause::Edge(before.n_edges + 1), now_ms(), Opaque::default());
                self.fire(trigger_id, found).await?;
            }
            (true, false) => self.note_false(trigger_id).await?,
        }
        Ok(())
    }

    async fn note_false(&self, trigger_id: &str) -> Result<(), Rejection> {
        let id = trigger_id.to_owned();
        let change = move |host: &mut RunsHost, _| {
            if let Some(definition) = host.definition(DefinitionKind::Trigger, &id).map_err(of_store)? {
                let mut kept: Kept = kept(&definition).map_err(of_store)?;
                kept.was_true = false;
                keep(host, &definition, &kept, definition.updated_at);
            }
            Ok(())
        };
        Ok(self.0.maker.handle().change(0, change).await?)
    }
}

/// What expressions of triggers read as `input`.
pub(super) fn bindings(input: &[u8]) -> Opaque {
    let none = Opaque::default();
    StructBuilder::new()
        .object("input", input)
        .object("run", none.as_encoded())
        .object("results", none.as_encoded())
        .build()
}

/// The runs of a user by their state.
fn counts(reader: &dyn RunReader, user_id: &str) -> Result<Opaque, StoreFault> {
    let mut runs = StructBuilder::new();
    for (word, state) in STATES {
        let filter = RunFilter {
            owner: Some(user_id.to_owned()),
            state: Some(state_byte(state)),
            ..RunFilter::default()
        };
        let n = u32::try_from(reader.list(&filter, None, COUNT_MAX)?.len()).unwrap_or(u32::MAX);
        runs = runs.number(word, f64::from(n));
    }
    Ok(StructBuilder::new()
        .object("runs", runs.build().as_encoded())
        .build())
}

/// Runs of one state that are counted.
const COUNT_MAX: usize = 1_000;
const STATES: [(&str, ShownState); 9] = [
    ("queued", ShownState::Queued),
    ("running", ShownState::Running),
    ("waiting", ShownState::Waiting),
    ("pausing", ShownState::Pausing),
    ("paused", ShownState::Paused),
    ("completed", ShownState::Completed),
    ("failed", ShownState::Failed),
    ("timeout", ShownState::Timeout),
    ("cancelled", ShownState::Cancelled),
];
