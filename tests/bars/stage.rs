//! The product and its floor side by side: real processes on a fresh store with fsync on. Measures nothing.

use std::path::Path;

use escapement_tests::{Fault, Orchestrator, OrchestratorSettings, PrivateDirectory, Worker, WorkerSettings};
use tonic::transport::{Channel, Endpoint};

use crate::floor::Floor;
use crate::process::Bill;

/// Everything that runs. Killed on drop.
pub(crate) struct Stage {
    /// The product.
    pub(crate) orchestrator: Orchestrator,
    /// The floor.
    pub(crate) floor: Floor,
    workers: Vec<Worker>,
    directory: PrivateDirectory,
}

impl Stage {
    /// One worker that takes as many steps at once as a worker may.
    ///
    /// # Errors
    /// A process does not start.
    pub(crate) async fn start() -> Result<Self, Fault> {
        Self::with_workers(1).await
    }

    /// So many workers.
    ///
    /// # Errors
    /// A process does not start.
    pub(crate) async fn with_workers(n_workers: usize) -> Result<Self, Fault> {
        let directory = PrivateDirectory::new("bars")?;
        let orchestrator = OrchestratorSettings::new(directory.path()).start().await?;
        let mut workers = Vec::new();
        for number in 0..n_workers {
            let settings = WorkerSettings::new(
                &orchestrator.url(),
                &format!("worker-{number}"),
                directory.path(),
                directory.path(),
            );
            workers.push(settings.flag("--max-in-flight", IN_FLIGHT_MAX).connect().await?);
        }
        let floor = Floor::start(directory.path()).await?;
        Ok(Self {
            orchestrator,
            floor,
            workers,
            directory,
        })
    }

    /// Returns another connection of callers to the product.
    ///
    /// # Errors
    /// The URL is none.
    pub(crate) fn channel(&self) -> Result<Channel, Fault> {
        Ok(Endpoint::from_shared(self.orchestrator.url())?.connect_lazy())
    }

    /// Connections for so many callers, each its own.
    ///
    /// # Errors
    /// The URL is none.
    pub(crate) fn channels(&self, n_callers: usize) -> Result<Vec<Channel>, Fault> {
        (0..n_callers).map(|_| self.channel()).collect()
    }

    /// What the product's processes cost, and the callers.
    pub(crate) fn bill(&self) -> Bill {
        let mut processes = vec![("orchestrator", self.orchestrator.process.id())];
        processes.extend(self.workers.iter().map(|worker| ("worker", worker.process.id())));
        processes.push(("callers", std::process::id()));
        Bill::of(&processes)
    }

    /// What the floor's processes cost, and the callers.
    pub(crate) fn floor_bill(&self) -> Bill {
        Bill::of(&[
            ("server", self.floor.server_id()),
            ("worker", self.floor.worker_id()),
            ("callers", std::process::id()),
        ])
    }

    /// The directory of the store, for what the same disk costs alone.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }
}

/// The most steps that a worker may have at once.
pub(crate) const IN_FLIGHT_MAX: u32 = 1_024;
