//! `TriggerService`: what callers ask of triggers.

use std::sync::atomic::Ordering;

use escapement_model::limits::LABEL_CHARS_MAX;
use escapement_model::{PlanId, RunId};
use escapement_runs_host::EventKind;
use escapement_store::StoreFault;
use escapement_store::runs::{Definition, DefinitionKey, DefinitionKind, Listing, RunReader, Scope};
use escapement_triggers::Cause;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::trigger::Config;
use escapement_wire::runs::v1::trigger_service_server::TriggerService;
use sha2::{Digest, Sha256};
use tonic::{Request, Response, Status};

use super::Triggers;
use super::clockwork::PAGE;
use super::events::{Heard, published};
use super::firing::{FAILED, Found, SKIPPED, STARTED, WAITING, now_ms};
use super::reading::{note_schedule, schedule_of};
use super::record::{Kept, ShownFiring, kept};
use super::saving::{not_found, random_id};
use crate::caller::{Caller, shown_author};
use crate::canonical::Repeatable;
use crate::errors::Rejection;
use crate::fields::{self, Fields};
use crate::paging::{key_of, next_token, place_and_total};
use crate::totals::{size, total};
use crate::views::{state_of_byte, status_word};

/// A trigger as it is shown: without its secret.
pub(super) fn view(definition: &Definition, kept: &Kept, next_fire_at: i64) -> v1::Trigger {
    let mut shown = kept.trigger.clone();
    if let Some(Config::Webhook(webhook)) = &mut shown.config {
        webhook.secret.clear();
    }
    v1::Trigger {
        trigger_id: definition.name.clone(),
        namespace: definition.namespace.to_string(),
        saved_by: shown_author(kept.author.as_deref()),
        last_fired_at: kept.last_fired_at,
        next_fire_at,
        fire_count: i64::try_from(kept.fire_count).unwrap_or(i64::MAX),
        created_at: definition.created_at,
        updated_at: definition.updated_at,
        etag: kept.version.to_string(),
        last_run_id: kept.last_run_id.clone(),
        ..shown
    }
}

impl Triggers {
    async fn list(
        &self,
        request: v1::ListTriggersRequest,
        caller: &Caller,
    ) -> Result<v1::ListTriggersResponse, Rejection> {
        let mut fields = Fields::default();
        let page_size = fields.page_size(request.page_size, 20, 200);
        fields.note("user_id", &request.user_id);
        fields.conclude()?;
        let filters = ("triggers", request.user_id.clone(), request.namespace.clone());
        let (before, known) = place_and_total(&request.page_token, &filters)?;
        let scopes = caller.listed(&request.namespace, &request.user_id)?;
        let read = self.0.maker.handle().readers().read(move |reader| {
            let (kind, scopes) = (DefinitionKind::Trigger, scopes.as_deref());
            let total = total(reader, known, Listing::Definitions { kind, scopes })?;
            let page = reader.definitions(kind, scopes, before.map(key_of), page_size)?;
            Ok((page, total))
        });
        let (page, total) = read.await?;
        // Lists leave out what is damaged.
        let read = |found: &Definition| {
            let kept = kept::<Kept>(found).ok()?;
            Some(view(found, &kept, self.shown_next(&found.name, &kept)))
        };
        Ok(v1::ListTriggersResponse {
            triggers: page.definitions.iter().filter_map(read).collect(),
            next_page_token: next_token(&page, total, &filters),
            total_size: size(total),
            total_is_at_least: total.is_at_least,
        })
    }

