//! Fires what is due: one structure for all triggers, which sleeps while nothing is. Decides nothing about a firing.

use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::sync::atomic::Ordering;
use std::time::Duration;

use escapement_runs_host::{Deciding, EventKind, RunsHost};
use escapement_runs_shell::{CallError, Decided, as_tenant, current_tenant};
use escapement_store::StoreFault;
use escapement_store::runs::{DefinitionChange, DefinitionKey, DefinitionKind};
use escapement_triggers::Cause;
use escapement_wire::runs::v1::trigger::Config;
use tokio::time::{Instant, sleep};
use tracing::warn;

use super::Triggers;
use super::firing::{Found, now_ms};
use super::record::{Kept, kept};
use super::turns::{due_of, forget_waiting, handled_of, miss, set_back, waiting_of};
use crate::errors::Rejection;

impl Triggers {
    /// Fires what is due until runs stop.
    pub async fn serve(self) {
        let noted = self.0.maker.handle().noted();
        let mut pruned_at = None;
        loop {
            let worked = self.work(&mut pruned_at).await;
            let pause = match worked {
                Ok(()) => self.pause(),
                Err(Rejection::Call(CallError::Stopping)) => return,
                Err(rejection) => {
                    let why = tonic::Status::from(rejection);
                    warn!(why = why.message(), "triggers wait for runs");
                    RETRY_PAUSE
                }
            };
            tokio::select! {
                () = sleep(pause) => {}
                () = self.0.changed.notified() => {}
                () = noted.notified() => {}
            }
        }
    }

    /// Returns the time for which nothing is due, bounded so that a change of the wall clock is soon noticed.
    fn pause(&self) -> Duration {
        let next = self.index().next();
        let left = next.map(|next| self.clock().until(next));
        left.map_or(SLEEP_MAX, |left| left.min(SLEEP_MAX))
    }

    // TRIG-2.3
    /// Converts a time of the wall clock to the clock of runs, provided that the wall clock is not set.
    fn by_clock(&self, wall_ms: i64) -> i64 {
        self.clock()
            .now()
            .saturating_add(wall_ms.saturating_sub(now_ms()))
    }

    // TRIG-2.3
    /// Returns the next due time of a trigger by the wall clock, as shown to people.
    pub(super) fn shown_next(&self, trigger_id: &str, kept: &Kept) -> i64 {
        let now = now_ms();
        let known = match &kept.trigger.config {
            Some(Config::Condition(_)) if kept.is_enabled() => self.index().due_of(trigger_id),
            _ => None,
        };
        let known = known.map(|due| now.saturating_add(due.saturating_sub(self.clock().now())));
        known.or_else(|| kept.next(now)).unwrap_or(0)
    }

    // TRIG-2.3
    /// Looks anew when everything is due if the wall clock was set since that was done last.
    async fn notice_the_clock(&self) -> Result<(), Rejection> {
        let (ahead_ms, before_ms) = (
            self.clock().wall_ahead_ms(),
            self.0.wall_ahead_ms.load(Ordering::Relaxed),
        );
        if ahead_ms.abs_diff(before_ms) >= SET_MS_MIN {
            warn!(by_ms = ahead_ms.saturating_sub(before_ms), "wall clock was set");
            self.load().await?;
        }
        Ok(())
    }

    pub(super) async fn work(&self, pruned_at: &mut Option<Instant>) -> Result<(), Rejection> {
        self.loaded().await?;
        self.notice_the_clock().await?;
        self.tell_noted().await?;
        for _ in 0..DUE_MAX {
            let first = self.index().first_due(self.clock().now());
            let Some(trigger_id) = first else { break };
            if let Err(rejection) = self.handle_due(&trigger_id).await {
                if !rejection.is_of_damage() {
                    return Err(rejection);
                }
                // What is damaged does not keep the other triggers from firing.
                let why = tonic::Status::from(rejection);
                warn!(trigger_id, why = why.message(), "trigger is damaged");
                let later = self.clock().now().saturating_add(DAMAGED_PAUSE_MS);
                self.index().look_again(&trigger_id, later);
            }
        }
        if pruned_at.is_none_or(|at| at.elapsed() >= PRUNE_INTERVAL) {
            self.prune().await?;
            *pruned_at = Some(Instant::now());
        }
        Ok(())
    }

    /// Reads all triggers once.
    pub(super) async fn loaded(&self) -> Result<(), Rejection> {
        self.0.loaded.get_or_try_init(|| self.load()).await.map(|_| ())
    }

