//! Makes, changes and deletes triggers, as it is decided on readers. Fires none.

use std::collections::BTreeSet;

use escapement_model::{Namespace, PlanId};
use escapement_run::spec::{namespace_named, stored_name};
use escapement_runs_host::{Deciding, RunsHost};
use escapement_runs_shell::saved::{SavedPlan, decoded};
use escapement_runs_shell::{CallError, Decided};
use escapement_store::StoreFault;
use escapement_store::runs::{DefinitionChange, DefinitionKey, DefinitionKind, Scope};
use escapement_triggers::{Cause, FiringKey, Secret, probe_run_id};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::trigger::Config;
use prost::Message;
use sha2::{Digest, Sha256};

use super::Triggers;
use super::clockwork::PAGE;
use super::firing::{Found, keep, now_ms, request_of};
use super::reading::checked;
use super::record::{Kept, is_of, kept, put};
use super::tenants::{LOOKS_PER_SECOND_MAX, NoPlace, TRIGGERS_MAX};
use crate::caller::{Caller, scope};
use crate::errors::{Problem, Rejection, refused};
use crate::fields::Fields;
use crate::plan_service::draft::{Draft, Target};
use crate::plan_service::saving::change;
use crate::run_service::Started;

/// What came of a change.
type Changed = Result<v1::Trigger, Rejection>;

/// Gives a webhook without a secret a random one. Returns that; empty if none was missing.
fn draw_secret(trigger: &mut v1::Trigger) -> Result<String, Rejection> {
    let Some(Config::Webhook(webhook)) = &mut trigger.config else {
        return Ok(String::new());
    };
    if !webhook.secret.is_empty() {
        return Ok(String::new());
    }
    let drawn = Secret::new(&random::<32>()?).map_or_else(String::new, |secret| secret.text());
    webhook.secret.clone_from(&drawn);
    Ok(drawn)
}

