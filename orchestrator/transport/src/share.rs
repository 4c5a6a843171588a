//! A number of equal things that tenants share: slots, bytes, places. Knows neither calls nor messages.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// Who shares with others: what one tenant takes counts together. `None`: there is nobody to share with.
pub type Tenant = Option<Arc<str>>;

/// With whom a call shares. Stands among the extensions of each request.
#[derive(Clone, Debug, Default)]
pub struct CallTenant(pub Tenant);

impl CallTenant {
    /// With whom the call of these extensions shares; with nobody if no connection has judged it.
    pub fn of(extensions: &tonic::Extensions) -> Tenant {
        extensions.get::<Self>().and_then(|tenant| tenant.0.clone())
    }
}

/// Reason why something cannot be taken now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotFree {
    /// Others have it.
    AllTaken,
    /// The tenant has as much as it may while others may want some.
    PartTaken,
}

/// Who has how many, and who may have more.
#[derive(Debug)]
pub(crate) struct Ledger {
    n_max: usize,
    n_taken: usize,
    /// Of each tenant that has any.
    parts: HashMap<Arc<str>, usize>,
}

impl Ledger {
    pub(crate) fn new(n_max: usize) -> Self {
        Self {
            n_max,
            n_taken: 0,
            parts: HashMap::new(),
        }
    }

    /// How many nobody has.
    pub(crate) fn n_free(&self) -> usize {
        self.n_max - self.n_taken
    }

    /// How many are taken.
    #[cfg(test)]
    pub(crate) fn n_taken(&self) -> usize {
        self.n_taken
    }

    /// A tenant has at most as many as it leaves free: so one alone has half of them, two have a third each, and there is always one
    /// for a tenant that comes.
    ///
    /// # Errors
    /// Why the tenant may not take so many more.
    pub(crate) fn check(&self, tenant: &Tenant, n: usize) -> Result<(), NotFree> {
        let part = tenant.as_ref().and_then(|tenant| self.parts.get(tenant));
        let n_after = part.copied().unwrap_or(0).saturating_add(n);
        match (n_after <= self.n_free(), part) {
            (true, _) => Ok(()),
            (false, Some(_)) => Err(NotFree::PartTaken),
            (false, None) => Err(NotFree::AllTaken),
        }
    }

    pub(crate) fn add(&mut self, tenant: &Tenant, n: usize) {
        self.n_taken += n;
        if let Some(tenant) = tenant {
            *self.parts.entry(Arc::clone(tenant)).or_default() += n;
        }
    }

    pub(crate) fn remove(&mut self, tenant: &Tenant, n: usize) {
        self.n_taken -= n;
        let Some(tenant) = tenant else { return };
        if let Some(part) = self.parts.get_mut(tenant) {
            *part -= n;
            if *part == 0 {
                self.parts.remove(tenant);
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn part_of(&self, tenant: &str) -> usize {
        self.parts.get(tenant).copied().unwrap_or(0)
    }

    #[cfg(test)]
    pub(crate) fn has_no_parts(&self) -> bool {
        self.parts.is_empty()
    }
}

/// So many things. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Share(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    ledger: Mutex<Ledger>,
    /// Tells those that wait that something was given back.
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
    /// So many things, all of them free.
    pub fn new(n_max: usize) -> Self {
        Self(Arc::new(Shared {
            ledger: Mutex::new(Ledger::new(n_max)),
            given_back: Notify::new(),
        }))
    }

    /// None of them, as a part that may grow.
    pub(crate) fn none(&self, tenant: &Tenant) -> SharePart {
        SharePart {
            share: self.clone(),
            tenant: tenant.clone(),
            n: 0,
        }
    }

    /// How many there are in all.
    pub(crate) fn n_max(&self) -> usize {
        self.ledger().n_max
    }

    /// How many are taken.
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

    /// The same, for a caller that can wait for so long.
    ///
    /// # Errors
    /// There were not so many for it in all that time.
    pub async fn wait(&self, tenant: &Tenant, n: usize, patience: Duration) -> Result<SharePart, NotFree> {
        let deadline = Instant::now() + patience;
        loop {
            // Heard from before the look on, so that nothing is missed between that and the wait.
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