    async fn load(&self) -> Result<(), Rejection> {
        let mut told = self.0.wanted.lock().await;
        let ahead_ms = self.clock().wall_ahead_ms();
        let mut before: Option<DefinitionKey> = None;
        loop {
            let from = before;
            let read = self
                .0
                .maker
                .handle()
                .readers()
                .read(move |reader| reader.definitions(DefinitionKind::Trigger, None, from, PAGE));
            let page = read.await?;
            let now = now_ms();
            for definition in &page.definitions {
                let Ok(kept) = kept::<Kept>(definition) else {
                    continue;
                };
                // Conditions are looked at soon after a start, and not all at once.
                let next = match kept.trigger.config {
                    Some(Config::Condition(_)) if kept.is_enabled() => {
                        Some(now.saturating_add(i64::try_from(definition.number % 1_000).unwrap_or(0)))
                    }
                    _ => kept.due(now),
                };
                let next = next.map(|next| self.by_clock(next));
                self.index().set(&definition.name, Some(&kept), next);
            }
            before = page.next();
            if before.is_none() {
                self.0.wall_ahead_ms.store(ahead_ms, Ordering::Relaxed);
                return self.want_events(&mut told).await;
            }
        }
    }

    /// Tells runs what triggers listen to, unless it is what they were told last.
    async fn want_events(&self, told: &mut Option<BTreeSet<EventKind>>) -> Result<(), Rejection> {
        let wanted = self.index().wanted();
        if told.as_ref() == Some(&wanted) {
            return Ok(());
        }
        let tell = wanted.clone();
        let change = move |host: &mut RunsHost, _| {
            host.want_events(tell);
            Ok(())
        };
        self.0.maker.handle().change(0, change).await?;
        *told = Some(wanted);
        Ok(())
    }

