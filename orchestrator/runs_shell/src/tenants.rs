//! The tenant of the call that a task serves.

use escapement_model::ledger::Tenant;

tokio::task_local! {
    static TENANT: Tenant;
}

/// Serves a call as that tenant's: it counts as its own among the calls that wait for runs.
pub fn as_tenant<F: Future>(tenant: Tenant, serving: F) -> impl Future<Output = F::Output> {
    TENANT.scope(tenant, serving)
}

/// Returns the tenant of this task; `None` outside of calls. A task that a call spawns is outside, unless it is scoped again.
pub fn current_tenant() -> Tenant {
    TENANT.try_with(Clone::clone).unwrap_or_default()
}
