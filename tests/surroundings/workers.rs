//! The stock worker, its child processes and the worker in Python in every place: they connect, work, connect again, and end with 0.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use escapement_tests::fault_proxy::FaultProxy;
use escapement_tests::{
    Binaries, ChildProcess, Orchestrator, OrchestratorSettings, PlanDocument, calls, checkout, fresh_id,
    tool, wait_for,
};
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::worker::State;
use escapement_wire::v1::{ListWorkersRequest, audit_entry::Event};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::place::{ODD, Place, SILENT};
use crate::stage::{LIMIT, Stage, folder};

/// The places, an orchestrator, and the proxy that breaks the connections to it.
struct Fleet {
    stage: Stage,
    orchestrator: Orchestrator,
    proxy: FaultProxy,
    workers: BTreeMap<String, (Place, ChildProcess)>,
}

impl Fleet {
    async fn set() -> Self {
        let stage = Stage::new();
        let settings = OrchestratorSettings::new(stage.directory.path());
        let orchestrator = settings.start().await.unwrap();
        let proxy = FaultProxy::start(orchestrator.address()).await.unwrap();
        Self {
            stage,
            orchestrator,
            proxy,
            workers: BTreeMap::new(),
        }
    }

    /// Starts a program in each place, with a name and a directory of its own.
    fn start(&mut self, program: &Path, places: &[Place], arguments: impl Fn(&mut Command, &str, &Path)) {
        for place in places {
            let name = place.name.replace([' ', ','], "-");
            let here = folder(self.stage.directory.path(), &name);
            let mut command = place.command(program, &here);
            arguments(&mut command, &name, &here);
            let process = ChildProcess::start(place.name, &mut command, &here.join("stderr")).unwrap();
            self.workers.insert(name, (*place, process));
        }
    }

    /// Waits until each has a session that none had before.
    async fn wait_for_sessions(&self, before: &BTreeSet<String>) -> BTreeSet<String> {
        let listed = std::cell::RefCell::default();
        let all = async || {
            let mut fleet = self.orchestrator.fleet();
            let answer = fleet.list_workers(ListWorkersRequest {}).await.unwrap();
            let workers = answer.into_inner().workers;
            let new: BTreeMap<_, _> = workers
                .into_iter()
                .filter(|worker| worker.state() == State::Active && !before.contains(&worker.session_id))
                .map(|worker| (worker.worker_id, worker.session_id))
                .collect();
            let sessions = (new.len() == self.workers.len()).then(|| new.values().cloned().collect());
            *listed.borrow_mut() = new;
            sessions
        };
        wait_for("a session of every worker", LIMIT, all)
            .await
            .unwrap_or_else(|_| {
                let listed = listed.borrow();
                let missing = self.workers.keys().filter(|name| !listed.contains_key(*name));
                panic!("without a session: {:?}", missing.collect::<Vec<_>>());
            })
    }

    /// Lets each do one step: all are ready at once, and none has more than one slot.
    async fn expect_work(&self, action: &str, payload: &Value) {
        let n_steps = self.workers.len();
        let document = (0..n_steps).fold(PlanDocument::new(action), |document, _| {
            document.step(action, payload.clone(), &[])
        });
        let id = fresh_id();
        let request = document
            .request_field("execution_id", id.clone())
            .request_field("options", json!({ "max_concurrent_steps": n_steps }));
        self.orchestrator
            .plans()
            .submit_plan(request.submit())
            .await
            .unwrap();
        let result = calls::result_of(self.orchestrator.plans(), &id, LIMIT)
            .await
            .unwrap();
        assert_eq!(result.status(), Status::Success, "{action}: {result:?}");
        let record = calls::record_of(self.orchestrator.plans(), &id).await.unwrap();
        let had_one: BTreeSet<String> = record
            .into_iter()
            .filter_map(|entry| match entry.event {
                Some(Event::AttemptAssigned(assigned)) => Some(assigned.worker_id),
                _ => None,
            })
            .collect();
        assert!(had_one.iter().eq(self.workers.keys()), "{action}: {had_one:?}");
    }

    /// All at once are told to stop, and each does with 0.
    async fn expect_clean_ends(mut self, signal: Signal) {
        for (_, process) in self.workers.values_mut() {
            process.signal(signal).unwrap();
        }
        for (place, process) in self.workers.values_mut() {
            let exit = process.exit(LIMIT).await.unwrap();
            assert_eq!(exit.code(), Some(0), "{}", place.name);
        }
    }
}

#[tokio::test]
async fn a_worker_goes_on_wherever_it_is_started() {
    let mut fleet = Fleet::set().await;
    let url = fleet.proxy.url();
    let program = Binaries::build().unwrap().worker;
    fleet.start(&program, &[&SILENT[..], &ODD].concat(), |command, name, here| {
        command
            .args([
                "--orchestrator",
                &url,
                "--worker-id",
                name,
                "--max-in-flight",
                "1",
            ])
            .args(["--log", "debug", "--allow-program", "/bin/sh", "--root"])
            .arg(here);
    });
    let sessions = fleet.wait_for_sessions(&BTreeSet::new()).await;
    fleet.proxy.reset_all();
    fleet.wait_for_sessions(&sessions).await;
    let script = json!({ "program": "/bin/sh", "args": ["-c", "echo done"] });
    fleet.expect_work("process.run", &script).await;
    // Runs in a process of its own.
    fleet
        .expect_work("json.query", &json!({ "filter": "length", "input": [1, 2] }))
        .await;
    fleet
        .expect_work("file.write", &json!({ "path": "written", "content": "here" }))
        .await;
    fleet.expect_clean_ends(Signal::TERM).await;
}

#[tokio::test]
async fn the_worker_in_python_goes_on_where_its_log_cannot_be_written() {
    let Some(python) = tool("python/bin/python", "`cargo verify` installs it") else {
        return;
    };
    let mut fleet = Fleet::set().await;
    let url = fleet.proxy.url();
    let script = checkout::root().join("worker/python/escapement_worker.py");
    // Its program takes no name: the library does.
    let settings = format!(
        "import sys; sys.path.insert(0, {folder:?}); import escapement_worker as e; \
         worker = e.Worker({url:?}, {{'echo': e.echo}}, max_in_flight=1); worker.worker_id = sys.argv[1]; \
         sys.exit(worker.run() or 0)",
        folder = script.parent().unwrap(),
    );
    fleet.start(&python, &SILENT, |command, name, _| {
        command.args(["-B", "-c", &settings, name]);
    });
    let sessions = fleet.wait_for_sessions(&BTreeSet::new()).await;
    fleet.proxy.reset_all();
    fleet.wait_for_sessions(&sessions).await;
    fleet.expect_work("echo", &json!({ "word": "here" })).await;
    fleet.expect_clean_ends(Signal::TERM).await;
}
