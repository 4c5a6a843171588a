//! Triggers: what callers make of them, when they fire, and what becomes of that. The law is the crate `triggers`.
//! Evaluates expressions, keeps what is due in one structure, and writes through the thread of runs alone.

mod clockwork;
mod events;
mod firing;
mod index;
mod looks;
mod probes;
mod reading;
mod record;
mod samples;
pub(crate) mod saving;
mod service;
mod tenants;
#[cfg(test)]
mod tests;
pub mod turns;
mod webhooks;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use escapement_runs_host::EventKind;
use escapement_runs_shell::{CallError, Clock};
use escapement_store::runs::Definition;
use tokio::sync::{Mutex as AsyncMutex, Notify, OnceCell};

use crate::run_service::Runs;
use index::Index;
use record::{Kept, trigger};

pub(crate) use record::{CompletedGoal, is_of};
pub(crate) use webhooks::source_of;
pub use webhooks::{Delivered, Delivery, parse_source};

/// The service, and what fires triggers. Cheap to clone.
#[derive(Clone)]
pub struct Triggers(Arc<Shared>);

struct Shared {
    /// Makes runs.
    maker: Runs,
    index: Mutex<Index>,
    /// Set once the index holds all triggers.
    loaded: OnceCell<()>,
    /// The events that runs were told to keep; until then they keep all. Held while a trigger is read and taken into the index, so
    /// that nothing older takes the place of what is newer.
    wanted: AsyncMutex<Option<BTreeSet<EventKind>>>,
    /// Told if something is due earlier.
    changed: Notify,
    /// Deliveries that were not believed.
    n_refused: AtomicU64,
    /// Lead of the wall clock over the clock of runs when the due times were last computed, milliseconds.
    wall_ahead_ms: AtomicI64,
}

impl std::fmt::Debug for Triggers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Triggers").finish_non_exhaustive()
    }
}

impl Triggers {
    /// Starts runs as this service makes them. Nothing fires by itself without [`Triggers::serve`].
    pub fn new(maker: Runs) -> Self {
        Self(Arc::new(Shared {
            maker,
            index: Mutex::default(),
            loaded: OnceCell::new(),
            wanted: AsyncMutex::default(),
            changed: Notify::new(),
            n_refused: AtomicU64::new(0),
            wall_ahead_ms: AtomicI64::new(0),
        }))
    }

    /// Reads a trigger as it durably is.
    async fn stored(&self, trigger_id: &str) -> Result<Option<(Definition, Kept)>, CallError> {
        let id = trigger_id.to_owned();
        let readers = self.0.maker.handle().readers();
        readers.read(move |reader| trigger(reader, &id)).await
    }

    /// Returns the clock of runs.
    fn clock(&self) -> Clock {
        self.0.maker.handle().clock()
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.0.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