    async fn fire_now(
        &self,
        request: v1::FireTriggerRequest,
        caller: &Caller,
    ) -> Result<v1::Firing, Rejection> {
        let mut fields = Fields::default();
        let trigger_id = fields.id::<PlanId>("trigger_id", &request.trigger_id);
        fields.note("request_id", &request.request_id);
        let data = request.data.unwrap_or_default();
        fields.object("data", &data, DATA_BYTES_MAX);
        fields.conclude()?;
        let trigger_id = trigger_id.map_or_else(String::new, |id| id.to_string());
        let id = match request.request_id.is_empty() {
            true => random_id()?,
            false => request.request_id,
        };
        let stored = self.stored(&trigger_id).await?;
        let found = Found {
            fired_by: stored.and_then(|(definition, _)| caller.fires(&definition.namespace)),
            ..Found::new(Cause::Request(id), now_ms(), data)
        };
        let fired = self.fire(&trigger_id, found).await?;
        fired
            .map(|fired| fired.firing)
            .ok_or_else(|| not_found(&trigger_id))
    }

    async fn firings(&self, request: v1::ListFiringsRequest) -> Result<v1::ListFiringsResponse, Rejection> {
        let mut fields = Fields::default();
        let page_size = fields.page_size(request.page_size, 50, 200);
        let trigger_id = fields.id::<PlanId>("trigger_id", &request.trigger_id);
        fields.conclude()?;
        let trigger_id = trigger_id.map_or_else(String::new, |id| id.to_string());
        let filters = ("firings", trigger_id.clone());
        let (before, known) = place_and_total(&request.page_token, &filters)?;
        let read = self.0.maker.handle().readers().read(move |reader| {
            let kind = DefinitionKind::Firing;
            let scopes = Scope::each(Some(&trigger_id), None);
            let scopes = scopes.as_deref();
            let total = total(reader, known, Listing::Definitions { kind, scopes })?;
            let page = reader.definitions(kind, scopes, before.map(key_of), page_size)?;
            let kept = page
                .definitions
                .iter()
                .filter_map(|found| kept::<ShownFiring>(found).ok());
            let mut firings: Vec<v1::Firing> = kept.map(|kept| kept.firing).collect();
            for firing in &mut firings {
                show_run(reader, firing, now_ms())?;
            }
            Ok((page, firings, total))
        });
        let (page, firings, total) = read.await?;
        Ok(v1::ListFiringsResponse {
            firings,
            next_page_token: next_token(&page, total, &filters),
            total_size: size(total),
            total_is_at_least: total.is_at_least,
        })
    }

    async fn stats(&self, trigger_id: &str) -> Result<v1::GetTriggerStatsResponse, Rejection> {
        let trigger_id = fields::id::<PlanId>("trigger_id", trigger_id)?.to_string();
        self.get(trigger_id.clone(), String::new()).await?;
        let read = self
            .0
            .maker
            .handle()
            .readers()
            .read(move |reader| count(reader, &trigger_id));
        let mut stats = read.await?;
        let n_refused = self.0.n_refused.load(Ordering::Relaxed);
        stats.webhook_refusals = i64::try_from(n_refused).unwrap_or(i64::MAX);
        Ok(stats)
    }

    fn preview(request: &v1::PreviewScheduleRequest) -> Result<v1::PreviewScheduleResponse, Rejection> {
        let mut fields = Fields::default();
        note_schedule("", &request.cron, &request.time_zone, &mut fields);
        let count = request.count.unwrap_or(10);
        fields.number("count", count, 1..=1_000);
        fields.conclude()?;
        let schedule = v1::Schedule {
            cron: request.cron.clone(),
            time_zone: request.time_zone.clone(),
            ..v1::Schedule::default()
        };
        let schedule = schedule_of(&schedule)
            .map_err(|why| Rejection::field("cron", "INVALID_CRON", format!("is no schedule: {why}")))?;
        let first = if request.after == 0 {
            now_ms()
        } else {
            request.after
        };
        let instants = std::iter::successors(schedule.next_after(first), |at| schedule.next_after(*at));
        Ok(v1::PreviewScheduleResponse {
            instants: instants.take(usize::try_from(count).unwrap_or(1)).collect(),
        })
    }

