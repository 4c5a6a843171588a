//! Equal units that tenants share: slots or bytes.

use escapement_model::ledger::Ledger;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

pub use escapement_model::ledger::{NotFree, Tenant};

/// Tenant of a call, in the extensions of each request.
#[derive(Clone, Debug, Default)]
pub struct CallTenant(pub Tenant);

impl CallTenant {
    /// Returns the tenant of the call with these extensions; `None` before its connection has authorized it.
    pub fn of(extensions: &tonic::Extensions) -> Tenant {
        extensions.get::<Self>().and_then(|tenant| tenant.0.clone())
    }
}

/// So many things. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Share(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    ledger: Mutex<Ledger>,
    /// Notifies waiting calls of returned units.
    given_back: Notify,
}

/// Some of them. Given back on drop.
#[derive(Debug)]
pub struct SharePart {
    share: Share,
    tenant: Tenant,
    n: usize,
}

impl Share {
    /// Creates this many units, all free.
    pub fn new(n_max: usize) -> Self {
        Self(Arc::new(Shared {
            ledger: Mutex::new(Ledger::new(n_max)),
            given_back: Notify::new(),
        }))
    }

    /// Returns an empty part that may grow.
    pub(crate) fn none(&self, tenant: &Tenant) -> SharePart {
        SharePart {
            share: self.clone(),
            tenant: tenant.clone(),
            n: 0,
        }
    }

    /// Returns the number of all units.
    pub(crate) fn n_max(&self) -> usize {
        self.ledger().n_max()
    }

    /// Returns the number of taken units.
    #[cfg(test)]
    pub(crate) fn n_taken(&self) -> usize {
        self.ledger().n_taken()
    }

    /// Takes so many for the tenant.
    ///
    /// # Errors
    /// There are not so many for it now.
    pub fn take(&self, tenant: &Tenant, n: usize) -> Result<SharePart, NotFree> {
        let mut part = self.none(tenant);
        part.grow(n)?;
        Ok(part)
    }

    /// Takes units as well, for a caller that can wait for this long.
    ///
    /// # Errors
    /// There were not so many for it in all that time.
    pub async fn wait(&self, tenant: &Tenant, n: usize, patience: Duration) -> Result<SharePart, NotFree> {
        let deadline = Instant::now() + patience;
        loop {
            // Subscribed before the check, so that no notification is missed between that and the wait.
            let given_back = self.0.given_back.notified();
            let why = match self.take(tenant, n) {
                Ok(part) => return Ok(part),
                Err(why) => why,
            };
            if timeout_at(deadline, given_back).await.is_err() {
                return Err(why);
            }
        }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.0.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharePart {
    /// Takes so many more to these.
    ///
    /// # Errors
    /// There are not so many for the tenant now.
    pub(crate) fn grow(&mut self, n: usize) -> Result<(), NotFree> {
        if n == 0 {
            return Ok(());
        }
        let mut ledger = self.share.ledger();
        ledger.check(&self.tenant, n)?;
        ledger.add(&self.tenant, n);
        drop(ledger);
        self.n += n;
        Ok(())
    }

    /// Counts these as the tenant's from now on.
    ///
    /// # Errors
    /// It may not have so many more. They stay whose they were.
    pub(crate) fn make_of(&mut self, tenant: &Tenant) -> Result<(), NotFree> {
        if self.tenant == *tenant {
            return Ok(());
        }
        let mut ledger = self.share.ledger();
        ledger.remove(&self.tenant, self.n);
        let checked = ledger.check(tenant, self.n);
        if checked.is_ok() {
            self.tenant.clone_from(tenant);
        }
        ledger.add(&self.tenant, self.n);
        checked
    }

    /// Returns true for a part of this share.
    pub(crate) fn is_of(&self, share: &Share) -> bool {
        Arc::ptr_eq(&self.share.0, &share.0)
    }

    /// Gives `n` of these back.
    pub(crate) fn shrink(&mut self, n: usize) {
        self.n -= n;
        if n > 0 {
            self.share.ledger().remove(&self.tenant, n);
            self.share.0.given_back.notify_waiters();
        }
    }
}

impl Drop for SharePart {
    fn drop(&mut self) {
        self.shrink(self.n);
    }
}

#[cfg(test)]
mod tests;
