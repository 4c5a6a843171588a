//! The floor: what the same messages cost on bare tonic, with no logic and no disk, and what the disk costs alone.
//! Shares no code with the product but the message types.

pub(crate) mod disk;
pub(crate) mod server;
pub(crate) mod worker;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use escapement_tests::{ChildProcess, Fault};
use tonic::transport::{Channel, Endpoint};

/// The floor's two processes. Killed on drop.
#[derive(Debug)]
pub(crate) struct Floor {
    url: String,
    worker: ChildProcess,
    server: ChildProcess,
}

impl Floor {
    /// Starts this program twice: as the server and as its worker.
    ///
    /// # Errors
    /// A process does not start, or does not say that it serves.
    pub(crate) async fn start(directory: &Path) -> Result<Self, Fault> {
        let program = std::env::current_exe()?;
        let stderr = directory.join("floor.stderr");
        let mut command = Command::new(&program);
        let mut server = ChildProcess::start("floor-server", command.arg("floor-server"), &stderr)?;
        let serving = server.announcement("serving", START_LIMIT).await?;
        let address = serving["address"]
            .as_str()
            .ok_or("the floor says where it serves")?;
        let url = format!("http://{address}");
        let mut command = Command::new(&program);
        let mut worker = ChildProcess::start("floor-worker", command.args(["floor-worker", &url]), &stderr)?;
        worker.announcement("connected", START_LIMIT).await?;
        Ok(Self { url, worker, server })
    }

    /// Where it serves.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the process id of the server.
    pub(crate) fn server_id(&self) -> u32 {
        self.server.id()
    }

    /// Returns the process id of the worker.
    pub(crate) fn worker_id(&self) -> u32 {
        self.worker.id()
    }

    /// Connections for so many callers, each its own.
    ///
    /// # Errors
    /// The URL is none.
    pub(crate) fn channels(&self, n_callers: usize) -> Result<Vec<Channel>, Fault> {
        (0..n_callers).map(|_| self.channel()).collect()
    }

    /// Returns another connection of callers.
    ///
    /// # Errors
    /// The URL is none.
    pub(crate) fn channel(&self) -> Result<Channel, Fault> {
        Ok(Endpoint::from_shared(self.url.clone())?.connect_lazy())
    }
}

const START_LIMIT: Duration = Duration::from_secs(30);