impl Triggers {
    /// Creates a trigger, or finds the one of the same request by either of these digests. The run of a sample is known to be right.
    pub(super) async fn create_once(
        &self,
        request: v1::CreateTriggerRequest,
        [digest, spelled]: [[u8; 32]; 2],
        is_sample: bool,
        caller: &Caller,
    ) -> Result<v1::CreateTriggerResponse, Rejection> {
        let mut fields = Fields::default();
        fields.note("request_id", &request.request_id);
        let Some(asked) = request.trigger else {
            return Err(Rejection::field("trigger", "INVALID_ARGUMENT", "is required"));
        };
        if !asked.trigger_id.is_empty() {
            fields.because(
                "trigger.trigger_id",
                "OUTPUT_ONLY",
                "is set by the orchestrator alone",
            );
        }
        let mut asked = checked(asked, &mut fields);
        fields.conclude()?;
        let made = caller.made(&request.namespace, "trigger.user_id", &asked.user_id)?;
        let namespace = made.origin.namespace;
        asked.user_id = made.user_id;
        asked.namespace = stored_name(&namespace);
        let is_named = !request.request_id.is_empty();
        let trigger_id = match is_named {
            true => id_of("trigger", &scope(&namespace, &asked.user_id), &request.request_id),
            false => random_id()?,
        };
        let drawn = draw_secret(&mut asked)?;
        let kept = Kept {
            trigger: asked,
            version: 1,
            request_digest: if is_named {
                digest.to_vec().into()
            } else {
                bytes::Bytes::new()
            },
            handled_ms: now_ms(),
            author: made.origin.author,
            is_held: caller.is_held_in(&namespace),
            ..Kept::default()
        };
        if !is_sample {
            self.check_run(&trigger_id, &kept).await?;
        }
        self.loaded().await?;
        // A repeated request takes no slot.
        if !self.index().knows(&trigger_id) {
            self.take_place(&trigger_id, &kept).await?;
        }
        let id = trigger_id.clone();
        let decide = move |deciding: &Deciding<'_>| {
            if let Some(before) = deciding.definition(DefinitionKind::Trigger, &id)? {
                let before = self::kept::<Kept>(&before)?.request_digest;
                return match before == kept.request_digest || is_named && before[..] == spelled[..] {
                    true => Ok(Decided::Answer(Ok(false))),
                    false => refused(CallError::RequestIdReused),
                };
            }
            let (id, kept, namespace) = (id.clone(), kept.clone(), namespace.clone());
            let bytes = kept.encoded_len();
            Ok(Decided::write(bytes, move |host: &mut RunsHost, now| {
                let priority = kept.trigger.priority.unwrap_or(5);
                let change = put(namespace, &kept.trigger.user_id, priority, now, &kept);
                host.define(DefinitionKind::Trigger, &id, change);
                Ok(true)
            }))
        };
        let is_new = self.decide(&trigger_id, decide).await?;
        Ok(v1::CreateTriggerResponse {
            trigger: Some(self.get(trigger_id, String::new()).await?),
            webhook_secret: if is_new { drawn } else { String::new() },
        })
    }

    pub(super) async fn update(&self, request: v1::UpdateTriggerRequest, caller: &Caller) -> Changed {
        let mut fields = Fields::default();
        let Some(asked) = request.trigger else {
            return Err(Rejection::field("trigger", "INVALID_ARGUMENT", "is required"));
        };
        let trigger_id = fields.id::<PlanId>("trigger.trigger_id", &asked.trigger_id);
        let version = version_of(&request.etag, &mut fields);
        let user_id = asked.user_id.clone();
        let mut asked = checked(asked, &mut fields);
        fields.conclude()?;
        let trigger_id = trigger_id.map_or_else(String::new, |id| id.to_string());
        asked.trigger_id.clear();
        let before = self.get(trigger_id.clone(), user_id.clone()).await?;
        asked.user_id = before.user_id;
        let namespace = namespace_named(&before.namespace);
        asked.namespace = stored_name(&namespace);
        let (author, is_held) = (caller.author(&namespace), caller.is_held_in(&namespace));
        let draft = Kept {
            trigger: asked.clone(),
            author: author.clone(),
            ..Kept::default()
        };
        self.check_run(&trigger_id, &draft).await?;
        let drawn = random::<32>()?;
        self.take_place(&trigger_id, &draft).await?;
        self.edit(trigger_id, user_id, version, move |kept| {
            let before = std::mem::replace(&mut kept.trigger, asked.clone());
            (kept.author, kept.is_held) = (author.clone(), is_held);
            match (&mut kept.trigger.config, before.config) {
                (Some(Config::Webhook(webhook)), Some(Config::Webhook(before)))
                    if webhook.secret.is_empty() =>
                {
                    webhook.secret = before.secret;
                }
                (Some(Config::Webhook(webhook)), _) if webhook.secret.is_empty() => {
                    webhook.secret = Secret::new(&drawn).map_or_else(String::new, |secret| secret.text());
                }
                (Some(Config::Schedule(new)), Some(Config::Schedule(old))) if *new == old => {}
                (Some(Config::Schedule(_)), _) => kept.handled_ms = now_ms(),
                (Some(Config::Condition(new)), Some(Config::Condition(old)))
                    if new.expression == old.expression
                        && new.probe == old.probe
                        && new.session_id == old.session_id => {}
                (Some(Config::Condition(_)), _) => {
                    (kept.was_true, kept.is_probing, kept.changed_at) = (false, false, 0);
                }
                _ => {}
            }
        })
        .await
    }

    pub(super) async fn enable(&self, request: v1::EnableTriggerRequest) -> Changed {
        let mut fields = Fields::default();
        let trigger_id = fields.id::<PlanId>("trigger_id", &request.trigger_id);
        let version = version_of(&request.etag, &mut fields);
        fields.conclude()?;
        let trigger_id = trigger_id.map_or_else(String::new, |id| id.to_string());
        if request.enabled
            && let Some((_, mut enabled)) = self.stored(&trigger_id).await?
        {
            enabled.trigger.enabled = Some(true);
            self.take_place(&trigger_id, &enabled).await?;
        }
        self.edit(trigger_id, String::new(), version, move |kept| {
            // What passed meanwhile was not missed.
            if request.enabled && !kept.is_enabled() {
                kept.handled_ms = now_ms();
            }
            kept.trigger.enabled = Some(request.enabled);
        })
        .await
    }

    // TRIG-1.5
    /// Reserves the share of a trigger that is saved next. The change after it replaces the reservation by
    /// the saved state.
    async fn take_place(&self, trigger_id: &str, kept: &Kept) -> Result<(), Rejection> {
        self.loaded().await?;
        let taken = self.index().take_place(trigger_id, kept);
        taken.map_err(|none| match none {
            NoPlace::Triggers => Rejection::failed(
                "TOO_MANY_TRIGGERS",
                format!("The namespace has {TRIGGERS_MAX} triggers, as many as there may be."),
            ),
            NoPlace::Looks => Rejection::failed(
                "TOO_MANY_LOOKS",
                format!(
                    "The conditions of the namespace would be looked at more than {LOOKS_PER_SECOND_MAX} times in a second: \
                     turn some off, or give them longer intervals."
                ),
            ),
        })
    }

    async fn edit(
        &self,
        trigger_id: String,
        user_id: String,
        version: Option<u64>,
        edit: impl Fn(&mut Kept) + Send + Sync + 'static,
    ) -> Changed {
        let id = trigger_id.clone();
        let decide = move |deciding: &Deciding<'_>| {
            let found = deciding.definition(DefinitionKind::Trigger, &id)?;
            let Some(mut definition) = found.filter(|found| is_of(found, &user_id)) else {
                return refused(not_found(&id));
            };
            let mut kept: Kept = kept(&definition)?;
            if version.is_some_and(|version| version != kept.version) {
                return refused(CallError::EtagMismatch);
            }
            edit(&mut kept);
            kept.version += 1;
            definition.priority = kept.trigger.priority.unwrap_or(5);
            let bytes = kept.encoded_len();
            Ok(Decided::write(bytes, move |host: &mut RunsHost, now| {
                keep(host, &definition, &kept, now);
                Ok(())
            }))
        };
        self.decide(&trigger_id, decide).await?;
        self.get(trigger_id, String::new()).await
    }

    // TRIG-1.4
    pub(super) async fn delete(&self, request: v1::DeleteTriggerRequest) -> Result<(), Rejection> {
        let mut fields = Fields::default();
        let trigger_id = fields.id::<PlanId>("trigger_id", &request.trigger_id);
        fields.note("user_id", &request.user_id);
        let version = version_of(&request.etag, &mut fields);
        fields.conclude()?;
        let trigger_id = trigger_id.map_or_else(String::new, |id| id.to_string());
        let (id, user_id) = (trigger_id.clone(), request.user_id);
        let decide = move |deciding: &Deciding<'_>| {
            let namespaces = match deciding.definition(DefinitionKind::Trigger, &id) {
                // What is damaged can be deleted, and nothing else can be done with it. Plans of every namespace may name it.
                Err(StoreFault::CorruptDefinition { .. }) => None,
                found => {
                    let Some(found) = found?.filter(|found| is_of(found, &user_id)) else {
                        return refused(not_found(&id));
                    };
                    let kept: Kept = kept(&found)?;
                    if version.is_some_and(|version| version != kept.version) {
                        return refused(CallError::EtagMismatch);
                    }
                    Some(vec![found.namespace])
                }
            };
            let id = id.clone();
            Ok(Decided::write(0, move |host: &mut RunsHost, _| {
                host.define(DefinitionKind::Trigger, &id, DefinitionChange::Delete);
                Ok(namespaces)
            }))
        };
        let namespaces = self.decide(&trigger_id, decide).await?;
        let clear = move |saved: &mut SavedPlan| {
            let is_it = saved.trigger_id == trigger_id;
            if is_it {
                saved.trigger_id.clear();
            }
            is_it
        };
        clear_links(self.0.maker.handle(), namespaces, clear).await
    }

    pub(super) async fn get(&self, trigger_id: String, user_id: String) -> Changed {
        let found = self.stored(&trigger_id).await?;
        let found = found.filter(|(definition, _)| is_of(definition, &user_id));
        let (definition, kept) = found.ok_or_else(|| not_found(&trigger_id))?;
        let next_fire_at = self.shown_next(&definition.name, &kept);
        Ok(super::service::view(&definition, &kept, next_fire_at))
    }

    /// Checks that runs can be made, as if it fired.
    async fn check_run(&self, trigger_id: &str, kept: &Kept) -> Result<(), Rejection> {
        let cause = Cause::Request(String::new());
        let found = Found::new(cause, 0, escapement_model::Opaque::default());
        let key = FiringKey::new(trigger_id, &found.cause);
        let request = request_of(trigger_id, kept, &key, &found);
        let prepared = self
            .0
            .maker
            .prepare(&request, &kept.made(), Started::alone(), key.run_id(), None)
            .await;
        match prepared {
            Ok(_) => self.check_condition(trigger_id, kept).await,
            Err(Rejection::Problems(problems)) => Err(Rejection::Problems(
                problems.into_iter().map(within_template).collect(),
            )),
            Err(Rejection::PlanInvalid { violations, .. }) => Err(Rejection::PlanInvalid {
                field: "trigger.run.document",
                violations,
            }),
            Err(rejection) => Err(rejection),
        }
    }
}

