//! What an orchestrator process holds. Says nothing about memory.

use crate::arena::Arena;

/// Counts at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Leaks {
    pub(crate) n_sessions: usize,
    n_descriptors: usize,
    n_threads: usize,
}

impl Leaks {
    pub(crate) async fn now(arena: &Arena) -> Self {
        let count = |folder: &str| {
            let path = format!("/proc/{}/{folder}", arena.orchestrator.process.id());
            std::fs::read_dir(path).unwrap().count()
        };
        Self {
            n_sessions: arena.workers().await.len(),
            n_descriptors: count("fd"),
            n_threads: count("task"),
        }
    }

    /// Nothing is left beyond what was there before.
    pub(crate) fn are_within(self, before: Self) -> bool {
        self.n_sessions <= before.n_sessions
            && self.n_descriptors <= before.n_descriptors
            && self.n_threads <= before.n_threads + KEPT_THREADS_MAX
    }
}

/// Each of three runtimes keeps the threads for blocking calls that it once had: 16 at most.
const KEPT_THREADS_MAX: usize = 3 * 16;
