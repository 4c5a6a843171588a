//! Reports what becomes of runs and of their store to a listener. Counts nothing itself.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use escapement_runs::{Census, Counted};

/// Something that happened to runs or to their store.
#[derive(Clone, Debug)]
pub enum Happened {
    /// An entry says it, and is durable.
    Counted(Counted),
    /// This is how runs stand after a commit.
    Stands(Census),
    /// A commit was written and synced, in this time.
    Committed(Duration),
    /// True if the store takes writes, as its last commit found.
    TakesWrites(bool),
    /// A trigger had so many causes of a kind, durably: the words of a `Firing`.
    Fired {
        /// What kind of cause it was.
        kind: &'static str,
        /// What became of it.
        outcome: &'static str,
        /// How many there were.
        n: u32,
    },
}

/// Who is told. Cheap to clone.
#[derive(Clone, Default)]
pub struct Tally(Option<Arc<dyn Fn(Happened) + Send + Sync>>);

impl Tally {
    /// Tells this function, which must not wait: the thread of runs calls it.
    pub fn new(tell: impl Fn(Happened) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(tell)))
    }

    pub(crate) fn tell(&self, happened: Happened) {
        if let Some(tell) = &self.0 {
            tell(happened);
        }
    }
}

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tally").finish_non_exhaustive()
    }
}
