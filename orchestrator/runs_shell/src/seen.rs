//! Keeps the actions that workers offer by the last answer of the contract, and those that they have ever
//! offered. The last description of each outlasts the process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use escapement_wire::v1;
use prost::Message;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout, timeout_at};

use crate::limits::{
    ACTIONS_INTERVAL, KNOWN_INTERVAL, OFFERED_PATIENCE, OFFERED_TEXT_BYTES_MAX, RECORD_BYTES_MAX,
    SAVED_BYTES, SAVED_MAX, SEEN_ACTIONS_MAX,
};

/// Actions that workers offer, or have offered. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct SeenActions(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    seen: RwLock<BTreeSet<String>>,
    offered: RwLock<Arc<Offered>>,
    said: RwLock<Said>,
    /// Longest wait of a run for knowledge of its actions, and the start of the process; nothing if none waits.
    patience: OnceLock<(Duration, Instant)>,
    /// Number of runs that wait for it.
    n_waiting: AtomicUsize,
    /// Somebody waits for news.
    wanted: Notify,
    /// How often the contract was asked; 0 as long as nobody asks it.
    asked: AtomicU64,
    /// The last of these questions that came to its end.
    answered: watch::Sender<u64>,
}

/// Actions by name.
pub(crate) type Offered = BTreeMap<String, OfferedAction>;

/// Last words of workers on actions.
#[derive(Debug, Default)]
struct Said {
    actions: Offered,
    /// Actions of which the store knows something else, or that it alone knows.
    unsaved: BTreeSet<String>,
}

/// What a worker said of an action.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OfferedAction {
    pub(crate) description: String,
    pub(crate) input_schema: String,
    pub(crate) traits: Option<v1::ActionTraits>,
}

impl OfferedAction {
    fn text_bytes(&self) -> usize {
        let traits = self.traits.as_ref().map_or(0, Message::encoded_len);
        self.description.len() + self.input_schema.len() + traits
    }
}

impl OfferedAction {
    /// Encodes the action for the store, without the parts that are too large to be kept.
    fn record(&self) -> Bytes {
        let whole = v1::Action {
            description: self.description.clone(),
            input_schema: self.input_schema.clone(),
            traits: self.traits.clone(),
            ..v1::Action::default()
        };
        let traits = v1::Action {
            traits: self.traits.clone(),
            ..v1::Action::default()
        };
        let fits = |record: &v1::Action| record.encoded_len() <= RECORD_BYTES_MAX;
        let record = [whole, traits].into_iter().find(fits).unwrap_or_default();
        record.encode_to_vec().into()
    }
}

impl Said {
    fn learn(&mut self, action: &str, said: &OfferedAction) {
        if self.actions.get(action) != Some(said) {
            self.actions.insert(action.to_owned(), said.clone());
            self.unsaved.insert(action.to_owned());
        }
    }

    /// Forgets the words on actions whose names are forgotten.
    fn forget_all_but(&mut self, registered: &BTreeSet<String>) {
        let unsaved = &mut self.unsaved;
        self.actions.retain(|action, _| {
            let stays = registered.contains(action);
            if !stays {
                unsaved.insert(action.clone());
            }
            stays
        });
    }
}

/// Guard that lowers the number of waiters when it is dropped.
struct Leaves<'a>(&'a AtomicUsize);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl SeenActions {
    /// Returns true if a worker has offered the action since the start.
    pub fn contains(&self, action: &str) -> bool {
        self.0
            .seen
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(action)
    }

    /// The names of all actions that workers have offered since the start.
    pub fn names(&self) -> BTreeSet<String> {
        let seen = self.0.seen.read().unwrap_or_else(PoisonError::into_inner);
        seen.clone()
    }

    /// A worker has offered the action.
    pub fn add(&self, action: &str) {
        if self.contains(action) {
            return;
        }
        let mut seen = self.0.seen.write().unwrap_or_else(PoisonError::into_inner);
        if seen.len() < SEEN_ACTIONS_MAX {
            seen.insert(action.to_owned());
        }
    }

    /// Takes in what the contract tells of all actions. Those that nobody offers any more, or that no worker ever did, are
    /// not offered.
    pub fn told(&self, actions: Vec<v1::Action>) {
        let mut all_said = self.0.said.write().unwrap_or_else(PoisonError::into_inner);
        let mut registered = BTreeSet::new();
        let mut offered = Offered::new();
        let mut text_bytes = 0;
        for action in actions.into_iter().take(SEEN_ACTIONS_MAX) {
            if action.workers == 0 && action.registered_for_ms.is_none() {
                continue;
            }
            self.add(&action.name);
            let mut said = OfferedAction {
                description: action.description,
                input_schema: action.input_schema,
                traits: action.traits,
            };
            registered.insert(action.name.clone());
            // The contract remembers its name for a while, and not what was said of it.
            if action.workers == 0 {
                said = all_said.actions.get(&action.name).cloned().unwrap_or(said);
            }
            text_bytes += said.text_bytes();
            if text_bytes > OFFERED_TEXT_BYTES_MAX {
                said = OfferedAction::default();
            }
            if action.workers > 0 {
                all_said.learn(&action.name, &said);
            }
            offered.insert(action.name, said);
        }
        // An action that the contract forgets in the grace after a start may be offered again before the grace is over.
        let patience = self.0.patience.get();
        if patience.is_none_or(|(patience, begun)| begun.elapsed() >= *patience) {
            all_said.forget_all_but(&registered);
        }
        drop(all_said);
        let offered = Arc::new(offered);
        *self.0.offered.write().unwrap_or_else(PoisonError::into_inner) = offered;
    }

