//! Who wants to know that something of a run became durable. Holds no entry of a journal.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use escapement_model::RunId;
use tokio::sync::watch;

use crate::error::CallError;

/// All who follow. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Follows(Arc<Mutex<Option<Followed>>>);

/// `None` once nothing comes any more: then the senders are gone, and who waits for them hears of it.
#[derive(Debug)]
struct Followed {
    /// The last durable entry of each run that somebody follows, as far as it moved since.
    runs: BTreeMap<RunId, watch::Sender<u64>>,
    /// Counts the commits in which a request was opened or closed.
    requests: watch::Sender<u64>,
    /// Counts the commits with notices.
    notices: watch::Sender<u64>,
    /// Counts the runs that ended.
    endings: watch::Sender<u64>,
}

impl Follows {
    pub(crate) fn new() -> Self {
        let followed = Followed {
            runs: BTreeMap::new(),
            requests: watch::Sender::new(0),
            notices: watch::Sender::new(0),
            endings: watch::Sender::new(0),
        };
        Self(Arc::new(Mutex::new(Some(followed))))
    }

    pub(crate) fn follow(&self, run_id: RunId) -> Follow {
        let last = match &mut *self.lock() {
            Some(followed) => {
                let last = followed.runs.entry(run_id);
                last.or_insert_with(|| watch::Sender::new(0)).subscribe()
            }
            None => closed(),
        };
        Follow {
            run_id,
            last,
            follows: self.clone(),
        }
    }

    pub(crate) fn follow_requests(&self) -> FollowAll {
        let commits = match &*self.lock() {
            Some(followed) => followed.requests.subscribe(),
            None => closed(),
        };
        FollowAll { commits }
    }

    pub(crate) fn follow_notices(&self) -> FollowAll {
        let commits = match &*self.lock() {
            Some(followed) => followed.notices.subscribe(),
            None => closed(),
        };
        FollowAll { commits }
    }

    pub(crate) fn endings(&self) -> watch::Receiver<u64> {
        match &*self.lock() {
            Some(followed) => followed.endings.subscribe(),
            None => closed(),
        }
    }

    /// The run's entries are durable up to that one.
    pub(crate) fn run_moved(&self, run_id: RunId, last_sequence: u64) {
        if let Some(followed) = &*self.lock()
            && let Some(last) = followed.runs.get(&run_id)
        {
            last.send_replace(last_sequence);
        }
    }

    /// Requests were opened or closed, durably.
    pub(crate) fn requests_moved(&self) {
        if let Some(followed) = &*self.lock() {
            followed.requests.send_modify(|commits| *commits += 1);
        }
    }

    /// Users were told something, durably.
    pub(crate) fn notices_moved(&self) {
        if let Some(followed) = &*self.lock() {
            followed.notices.send_modify(|commits| *commits += 1);
        }
    }

    /// So many runs ended, durably.
    pub(crate) fn runs_ended(&self, count: u64) {
        if let Some(followed) = &*self.lock() {
            followed.endings.send_modify(|ended| *ended += count);
        }
    }

    /// Everybody hears that nothing comes any more.
    pub(crate) fn stop(&self) {
        *self.lock() = None;
    }

    // Each change under the lock is complete, so a poisoned one is a lock all the same.
    fn lock(&self) -> MutexGuard<'_, Option<Followed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Its sender is gone.
fn closed() -> watch::Receiver<u64> {
    watch::Sender::new(0).subscribe()
}

/// Follows one run. Made before the run is looked at, it misses nothing that comes after the look.
#[derive(Debug)]
pub struct Follow {
    run_id: RunId,
    last: watch::Receiver<u64>,
    follows: Follows,
}

impl Follow {
    /// Waits until a further entry of the run is durable, and returns the number of the last one.
    ///
    /// # Errors
    /// [`CallError::Stopping`] if the process stops.
    pub async fn moved(&mut self) -> Result<u64, CallError> {
        self.last.changed().await.map_err(|_| CallError::Stopping)?;
        Ok(*self.last.borrow_and_update())
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        // This one is a receiver still.
        let is_last = |last: &watch::Sender<u64>| last.receiver_count() <= 1;
        if let Some(followed) = &mut *self.follows.lock()
            && followed.runs.get(&self.run_id).is_some_and(is_last)
        {
            followed.runs.remove(&self.run_id);
        }
    }
}

/// Follows the requests, or the notices, of all runs. Made before they are looked at, it misses nothing that comes after the look.
#[derive(Debug)]
pub struct FollowAll {
    commits: watch::Receiver<u64>,
}

impl FollowAll {
    /// Waits until something of the kind became durable.
    ///
    /// # Errors
    /// [`CallError::Stopping`] if the process stops.
    pub async fn moved(&mut self) -> Result<(), CallError> {
        self.commits.changed().await.map_err(|_| CallError::Stopping)
    }
}