    async fn publish(
        &self,
        mut request: v1::PublishEventRequest,
        caller: &Caller,
    ) -> Result<v1::PublishEventResponse, Rejection> {
        let mut fields = Fields::default();
        fields.text("type", &request.r#type, 1..=LABEL_CHARS_MAX);
        fields.text("id", &request.id, 0..=LABEL_CHARS_MAX);
        if EventKind::ALL.iter().any(|kind| kind.as_str() == request.r#type) {
            fields.wrong("type", "is reserved for what happens to runs and goals");
        }
        if let Some(data) = &request.data {
            fields.object("data", data, DATA_BYTES_MAX);
        }
        fields.conclude()?;
        let namespace = caller.namespace(&request.namespace)?;
        let heard = match caller.is_held_in(&namespace) {
            true => Heard::ByUser(caller.listed_user(&namespace, "")?.unwrap_or_default()),
            false => Heard::ByAll,
        };
        let fired_by = caller.fires(&namespace);
        if request.id.is_empty() {
            request.id = random_id()?;
        }
        let id = request.id.clone();
        let fired = self.tell(&published(namespace, heard, fired_by, request)).await?;
        Ok(v1::PublishEventResponse {
            id,
            firings: fired
                .into_iter()
                .map(|fired| fired.firing)
                .take(FIRINGS_SHOWN_MAX)
                .collect(),
        })
    }
}

/// Adds the outcome of its run to a firing. A run that is damaged or removed adds nothing.
fn show_run(reader: &dyn RunReader, firing: &mut v1::Firing, now: i64) -> Result<(), StoreFault> {
    let Ok(run_id) = firing.run_id.parse::<RunId>() else {
        return Ok(());
    };
    let run = match reader.summary(run_id) {
        Err(StoreFault::CorruptRun { .. }) => None,
        found => found?,
    };
    if let Some(run) = run
        && let Some(state) = state_of_byte(run.progress.state)
    {
        status_word(state).clone_into(&mut firing.run_status);
        let until = run.progress.ended_at.unwrap_or(now);
        firing.run_duration_ms = Some(until.saturating_sub(run.created.created_at).max(0));
    }
    Ok(())
}

fn count(reader: &dyn RunReader, trigger_id: &str) -> Result<v1::GetTriggerStatsResponse, StoreFault> {
    let mut stats = v1::GetTriggerStatsResponse::default();
    let mut before: Option<DefinitionKey> = None;
    let mut n_left = COUNTED_MAX;
    while n_left > 0 {
        let limit = PAGE.min(n_left);
        let page = reader.definitions(
            DefinitionKind::Firing,
            Scope::each(Some(trigger_id), None).as_deref(),
            before,
            limit,
        )?;
        n_left -= page.definitions.len();
        for found in page
            .definitions
            .iter()
            .filter_map(|found| kept::<ShownFiring>(found).ok())
        {
            stats.firings += 1;
            match found.firing.status.as_str() {
                STARTED => stats.started += 1,
                WAITING => stats.waiting += 1,
                FAILED => stats.failed += 1,
                SKIPPED if found.firing.reason == "MISSED" => stats.missed += i64::from(found.firing.count),
                _ => stats.skipped += 1,
            }
        }
        before = page.next();
        if before.is_none() {
            break;
        }
    }
    Ok(stats)
}

impl Triggers {
    /// Refuses a trigger that the caller may not find.
    async fn require(&self, caller: &Caller, trigger_id: &str) -> Result<(), Rejection> {
        let kind = DefinitionKind::Trigger;
        caller
            .require_definition(self.0.maker.handle(), kind, trigger_id, not_found)
            .await
    }
}

#[tonic::async_trait]
impl TriggerService for Triggers {
    async fn create_trigger(
        &self,
        request: Request<v1::CreateTriggerRequest>,
    ) -> Result<Response<v1::CreateTriggerResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        let digest = Sha256::digest(request.encode_meaning()).into();
        // As earlier versions have kept it.
        let spelled = Sha256::digest(request.encode_in_order()).into();
        let created = self
            .create_once(request, [digest, spelled], false, &caller)
            .await?;
        Ok(Response::new(created))
    }

