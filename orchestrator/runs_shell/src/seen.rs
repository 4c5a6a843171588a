//! What workers offer, as the contract told it last, and which actions they have ever offered. Remembered as long as the
//! process lives. Asks nobody itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use escapement_wire::v1;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::limits::{OFFERED_PATIENCE, OFFERED_TEXT_BYTES_MAX, SEEN_ACTIONS_MAX};

/// Actions that workers offer, or have offered. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct SeenActions(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    seen: RwLock<BTreeSet<String>>,
    offered: RwLock<Arc<Offered>>,
    /// Somebody waits for news.
    wanted: Notify,
    /// How often the contract was asked; 0 as long as nobody asks it.
    asked: AtomicU64,
    /// The last of these questions that came to its end.
    answered: watch::Sender<u64>,
}

/// Actions by name.
pub(crate) type Offered = BTreeMap<String, OfferedAction>;

/// What a worker said of an action.
#[derive(Clone, Debug, Default)]
pub(crate) struct OfferedAction {
    pub(crate) description: String,
    pub(crate) input_schema: String,
    pub(crate) traits: Option<v1::ActionTraits>,
}

impl OfferedAction {
    fn text_bytes(&self) -> usize {
        let traits = self.traits.as_ref().map_or(0, prost::Message::encoded_len);
        self.description.len() + self.input_schema.len() + traits
    }
}

impl SeenActions {
    /// True if a worker has offered the action since the start.
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
        let before = self.offered();
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
            // The contract remembers its name for a while, and not what was said of it.
            if action.workers == 0 {
                said = before.get(&action.name).cloned().unwrap_or(said);
            }
            text_bytes += said.text_bytes();
            if text_bytes > OFFERED_TEXT_BYTES_MAX {
                said = OfferedAction::default();
            }
            offered.insert(action.name, said);
        }
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

    /// As [`SeenActions::refresh`], if one of these actions is not known to be offered.
    pub async fn refresh_for(&self, actions: &BTreeSet<&str>) {
        let offered = self.offered();
        if !actions.iter().all(|action| offered.contains_key(*action)) {
            self.refresh().await;
        }
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
