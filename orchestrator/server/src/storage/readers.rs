//! A small pool of store readers on blocking threads. Caches nothing.

use crate::limits::{
    FEED_READERS_MAX, LISTING_READERS_MAX, READERS_MAX, READERS_PATIENCE, READERS_QUEUE_MAX,
    SUBMISSION_READERS_MAX, WATCH_READERS_MAX,
};
use crate::status::Rejection;
use escapement_store::{Lending, Reader, Store, StoreFault};
use escapement_transport::CallClass;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tracing::error;

/// The pool. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Readers {
    /// As many permits as readers, so that the holder of one finds a reader in the list.
    permits: Arc<Semaphore>,
    /// Slots for those who wait for a reader, and for those who have one.
    places: Arc<Semaphore>,
    listing: Arc<Semaphore>,
    watches: Arc<Semaphore>,
    submissions: Arc<Semaphore>,
    feeds: Arc<Semaphore>,
    idle: Lending<dyn Reader>,
}

/// What is read, and so how long it may wait for a reader and how many readers it may keep busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadClass {
    /// An execution for one answer.
    Answer,
    /// Many executions.
    List,
    /// The record of one execution for a watcher. Watches are bounded, so each waits for as long as it takes.
    Watch,
    /// What a repeated submission is answered with. Calls that hand in are bounded, so each waits for as long as it takes.
    Submission,
    /// What was settled, for a reader of events. These are bounded, so each waits for as long as it takes.
    Feed,
}

impl std::fmt::Debug for Readers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Readers").finish_non_exhaustive()
    }
}

impl Readers {
    /// Opens the readers of a store.
    ///
    /// # Errors
    /// [`StoreFault::Open`] if a connection cannot be had.
    pub(crate) fn open(store: &impl Store) -> Result<Self, StoreFault> {
        let idle = (0..READERS_MAX)
            .map(|_| store.reader())
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            permits: Arc::new(Semaphore::new(idle.len())),
            places: Arc::new(Semaphore::new(idle.len() + READERS_QUEUE_MAX)),
            listing: Arc::new(Semaphore::new(LISTING_READERS_MAX)),
            watches: Arc::new(Semaphore::new(WATCH_READERS_MAX)),
            submissions: Arc::new(Semaphore::new(SUBMISSION_READERS_MAX)),
            feeds: Arc::new(Semaphore::new(FEED_READERS_MAX)),
            idle: Lending::new(idle),
        })
    }

    /// Reads on a blocking thread, once a reader is free.
    ///
    /// # Errors
    /// [`Rejection::RecordDamaged`] and [`Rejection::StoreUnreadable`]; [`Rejection::Call`] if too many wait,
    /// or no reader gets free in time.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        reading: ReadClass,
        read: impl FnOnce(&dyn Reader) -> Result<T, StoreFault> + Send + 'static,
    ) -> Result<T, Rejection> {
        let permits = self.permits(reading).await?;
        let idle = self.idle.clone();
        let reading = tokio::task::spawn_blocking(move || {
            // Dropped in this order: the reader is back before its permit is.
            let _permits = permits;
            let reader = idle.take();
            read(&*reader)
        });
        match reading.await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(fault)) => Err(rejection(&fault)),
            Err(_panicked_or_stopping) => Err(Rejection::StoreUnreadable),
        }
    }

    /// The right to one reader, and what else is held as long.
    async fn permits(&self, reading: ReadClass) -> Result<Permits, Rejection> {
        let overloaded = || Rejection::overloaded(CallClass::Reads);
        let in_turn = async |own| {
            let own = permit(own).await;
            Ok([Some(permit(&self.permits).await), Some(own), None])
        };
        let own = match reading {
            ReadClass::Watch => return in_turn(&self.watches).await,
            ReadClass::Submission => return in_turn(&self.submissions).await,
            ReadClass::Feed => return in_turn(&self.feeds).await,
            ReadClass::Answer => None,
            ReadClass::List => Some(&self.listing),
        };
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            return Err(overloaded());
        };
        let waiting = async {
            let own = match own {
                Some(own) => Some(permit(own).await),
                None => None,
            };
            [Some(permit(&self.permits).await), own, Some(place)]
        };
        timeout(READERS_PATIENCE, waiting).await.map_err(|_| overloaded())
    }
}

/// For a reader, for its kind of reading, and for the place in the queue.
type Permits = [Option<OwnedSemaphorePermit>; 3];

async fn permit(semaphore: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    Arc::clone(semaphore)
        .acquire_owned()
        .await
        .expect("the semaphore is never closed")
}

fn rejection(fault: &StoreFault) -> Rejection {
    error!(error = fault as &dyn std::error::Error, "store does not read");
    match fault {
        StoreFault::Corrupt { .. }
        | StoreFault::CorruptRun { .. }
        | StoreFault::CorruptDefinition { .. }
        | StoreFault::Gap { .. }
        | StoreFault::Indexes { .. } => Rejection::RecordDamaged,
        StoreFault::Full(_)
        | StoreFault::Busy(_)
        | StoreFault::Fatal(_)
        | StoreFault::Open { .. }
        | StoreFault::Unwritable { .. }
        | StoreFault::Damaged { .. }
        | StoreFault::NoBackup { .. }
        | StoreFault::Unfinished { .. }
        | StoreFault::Incompatible { .. }
        | StoreFault::Exists { .. }
        | StoreFault::Locked { .. } => Rejection::StoreUnreadable,
    }
}
