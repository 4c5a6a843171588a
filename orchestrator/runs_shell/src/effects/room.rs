//! Room for executions, and for the bytes of what is being submitted.

use std::sync::Arc;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::limits::{CALL_UNIT_BYTES, SUBMITTED_BYTES_MAX};

#[derive(Debug)]
pub(super) struct Room {
    executions: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    freed: Arc<Notify>,
}

/// What an execution takes.
#[derive(Debug)]
pub(super) struct Place {
    execution: OwnedSemaphorePermit,
    submission: Submission,
}

/// What an execution takes until it is accepted.
#[derive(Debug)]
pub(super) struct Submission {
    bytes: Option<OwnedSemaphorePermit>,
    freed: Arc<Notify>,
}

impl Room {
    pub(super) fn new(max_executions: usize) -> Self {
        Self {
            executions: Arc::new(Semaphore::new(max_executions)),
            bytes: Arc::new(Semaphore::new(SUBMITTED_BYTES_MAX / CALL_UNIT_BYTES)),
            freed: Arc::new(Notify::new()),
        }
    }

    /// Returns a place for an execution with a request of so many bytes, if there is one now.
    pub(super) fn place(&self, n_bytes: usize) -> Option<Place> {
        let units = u32::try_from(n_bytes / CALL_UNIT_BYTES + 1).ok()?;
        let bytes = Arc::clone(&self.bytes).try_acquire_many_owned(units).ok()?;
        let execution = Arc::clone(&self.executions).try_acquire_owned().ok()?;
        Some(Place {
            execution,
            submission: Submission {
                bytes: Some(bytes),
                freed: Arc::clone(&self.freed),
            },
        })
    }

    /// Waits until bytes are free again.
    pub(super) async fn freed(&self) {
        self.freed.notified().await;
    }
}

impl Place {
    /// What it takes until it ends, and what until it is accepted.
    pub(super) fn split(self) -> (OwnedSemaphorePermit, Submission) {
        (self.execution, self.submission)
    }
}

impl Drop for Submission {
    fn drop(&mut self) {
        drop(self.bytes.take());
        self.freed.notify_one();
    }
}
