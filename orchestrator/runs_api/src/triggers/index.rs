//! What is due when, and which triggers listen to what, in memory. Knows no store.

use std::collections::{BTreeMap, BTreeSet};

use escapement_model::Namespace;
use escapement_runs_host::EventKind;
use escapement_wire::runs::v1::trigger::Config;

use super::reading::{CHECK_INTERVAL_MS, schedule_of};
use super::record::{Kept, Listener};
use super::tenants::{NoPlace, Share, Tenants};

/// All enabled triggers.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Due times of triggers, by the clock of runs, earliest first.
    due: BTreeSet<(i64, String)>,
    due_by_id: BTreeMap<String, i64>,
    /// Triggers by the type of the events that they listen to, and by their namespace: nothing is read for an event of another one.
    listeners: BTreeMap<String, BTreeMap<Namespace, BTreeMap<String, Listener>>>,
    heard_by_id: BTreeMap<String, (String, Namespace)>,
    /// Usage of each namespace.
    tenants: Tenants,
}

impl Index {
    /// Takes a trigger as it is now; `None` if it is gone. `next`: when it is due next.
    pub(super) fn set(&mut self, trigger_id: &str, kept: Option<&Kept>, next: Option<i64>) {
        if let Some(due) = self.due_by_id.remove(trigger_id) {
            self.due.remove(&(due, trigger_id.to_owned()));
        }
        self.forget_listener(trigger_id);
        self.tenants.set(trigger_id, kept.map(share_of));
        let Some(kept) = kept else { return };
        if let Some(next) = next {
            self.due.insert((next, trigger_id.to_owned()));
            self.due_by_id.insert(trigger_id.to_owned(), next);
        }
        if let (Some(Config::Event(filter)), true) = (&kept.trigger.config, kept.is_enabled()) {
            let (kind, namespace) = (filter.r#type.clone(), kept.namespace());
            let listeners = self.listeners.entry(kind.clone()).or_default();
            let listeners = listeners.entry(namespace.clone()).or_default();
            listeners.insert(trigger_id.to_owned(), Listener::of(kept));
            self.heard_by_id.insert(trigger_id.to_owned(), (kind, namespace));
        }
    }

    fn forget_listener(&mut self, trigger_id: &str) {
        let Some((kind, namespace)) = self.heard_by_id.remove(trigger_id) else {
            return;
        };
        let Some(of_kind) = self.listeners.get_mut(&kind) else {
            return;
        };
        if let Some(listeners) = of_kind.get_mut(&namespace) {
            listeners.remove(trigger_id);
            if listeners.is_empty() {
                of_kind.remove(&namespace);
            }
        }
        if of_kind.is_empty() {
            self.listeners.remove(&kind);
        }
    }

    /// Returns true if the trigger exists.
    pub(super) fn knows(&self, trigger_id: &str) -> bool {
        self.tenants.knows(trigger_id)
    }

    // TRIG-1.5
    /// Reserves the share of a trigger that is about to be saved in this form.
    ///
    /// # Errors
    /// [`NoPlace`]: its namespace has as many as it may have.
    pub(super) fn take_place(&mut self, trigger_id: &str, kept: &Kept) -> Result<(), NoPlace> {
        self.tenants.take_place(trigger_id, share_of(kept))
    }

    /// Schedules a check of a trigger for that time of the clock of runs, and keeps its other state.
    pub(super) fn look_again(&mut self, trigger_id: &str, at: i64) {
        if let Some(due) = self.due_by_id.insert(trigger_id.to_owned(), at) {
            self.due.remove(&(due, trigger_id.to_owned()));
        }
        self.due.insert((at, trigger_id.to_owned()));
    }

    /// Returns the due time of a trigger.
    pub(super) fn due_of(&self, trigger_id: &str) -> Option<i64> {
        self.due_by_id.get(trigger_id).copied()
    }

    /// When something is due next.
    pub(super) fn next(&self) -> Option<i64> {
        self.due.first().map(|(due, _)| *due)
    }

    /// The trigger whose time has come first.
    pub(super) fn first_due(&self, now: i64) -> Option<String> {
        let (due, trigger_id) = self.due.first()?;
        (*due <= now).then(|| trigger_id.clone())
    }

    /// Returns the triggers in a namespace that listen to events of a type, and may match.
    pub(super) fn listeners(&self, namespace: &Namespace, kind: &str) -> Vec<(String, Listener)> {
        let listeners = self
            .listeners
            .get(kind)
            .and_then(|of_kind| of_kind.get(namespace));
        let listeners = listeners.into_iter().flatten();
        listeners
            .map(|(trigger_id, listener)| (trigger_id.clone(), listener.clone()))
            .collect()
    }

    /// What somebody listens to.
    pub(super) fn wanted(&self) -> BTreeSet<EventKind> {
        let is_wanted = |kind: &EventKind| self.listeners.contains_key(kind.as_str());
        EventKind::ALL.into_iter().filter(is_wanted).collect()
    }
}

/// Returns the share of its namespace's limits that a trigger takes.
fn share_of(kept: &Kept) -> (Namespace, Share) {
    let interval_ms = match &kept.trigger.config {
        Some(Config::Condition(condition)) if kept.is_enabled() => {
            Some(condition.check_interval_ms.unwrap_or(CHECK_INTERVAL_MS))
        }
        _ => None,
    };
    (kept.namespace(), Share::of(interval_ms))
}

impl Kept {
    /// Whether it fires by itself.
    pub(super) fn is_enabled(&self) -> bool {
        self.trigger.enabled.unwrap_or(true)
    }

