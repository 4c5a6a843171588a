//! A small pool of readers of the store of runs, on blocking threads. Caches nothing.

use std::sync::{Arc, Mutex, PoisonError};

use escapement_store::StoreFault;
use escapement_store::runs::{RunReader, RunStore};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::error;

use crate::error::CallError;
use crate::limits::{READERS_MAX, READERS_PATIENCE, READERS_QUEUE_MAX};

/// The pool. Cheap to clone.
#[derive(Clone)]
pub struct RunReaders {
    /// As many permits as readers, so that the holder of one finds a reader in the list.
    permits: Arc<Semaphore>,
    /// Places for those who wait for a reader, and for those who have one.
    places: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Box<dyn RunReader>>>>,
}

impl std::fmt::Debug for RunReaders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunReaders").finish_non_exhaustive()
    }
}

impl RunReaders {
    /// Opens the readers of a store.
    ///
    /// # Errors
    /// [`StoreFault::Open`] if a connection cannot be had.
    pub fn open(store: &dyn RunStore) -> Result<Self, StoreFault> {
        let idle = (0..READERS_MAX)
            .map(|_| store.reader())
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            permits: Arc::new(Semaphore::new(idle.len())),
            places: Arc::new(Semaphore::new(idle.len() + READERS_QUEUE_MAX)),
            idle: Arc::new(Mutex::new(idle)),
        })
    }

    /// Reads on a blocking thread, once a reader is free.
    ///
    /// # Errors
    /// [`CallError::Overloaded`] if too many wait or no reader gets free in time, [`CallError::Damaged`] and
    /// [`CallError::Store`] as the store fails.
    pub async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn RunReader) -> Result<T, StoreFault> + Send + 'static,
    ) -> Result<T, CallError> {
        self.with_reader(|reader| read(reader).map_err(|fault| of_fault(&fault)))
            .await
    }

    /// As [`RunReaders::read`], for what has errors of its own.
    pub(crate) async fn with_reader<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn RunReader) -> Result<T, CallError> + Send + 'static,
    ) -> Result<T, CallError> {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            return Err(CallError::Overloaded);
        };
        let permit = timeout(READERS_PATIENCE, Arc::clone(&self.permits).acquire_owned()).await;
        let permit = permit
            .map_err(|_| CallError::Overloaded)?
            .expect("the semaphore is never closed");
        let idle = Arc::clone(&self.idle);
        let reading = tokio::task::spawn_blocking(move || {
            // Dropped in this order: the reader is back before its permit is.
            let _permits = (permit, place);
            let reader = Borrowed::take(idle);
            read(reader.get())
        });
        // A reading that panics has met a content that is lost.
        reading.await.unwrap_or(Err(CallError::Store))
    }
}

/// What a fault of a reader means for its caller.
pub(crate) fn of_fault(fault: &StoreFault) -> CallError {
    error!(
        error = fault as &dyn std::error::Error,
        "store of runs does not read"
    );
    match fault {
        StoreFault::CorruptRun { .. } | StoreFault::CorruptDefinition { .. } => {
            CallError::Damaged(fault.to_string())
        }
        _ => CallError::Store,
    }
}

/// A reader that goes back into the list however its use ends.
struct Borrowed {
    reader: Option<Box<dyn RunReader>>,
    idle: Arc<Mutex<Vec<Box<dyn RunReader>>>>,
}

impl Borrowed {
    // A poisoned list is a list all the same: no reader is in it half.
    fn take(idle: Arc<Mutex<Vec<Box<dyn RunReader>>>>) -> Self {
        let reader = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        assert!(reader.is_some(), "the holder of a permit finds a reader");
        Self { reader, idle }
    }

    fn get(&self) -> &dyn RunReader {
        self.reader.as_deref().expect("there until it is dropped")
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(self.reader.take());
    }
}
