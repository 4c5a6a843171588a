//! What is not exported. Says so at the first time and at every doubling, so that a dead collector does not fill the log.

use crate::signal::Signal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tracing::warn;

/// How much of one signal was dropped. The clones count together.
#[derive(Clone, Debug)]
pub(crate) struct Losses {
    signal: Signal,
    dropped: Arc<AtomicU64>,
}

impl Losses {
    /// Nothing is dropped yet.
    pub(crate) fn of(signal: Signal) -> Self {
        Self {
            signal,
            dropped: Arc::default(),
        }
    }

    /// So many more are dropped.
    pub(crate) fn lost(&self, n: usize, why: &str) {
        let n = n as u64;
        let before = self.dropped.fetch_add(n, Ordering::Relaxed);
        let dropped = before + n;
        if n > 0 && dropped.ilog2() != before.checked_ilog2().unwrap_or(u32::MAX) {
            warn!(dropped, why, "{} are dropped", self.signal.as_str());
        }
    }

    pub(crate) fn signal(&self) -> Signal {
        self.signal
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}
