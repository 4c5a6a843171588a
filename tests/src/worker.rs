//! A real stock worker process.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::{Binaries, ChildProcess, Fault};

/// How a stock worker is started.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    orchestrator: String,
    worker_id: String,
    root: PathBuf,
    stderr: PathBuf,
    flags: Vec<String>,
    variables: Vec<(String, String)>,
}

impl WorkerSettings {
    /// Creates a worker of the orchestrator at this URL, whose handlers see the files under `root` only.
    /// Its stderr goes into `directory`.
    pub fn new(orchestrator: &str, worker_id: &str, root: &Path, directory: &Path) -> Self {
        Self {
            orchestrator: orchestrator.to_owned(),
            worker_id: worker_id.to_owned(),
            root: root.to_owned(),
            stderr: directory.join(format!("{worker_id}.stderr")),
            flags: Vec::new(),
            variables: Vec::new(),
        }
    }

    /// Adds a flag with its value, for example `--allow-program` and `git`.
    #[must_use]
    pub fn flag(mut self, name: &str, value: impl ToString) -> Self {
        self.flags.extend([name.to_owned(), value.to_string()]);
        self
    }

    /// Adds a flag that takes no value.
    #[must_use]
    pub fn switch(mut self, name: &str) -> Self {
        self.flags.push(name.to_owned());
        self
    }

    /// Sets an environment variable of the worker process.
    #[must_use]
    pub fn variable(mut self, name: &str, value: impl ToString) -> Self {
        self.variables.push((name.to_owned(), value.to_string()));
        self
    }

    /// Starts it and does not wait for its session.
    ///
    /// # Errors
    /// It cannot be built or started.
    pub fn start(&self) -> Result<Worker, Fault> {
        let mut command = Command::new(Binaries::build()?.worker);
        command
            .args([
                "--orchestrator",
                &self.orchestrator,
                "--worker-id",
                &self.worker_id,
            ])
            .arg("--root")
            .arg(&self.root)
            .args(&self.flags)
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        let process = ChildProcess::start(&self.worker_id, &mut command, &self.stderr)?;
        Ok(Worker {
            worker_id: self.worker_id.clone(),
            process,
        })
    }

    /// Starts it and waits until it has a session.
    ///
    /// # Errors
    /// It cannot be built or started, or is not connected within 30 s; the text holds the end of its stderr.
    pub async fn connect(&self) -> Result<Worker, Fault> {
        let mut worker = self.start()?;
        worker.process.announcement("connected", CONNECT_LIMIT).await?;
        Ok(worker)
    }
}

/// A running stock worker. Killed on drop.
#[derive(Debug)]
pub struct Worker {
    /// Label.
    pub worker_id: String,
    /// Process: signals, exit code, stderr.
    pub process: ChildProcess,
}

impl Worker {
    /// Asks it to stop and checks that it stops cleanly.
    ///
    /// # Errors
    /// It still runs after 45 s, or its exit code is not 0.
    pub async fn stop(mut self) -> Result<(), Fault> {
        let status = self.process.terminate(STOP_LIMIT).await?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("{} stopped with {status}", self.worker_id).into())
        }
    }
}

const CONNECT_LIMIT: Duration = Duration::from_secs(30);
/// Longer than the longest default drain, so that a hang is seen as one.
const STOP_LIMIT: Duration = Duration::from_secs(45);
