//! Backups of a running orchestrator, what is restored of them, and that damage is found before somebody asks.

use crate::plans::{RequestWords, StepWords, WORK, json_of, plan, request, step};
use crate::recording_worker::RecordingWorker;
use crate::world::{LIMIT, World};
use escapement_tests::{
    Binaries, ChildProcess, OrchestratorSettings, PrivateDirectory, ScriptedWorker, calls, wait_for,
};
use escapement_wire::v1::audit_entry::Event;
use escapement_wire::v1::execution::State;
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::{AuditEntry, GetExecutionRequest, PlanResult, ReplayExecutionRequest};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tonic::transport::Channel;

/// What a command of the orchestrator's binary said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) lines: Vec<Value>,
    pub(crate) stderr: String,
}

impl Said {
    pub(crate) fn last(&self) -> &Value {
        self.lines.last().unwrap()
    }
}

/// Runs one, beside whatever else runs.
pub(crate) async fn command(arguments: &[&str]) -> Said {
    let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    let run = move || {
        let mut command = Command::new(Binaries::build().unwrap().orchestrator);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("ESCAPEMENT_") {
                command.env_remove(name);
            }
        }
        let output = command.args(&arguments).output().unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        Said {
            code: output.status.code(),
            lines: stdout
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

async fn back_up(world: &World, file: &Path) -> Said {
    let store = world.directory.join("store");
    let (store, file) = (store.to_str().unwrap(), file.to_str().unwrap());
    command(&["backup", "--store-path", store, "--to", file]).await
}

async fn restore(file: &Path, store: &Path, more: &[&str]) -> Said {
    let (file, store) = (file.to_str().unwrap(), store.to_str().unwrap());
    let arguments = [&["restore", "--from", file, "--store-path", store], more].concat();
    command(&arguments).await
}

async fn check(store: &Path) -> Said {
    command(&["check", "--store-path", store.to_str().unwrap()]).await
}

/// What callers were told, and by which record.
type Acknowledged = Arc<Mutex<BTreeMap<String, PlanResult>>>;

/// Executes plans until it is told to stop.
async fn caller(
    mut plans: PlanExecutionServiceClient<Channel>,
    acknowledged: Acknowledged,
    stop: Arc<AtomicBool>,
) {
    while !stop.load(Ordering::Acquire) {
        let request = request(plan([step(0, "record"), step(1, "record").after(&[0])]));
        let id = request.id();
        let answer = plans.execute_plan(request).await.unwrap().into_inner();
        acknowledged.lock().unwrap().insert(id, answer.result.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_under_load_restores_everything_that_was_acknowledged_before_it_began() {
    let world = World::start().await;
    let worker = RecordingWorker::start(&world.orchestrator.url(), 32);
    let (acknowledged, stop) = (Acknowledged::default(), Arc::new(AtomicBool::new(false)));
    let callers: Vec<_> = (0..8)
        .map(|_| {
            let (acknowledged, stop) = (Arc::clone(&acknowledged), Arc::clone(&stop));
            tokio::spawn(caller(world.orchestrator.plans(), acknowledged, stop))
        })
        .collect();
    let enough = async || (acknowledged.lock().unwrap().len() > 300).then_some(());
    wait_for("some executions", LIMIT, enough).await.unwrap();

    let before = acknowledged.lock().unwrap().clone();
    let file = world.directory.join("backup");
    let said = back_up(&world, &file).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    let during = acknowledged.lock().unwrap().len() - before.len();
    stop.store(true, Ordering::Release);
    for caller in callers {
        caller.await.unwrap();
    }
    worker.stop().await;
    assert!(during > 0, "calls go on while a backup is made");
    let last = said.last();
    assert_eq!(
        (last["event"].as_str(), last["damaged"].as_u64()),
        (Some("backed_up"), Some(0))
    );
    assert!(last["executions"].as_u64().unwrap() >= before.len() as u64);
    assert_eq!(
        back_up(&world, &file).await.code,
        Some(73),
        "a file is never overwritten"
    );

    let elsewhere = PrivateDirectory::new("restored").unwrap();
    let store = elsewhere.join("store");
    let said = restore(&file, &store, &[]).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    let said = restore(&file, &store, &[]).await;
    assert_eq!(said.code, Some(73), "a store is never overwritten");
    assert!(said.stderr.contains("never overwritten"), "{}", said.stderr);
    assert_eq!(check(&store).await.code, Some(0));

    let restored = World::start_in(elsewhere, |settings| settings).await;
    for (id, result) in &before {
        assert_eq!(&restored.result_of(id).await, result);
    }
    for id in before.keys().step_by(20) {
        let (there, here): (Vec<AuditEntry>, _) = (world.record_of(id).await, restored.record_of(id).await);
        assert_eq!(there, here);
    }
}

/// One execution runs and one is queued when the backup is made; both are over when it is restored.
async fn interrupted(more: &[&str]) -> (World, String, String) {
    let world = World::start_with(|settings| settings.flag("--max-running-executions", 1)).await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 4).await;
    let (runs, waits) = (request(plan([step(0, WORK)])), request(plan([step(0, WORK)])));
    world.submit(&runs).await;
    let assignment = worker.started().await;
    assert_eq!(world.submit(&waits).await.state(), State::Queued);
    let file = world.directory.join("backup");
    assert_eq!(back_up(&world, &file).await.code, Some(0));
    worker.succeed(&assignment, json!({})).await;
    worker.complete_next(json!({})).await;
    assert_eq!(world.result_of(&waits.id()).await.status(), Status::Success);

    let elsewhere = PrivateDirectory::new("restored").unwrap();
    let said = restore(&file, &elsewhere.join("store"), more).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    let n_withheld = if more.is_empty() { 1 } else { 0 };
    assert_eq!(said.last()["queued_withheld"], n_withheld);
    let restored = World::start_in(elsewhere, |settings| settings).await;
    (restored, runs.id(), waits.id())
}

async fn is_interrupted(world: &World, id: &str, reason: &str) {
    let result = world.result_of(id).await;
    assert_eq!((result.status(), result.steps_executed), (Status::Failure, 0));
    let error = result.error.unwrap();
    assert_eq!(json_of(error.context.as_ref())["reason"], reason);
}

//
#[tokio::test]
async fn what_was_queued_at_the_backup_is_settled_as_interrupted_and_not_run_again() {
    let (restored, runs, waits) = interrupted(&[]).await;
    let mut worker = ScriptedWorker::connect(&restored.orchestrator, &[WORK], 4).await;
    is_interrupted(&restored, &runs, "orchestrator_restarted").await;
    is_interrupted(&restored, &waits, "restored_from_backup").await;
    let record = restored.record_of(&waits).await;
    let is_start = |entry: &AuditEntry| matches!(entry.event, Some(Event::Started(_)));
    assert!(!record.iter().any(is_start), "it was only queued: {record:?}");
    let request = ReplayExecutionRequest {
        execution_id: waits.clone(),
    };
    let replayed = restored.orchestrator.plans().replay_execution(request).await;
    assert!(replayed.unwrap().into_inner().identical);
    assert_eq!(worker.n_assignments_sent().await, 0, "nothing runs again");
}

//
#[tokio::test]
async fn what_was_queued_at_the_backup_runs_where_the_operator_says_so() {
    let (restored, runs, waits) = interrupted(&["--run-queued"]).await;
    let mut worker = ScriptedWorker::connect(&restored.orchestrator, &[WORK], 4).await;
    is_interrupted(&restored, &runs, "orchestrator_restarted").await;
    assert_eq!(worker.complete_next(json!({})).await.execution_id, waits);
    assert_eq!(restored.result_of(&waits).await.status(), Status::Success);
}

/// Returns a store with twenty settled executions whose orchestrator has ended; a bit of the result of one is flipped.
async fn damaged() -> (PrivateDirectory, OrchestratorSettings, Vec<String>, String) {
    let world = World::start().await;
    let worker = RecordingWorker::start(&world.orchestrator.url(), 4);
    let mut ids = Vec::new();
    for number in 0..20 {
        let marked = step(0, "record").payload(json!({ "marked": format!("needle-{number:02}-needle") }));
        let request = request(plan([marked]));
        ids.push(request.id());
        assert_eq!(world.execute(request).await.status(), Status::Success);
    }
    worker.stop().await;
    assert_eq!(
        check(&world.directory.join("store")).await.code,
        Some(0),
        "beside the running one"
    );
    let World {
        orchestrator,
        directory,
        ..
    } = world;
    orchestrator.stop().await.unwrap();
    let database = directory.join("store").join("store.db");
    let bytes = std::fs::read(&database).unwrap();
    let needle = b"needle-07-needle";
    let file = std::fs::File::options().write(true).open(&database).unwrap();
    for (at, window) in bytes.windows(needle.len()).enumerate() {
        if window == needle {
            file.write_all_at(&[window[3] ^ 1], at as u64 + 3).unwrap();
        }
    }
    let settings = OrchestratorSettings::new(directory.path());
    let hit = ids[7].clone();
    (directory, settings, ids, hit)
}

#[tokio::test]
async fn check_finds_a_flipped_bit_and_everything_else_stays_readable() {
    let (directory, settings, ids, hit) = damaged().await;
    let store = directory.join("store");
    for _ in 0..2 {
        let said = check(&store).await;
        assert_eq!(said.code, Some(74), "{said:?}");
        let [damage, last] = &said.lines[..] else {
            panic!("{said:?}")
        };
        assert_eq!(damage["execution_id"], hit.as_str());
        assert_eq!(
            (&damage["number"], &damage["parts"]),
            (&json!(8), &json!(["accepted record"]))
        );
        assert_eq!((&last["event"], &last["damaged"]), (&json!("checked"), &json!(1)));
        assert_eq!(last["executions"], 20);
    }
    let (file, target) = (directory.join("backup"), directory.join("restored"));
    let arguments = [
        "--store-path",
        store.to_str().unwrap(),
        "--to",
        file.to_str().unwrap(),
    ];
    let said = command(&[&["backup"], &arguments[..]].concat()).await;
    assert_eq!(said.code, Some(74), "{said:?}");
    assert!(!file.exists(), "a damaged copy has no name");
    let said = command(&[&["backup", "--accept-damage"], &arguments[..]].concat()).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(restore(&file, &target, &[]).await.code, Some(74));
    assert_eq!(restore(&file, &target, &["--accept-damage"]).await.code, Some(0));

    let orchestrator = settings.start().await.unwrap();
    // The result of the one that was hit is whole; its record is not.
    for id in &ids {
        let result = calls::result_of(orchestrator.plans(), id, LIMIT).await.unwrap();
        assert_eq!(result.status(), Status::Success);
    }
    let request = GetExecutionRequest {
        execution_id: hit.clone(),
    };
    let shown = orchestrator.plans().get_execution(request).await.unwrap();
    let shown = shown.into_inner().execution.unwrap();
    assert_eq!((shown.status(), shown.steps_executed), (Status::Success, Some(1)));
    let of_request = (shown.plan_name, shown.accepted_at, shown.deadline_ms, shown.tags);
    assert_eq!(
        of_request,
        Default::default(),
        "what nothing vouches for is not shown"
    );
    let request = ReplayExecutionRequest { execution_id: hit };
    let refused = orchestrator.plans().replay_execution(request).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::DataLoss);
}

#[tokio::test]
async fn a_running_orchestrator_finds_a_flipped_bit_before_somebody_asks() {
    let (_directory, settings, _, hit) = damaged().await;
    let orchestrator = settings.start().await.unwrap();
    // What the orchestrator before it said stands in the same file.
    let said = async || {
        let stderr = orchestrator.process.stderr();
        let mut lines = stderr.lines();
        lines
            .find(|line| line.contains("execution damaged"))
            .map(str::to_owned)
    };
    let line = wait_for("the damage to be named", LIMIT, said).await.unwrap();
    assert!(line.contains(&hit) && line.contains("accepted record"), "{line}");
    assert!(line.contains("ERROR"), "{line}");
}

/// Starts an orchestrator that must not serve; its exit code and what it says.
async fn refused(directory: &PrivateDirectory, store: &Path) -> (Option<i32>, String) {
    let mut command = Command::new(Binaries::build().unwrap().orchestrator);
    command
        .args(["--listen", "127.0.0.1:0", "--store-path"])
        .arg(store);
    let stderr = directory.join("refused.stderr");
    let mut process = ChildProcess::start("orchestrator", &mut command, &stderr).unwrap();
    (process.exit(LIMIT).await.unwrap().code(), process.stderr())
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn commands_say_whose_fault_it_is_and_leave_nothing_that_serves() {
    let (directory, _, _, _) = damaged().await;
    let (store, backup) = (directory.join("store"), directory.join("backup"));
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (store_path, target) = (text(&store), directory.join("target"));
    let to_nowhere = text(&directory.join("missing/backup"));
    let said = command(&["backup", "--store-path", &store_path, "--to", &to_nowhere]).await;
    assert_eq!(said.code, Some(73), "{said:?}");
    assert!(said.stderr.contains("cannot write"), "{said:?}");
    let arguments = [
        "--accept-damage",
        "--store-path",
        &store_path,
        "--to",
        &text(&backup),
    ];
    let said = command(&[&["backup"], &arguments[..]].concat()).await;
    assert_eq!((said.code, mode(&backup)), (Some(0), 0o600), "{said:?}");

    let bytes = std::fs::read(&backup).unwrap();
    let broken = directory.join("broken");
    for content in [&bytes[..bytes.len() / 2], b"any other file"] {
        std::fs::write(&broken, content).unwrap();
        let said = restore(&broken, &target, &[]).await;
        assert_eq!(said.code, Some(74), "{said:?}");
        assert!(
            said.stderr.contains("broken is damaged, or is no backup"),
            "{said:?}"
        );
        let (code, stderr) = refused(&directory, &target).await;
        assert_eq!(code, Some(73), "{stderr}");
        assert!(stderr.contains("`orchestrator restore`"), "{stderr}");
    }
    assert_eq!(
        restore(&backup, &target, &["--accept-damage"]).await.code,
        Some(0)
    );

    let header = std::fs::File::options()
        .write(true)
        .open(target.join("store.db"))
        .unwrap();
    header.write_all_at(&[0x11], 16).unwrap();
    let (code, stderr) = refused(&directory, &target).await;
    let said = check(&target).await;
    for (code, said) in [(code, &stderr), (said.code, &said.stderr)] {
        assert_eq!(code, Some(74), "{said}");
        assert!(said.contains("store.db is damaged"), "{said}");
    }
}

#[tokio::test]
async fn what_is_whole_is_saved_and_what_is_damaged_is_given_up() {
    let (directory, settings, ids, hit) = damaged().await;
    let (store, files) = (directory.join("store"), directory.join("files"));
    let (store_path, to) = (store.to_str().unwrap(), files.to_str().unwrap());
    let said = command(&["export", "--all", "--store-path", store_path, "--to", to]).await;
    assert_eq!(said.code, Some(74), "{said:?}");
    let last = said.last();
    assert_eq!((&last["executions"], &last["damaged"]), (&json!(19), &json!(1)));
    let not_exported = said
        .lines
        .iter()
        .find(|line| line["event"] == "not_exported")
        .unwrap();
    assert_eq!(
        (&not_exported["number"], &not_exported["execution_id"]),
        (&json!(8), &json!(hit))
    );
    let whole = files.join(&ids[0]);
    let verified = command(&["verify", whole.to_str().unwrap()]).await;
    assert_eq!((verified.code, mode(&whole)), (Some(0), 0o600), "{verified:?}");

    let said = command(&["check", "--repair", "--store-path", store_path]).await;
    assert_eq!(said.code, Some(74), "the damaged one is still there: {said:?}");
    assert_eq!(said.lines[0], json!({"event": "repaired", "said": "indexes"}));
    let give_up =
        async |number: &str| command(&["drop", "--store-path", store_path, "--number", number]).await;
    assert_eq!(
        give_up("7").await.code,
        Some(73),
        "what is whole is never dropped"
    );
    let said = give_up("8").await;
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(
        (&said.last()["execution_id"], &said.last()["ids_stay_used"]),
        (&json!(hit), &json!(true))
    );
    assert_eq!(check(&store).await.code, Some(0));
    let orchestrator = settings.start().await.unwrap();
    let gone = calls::result_of(orchestrator.plans(), &hit, LIMIT)
        .await
        .unwrap_err();
    assert_eq!(gone.code(), tonic::Code::NotFound);
}