    /// Changes a trigger in one turn of the thread of runs.
    pub(super) async fn change<T: Send + 'static>(
        &self,
        trigger_id: &str,
        bytes: usize,
        change: impl FnOnce(&mut RunsHost, i64) -> Result<T, CallError> + Send + 'static,
    ) -> Result<T, Rejection> {
        let runs = self.0.maker.handle().clone();
        let changing = async move { runs.change(bytes, change).await };
        self.changed(trigger_id, changing).await
    }

    /// Changes a trigger as it is decided on a reader.
    pub(super) async fn decide<T: Send + 'static>(
        &self,
        trigger_id: &str,
        decide: impl Fn(&Deciding<'_>) -> Result<Decided<Result<T, Rejection>>, StoreFault>
        + Send
        + Sync
        + 'static,
    ) -> Result<T, Rejection> {
        let runs = self.0.maker.handle().clone();
        let deciding = async move { runs.decide(None, decide).await };
        self.changed(trigger_id, deciding).await?
    }

    /// Takes a trigger into the index as it is after the change, also if its caller has gone meanwhile.
    async fn changed<T: Send + 'static>(
        &self,
        trigger_id: &str,
        changing: impl Future<Output = Result<T, CallError>> + Send + 'static,
    ) -> Result<T, Rejection> {
        let (triggers, id) = (self.clone(), trigger_id.to_owned());
        let serving = async move {
            let changed = changing.await;
            // What was not answered may have been done all the same.
            let reloaded = triggers.reload(&id).await;
            let changed = changed?;
            reloaded.map(|()| changed)
        };
        match tokio::spawn(as_tenant(current_tenant(), serving)).await {
            Ok(changed) => changed,
            Err(defect) if defect.is_panic() => resume_unwind(defect.into_panic()),
            Err(_) => Err(CallError::Stopping.into()),
        }
    }

    /// Takes a trigger into the index as it durably is. One that cannot be read now is due, and read again then.
    pub(super) async fn reload(&self, trigger_id: &str) -> Result<(), Rejection> {
        self.take_in(trigger_id, false).await
    }

    // TRIG-4.4
    /// Takes a trigger into the index. A check of a condition that is due stays due, unless it has just been
    /// made.
    async fn take_in(&self, trigger_id: &str, has_looked: bool) -> Result<(), Rejection> {
        self.loaded().await?;
        let mut told = self.0.wanted.lock().await;
        let stored = self.stored(trigger_id).await;
        match &stored {
            Ok(found) => {
                let kept = found.as_ref().map(|(_, kept)| kept);
                let next = kept.and_then(|kept| kept.due(now_ms()));
                let next = next.map(|next| self.by_clock(next));
                let looks =
                    kept.is_some_and(|kept| matches!(kept.trigger.config, Some(Config::Condition(_))));
                let mut index = self.index();
                let due = index.due_of(trigger_id).filter(|_| looks && !has_looked);
                let next = next.map(|next| due.map_or(next, |due| due.min(next)));
                index.set(trigger_id, kept, next);
            }
            Err(_) => self.index().look_again(trigger_id, self.clock().now()),
        }
        self.0.changed.notify_one();
        self.want_events(&mut told).await?;
        Ok(stored.map(|_| ())?)
    }

    pub(super) async fn handle_due(&self, trigger_id: &str) -> Result<(), Rejection> {
        let Some((_, kept)) = self.stored(trigger_id).await? else {
            return self.reload(trigger_id).await;
        };
        if let Some(first) = kept.waiting.first() {
            self.go_on(trigger_id, first.clone()).await?;
        }
        match &kept.trigger.config {
            Some(Config::Schedule(_)) => self.handle_schedule(trigger_id, &kept).await?,
            Some(Config::Condition(condition)) if kept.is_enabled() => {
                self.look_at(trigger_id, condition, &kept).await?;
            }
            _ => {}
        }
        self.take_in(trigger_id, true).await
    }

    // TRIG-2.2
    async fn handle_schedule(&self, trigger_id: &str, kept: &Kept) -> Result<(), Rejection> {
        let now = now_ms();
        if kept.is_ahead_of(now) {
            let id = trigger_id.to_owned();
            warn!(
                trigger_id,
                ahead_ms = kept.handled_ms.saturating_sub(now),
                "schedule was handled by a clock that was ahead, and is set back"
            );
            let change = move |host: &mut RunsHost, _| set_back(host, &id, now);
            return Ok(self.0.maker.handle().change(0, change).await?);
        }
        let due = due_of(kept, now);
        if let Some(missed) = due.missed {
            let (id, handled_ms) = (trigger_id.to_owned(), handled_of(&due, now));
            let change = move |host: &mut RunsHost, now| miss(host, &id, missed, handled_ms, now);
            let runs = self.0.maker.handle();
            if runs.change(0, change).await? {
                runs.fired("schedule", "missed", missed.n);
            }
        }
        for instant in due.firing {
            let found = Found::new(Cause::Due(instant), instant, escapement_model::Opaque::default());
            self.fire(trigger_id, found).await?;
        }
        Ok(())
    }

    /// The turn of a firing that has waited, if no run of its trigger lives any more.
    async fn go_on(&self, trigger_id: &str, name: String) -> Result<(), Rejection> {
        let waiting = name.clone();
        let read = self
            .0
            .maker
            .handle()
            .readers()
            .read(move |reader| waiting_of(reader.definition(DefinitionKind::Firing, &waiting)));
        if let Some(found) = read.await? {
            self.fire(trigger_id, found).await?;
            return Ok(());
        }
        // What is gone, or cannot be read, is not waited for.
        let id = trigger_id.to_owned();
        let change = move |host: &mut RunsHost, _| forget_waiting(host, &id, &name);
        Ok(self.0.maker.handle().change(0, change).await?)
    }

    /// Removes firings that are too old.
    async fn prune(&self) -> Result<(), Rejection> {
        let cutoff = DefinitionKey {
            priority: 0,
            created_at: self.clock().now().saturating_sub(FIRINGS_KEPT_MS),
            number: 0,
        };
        loop {
            let read = self
                .0
                .maker
                .handle()
                .readers()
                .read(move |reader| reader.definitions(DefinitionKind::Firing, None, Some(cutoff), PAGE));
            let page = read.await?;
            let is_last = !page.has_more;
            let old: Vec<String> = page.definitions.into_iter().map(|old| old.name).collect();
            if !old.is_empty() {
                let change = move |host: &mut RunsHost, _| {
                    for name in &old {
                        host.define(DefinitionKind::Firing, name, DefinitionChange::Delete);
                    }
                    Ok(())
                };
                self.0.maker.handle().change(0, change).await?;
            }
            if is_last {
                return Ok(());
            }
        }
    }
}

/// Pause before what did not go is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Pause before a trigger is handled again after something damaged was in the way, milliseconds.
const DAMAGED_PAUSE_MS: i64 = 60_000;
/// How long it sleeps at most.
const SLEEP_MAX: Duration = Duration::from_secs(5);
/// A wall clock that differs by less than this from what it was was not set, milliseconds.
const SET_MS_MIN: u64 = 1_000;
/// Triggers that are handled before events are looked for again.
const DUE_MAX: usize = 256;
/// Definitions that are read at a time.
pub(super) const PAGE: usize = 500;
/// Pause between two looks for old firings.
const PRUNE_INTERVAL: Duration = Duration::from_secs(3_600);
/// How long firings are kept: 30 days.
const FIRINGS_KEPT_MS: i64 = 30 * 86_400_000;
