//! Processes at the limits that an operator or a container sets. What fails for it fails alone, and nothing acknowledged is lost.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use escapement_tests::{
    Binaries, ChildProcess, Orchestrator, OrchestratorSettings, PlanDocument, calls, fresh_id, let_pass,
    wait_for,
};
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::{GetExecutionRequest, SimulatePlanRequest};
use serde_json::json;
use tokio::net::TcpStream;
use tonic::Code;

use crate::place::{ORDINARY, Place, STRANGER};
use crate::stage::{LIMIT, Stage, echo};

/// Changes a soft limit of a process that runs in this place, such as `--nproc=1:`; only its own user may.
fn set_limit(stage: &Stage, place: &Place, process: &ChildProcess, limit: &str) {
    let mut command = place.command(Path::new("/usr/bin/prlimit"), stage.directory.path());
    let status = command.args(["--pid", &process.id().to_string(), limit]).status();
    assert!(status.unwrap().success(), "{limit}");
}

fn n_sockets(process: &ChildProcess) -> usize {
    let files = std::fs::read_dir(format!("/proc/{}/fd", process.id())).unwrap();
    let links = files.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
    links
        .filter(|link| link.to_string_lossy().starts_with("socket:"))
        .count()
}

/// Waits until every connection is closed but the one that asks. While there are too many, the orchestrator closes each new one.
async fn wait_for_a_place(orchestrator: &Orchestrator, at_rest: usize) {
    let has_place = async || {
        let request = GetExecutionRequest {
            execution_id: fresh_id(),
        };
        let refusal = orchestrator.plans().get_execution(request).await.unwrap_err();
        let is_answer = refusal.code() == Code::NotFound;
        (is_answer && n_sockets(&orchestrator.process) <= at_rest + 1).then_some(())
    };
    wait_for("a place for a caller", LIMIT, has_place).await.unwrap();
}

/// Hands in plans of a megabyte each until one is not accepted; every one that was is known afterwards.
async fn fill_until_it_fails(stage: &Stage, orchestrator: Orchestrator) {
    let word = "x".repeat(1 << 20);
    let mut accepted = Vec::new();
    for _ in 0..PLANS_MAX {
        let id = fresh_id();
        let document = PlanDocument::new("large").step("nobody", json!({ "word": word }), &[]);
        let request = document.request_field("execution_id", id.clone()).submit();
        let mut plans = orchestrator.plans();
        let call = plans.submit_plan(request);
        match tokio::time::timeout(LIMIT, call)
            .await
            .unwrap_or_else(|_| panic!("no answer"))
        {
            Ok(_) => accepted.push(id),
            Err(_) => break,
        }
    }
    assert!(accepted.len() < PLANS_MAX, "the limit was not reached");
    drop(orchestrator);
    let orchestrator = stage.serve(&ORDINARY, &[]).await;
    stage.expect_kept(&orchestrator).await;
    for id in accepted {
        let request = GetExecutionRequest { execution_id: id };
        orchestrator.plans().get_execution(request).await.unwrap();
    }
}

#[tokio::test]
async fn an_orchestrator_without_memory_loses_nothing_that_it_accepted() {
    let mut stage = Stage::new();
    let orchestrator = stage.serve(&ORDINARY, &[]).await;
    stage.execute(&orchestrator).await;
    let status = std::fs::read_to_string(format!("/proc/{}/status", orchestrator.process.id())).unwrap();
    let size = status
        .lines()
        .find_map(|line| line.strip_prefix("VmSize:"))
        .unwrap();
    let kib: u64 = size.trim().trim_end_matches(" kB").parse().unwrap();
    set_limit(
        &stage,
        &ORDINARY,
        &orchestrator.process,
        &format!("--as={}:", (kib << 10) + SPARE_BYTES),
    );
    fill_until_it_fails(&stage, orchestrator).await;
}

#[tokio::test]
async fn an_orchestrator_whose_files_may_not_grow_loses_nothing_that_it_accepted() {
    let mut stage = Stage::new();
    let orchestrator = stage.serve(&ORDINARY, &[]).await;
    stage.execute(&orchestrator).await;
    set_limit(
        &stage,
        &ORDINARY,
        &orchestrator.process,
        &format!("--fsize={SPARE_BYTES}:"),
    );
    fill_until_it_fails(&stage, orchestrator).await;
}

