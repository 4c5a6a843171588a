//! Probes of conditions: the run that calls an action for a look, and what came of it. Judges no output.

use escapement_model::opaque::{ListBuilder, StructBuilder};
use escapement_model::{Opaque, OpaqueValue, RunId};
use escapement_run::{Blobs, Run, ShownState};
use escapement_runs_host::{Create, Links, NotCreated, RunsHost};
use escapement_runs_shell::CallError;
use escapement_store::runs::DefinitionKind;
use escapement_triggers::probe_run_id;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::create_run_request::What;

use super::Triggers;
use super::firing::{keep, of_store};
use super::reading::PROBE_MS;
use super::record::{Kept, kept};
use crate::errors::Rejection;
use crate::run_service::Started;
use crate::views::Document;

/// What came of a probe.
pub(super) enum Probed {
    /// It has not ended.
    Running,
    /// Its action has this output.
    Completed(OpaqueValue),
    /// It did not complete, or is gone.
    Failed,
}

impl Triggers {
    // TRIG-4.3
    /// Makes the run of the next look, and removes that of the look before.
    pub(super) async fn begin_probe(
        &self,
        trigger_id: &str,
        probe: &v1::Probe,
        before: &Kept,
    ) -> Result<(), Rejection> {
        let look = before.n_probes + 1;
        let run_id = probe_run_id(trigger_id, look);
        let made = match self.prepare_probe(trigger_id, probe, before, run_id).await {
            Ok(made) => made,
            Err(rejection @ (Rejection::Call(_) | Rejection::OfRun(..))) if !rejection.is_of_damage() => {
                return Err(rejection);
            }
            Err(rejection) => {
                let status = tonic::Status::from(rejection);
                tracing::warn!(
                    trigger_id,
                    why = status.message(),
                    "probe of a condition cannot be made"
                );
                return Ok(());
            }
        };
        let id = trigger_id.to_owned();
        let change = move |host: &mut RunsHost, now| {
            let Some(definition) = host.definition(DefinitionKind::Trigger, &id).map_err(of_store)? else {
                return Ok(());
            };
            let mut kept: Kept = kept(&definition).map_err(of_store)?;
            if kept.n_probes >= look {
                return Ok(());
            }
            let (create, links) = made;
            match host.create_linked(create, links, now) {
                Ok(_) | Err(NotCreated::Exists(..)) => {}
                Err(NotCreated::Full | NotCreated::AlreadyRunning(_)) => return Err(CallError::Full),
                Err(NotCreated::Damaged(why)) => return Err(CallError::Damaged(why)),
                Err(NotCreated::TooLarge(bound)) => return Err(CallError::TooLarge(bound.to_string())),
            }
            (kept.n_probes, kept.is_probing) = (look, true);
            keep(host, &definition, &kept, definition.updated_at);
            Ok(())
        };
        self.0.maker.handle().change(0, change).await?;
        let old = probe_run_id(trigger_id, before.n_probes);
        let remove = self
            .0
            .maker
            .handle()
            .with_store(move |store, _, now| store.remove_run(old, now));
        Ok(remove.await.map(|_| ())?)
    }

    /// What came of the probe of that number.
    pub(super) async fn probed(&self, trigger_id: &str, look: u64) -> Result<Probed, Rejection> {
        let output = |run: &Run, blobs: &dyn Blobs| match run.shown() {
            ShownState::Completed => {
                let end = run.state().end.as_ref();
                let output = end.and_then(|end| end.output.as_ref());
                let output = output.map(|output| OpaqueValue::from_encoded(output.load(blobs)));
                output.map_or(Probed::Failed, Probed::Completed)
            }
            ShownState::Failed | ShownState::Timeout | ShownState::Cancelled => Probed::Failed,
            _ => Probed::Running,
        };
        let looked = self.0.maker.handle().look(probe_run_id(trigger_id, look), output);
        match looked.await {
            Ok(probed) => Ok(probed),
            Err(CallError::NotFound | CallError::Removed(_) | CallError::Damaged(_)) => Ok(Probed::Failed),
            Err(error) => Err(error.into()),
        }
    }

    /// Everything that a probe is made from.
    ///
    /// # Errors
    /// As `CreateRun`.
    pub(super) async fn prepare_probe(
        &self,
        trigger_id: &str,
        probe: &v1::Probe,
        kept: &Kept,
        run_id: RunId,
    ) -> Result<(Create, Links), Rejection> {
        let own_level = kept.trigger.run.as_ref().and_then(|run| run.autonomy_level);
        let timeout = probe.timeout_ms.or(Some(PROBE_MS));
        let request = v1::CreateRunRequest {
            what: Some(What::Document(document(probe))),
            user_id: kept.trigger.user_id.clone(),
            priority: kept.trigger.priority,
            autonomy_level: Some(own_level.unwrap_or(0).max(AUTONOMY_LEVEL)),
            limits: Some(v1::Limits {
                lifetime_ms: timeout,
                ..v1::Limits::default()
            }),
            policy: Some(v1::Policy {
                ambiguity: WHEN_UNKNOWN.to_owned(),
                ambiguous_timeout: WHEN_UNKNOWN.to_owned(),
                ..v1::Policy::default()
            }),
            source: PROBE.to_owned(),
            source_id: trigger_id.to_owned(),
            ..v1::CreateRunRequest::default()
        };
        self.0
            .maker
            .prepare(&request, &kept.made(), Started::alone(), run_id, None)
            .await
    }
}

/// A plan of one call.
fn document(probe: &v1::Probe) -> Opaque {
    let payload = probe.payload.clone().unwrap_or_default();
    let config = StructBuilder::new()
        .text("tool_name", &probe.action)
        .object("tool_args", payload.as_encoded());
    let step = StructBuilder::new()
        .text("key", PROBE)
        .text("type", "tool_call")
        .object("config", config.build().as_encoded());
    StructBuilder::new()
        .text("schema", "escapement.plan/1")
        .text("name", "Probe")
        .list("steps", ListBuilder::new().object(step.build().as_encoded()))
        .build()
}

/// The source of runs that are probes.
pub(super) const PROBE: &str = "probe";
/// Policy for a probe whose outcome is unknown: it fails, and the action is called again at the next interval.
const WHEN_UNKNOWN: &str = "fail";
/// The least autonomy of a probe: no approval of its plan, and none of an action that is safe.
const AUTONOMY_LEVEL: i32 = 2;
