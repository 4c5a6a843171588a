//! Permits that tenants share. Calls wait for them tenant by tenant in turn, each in the order in which it came.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use escapement_model::ledger::{Ledger, Tenant};
use tokio::sync::oneshot;

use crate::turns::Turns;

/// So many permits. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Permits(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// False if one tenant may have all.
    has_shares: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    ledger: Ledger,
    waiting: Turns<Tenant, Waiting>,
}

/// Call that waits.
#[derive(Debug)]
struct Waiting {
    n: usize,
    give: oneshot::Sender<Permit>,
}

/// Some of the permits. Given back on drop.
#[derive(Debug)]
pub(crate) struct Permit {
    permits: Permits,
    /// `None` without shares.
    tenant: Tenant,
    n: usize,
}

impl Permits {
    /// Creates permits of which each tenant has at most as many as are free: one alone has half of them.
    pub(crate) fn shared(n_max: usize) -> Self {
        Self::new(n_max, true)
    }

    /// Creates permits of which one tenant may have all. Those that wait have them in turn.
    pub(crate) fn in_turn(n_max: usize) -> Self {
        Self::new(n_max, false)
    }

    fn new(n_max: usize, has_shares: bool) -> Self {
        let state = Mutex::new(State {
            ledger: Ledger::new(n_max),
            waiting: Turns::new(),
        });
        Self(Arc::new(Shared { has_shares, state }))
    }

    /// Takes permits at once; `None` if the tenant may not have so many now.
    pub(crate) fn take(&self, tenant: &Tenant, n: usize) -> Option<Permit> {
        let mut state = self.state();
        self.may_have(&state, tenant, n)
            .then(|| self.taken(&mut state, tenant, n))
    }

    /// Takes permits once the tenant has its turn and may have so many. A caller that stops waiting gets none.
    pub(crate) async fn acquire(&self, tenant: &Tenant, n: usize) -> Permit {
        let given = {
            let mut state = self.state();
            if !state.waiting.has(tenant) && self.may_have(&state, tenant, n) {
                return self.taken(&mut state, tenant, n);
            }
            let (give, given) = oneshot::channel();
            state.waiting.push(tenant.clone(), Waiting { n, give });
            given
        };
        given.await.expect("a call that waits is never dropped")
    }

    /// Gives what is free to those whose turn it is.
    fn hand_on(&self) {
        loop {
            let mut state = self.state();
            let State { ledger, waiting } = &mut *state;
            let next = waiting.pop_if(|tenant, call| {
                call.give.is_closed() || ledger.check(&self.counted(tenant), call.n).is_ok()
            });
            let Some((tenant, call)) = next else { return };
            if call.give.is_closed() {
                continue;
            }
            let permit = self.taken(&mut state, &tenant, call.n);
            drop(state);
            // A caller that has just stopped waiting gives it back.
            let _gave_up = call.give.send(permit);
        }
    }

    fn may_have(&self, state: &State, tenant: &Tenant, n: usize) -> bool {
        state.ledger.check(&self.counted(tenant), n).is_ok()
    }

    fn taken(&self, state: &mut State, tenant: &Tenant, n: usize) -> Permit {
        let tenant = self.counted(tenant);
        state.ledger.add(&tenant, n);
        Permit {
            permits: self.clone(),
            tenant,
            n,
        }
    }

    fn counted(&self, tenant: &Tenant) -> Tenant {
        tenant.clone().filter(|_| self.0.has_shares)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.permits.state().ledger.remove(&self.tenant, self.n);
        self.permits.hand_on();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    /// Polls a future as a task that is not woken.
    fn poll_once<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    fn tenant(name: &str) -> Tenant {
        Some(name.into())
    }

    #[test]
    fn a_tenant_with_its_share_leaves_permits_to_others() {
        let permits = Permits::shared(8);
        let held: Vec<Permit> = std::iter::from_fn(|| permits.take(&tenant("many"), 1)).collect();
        assert_eq!(held.len(), 4);
        let mut waiting = Box::pin(async { permits.acquire(&tenant("many"), 1).await });
        assert!(poll_once(waiting.as_mut()).is_none());
        let other = poll_once(Box::pin(async { permits.acquire(&tenant("other"), 1).await }).as_mut());
        assert!(other.is_some(), "the other one does not wait");
        drop(held);
        assert!(poll_once(waiting.as_mut()).is_some());
    }

    #[test]
    fn tenants_have_permits_in_turn() {
        let permits = Permits::in_turn(1);
        let held = permits.take(&tenant("many"), 1).expect("all are free");
        let names = ["many", "many", "left", "other"];
        let mut calls: Vec<_> = names
            .map(|name| {
                Box::pin({
                    let permits = permits.clone();
                    async move { permits.acquire(&tenant(name), 1).await }
                })
            })
            .into_iter()
            .map(Some)
            .collect();
        for call in calls.iter_mut().flatten() {
            assert!(poll_once(call.as_mut()).is_none());
        }
        calls[2] = None;
        drop(held);
        let mut order = Vec::new();
        while order.len() < 3 {
            let before = order.len();
            for n in [0, 1, 3] {
                if let Some(call) = &mut calls[n]
                    && let Some(permit) = poll_once(call.as_mut())
                {
                    calls[n] = None;
                    order.push(n);
                    drop(permit);
                    break;
                }
            }
            assert!(order.len() > before, "one has its turn: {order:?}");
        }
        assert_eq!(order, [0, 3, 1]);
    }
}