#[tokio::test]
async fn an_orchestrator_without_free_descriptors_serves_again_when_there_are_some() {
    let mut stage = Stage::new();
    let place = Place::new("few files", r#"ulimit -n 96; exec "$@""#);
    let mut orchestrator = stage.serve(&place, &[]).await;
    let at_rest = n_sockets(&orchestrator.process);
    let mut callers = Vec::new();
    for _ in 0..100 {
        callers.push(TcpStream::connect(orchestrator.address()).await.unwrap());
    }
    drop(callers);
    wait_for_a_place(&orchestrator, at_rest).await;
    stage.execute(&orchestrator).await;
    set_limit(&stage, &ORDINARY, &orchestrator.process, "--nofile=1:");
    let caller = TcpStream::connect(orchestrator.address()).await.unwrap();
    // It tries again every tenth of a second.
    let_pass(Duration::from_millis(500)).await;
    set_limit(&stage, &ORDINARY, &orchestrator.process, "--nofile=96:");
    drop(caller);
    stage.execute(&orchestrator).await;
    stage.expect_kept(&orchestrator).await;
    assert_eq!(
        orchestrator.process.terminate(LIMIT).await.unwrap().code(),
        Some(0)
    );
    let log = orchestrator.process.stderr();
    assert_eq!(log.matches("Too many open files").count(), 1, "{log}");
}

/// A directory that every user can write to.
fn open_to_all(stage: &Stage) {
    let mode = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(stage.directory.path(), mode).unwrap();
}

#[tokio::test]
async fn an_orchestrator_without_new_threads_serves_with_those_that_it_has() {
    let mut stage = Stage::new();
    open_to_all(&stage);
    let mut orchestrator = stage.serve(&STRANGER, &[]).await;
    stage.execute(&orchestrator).await;
    set_limit(&stage, &STRANGER, &orchestrator.process, NO_THREADS);
    let simulation = SimulatePlanRequest {
        plan: echo().submit().plan,
        ..SimulatePlanRequest::default()
    };
    for _ in 0..4 {
        let mut plans = orchestrator.plans();
        let call = plans.simulate_plan(simulation.clone());
        tokio::time::timeout(LIMIT, call).await.unwrap().unwrap();
    }
    set_limit(&stage, &STRANGER, &orchestrator.process, MANY_THREADS);
    stage.execute(&orchestrator).await;
    stage.expect_kept(&orchestrator).await;
    assert_eq!(
        orchestrator.process.terminate(LIMIT).await.unwrap().code(),
        Some(0)
    );
}

#[tokio::test]
async fn a_worker_without_new_processes_fails_the_step_and_goes_on() {
    let stage = Stage::new();
    open_to_all(&stage);
    let orchestrator = OrchestratorSettings::new(stage.directory.path())
        .start()
        .await
        .unwrap();
    let program = Binaries::build().unwrap().worker;
    let mut command = STRANGER.command(&program, stage.directory.path());
    command.args([
        "--orchestrator",
        &orchestrator.url(),
        "--allow-program",
        "/bin/sh",
        "--root",
    ]);
    command.arg(stage.directory.path());
    let stderr = stage.directory.join("worker.stderr");
    let mut worker = ChildProcess::start("worker", &mut command, &stderr).unwrap();
    worker.announcement("connected", LIMIT).await.unwrap();
    let run = async || {
        let script = json!({ "program": "/bin/sh", "args": ["-c", "echo done"] });
        let document = PlanDocument::new("limits").step("process.run", script, &[]);
        let id = fresh_id();
        let request = document.request_field("execution_id", id.clone()).submit();
        orchestrator.plans().submit_plan(request).await.unwrap();
        calls::result_of(orchestrator.plans(), &id, LIMIT).await.unwrap()
    };
    assert_eq!(run().await.status(), Status::Success);
    set_limit(&stage, &STRANGER, &worker, NO_THREADS);
    let failed = run().await;
    assert_eq!(failed.status(), Status::Failure, "{failed:?}");
    let code = failed.error.unwrap().error_code;
    assert_eq!(code, "PROCESS_NOT_STARTED");
    set_limit(&stage, &STRANGER, &worker, MANY_THREADS);
    assert_eq!(run().await.status(), Status::Success);
    assert_eq!(worker.terminate(LIMIT).await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn a_start_at_a_limit_ends_with_a_sentence() {
    let places = [
        (Place::new("files", r#"ulimit -n 95; exec "$@""#), [64, 64]),
        (
            Place::new(
                "threads",
                concat!(
                    r#"exec 8<"$1"; shift; set -- prlimit --nproc=1: /proc/self/fd/8 "$@"; [ "$(id -u)" = 0 ] || exec "$@"; "#,
                    r#"exec setpriv --reuid=54321 --regid=54321 --clear-groups "$@""#
                ),
            ),
            [1, 73],
        ),
    ];
    for (place, codes) in places {
        let stage = Stage::new();
        open_to_all(&stage);
        let mut process = stage.launch(&place, &[]);
        let exit = process.exit(LIMIT).await.unwrap();
        let said = process.stderr();
        assert!(
            exit.code().is_some_and(|code| codes.contains(&code)),
            "{}: {exit}: {said}",
            place.name
        );
        assert!(said.contains("orchestrator: "), "{}: {said}", place.name);
        assert!(!said.contains("panicked"), "{}: {said}", place.name);
    }
}

/// Neither threads nor processes beside those that there are.
const NO_THREADS: &str = "--nproc=1:";
const MANY_THREADS: &str = "--nproc=4096:";
const PLANS_MAX: usize = 100;
const SPARE_BYTES: u64 = 24 << 20;
