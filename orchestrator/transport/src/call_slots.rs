//! Slots for calls of one class. If all are taken, a call that is only half there gives its slot to the next one.
//! Knows no class.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Slots of one class. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct CallSlots(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    free: Arc<Semaphore>,
    half_sent: Mutex<HalfSent>,
}

/// Calls whose requests are not complete, oldest first.
#[derive(Debug, Default)]
struct HalfSent {
    by_age: BTreeMap<u64, Arc<Slot>>,
    n_so_far: u64,
}

/// What a call and its request share of a slot.
#[derive(Debug, Default)]
struct Slot(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// `None` once it is given back, or to another call.
    permit: Option<OwnedSemaphorePermit>,
    gave_way: bool,
    waker: Option<Waker>,
}

/// The slot of a call. Given back on drop.
#[derive(Debug)]
pub(crate) struct CallPermit(Arc<Slot>);

/// The request of a call while it is not complete. Its call may lose its slot meanwhile.
#[derive(Debug)]
pub(crate) struct PendingUpload {
    places: CallSlots,
    age: u64,
    slot: Arc<Slot>,
}

impl CallSlots {
    pub(crate) fn new(max: usize) -> Self {
        Self(Arc::new(Shared {
            free: Arc::new(Semaphore::new(max)),
            half_sent: Mutex::default(),
        }))
    }

    /// Returns a slot for one more call, `None` if every slot is taken by a call that is complete.
    pub(crate) fn take(&self) -> Option<(CallPermit, PendingUpload)> {
        let permit = self.permit()?;
        let slot = Arc::new(Slot::default());
        slot.state().permit = Some(permit);
        let mut half_sent = self.half_sent();
        half_sent.n_so_far += 1;
        let age = half_sent.n_so_far;
        half_sent.by_age.insert(age, Arc::clone(&slot));
        drop(half_sent);
        let incomplete = PendingUpload {
            places: self.clone(),
            age,
            slot: Arc::clone(&slot),
        };
        Some((CallPermit(slot), incomplete))
    }

    fn permit(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            if let Ok(permit) = Arc::clone(&self.0.free).try_acquire_owned() {
                return Some(permit);
            }
            // One that ended meanwhile has made a slot free by itself.
            if let Some(permit) = self.oldest_half_sent()?.give_way() {
                return Some(permit);
            }
        }
    }

    fn oldest_half_sent(&self) -> Option<Arc<Slot>> {
        self.half_sent().by_age.pop_first().map(|(_, slot)| slot)
    }

    fn half_sent(&self) -> MutexGuard<'_, HalfSent> {
        self.0.half_sent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Returns `None` if the call ended meanwhile and has given its slot back itself.
    fn give_way(&self) -> Option<OwnedSemaphorePermit> {
        let mut state = self.state();
        state.gave_way = true;
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
        state.permit.take()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingUpload {
    /// Ready once the call has lost its slot.
    pub(crate) fn poll_gave_way(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.slot.state();
        if state.gave_way {
            return Poll::Ready(());
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for PendingUpload {
    fn drop(&mut self) {
        self.places.half_sent().by_age.remove(&self.age);
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        let permit = self.0.state().permit.take();
        drop(permit);
    }
}
