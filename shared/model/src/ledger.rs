//! Counts of equal things that tenants share by one rule.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

/// Name under which the things of one tenant count together; `None` without a policy.
pub type Tenant = Option<Arc<str>>;

/// Reason for which something cannot be taken now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotFree {
    /// Other tenants have it.
    AllTaken,
    /// The tenant has as much as it may while others may want some.
    PartTaken,
}

/// Number of things in all, and of each tenant.
#[derive(Debug)]
pub struct Ledger {
    n_max: usize,
    n_taken: usize,
    /// Number for each tenant that has any.
    parts: BTreeMap<Arc<str>, usize>,
}

impl Ledger {
    /// Creates the counts of so many free things.
    pub fn new(n_max: usize) -> Self {
        Self {
            n_max,
            n_taken: 0,
            parts: BTreeMap::new(),
        }
    }

    /// Returns the number of all things.
    pub fn n_max(&self) -> usize {
        self.n_max
    }

    /// Returns the number of free things.
    pub fn n_free(&self) -> usize {
        self.n_max - self.n_taken
    }

    /// Returns the number of taken things.
    pub fn n_taken(&self) -> usize {
        self.n_taken
    }

    /// Checks whether a tenant may take so many more: it has at most as many as it leaves free.
    /// One tenant alone has half of them, and two have a third each.
    ///
    /// # Errors
    /// Reason for which the tenant may not take so many more.
    pub fn check(&self, tenant: &Tenant, n: usize) -> Result<(), NotFree> {
        let part = tenant.as_ref().and_then(|tenant| self.parts.get(tenant));
        let n_after = part.copied().unwrap_or(0).saturating_add(n);
        match (n_after <= self.n_free(), part) {
            (true, _) => Ok(()),
            (false, Some(_)) => Err(NotFree::PartTaken),
            (false, None) => Err(NotFree::AllTaken),
        }
    }

    /// Notes that the tenant takes so many more.
    pub fn add(&mut self, tenant: &Tenant, n: usize) {
        self.n_taken += n;
        if let Some(tenant) = tenant {
            *self.parts.entry(Arc::clone(tenant)).or_default() += n;
        }
    }

    /// Notes that the tenant gives so many back.
    pub fn remove(&mut self, tenant: &Tenant, n: usize) {
        self.n_taken -= n;
        let Some(tenant) = tenant else { return };
        if let Some(part) = self.parts.get_mut(tenant) {
            *part -= n;
            if *part == 0 {
                self.parts.remove(tenant);
            }
        }
    }

    /// Returns how many the tenant has.
    pub fn part_of(&self, tenant: &str) -> usize {
        self.parts.get(tenant).copied().unwrap_or(0)
    }

    /// Returns true if no tenant has any.
    pub fn has_no_parts(&self) -> bool {
        self.parts.is_empty()
    }
}
