//! Which runs live, durably: nothing is begun for one that has ended. Knows no state of a run.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

use escapement_model::RunId;
use escapement_store::runs::RunWrite;

/// The runs that live. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveRuns(Arc<RwLock<BTreeSet<RunId>>>);

impl LiveRuns {
    pub(crate) fn of(ids: impl Iterator<Item = RunId>) -> Self {
        Self(Arc::new(RwLock::new(ids.collect())))
    }

    pub(crate) fn contains(&self, run_id: RunId) -> bool {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(&run_id)
    }

    /// The run does not go on.
    pub(crate) fn set_aside(&self, run_id: RunId) {
        self.0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&run_id);
    }

    /// These writes are durable.
    pub(crate) fn written(&self, writes: &[RunWrite]) {
        let is_news = |write: &&RunWrite| write.created.is_some() || write.progress.ended_at.is_some();
        let mut news = writes.iter().filter(is_news).peekable();
        if news.peek().is_none() {
            return;
        }
        let mut live = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for write in news {
            match write.progress.ended_at {
                Some(_) => live.remove(&write.run_id),
                None => live.insert(write.run_id),
            };
        }
    }
}