    /// Returns once the contract has answered a question that was put after this call, or has not done so in a second.
    pub async fn refresh(&self) {
        let mut answered = self.0.answered.subscribe();
        let asked = self.0.asked.load(Ordering::SeqCst);
        if asked == 0 {
            return;
        }
        self.0.wanted.notify_one();
        let _late = timeout(OFFERED_PATIENCE, answered.wait_for(|number| *number > asked)).await;
    }

    /// Refreshes as [`SeenActions::refresh`] does, if one of these actions is not known to be offered, or its
    /// description is unknown.
    pub async fn refresh_for(&self, actions: &BTreeSet<&str>) {
        let offered = self.offered();
        let is_known = |action: &&str| offered.contains_key(*action) && self.is_known(action);
        if !actions.iter().all(is_known) {
            self.refresh().await;
        }
    }

    /// Returns true if a worker has described the action, or has stated that it has no description.
    pub fn is_known(&self, action: &str) -> bool {
        self.said_of(action).is_some()
    }

    /// Returns the last description of the action by workers.
    pub(crate) fn said_of(&self, action: &str) -> Option<OfferedAction> {
        let said = self.0.said.read().unwrap_or_else(PoisonError::into_inner);
        said.actions.get(action).cloned()
    }

    /// Sets how long a run waits for descriptions of its actions. Until this is called none waits.
    pub fn wait_at_most(&self, patience: Duration) {
        if !patience.is_zero() {
            let _before = self.0.patience.set((patience, Instant::now()));
        }
    }

    /// Returns true if runs wait for descriptions of their actions.
    pub fn is_waited_for(&self) -> bool {
        self.0.patience.get().is_some()
    }

    // RUN-2.6
    /// Returns once something is known of each of these actions, or once that is waited for no longer.
    pub(crate) async fn known(&self, actions: &[String]) {
        let Some((patience, _)) = self.0.patience.get() else {
            return;
        };
        let (until, mut answered) = (Instant::now() + *patience, self.0.answered.subscribe());
        self.0.n_waiting.fetch_add(1, Ordering::SeqCst);
        let _leaves = Leaves(&self.0.n_waiting);
        self.0.wanted.notify_one();
        while !actions.iter().all(|action| self.is_known(action)) {
            // The sender lives as long as this.
            if timeout_at(until, answered.changed()).await.is_err() {
                return;
            }
        }
    }

    /// Returns the longest pause before the next query.
    pub(crate) fn interval(&self) -> Duration {
        match self.0.n_waiting.load(Ordering::SeqCst) {
            0 => ACTIONS_INTERVAL,
            _ => KNOWN_INTERVAL,
        }
    }

    /// Takes in what the store has of an action, at a start.
    pub(crate) fn recall(&self, action: &str, record: &[u8]) {
        let Ok(record) = v1::Action::decode(record) else {
            return;
        };
        let said = OfferedAction {
            description: record.description,
            input_schema: record.input_schema,
            traits: record.traits,
        };
        let mut all_said = self.0.said.write().unwrap_or_else(PoisonError::into_inner);
        all_said.actions.insert(action.to_owned(), said);
    }

    /// Takes some of the unsaved actions, each with its record for the store or `None`. They count as
    /// written.
    pub(crate) fn take_unsaved(&self) -> Vec<(String, Option<Bytes>)> {
        let mut said = self.0.said.write().unwrap_or_else(PoisonError::into_inner);
        let (mut taken, mut n_bytes) = (Vec::new(), 0);
        while taken.len() < SAVED_MAX
            && n_bytes < SAVED_BYTES
            && let Some(action) = said.unsaved.pop_first()
        {
            let record = said.actions.get(&action).map(OfferedAction::record);
            n_bytes += record.as_ref().map_or(0, Bytes::len);
            taken.push((action, record));
        }
        taken
    }

    /// Takes back actions that were not written.
    pub(crate) fn keep_unsaved(&self, actions: impl Iterator<Item = String>) {
        let mut said = self.0.said.write().unwrap_or_else(PoisonError::into_inner);
        said.unsaved.extend(actions);
    }

    /// A question is put now. Returns its number.
    pub(crate) fn ask(&self) -> u64 {
        self.0.asked.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// That question came to its end.
    pub(crate) fn answered(&self, number: u64) {
        self.0.answered.send_replace(number);
    }

    /// Returns once somebody waits for news.
    pub(crate) async fn wanted(&self) {
        self.0.wanted.notified().await;
    }

    pub(crate) fn offered(&self) -> Arc<Offered> {
        let offered = self.0.offered.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&offered)
    }
}
