//! Slots of executions, and the bytes of their submissions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::limits::{CALL_UNIT_BYTES, SUBMITTED_BYTES_MAX};

/// Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    executions: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    freed: Arc<Notify>,
    is_waited_for: Arc<AtomicBool>,
}

/// Slot of an execution with the bytes of its submission.
#[derive(Debug)]
pub(crate) struct Slot {
    execution: ExecutionSlot,
    submission: Submission,
}

/// Slot that is held until the execution ends.
#[derive(Debug)]
pub(crate) struct ExecutionSlot(#[expect(dead_code, reason = "given back on drop")] Returning);

/// Bytes that are held until the execution is accepted.
#[derive(Debug)]
pub(crate) struct Submission(#[expect(dead_code, reason = "given back on drop")] Returning);

/// Permit that notifies when it is released.
#[derive(Debug)]
struct Returning {
    permit: Option<OwnedSemaphorePermit>,
    freed: Arc<Notify>,
}

impl Slots {
    pub(crate) fn new(max_executions: usize) -> Self {
        Self {
            executions: Arc::new(Semaphore::new(max_executions)),
            bytes: Arc::new(Semaphore::new(SUBMITTED_BYTES_MAX / CALL_UNIT_BYTES)),
            freed: Arc::new(Notify::new()),
            is_waited_for: Arc::new(AtomicBool::new(false)),
        }
    }

    /// Records if attempts wait for a slot. Later attempts do not precede them.
    pub(crate) fn is_waited_for(&self, waits: bool) {
        self.is_waited_for.store(waits, Ordering::Release);
    }

    /// Returns a slot as [`Slots::take`] does, unless other attempts wait for a slot.
    pub(crate) fn take_at_once(&self, n_bytes: usize) -> Option<Slot> {
        match self.is_waited_for.load(Ordering::Acquire) {
            true => None,
            false => self.take(n_bytes),
        }
    }

    /// Returns a slot for an execution with a request of this size, if one is free.
    pub(crate) fn take(&self, n_bytes: usize) -> Option<Slot> {
        let units = u32::try_from(n_bytes / CALL_UNIT_BYTES + 1).ok()?;
        let bytes = Arc::clone(&self.bytes).try_acquire_many_owned(units).ok()?;
        let execution = Arc::clone(&self.executions).try_acquire_owned().ok()?;
        let returning = |permit| Returning {
            permit: Some(permit),
            freed: Arc::clone(&self.freed),
        };
        Some(Slot {
            execution: ExecutionSlot(returning(execution)),
            submission: Submission(returning(bytes)),
        })
    }

    /// Waits until a permit is released.
    pub(crate) async fn freed(&self) {
        self.freed.notified().await;
    }
}

impl Slot {
    /// Separates the slot from the bytes, which are released first.
    pub(crate) fn split(self) -> (ExecutionSlot, Submission) {
        (self.execution, self.submission)
    }
}

impl Drop for Returning {
    fn drop(&mut self) {
        drop(self.permit.take());
        self.freed.notify_one();
    }
}
