//! A small pool of readers of the store of runs, on blocking threads. Caches nothing.

use escapement_runs_host::{Basis, Deciding, DurableChanges};
use escapement_store::runs::{RunReader, RunStore};
use escapement_store::{Lending, StoreFault};
use tokio::time::timeout;
use tracing::error;

use crate::aside::{Aside, WorkOwner};
use crate::error::CallError;
use crate::limits::{LONG_READINGS_MAX, READERS_MAX, READERS_PATIENCE, READERS_QUEUE_MAX};
use crate::permits::{Permit, Permits};
use crate::tenants::current_tenant;

/// The pool. Cheap to clone.
#[derive(Clone)]
pub struct RunReaders {
    /// As many permits as readers, so that the holder of one finds a reader in the list.
    permits: Permits,
    /// For those who wait for a reader, and for those who have one.
    places: Permits,
    idle: Lending<dyn RunReader>,
    /// Threads for readings that take long, and as many readers: they leave the other readers free.
    long: Aside,
    idle_long: Lending<dyn RunReader>,
    /// Changes of definitions that a reader finds.
    changes: DurableChanges,
}

impl std::fmt::Debug for RunReaders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunReaders").finish_non_exhaustive()
    }
}

impl RunReaders {
    /// Opens the readers of a store whose definitions change so.
    ///
    /// # Errors
    /// [`StoreFault::Open`] if a connection cannot be had.
    pub fn open(store: &dyn RunStore, changes: DurableChanges) -> Result<Self, StoreFault> {
        let readers = |n| (0..n).map(|_| store.reader()).collect::<Result<Vec<_>, _>>();
        let idle = readers(READERS_MAX)?;
        Ok(Self {
            permits: Permits::in_turn(idle.len()),
            places: Permits::shared(READERS_MAX + READERS_QUEUE_MAX),
            idle: Lending::new(idle),
            long: Aside::new("long-readings", LONG_READINGS_MAX),
            idle_long: Lending::new(readers(LONG_READINGS_MAX)?),
            changes,
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

    /// Reads as [`RunReaders::read`] does, for calls that read or check many documents. They have threads of low priority,
    /// and each owner has one call in its turn.
    ///
    /// # Errors
    /// As [`RunReaders::read`].
    pub async fn read_long<T: Send + 'static>(
        &self,
        owner: WorkOwner,
        read: impl FnOnce(&dyn RunReader) -> Result<T, StoreFault> + Send + 'static,
    ) -> Result<T, CallError> {
        let place = self.place()?;
        let idle = self.idle_long.clone();
        let reading = self.long.run(owner, Some(READERS_PATIENCE), move || {
            let _place = place;
            let reader = idle.take();
            read(&*reader).map_err(|fault| of_fault(&fault))
        });
        reading.await?.unwrap_or(Err(CallError::Store))
    }

    /// Reads for a decision, and returns what it rests on; with an owner as [`RunReaders::read_long`] does.
    ///
    /// # Errors
    /// As [`RunReaders::read`].
    pub(crate) async fn decide<T: Send + 'static>(
        &self,
        owner: Option<WorkOwner>,
        decide: impl FnOnce(&Deciding<'_>) -> Result<T, StoreFault> + Send + 'static,
    ) -> Result<(T, Basis), CallError> {
        let changes = self.changes.clone();
        let read = move |reader: &dyn RunReader| {
            let deciding = Deciding::new(reader, &changes);
            Ok((decide(&deciding)?, deciding.basis()))
        };
        match owner {
            Some(owner) => self.read_long(owner, read).await,
            None => self.read(read).await,
        }
    }

    fn place(&self) -> Result<Permit, CallError> {
        self.places
            .take(&current_tenant(), 1)
            .ok_or(CallError::Overloaded)
    }

    /// As [`RunReaders::read`], for what has errors of its own.
    pub(crate) async fn with_reader<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn RunReader) -> Result<T, CallError> + Send + 'static,
    ) -> Result<T, CallError> {
        let place = self.place()?;
        let tenant = current_tenant();
        let permit = timeout(READERS_PATIENCE, self.permits.acquire(&tenant, 1)).await;
        let permit = permit.map_err(|_| CallError::Overloaded)?;
        let idle = self.idle.clone();
        let reading = tokio::task::spawn_blocking(move || {
            // Dropped in this order: the reader is back before its permit is.
            let _permits = (permit, place);
            let reader = idle.take();
            read(&*reader)
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
