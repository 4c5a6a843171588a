//! Directories of workers whose actions read and write files: steps that pass files on need the same one. Only warns.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tracing::warn;

/// The directories of all sessions. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct WorkerRoots(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    last: u64,
    sessions: BTreeMap<u64, Seen>,
}

#[derive(Debug)]
struct Seen {
    root: String,
    worker_id: String,
}

/// Lets the directory of a session count until it is dropped.
#[derive(Debug)]
pub struct CountedRoot {
    roots: WorkerRoots,
    number: u64,
}

impl WorkerRoots {
    /// Counts the directory of a session that begins, and warns if another worker sees another one.
    pub fn begin(&self, root: Option<&str>, worker_id: &str) -> Option<CountedRoot> {
        let (counted, other) = self.enter(root?, worker_id);
        if let Some(other) = other {
            warn!(
                worker_id,
                other,
                "workers that offer file.read see different directories; a file that a step writes may not be found by the next one"
            );
        }
        Some(counted)
    }

    /// Returns the worker that came first of those that see another directory.
    fn enter(&self, root: &str, worker_id: &str) -> (CountedRoot, Option<String>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let other = state.sessions.values().find(|seen| seen.root != root);
        let other = other.map(|seen| seen.worker_id.clone());
        state.last += 1;
        let number = state.last;
        let seen = Seen {
            root: root.to_owned(),
            worker_id: worker_id.to_owned(),
        };
        state.sessions.insert(number, seen);
        let roots = self.clone();
        (CountedRoot { roots, number }, other)
    }
}

impl Drop for CountedRoot {
    fn drop(&mut self) {
        let mut state = self.roots.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.sessions.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::WorkerRoots;

    #[test]
    fn another_directory_is_one_of_a_session_that_lasts() {
        let roots = WorkerRoots::default();
        let (first, none) = roots.enter("one", "a");
        let (_second, same) = roots.enter("one", "b");
        assert_eq!((none, same), (None, None));
        let (third, other) = roots.enter("two", "c");
        assert_eq!(other.as_deref(), Some("a"));
        drop(first);
        assert_eq!(roots.enter("two", "d").1.as_deref(), Some("b"));
        drop(third);
        assert_eq!(roots.enter("one", "e").1, None);
        assert!(roots.begin(None, "f").is_none());
    }
}