impl Triggers {
    /// Checks that the condition can be looked at.
    async fn check_condition(&self, trigger_id: &str, kept: &Kept) -> Result<(), Rejection> {
        let Some(Config::Condition(condition)) = &kept.trigger.config else {
            return Ok(());
        };
        let user_id = &kept.trigger.user_id;
        self.0
            .maker
            .require_session(&kept.namespace(), &condition.session_id, user_id)
            .await?;
        let Some(probe) = &condition.probe else {
            return Ok(());
        };
        let run_id = probe_run_id(trigger_id, 0);
        match self.prepare_probe(trigger_id, probe, kept, run_id).await {
            Ok(_) => Ok(()),
            Err(Rejection::PlanInvalid { violations, .. }) => Err(Rejection::PlanInvalid {
                field: "trigger.condition.probe",
                violations,
            }),
            Err(rejection) => Err(rejection),
        }
    }
}

fn within_template(problem: Problem) -> Problem {
    Problem {
        field: format!("trigger.run.{}", problem.field),
        ..problem
    }
}

/// Takes a link out of all saved plans of these namespaces, or of all, that `clear` takes it out of.
pub(crate) async fn clear_links(
    runs: &escapement_runs_shell::RunsHandle,
    namespaces: Option<Vec<Namespace>>,
    clear: impl Fn(&mut SavedPlan) -> bool + Send + Sync + Clone + 'static,
) -> Result<(), Rejection> {
    let mut before: Option<DefinitionKey> = None;
    loop {
        let (from, is_linked) = (before, clear.clone());
        let scopes = Scope::each(None, namespaces.as_deref());
        let read = runs.readers().read(move |reader| {
            let page = reader.definitions(DefinitionKind::SavedPlan, scopes.as_deref(), from, PAGE)?;
            let linked: BTreeSet<String> = page
                .definitions
                .iter()
                .filter(|plan| decoded(plan).is_ok_and(|mut saved| is_linked(&mut saved)))
                .map(|plan| plan.name.clone())
                .collect();
            Ok((linked, page.next()))
        });
        let (linked, last) = read.await?;
        for plan_id in linked {
            let clear = clear.clone();
            let target = Target {
                plan_id,
                user_id: String::new(),
                version: None,
                request: None,
                caller: None,
            };
            let edit = move |draft: &mut Draft| {
                clear(&mut draft.saved);
                Ok(())
            };
            match change(runs, target, edit).await {
                // It was deleted meanwhile.
                Ok(_) | Err(Rejection::NotFound { .. }) => {}
                Err(rejection) => return Err(rejection),
            }
        }
        match last {
            Some(last) => before = Some(last),
            None => return Ok(()),
        }
    }
}

pub(super) fn not_found(trigger_id: &str) -> Rejection {
    Rejection::NotFound {
        reason: "TRIGGER_NOT_FOUND",
        message: format!("No trigger has the id {trigger_id}."),
    }
}

/// The version that an etag names.
pub(crate) fn version_of(etag: &str, fields: &mut Fields) -> Option<u64> {
    if etag.is_empty() {
        return None;
    }
    let version = etag.parse().ok();
    if version.is_none() {
        fields.wrong("etag", "is none that was given");
    }
    version
}

/// The id of what a request makes: the same for the same request.
pub(crate) fn id_of(kind: &str, user_id: &str, request_id: &str) -> String {
    let mut digest = Sha256::new();
    for part in ["escapement id", kind, user_id, request_id] {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    let digest: [u8; 32] = digest.finalize().into();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    PlanId::from_random(bytes).to_string()
}

/// A new id.
pub(crate) fn random_id() -> Result<String, Rejection> {
    Ok(PlanId::from_random(random()?).to_string())
}

fn random<const N: usize>() -> Result<[u8; N], Rejection> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|_| Rejection::failed("NO_RANDOM_BYTES", "The operating system gives no random bytes."))?;
    Ok(bytes)
}
