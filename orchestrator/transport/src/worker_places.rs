//! Slots of workers by the clock, also for a time after a broken connection. A session is known by its instance only.

use escapement_access::{Denial, InstanceOwners, Principal};
use escapement_model::InstanceId;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// The slots of all workers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct WorkerPlaces(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    owners: Mutex<InstanceOwners>,
    began: Instant,
    lease_ms: u64,
}

/// The slot of an instance with a session; dropped when the session is over.
#[derive(Debug)]
pub struct WorkerPlace {
    places: WorkerPlaces,
    instance_id: InstanceId,
    is_kept: bool,
}

impl WorkerPlaces {
    /// Places that are kept for a lease after a session that broke.
    pub fn new(lease_ms: u64) -> Self {
        Self(Arc::new(Shared {
            owners: Mutex::default(),
            began: Instant::now(),
            lease_ms,
        }))
    }

    /// Gives the instance a slot, or the one that it has.
    ///
    /// # Errors
    /// As [`InstanceOwners::begin`].
    pub fn begin(&self, instance_id: InstanceId, principal: &Principal) -> Result<WorkerPlace, Denial> {
        self.owners().begin(instance_id, principal, self.now_ms())?;
        Ok(WorkerPlace {
            places: self.clone(),
            instance_id,
            is_kept: true,
        })
    }

    /// Returns the owners of the instances.
    pub fn owners(&self) -> MutexGuard<'_, InstanceOwners> {
        self.0.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.0.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl WorkerPlace {
    /// Releases the slot of a worker that has left in good order, so that another one may come at once.
    pub fn give_up(mut self) {
        self.is_kept = false;
    }
}

impl Drop for WorkerPlace {
    fn drop(&mut self) {
        let until_ms = self.places.now_ms().saturating_add(self.places.0.lease_ms);
        let keep_until_ms = self.is_kept.then_some(until_ms);
        self.places.owners().end(self.instance_id, keep_until_ms);
    }
}
