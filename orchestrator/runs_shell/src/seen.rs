//! Actions that workers have offered. Remembered as long as the process lives.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

use crate::limits::SEEN_ACTIONS_MAX;

/// Actions that workers have offered. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct SeenActions(Arc<RwLock<BTreeSet<String>>>);

impl SeenActions {
    /// True if a worker has offered the action since the start.
    pub fn contains(&self, action: &str) -> bool {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(action)
    }

    pub(crate) fn add(&self, action: &str) {
        if self.contains(action) {
            return;
        }
        let mut seen = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if seen.len() < SEEN_ACTIONS_MAX {
            seen.insert(action.to_owned());
        }
    }
}
