//! A small pool of store readers on blocking threads. Caches nothing.

use crate::limits::READERS_MAX;
use crate::status::Rejection;
use escapement_store::{Reader, Store, StoreFault};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;
use tracing::error;

/// The pool. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Readers {
    /// As many permits as readers, so that whoever holds one finds a reader in the list.
    permits: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Box<dyn Reader>>>>,
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
    /// [`StoreFault::Open`] where a connection cannot be had.
    pub(crate) fn open(store: &impl Store) -> Result<Self, StoreFault> {
        let idle = (0..READERS_MAX)
            .map(|_| store.reader())
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            permits: Arc::new(Semaphore::new(idle.len())),
            idle: Arc::new(Mutex::new(idle)),
        })
    }

    /// Reads on a blocking thread, once a reader is free.
    ///
    /// # Errors
    /// [`Rejection::RecordDamaged`] and [`Rejection::StoreUnreadable`].
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn Reader) -> Result<T, StoreFault> + Send + 'static,
    ) -> Result<T, Rejection> {
        let permit = Arc::clone(&self.permits)
            .acquire_owned()
            .await
            .expect("the semaphore is never closed");
        let idle = Arc::clone(&self.idle);
        let reading = tokio::task::spawn_blocking(move || {
            // Dropped in this order: the reader is back before its permit is.
            let _permit = permit;
            let reader = Borrowed::take(idle);
            read(reader.get())
        });
        match reading.await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(fault)) => Err(rejection(&fault)),
            Err(_panicked_or_stopping) => Err(Rejection::StoreUnreadable),
        }
    }
}

/// A reader that goes back into the list however its use ends.
struct Borrowed {
    reader: Option<Box<dyn Reader>>,
    idle: Arc<Mutex<Vec<Box<dyn Reader>>>>,
}

impl Borrowed {
    // A poisoned list is a list all the same: no reader is in it half.
    fn take(idle: Arc<Mutex<Vec<Box<dyn Reader>>>>) -> Self {
        let reader = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        assert!(reader.is_some(), "whoever holds a permit finds a reader");
        Self { reader, idle }
    }

    fn get(&self) -> &dyn Reader {
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

fn rejection(fault: &StoreFault) -> Rejection {
    error!(error = fault as &dyn std::error::Error, "store does not read");
    match fault {
        StoreFault::Corrupt { .. } | StoreFault::Gap { .. } => Rejection::RecordDamaged,
        StoreFault::Full(_)
        | StoreFault::Busy(_)
        | StoreFault::Fatal(_)
        | StoreFault::Open { .. }
        | StoreFault::Incompatible { .. }
        | StoreFault::Exists { .. }
        | StoreFault::Locked { .. } => Rejection::StoreUnreadable,
    }
}
