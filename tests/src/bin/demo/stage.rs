//! What the demo runs on: one orchestrator, two workers that share a folder, one webhook receiver, one scripted model. Knows no plan.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use escapement_tests::{
    Fault, ModelServer, Orchestrator, OrchestratorSettings, PrivateDirectory, Receiver, Worker,
    WorkerSettings, checkout,
};

use crate::goal;

/// Everything that runs. Dropping it ends the processes at once; [`Stage::stop`] does it properly.
pub(crate) struct Stage {
    settings: OrchestratorSettings,
    orchestrator: Orchestrator,
    workers: [Worker; 2],
    receiver: Receiver,
    model: ModelServer,
    /// Relative to the root of the checkout.
    output: PathBuf,
    _store: PrivateDirectory,
}

impl Stage {
    /// Starts the processes on a fresh store, with empty folders in `output`.
    /// That is relative to the root of the checkout.
    pub(crate) async fn start(output: PathBuf) -> Result<Self, Fault> {
        let folder = checkout::root().join(&output);
        let (files, logs) = (folder.join(FILES), folder.join(LOGS));
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(&files)?;
        std::fs::create_dir_all(&logs)?;
        check_git(&files)?;

        let store = PrivateDirectory::new("demo")?;
        let receiver = Receiver::start(204).await?;
        let model = goal::model().await?;
        let settings = OrchestratorSettings::new(store.path()).stderr(logs.join("orchestrator.log"));
        let orchestrator = settings.start().await?;
        let workers = [
            worker("one", &orchestrator, (&receiver, &model), &files, &logs).await?,
            worker("two", &orchestrator, (&receiver, &model), &files, &logs).await?,
        ];
        Ok(Self {
            settings,
            orchestrator,
            workers,
            receiver,
            model,
            output,
            _store: store,
        })
    }

    /// Where the orchestrator serves.
    pub(crate) fn address(&self) -> SocketAddr {
        self.orchestrator.address()
    }

    /// Returns the orchestrator, for its clients.
    pub(crate) fn orchestrator(&self) -> &Orchestrator {
        &self.orchestrator
    }

    /// Kills the orchestrator by SIGKILL and starts it again on the same store and address. The workers find it.
    pub(crate) async fn restart_orchestrator(&mut self) -> Result<(), Fault> {
        self.orchestrator.process.kill()?;
        let settings = self.settings.clone().listen(self.orchestrator.address());
        self.orchestrator = settings.start().await?;
        Ok(())
    }

    /// Returns the model that the workers ask.
    pub(crate) fn model(&self) -> &ModelServer {
        &self.model
    }

    /// What the workers have logged so far, a line of JSON each.
    pub(crate) fn worker_logs(&self) -> Vec<String> {
        self.workers
            .iter()
            .map(|worker| worker.process.stderr())
            .collect()
    }

    /// Where the plans shall post to; known only now, so it goes into the environment and not into a document.
    pub(crate) fn webhook_url(&self) -> String {
        self.receiver.url("/releases")
    }

    /// Returns the folder with the files, as the reader sees it from the root of the checkout.
    pub(crate) fn shown_files(&self) -> String {
        self.output.join(FILES).display().to_string()
    }

    /// Tells what the webhook receiver got. True if it is so many JSON objects by POST.
    pub(crate) async fn tell_deliveries(&self, n_expected: usize) -> Result<bool, Fault> {
        let received = self
            .receiver
            .wait_for_requests(n_expected, DELIVERY_LIMIT)
            .await
            .unwrap_or_default();
        for request in &received {
            println!(
                "webhook got {} {} {}",
                request.method,
                request.path,
                String::from_utf8_lossy(&request.body)
            );
        }
        let is_json = |body: &[u8]| {
            serde_json::from_slice::<serde_json::Value>(body).is_ok_and(|body| body.is_object())
        };
        let are_right = received
            .iter()
            .all(|one| one.method == "POST" && is_json(&one.body));
        let as_expected = received.len() == n_expected && are_right;
        if !as_expected {
            println!("! the webhook should have got {n_expected} JSON objects by POST");
        }
        Ok(as_expected)
    }

    /// Tells which files were written, and shows the beginning of the report.
    pub(crate) fn tell_files(&self) -> Result<(), Fault> {
        let files = checkout::root().join(&self.output).join(FILES);
        for path in files_below(&files)? {
            let length = path.metadata()?.len();
            println!(
                "wrote {}/{} ({length} bytes)",
                self.shown_files(),
                path.strip_prefix(&files)?.display()
            );
        }
        let Ok(report) = std::fs::read_to_string(files.join(REPORT)) else {
            return Ok(());
        };
        println!("\n{}/{REPORT} begins:", self.shown_files());
        for line in report.lines().take(REPORT_LINES_SHOWN) {
            println!("  | {line}");
        }
        Ok(())
    }

    /// Stops workers and orchestrator by SIGTERM and checks that each ends with code 0.
    pub(crate) async fn stop(self) -> Result<(), Fault> {
        for worker in self.workers {
            worker.stop().await?;
        }
        self.orchestrator.stop().await?;
        println!(
            "\nboth workers and the orchestrator stopped cleanly; their logs are in {}",
            self.output.join(LOGS).display()
        );
        Ok(())
    }
}

async fn worker(
    name: &str,
    orchestrator: &Orchestrator,
    (receiver, model): (&Receiver, &ModelServer),
    files: &Path,
    logs: &Path,
) -> Result<Worker, Fault> {
    let mut settings = WorkerSettings::new(&orchestrator.url(), name, files, logs)
        .flag("--allow-host", receiver.address())
        .flag("--llm-endpoint", model.endpoint())
        .flag("--log", "info,escapement_sdk=debug")
        .flag("--log-format", "json")
        .variable("PATH", search_path()?);
    for program in PROGRAMS {
        settings = settings.flag("--allow-program", program);
    }
    settings.connect().await
}

/// Returns the worker's PATH, with the running cargo first: a step's cargo must work without the variables of rustup.
fn search_path() -> Result<String, Fault> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let toolchain = std::env::var_os("CARGO")
        .map(PathBuf::from)
        .and_then(|cargo| Some(cargo.parent()?.to_owned()));
    let folders = toolchain.into_iter().chain(std::env::split_paths(&path));
    let joined = std::env::join_paths(folders)?;
    joined
        .into_string()
        .map_err(|path| format!("PATH is no UTF-8: {}", path.display()).into())
}

/// The plans tell about the history, so there must be one.
fn check_git(folder: &Path) -> Result<(), Fault> {
    let output = Command::new("git")
        .args(["rev-parse", "--verify", "HEAD"])
        .current_dir(folder)
        .output()
        .map_err(|fault| format!("the plans read the project's history, and git cannot be run: {fault}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "the plans read the project's history; clone it with git. git says: {}",
        said.trim()
    )
    .into())
}

fn files_below(folder: &Path) -> Result<Vec<PathBuf>, Fault> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files_below(&path)?);
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

const FILES: &str = "files";
const LOGS: &str = "logs";
const REPORT: &str = "release-report.md";
const REPORT_LINES_SHOWN: usize = 16;
/// What the workers may run.
const PROGRAMS: [&str; 3] = ["cargo", "git", "sleep"];
const DELIVERY_LIMIT: Duration = Duration::from_secs(5);