    async fn get_trigger(
        &self,
        request: Request<v1::GetTriggerRequest>,
    ) -> Result<Response<v1::GetTriggerResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        self.require(&caller, &request.trigger_id).await?;
        let trigger_id = fields::id::<PlanId>("trigger_id", &request.trigger_id)?.to_string();
        let trigger = Some(self.get(trigger_id, request.user_id).await?);
        Ok(Response::new(v1::GetTriggerResponse { trigger }))
    }

    async fn list_triggers(
        &self,
        request: Request<v1::ListTriggersRequest>,
    ) -> Result<Response<v1::ListTriggersResponse>, Status> {
        let caller = Caller::of(&request);
        Ok(Response::new(self.list(request.into_inner(), &caller).await?))
    }

    async fn update_trigger(
        &self,
        request: Request<v1::UpdateTriggerRequest>,
    ) -> Result<Response<v1::UpdateTriggerResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        let trigger_id = request.trigger.as_ref().map_or("", |trigger| &trigger.trigger_id);
        self.require(&caller, trigger_id).await?;
        let trigger = Some(self.update(request, &caller).await?);
        Ok(Response::new(v1::UpdateTriggerResponse { trigger }))
    }

    async fn delete_trigger(
        &self,
        request: Request<v1::DeleteTriggerRequest>,
    ) -> Result<Response<v1::DeleteTriggerResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        self.require(&caller, &request.trigger_id).await?;
        self.delete(request).await?;
        Ok(Response::new(v1::DeleteTriggerResponse {}))
    }

    async fn enable_trigger(
        &self,
        request: Request<v1::EnableTriggerRequest>,
    ) -> Result<Response<v1::EnableTriggerResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        self.require(&caller, &request.trigger_id).await?;
        let trigger = Some(self.enable(request).await?);
        Ok(Response::new(v1::EnableTriggerResponse { trigger }))
    }

    async fn fire_trigger(
        &self,
        request: Request<v1::FireTriggerRequest>,
    ) -> Result<Response<v1::FireTriggerResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        self.require(&caller, &request.trigger_id).await?;
        let firing = Some(self.fire_now(request, &caller).await?);
        Ok(Response::new(v1::FireTriggerResponse { firing }))
    }

    async fn list_firings(
        &self,
        request: Request<v1::ListFiringsRequest>,
    ) -> Result<Response<v1::ListFiringsResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        self.require(&caller, &request.trigger_id).await?;
        Ok(Response::new(self.firings(request).await?))
    }

    async fn get_trigger_stats(
        &self,
        request: Request<v1::GetTriggerStatsRequest>,
    ) -> Result<Response<v1::GetTriggerStatsResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        self.require(&caller, &request.trigger_id).await?;
        let mut stats = self.stats(&request.trigger_id).await?;
        // They are counted for all triggers together.
        if !caller.principal().sees_all() {
            stats.webhook_refusals = 0;
        }
        Ok(Response::new(stats))
    }

    async fn preview_schedule(
        &self,
        request: Request<v1::PreviewScheduleRequest>,
    ) -> Result<Response<v1::PreviewScheduleResponse>, Status> {
        Ok(Response::new(Self::preview(&request.into_inner())?))
    }

    async fn publish_event(
        &self,
        request: Request<v1::PublishEventRequest>,
    ) -> Result<Response<v1::PublishEventResponse>, Status> {
        let caller = Caller::of(&request);
        Ok(Response::new(self.publish(request.into_inner(), &caller).await?))
    }
}

/// Bytes of the data of an event: 900 KiB, encoded.
pub(super) const DATA_BYTES_MAX: usize = 900 << 10;
/// Firings that an answer shows.
const FIRINGS_SHOWN_MAX: usize = 100;
/// Firings that are counted.
const COUNTED_MAX: usize = 10_000;
