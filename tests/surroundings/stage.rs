//! An orchestrator in its surroundings, a worker beside it, and what both must do. Judges nothing but that it is done.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use escapement_sdk::{StepContext, WorkerError};
use escapement_tests::{
    Binaries, ChildProcess, Orchestrator, PlanDocument, PrivateDirectory, calls, fresh_id, wait_for,
};
use escapement_wire::v1::PlanResult;
use escapement_wire::v1::plan_result::Status;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::place::Place;

/// How long a test waits for what must happen.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// A directory with a store, and what has been acknowledged on it.
pub(crate) struct Stage {
    pub(crate) directory: PrivateDirectory,
    /// Every execution that was told as settled, with its result.
    pub(crate) told: Vec<(String, PlanResult)>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self {
            directory: PrivateDirectory::new("surroundings").unwrap(),
            told: Vec::new(),
        }
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.directory.join("store")
    }

    /// Starts an orchestrator on the store and waits for nothing.
    pub(crate) fn launch(&self, place: &Place, flags: &[&str]) -> ChildProcess {
        let program = Binaries::build().unwrap().orchestrator;
        let mut command = place.command(&program, self.directory.path());
        command
            .args(["--listen", "127.0.0.1:0", "--store-path"])
            .arg(self.store())
            .args(flags);
        let stderr = self.directory.join("orchestrator.stderr");
        ChildProcess::start("orchestrator", &mut command, &stderr).unwrap()
    }

    /// Starts one that must serve, whether or not it can say so.
    pub(crate) async fn serve(&self, place: &Place, flags: &[&str]) -> Orchestrator {
        serving(self.launch(place, flags), place.name).await
    }

    /// Executes a plan of one `echo`, which must succeed.
    pub(crate) async fn execute(&mut self, orchestrator: &Orchestrator) {
        let worker = EchoWorker::start(&orchestrator.url());
        let id = fresh_id();
        let request = echo().request_field("execution_id", id.clone()).execute();
        let answer = tokio::time::timeout(LIMIT, orchestrator.plans().execute_plan(request)).await;
        let result = answer.expect("a result in time").unwrap().into_inner().result;
        let result = result.unwrap();
        assert_eq!(result.status(), Status::Success, "{result:?}");
        self.told.push((id, result));
        worker.stop().await;
    }

    /// Every result that was told is told again.
    pub(crate) async fn expect_kept(&self, orchestrator: &Orchestrator) {
        for (id, result) in &self.told {
            let again = calls::result_of(orchestrator.plans(), id, LIMIT).await.unwrap();
            assert_eq!(again, *result);
        }
    }
}

/// Waits until a process listens.
pub(crate) async fn serving(mut process: ChildProcess, name: &str) -> Orchestrator {
    let what = format!("the orchestrator to serve: {name}");
    let listening = || {
        assert!(process.is_running(), "it ended: {name}");
        std::future::ready(listens(process.id()))
    };
    let address = wait_for(&what, LIMIT, listening).await.unwrap();
    Orchestrator::at(process, address).unwrap()
}

/// A plan of one step that gives back its payload.
pub(crate) fn echo() -> PlanDocument {
    PlanDocument::new("surroundings").step("echo", json!({ "word": "here" }), &[])
}

/// A worker inside the test that offers `echo`.
pub(crate) struct EchoWorker {
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), WorkerError>>,
}

impl EchoWorker {
    pub(crate) fn start(url: &str) -> Self {
        let handler = |input: Value, _: StepContext| async { Ok(input) };
        let worker = escapement_sdk::Worker::builder(url).handler("echo", handler);
        let (stop, stopped) = oneshot::channel::<()>();
        let worker = worker.build().unwrap().run_until(async {
            let _ = stopped.await;
        });
        let running = tokio::spawn(worker);
        Self { stop, running }
    }

    pub(crate) async fn stop(self) {
        let _ = self.stop.send(());
        self.running.await.unwrap().unwrap();
    }
}

/// Where a process listens on loopback, as the kernel knows it: what the process says may be lost.
fn listens(id: u32) -> Option<SocketAddr> {
    let table = std::fs::read_to_string(format!("/proc/{id}/net/tcp")).ok()?;
    let sockets: Vec<String> = std::fs::read_dir(format!("/proc/{id}/fd"))
        .ok()?
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|link| {
            Some(
                link.to_str()?
                    .strip_prefix("socket:[")?
                    .strip_suffix(']')?
                    .to_owned(),
            )
        })
        .collect();
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_ours = fields[3] == LISTEN && sockets.iter().any(|inode| inode == fields[9]);
        let port = u16::from_str_radix(fields[1].split_once(':')?.1, 16).ok()?;
        is_ours.then(|| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    })
}

/// A directory in another one.
pub(crate) fn folder(parent: &Path, name: &str) -> PathBuf {
    let path = parent.join(name);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// The state of a listening socket in the kernel's table.
const LISTEN: &str = "0A";