    // TRIG-2.3
    /// Returns true if the wall clock was set back to before the time handled by its schedule. A small
    /// difference is ignored: two clocks always differ a little.
    pub(super) fn is_ahead_of(&self, now: i64) -> bool {
        let is_schedule = matches!(&self.trigger.config, Some(Config::Schedule(_)));
        is_schedule && self.handled_ms.saturating_sub(AHEAD_MS_MAX) > now
    }

    // TRIG-2.3
    /// Returns the time of [`Kept::next`], or `now` if its schedule has to be set back.
    pub(super) fn due(&self, now: i64) -> Option<i64> {
        match self.is_enabled() && self.is_ahead_of(now) {
            true => Some(now),
            false => self.next(now),
        }
    }

    /// Returns the next due time of the trigger, by the wall clock. `now` is for conditions, which are
    /// checked an interval later.
    pub(super) fn next(&self, now: i64) -> Option<i64> {
        let handled_ms = match self.is_ahead_of(now) {
            true => now,
            false => self.handled_ms,
        };
        let waiting = (!self.waiting.is_empty()).then(|| now.saturating_add(WAITING_LOOK_MS));
        let own = match &self.trigger.config {
            _ if !self.is_enabled() => None,
            Some(Config::Schedule(schedule)) => schedule_of(schedule).ok()?.next_after(handled_ms),
            Some(Config::Condition(_)) if self.is_probing => Some(now.saturating_add(WAITING_LOOK_MS)),
            Some(Config::Condition(condition)) => {
                let interval = condition.check_interval_ms.unwrap_or(CHECK_INTERVAL_MS);
                Some(now.saturating_add(interval))
            }
            _ => None,
        };
        own.into_iter().chain(waiting).min()
    }
}

/// Tolerated lead of a schedule's handled time over the wall clock, milliseconds.
const AHEAD_MS_MAX: i64 = 1_000;
/// Pause between two looks whether a firing that waits may go on, or whether a probe has ended.
const WAITING_LOOK_MS: i64 = 500;

#[cfg(test)]
mod tests {
    use super::Index;
    use crate::triggers::record::Kept;
    use escapement_model::Namespace;
    use escapement_runs_host::EventKind;
    use escapement_wire::runs::v1;
    use escapement_wire::runs::v1::trigger::Config;

    fn listening(kind: &str) -> Kept {
        let mut kept = Kept::default();
        kept.trigger.config = Some(Config::Event(v1::EventFilter {
            r#type: kind.to_owned(),
            ..v1::EventFilter::default()
        }));
        kept
    }

    #[test]
    fn a_trigger_is_known_as_it_was_set_last() {
        let mut index = Index::default();
        index.set("a", Some(&Kept::default()), Some(7));
        index.set("b", Some(&Kept::default()), Some(5));
        assert_eq!((index.next(), index.first_due(4)), (Some(5), None));
        assert_eq!(index.first_due(5).as_deref(), Some("b"));
        index.set("b", Some(&Kept::default()), None);
        assert_eq!(index.next(), Some(7));
        index.set("a", None, Some(1));
        assert_eq!(index.next(), None);

        index.set("c", Some(&listening("run_failed")), None);
        index.set("d", Some(&listening("run_failed")), None);
        let here = Namespace::default();
        let names = |index: &Index, namespace: &Namespace| -> Vec<String> {
            let listeners = index.listeners(namespace, "run_failed");
            listeners.into_iter().map(|(name, _)| name).collect()
        };
        let mut elsewhere = listening("run_failed");
        elsewhere.trigger.namespace = "elsewhere".to_owned();
        index.set("e", Some(&elsewhere), None);
        assert_eq!(names(&index, &here), ["c", "d"]);
        assert_eq!(names(&index, &elsewhere.namespace()), ["e"]);
        index.set("e", None, None);
        assert!(names(&index, &elsewhere.namespace()).is_empty());
        assert!(index.wanted().contains(&EventKind::RunFailed));
        index.set("c", Some(&listening("other")), None);
        let mut off = listening("run_failed");
        off.trigger.enabled = Some(false);
        index.set("d", Some(&off), None);
        assert!(index.wanted().is_empty() && names(&index, &here).is_empty());
    }
}
