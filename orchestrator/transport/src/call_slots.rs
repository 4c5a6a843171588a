//! Slots for calls of one class, and the share of one tenant. If none is free for a call, a call whose request is incomplete
//! loses its slot to it.

use crate::share::{NotFree, Tenant};
use escapement_model::ledger::Ledger;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Slots of one class. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct CallSlots(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    taken: Mutex<Taken>,
}

#[derive(Debug)]
struct Taken {
    open: Ledger,
    /// Calls with incomplete requests, by tenant.
    half_sent_of: HashMap<Arc<str>, BTreeSet<u64>>,
    /// Calls whose requests are not complete, oldest first.
    half_sent: BTreeMap<u64, Arc<Slot>>,
    n_so_far: u64,
}

/// State that a call and its request share of a slot.
#[derive(Debug)]
struct Slot {
    age: u64,
    tenant: Tenant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// False once it is given back, or to another call.
    is_held: bool,
    gave_way: bool,
    waker: Option<Waker>,
}

/// The slot of a call. Given back on drop.
#[derive(Debug)]
pub(crate) struct CallPermit {
    slots: CallSlots,
    slot: Arc<Slot>,
}

/// The request of a call while it is not complete. Its call may lose its slot in the meantime.
#[derive(Debug)]
pub(crate) struct PendingUpload {
    slots: CallSlots,
    slot: Arc<Slot>,
}

impl CallSlots {
    pub(crate) fn new(n_max: usize) -> Self {
        Self(Arc::new(Shared {
            taken: Mutex::new(Taken {
                open: Ledger::new(n_max),
                half_sent_of: HashMap::new(),
                half_sent: BTreeMap::new(),
                n_so_far: 0,
            }),
        }))
    }

    /// Returns a slot for one more call of the tenant, which has at most as many as are free. One tenant alone has half of them,
    /// two have a third each, and a new tenant always finds one. A tenant that has its share loses its own oldest call
    /// with an incomplete request.
    ///
    /// # Errors
    /// All of these are taken by calls that are complete.
    pub(crate) fn take(&self, tenant: Tenant) -> Result<(CallPermit, PendingUpload), NotFree> {
        let mut taken = self.taken();
        let given_up = match taken.open.check(&tenant, 1) {
            Ok(()) => None,
            Err(why @ NotFree::PartTaken) => {
                let own = tenant.as_ref().and_then(|tenant| taken.half_sent_of.get(tenant));
                Some(*own.and_then(BTreeSet::first).ok_or(why)?)
            }
            Err(why @ NotFree::AllTaken) => Some(*taken.half_sent.first_key_value().ok_or(why)?.0),
        };
        let given_up = given_up.and_then(|age| taken.half_sent.get(&age).cloned());
        if let Some(slot) = &given_up {
            taken.complete(slot);
            taken.release(slot);
        }
        let slot = taken.add(tenant);
        drop(taken);
        if let Some(slot) = given_up {
            slot.give_way();
        }
        let permit = CallPermit {
            slots: self.clone(),
            slot: Arc::clone(&slot),
        };
        let upload = PendingUpload {
            slots: self.clone(),
            slot,
        };
        Ok((permit, upload))
    }

    /// Returns how many the tenant has.
    pub(crate) fn part_of(&self, tenant: &str) -> usize {
        self.taken().open.part_of(tenant)
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    fn add(&mut self, tenant: Tenant) -> Arc<Slot> {
        self.n_so_far += 1;
        self.open.add(&tenant, 1);
        let age = self.n_so_far;
        if let Some(tenant) = &tenant {
            let own = self.half_sent_of.entry(Arc::clone(tenant)).or_default();
            own.insert(age);
        }
        let slot = Arc::new(Slot {
            age,
            tenant,
            state: Mutex::new(State {
                is_held: true,
                gave_way: false,
                waker: None,
            }),
        });
        self.half_sent.insert(age, Arc::clone(&slot));
        slot
    }

    /// Records that the request is complete.
    fn complete(&mut self, slot: &Slot) {
        self.half_sent.remove(&slot.age);
        let Some(tenant) = &slot.tenant else { return };
        if let Some(own) = self.half_sent_of.get_mut(tenant) {
            own.remove(&slot.age);
            if own.is_empty() {
                self.half_sent_of.remove(tenant);
            }
        }
    }

    /// Makes the slot free, unless it was given back before.
    fn release(&mut self, slot: &Slot) {
        let mut state = slot.state();
        if !state.is_held {
            return;
        }
        state.is_held = false;
        self.open.remove(&slot.tenant, 1);
    }
}

impl Slot {
    fn give_way(&self) {
        let mut state = self.state();
        state.gave_way = true;
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingUpload {
    /// Resolves once the call has lost its slot.
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
        self.slots.taken().complete(&self.slot);
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        let mut taken = self.slots.taken();
        taken.complete(&self.slot);
        taken.release(&self.slot);
    }
}

#[cfg(test)]
mod tests;
