//! Readings that wait for their place. Read nothing themselves.

use super::Runs;
use crate::errors::Rejection;
use crate::views::{Detail, run_view};
use escapement_model::RunId;
use escapement_runs_shell::CallError;
use escapement_transport::share::{SharePart, Tenant};
use escapement_wire::runs::v1;
use std::time::Duration;
use tokio::time::{sleep, timeout};

impl Runs {
    /// Acquires one of the few permits for queries that read much of the store.
    ///
    /// # Errors
    /// If this tenant got no permit within the timeout.
    pub(super) async fn heavy_place(&self, tenant: &Tenant) -> Result<SharePart, Rejection> {
        let place = self.heavy.wait(tenant, 1, HEAVY_PATIENCE).await;
        place.map_err(|_| Rejection::Call(CallError::Overloaded))
    }

    /// Tells how a run stands that a call has just changed. Waits for its place; without one, the answer is not one that says
    /// that nothing changed.
    pub(super) async fn look_afterwards(&self, run_id: RunId) -> Result<v1::Run, Rejection> {
        let view = || self.look(run_id, |run, blobs| run_view(run, blobs, Detail::Usual));
        self.afterwards(run_id, view).await
    }

    /// As [`Runs::look_afterwards`], for any look.
    pub(super) async fn afterwards<T, F: Future<Output = Result<T, Rejection>>>(
        &self,
        run_id: RunId,
        look: impl Fn() -> F,
    ) -> Result<T, Rejection> {
        let seen = timeout(AFTERWARDS_PATIENCE, patiently(look)).await;
        seen.unwrap_or(Err(Rejection::OfRun(run_id, CallError::Store)))
    }

    /// Asks once it is the turn of this one among all who watch and wait.
    pub(super) async fn in_turn<T, F: Future<Output = Result<T, Rejection>>>(
        &self,
        ask: impl Fn() -> F,
    ) -> Result<T, Rejection> {
        let _turn = self.turns.acquire().await.expect("the semaphore is never closed");
        patiently(ask).await
    }
}

/// Asks again until there is a place.
async fn patiently<T, F: Future<Output = Result<T, Rejection>>>(ask: impl Fn() -> F) -> Result<T, Rejection> {
    loop {
        match ask().await {
            Err(Rejection::Call(CallError::Overloaded) | Rejection::OfRun(_, CallError::Overloaded)) => {
                sleep(PLACE_PAUSE).await;
            }
            answer => return answer,
        }
    }
}

/// Pause before what found no place asks again.
const PLACE_PAUSE: Duration = Duration::from_millis(50);
/// How long a call that changed something waits for its answer.
const AFTERWARDS_PATIENCE: Duration = Duration::from_secs(30);
/// Timeout after which a query that reads much of the store is refused without a permit.
const HEAVY_PATIENCE: Duration = Duration::from_secs(10);
