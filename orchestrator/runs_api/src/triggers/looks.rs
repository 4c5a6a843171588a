//! Looks at conditions: what they are about, and what they come to. Keeps nothing but that.

use escapement_model::opaque::StructBuilder;
use escapement_model::{Namespace, Opaque, OpaqueValue};
use escapement_run::ShownState;
use escapement_run::session::Session;
use escapement_run::spec::{SEPARATOR, session_key};
use escapement_runs_host::{Deciding, RunsHost, stored_session};
use escapement_runs_shell::{Decided, WorkOwner};
use escapement_store::StoreFault;
use escapement_store::runs::{DefinitionKind, RunFilter, RunReader, Scope};
use escapement_triggers::Cause;
use escapement_wire::runs::v1;
use prost::Message;
use tracing::warn;

use super::Triggers;
use super::firing::{Found, keep, now_ms};
use super::probes::Probed;
use super::record::{Kept, kept};
use crate::errors::Rejection;
use crate::run_service::with_states;

impl Triggers {
    // TRIG-4.1, TRIG-4.2
    /// Looks at a condition, and fires its trigger if it has become true. One that has no value is as it was.
    pub(super) async fn look_at(
        &self,
        trigger_id: &str,
        condition: &v1::Condition,
        before: &Kept,
    ) -> Result<(), Rejection> {
        let probed = match (&condition.probe, before.is_probing) {
            (None, _) => None,
            (Some(probe), false) => return self.begin_probe(trigger_id, probe, before).await,
            (Some(_), true) => match self.probed(trigger_id, before.n_probes).await? {
                Probed::Running => return Ok(()),
                Probed::Completed(output) => Some(output),
                Probed::Failed => return self.note_look(trigger_id, before.was_true, None).await,
            },
        };
        let user_id = before.trigger.user_id.clone();
        let session_id = condition.session_id.clone();
        let namespace = before.namespace();
        let read = self.0.maker.handle().readers().read(move |reader| {
            let runs = counts(reader, &namespace, &user_id)?;
            Ok((runs, session(reader, &namespace, &session_id, &user_id)?))
        });
        let (runs, session) = read.await?;
        let state = session.as_ref().map(|session| session.state.clone());
        let expression = condition.expression.clone();
        let owner = WorkOwner::new(before.namespace().as_str(), &before.trigger.user_id);
        let evaluated = self.0.maker.handle().evaluator().evaluate(owner, move || {
            let input = input(&runs, state.as_ref(), probed.as_ref());
            escapement_expressions::evaluate(&expression, &bindings(input.as_encoded()))
        });
        let is_true = match evaluated.await? {
            Ok(is_true) => is_true,
            Err(why) => {
                warn!(trigger_id, why, "condition of a trigger has no value");
                before.was_true
            }
        };
        let rises = is_true && !before.was_true;
        if before.is_probing || (before.was_true && !is_true) {
            let falls = before.was_true && !is_true;
            let changed_at = session.as_ref().map(Session::changed_at).filter(|_| falls);
            self.note_look(trigger_id, is_true && before.was_true, changed_at)
                .await?;
        }
        if rises {
            // RUN-6.8
            let changed = session.and_then(|session| session.changed_after(before.changed_at));
            let found = Found {
                fired_by: changed.map(Box::new),
                ..Found::new(Cause::Edge(before.n_edges + 1), now_ms(), Opaque::default())
            };
            self.fire(trigger_id, found).await?;
        }
        Ok(())
    }

    /// Ends a look at which no edge was found. `changed_at`: latest change of the session, if the condition became false.
    async fn note_look(
        &self,
        trigger_id: &str,
        is_true: bool,
        changed_at: Option<i64>,
    ) -> Result<(), Rejection> {
        let id = trigger_id.to_owned();
        let decide = move |deciding: &Deciding<'_>| {
            let Some(definition) = deciding.definition(DefinitionKind::Trigger, &id)? else {
                return Ok(Decided::Answer(()));
            };
            let mut kept: Kept = kept(&definition)?;
            (kept.was_true, kept.is_probing) = (is_true, false);
            kept.changed_at = changed_at.unwrap_or(kept.changed_at);
            Ok(Decided::write(
                kept.encoded_len(),
                move |host: &mut RunsHost, _| {
                    keep(host, &definition, &kept, definition.updated_at);
                },
            ))
        };
        Ok(self.0.maker.handle().decide(None, decide).await?)
    }
}

/// What a condition is about.
fn input(runs: &Opaque, state: Option<&Opaque>, probed: Option<&OpaqueValue>) -> Opaque {
    let mut input = StructBuilder::new().object("runs", runs.as_encoded());
    if let Some(state) = state {
        input = input.object("session", state.as_encoded());
    }
    if let Some(output) = probed.and_then(|output| output.view().ok()) {
        input = input.value("probe", output);
    }
    input.build()
}

/// Reads a session of that user and namespace.
fn session(
    reader: &dyn RunReader,
    namespace: &Namespace,
    session_id: &str,
    user_id: &str,
) -> Result<Option<Session>, StoreFault> {
    // One with the separator would name a session of another namespace.
    if session_id.is_empty() || session_id.contains(SEPARATOR) {
        return Ok(None);
    }
    let session = match stored_session(reader, &session_key(namespace.as_str(), session_id)) {
        Err(StoreFault::CorruptDefinition { .. }) => None,
        found => found?,
    };
    Ok(session.filter(|session| session.user_id == user_id))
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

/// The runs of a user of the namespace by their state.
fn counts(reader: &dyn RunReader, namespace: &Namespace, user_id: &str) -> Result<Opaque, StoreFault> {
    let mut runs = StructBuilder::new();
    let of_user = RunFilter {
        scopes: Some(vec![Scope::of(namespace, user_id)]),
        ..RunFilter::default()
    };
    for (word, state) in STATES {
        let found = reader
            .list(&with_states(&of_user, &[state]), None, COUNT_MAX)?
            .runs;
        let n = u32::try_from(found.len()).unwrap_or(u32::MAX);
        runs = runs.number(word, f64::from(n));
    }
    Ok(runs.build())
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
