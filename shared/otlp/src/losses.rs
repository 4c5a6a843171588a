//! What is not exported. Says so at the first trace and at every doubling, so that a dead collector does not fill the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tracing::warn;

/// How many traces were dropped. The clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Losses(Arc<AtomicU64>);

impl Losses {
    /// So many more are dropped.
    pub(crate) fn lost(&self, n: usize, why: &str) {
        let n = n as u64;
        let before = self.0.fetch_add(n, Ordering::Relaxed);
        let dropped = before + n;
        if n > 0 && dropped.ilog2() != before.checked_ilog2().unwrap_or(u32::MAX) {
            warn!(dropped, why, "traces are dropped");
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
