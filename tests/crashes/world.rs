//! A directory with a store, the process that runs on it, and the fault layer between them. Judges nothing.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use escapement_tests::fault_layer::FaultLayer;
use escapement_tests::{ChildProcess, Orchestrator, OrchestratorSettings, PrivateDirectory};
use rustix::process::Signal;

use crate::caller::{Caller, Gone};

/// How long a test waits for what must happen.
pub(crate) const LIMIT: Duration = Duration::from_secs(15);

/// A store and its orchestrator.
pub(crate) struct World {
    process: Option<ChildProcess>,
    pub(crate) layer: FaultLayer,
    pub(crate) directory: PrivateDirectory,
    flags: Vec<(String, String)>,
}

/// A process life that serves.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(crate) url: String,
    pub(crate) caller: Caller,
}

impl World {
    /// Creates an empty one.
    pub(crate) fn new() -> Self {
        let directory = PrivateDirectory::new("crashes").unwrap();
        std::fs::create_dir(directory.join(DISK)).unwrap();
        let layer = FaultLayer::new(&directory.join("control"), &directory.join(DISK)).unwrap();
        Self {
            process: None,
            layer,
            directory,
            flags: Vec::new(),
        }
    }

    /// One whose store is as it stands in another world now.
    pub(crate) fn copy_of(other: &World) -> Self {
        let mut copy = Self::new();
        copy.flags.clone_from(&other.flags);
        if other.store().exists() {
            std::fs::create_dir(copy.store()).unwrap();
            for entry in std::fs::read_dir(other.store()).unwrap() {
                let entry = entry.unwrap();
                std::fs::copy(entry.path(), copy.store().join(entry.file_name())).unwrap();
            }
        }
        copy
    }

    /// Every process gets this flag.
    pub(crate) fn flag(mut self, name: &str, value: impl ToString) -> Self {
        self.flags.push((name.to_owned(), value.to_string()));
        self
    }

    /// Where the store is.
    pub(crate) fn store(&self) -> PathBuf {
        self.directory.join(DISK).join("store")
    }

    /// One file of the store.
    pub(crate) fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.store().join(name)
    }

    /// As processes are started on this store, without the layer.
    pub(crate) fn settings(&self) -> OrchestratorSettings {
        let settings = OrchestratorSettings::new(&self.directory.join(DISK))
            .stderr(self.directory.join("orchestrator.stderr"));
        self.flags
            .iter()
            .fold(settings, |settings, (name, value)| settings.flag(name, value))
    }

    /// Starts a process under the layer; `Gone` if it ends before it serves.
    pub(crate) async fn start(&mut self) -> Result<Life, Gone> {
        let settings = self.layer.under(self.settings());
        self.start_with(&settings).await
    }

    /// Starts a process that nothing disturbs.
    pub(crate) async fn start_undisturbed(&mut self) -> Life {
        let started = self.start_with(&self.settings()).await;
        started.unwrap_or_else(|Gone| panic!("the orchestrator does not start:\n{}", self.stderr()))
    }

    /// Starts a process with these settings; `Gone` if it ends before it serves.
    pub(crate) async fn start_with(&mut self, settings: &OrchestratorSettings) -> Result<Life, Gone> {
        let process = self.launch(settings);
        let address = Orchestrator::announced(process).await.map_err(|_| Gone)?;
        let url = format!("http://{address}");
        Ok(Life {
            caller: Caller::at(&url),
            url,
        })
    }

    /// Starts a process and waits for nothing.
    pub(crate) fn launch(&mut self, settings: &OrchestratorSettings) -> &mut ChildProcess {
        self.process.insert(settings.launch().unwrap())
    }

    /// Returns the process that was started last.
    pub(crate) fn process(&mut self) -> &mut ChildProcess {
        self.process.as_mut().expect("a process was started")
    }

    /// Kills the process as a crash would.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
        }
    }

    /// Waits until the process has ended by itself.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let status = self.process().exit(LIMIT).await;
        status.unwrap_or_else(|fault| panic!("{fault}:\n{}", self.stderr()))
    }

    /// Returns true if no process runs.
    pub(crate) fn has_ended(&mut self) -> bool {
        !self.process().is_running()
    }

    /// Asks the process to stop.
    pub(crate) fn ask_to_stop(&mut self) {
        self.process().signal(Signal::TERM).unwrap();
    }

    /// What all processes on this store wrote to stderr, its end.
    pub(crate) fn stderr(&self) -> String {
        let text = std::fs::read_to_string(self.directory.join("orchestrator.stderr")).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(STDERR_LINES_SHOWN)..].join("\n")
    }
}

const DISK: &str = "disk";
const STDERR_LINES_SHOWN: usize = 30;
