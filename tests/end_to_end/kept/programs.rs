//! Programs of earlier versions against this orchestrator: their worker in Python works for it, and their callers hold the
//! conversations that they held. They are sources with the protos that they were written for, so they run wherever Python does.

use super::{kept, wanted};
use crate::clients::{let_call, python, python_modules};
use crate::plans::{RequestWords, StepWords, echo, fail, plan, plan_with_retries, request, step};
use crate::watching::wait_for_started;
use crate::world::{LIMIT, World};
use escapement_tests::{ChildProcess, PrivateDirectory, checkout, wait_for};
use escapement_wire::v1::ListWorkersRequest;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::plan_step::OnFailure;
use serde_json::json;
use std::path::Path;
use std::process::Command;

const ARCHIVE: &str = "programs.tar.gz";

/// Returns the programs of every kept version, unpacked.
fn programs() -> Vec<PrivateDirectory> {
    if let Some(folder) = wanted().filter(|folder| !folder.join(ARCHIVE).exists()) {
        let mut archive = Command::new("git");
        archive
            .args(["archive", "--format=tar.gz", "--output"])
            .arg(folder.join(ARCHIVE))
            .args(["HEAD", "proto", "worker/python", "tests/clients/python"])
            .current_dir(checkout::root());
        assert!(archive.status().unwrap().success());
    }
    let unpacked = kept().into_iter().map(|folder| {
        let directory = PrivateDirectory::new("kept-programs").unwrap();
        let mut unpack = Command::new("tar");
        unpack
            .args(["--extract", "--gzip", "--file"])
            .arg(folder.join(ARCHIVE))
            .current_dir(directory.path());
        assert!(unpack.status().unwrap().success(), "{}", folder.display());
        directory
    });
    unpacked.collect()
}

fn worker(python: &Path, programs: &PrivateDirectory, world: &World) -> ChildProcess {
    let mut command = Command::new(python);
    command
        .arg(programs.join("worker/python/escapement_worker.py"))
        .env("ESCAPEMENT_ORCHESTRATOR", world.orchestrator.url())
        .env("XDG_CACHE_HOME", programs.path());
    ChildProcess::start("kept", &mut command, &programs.join("worker.stderr")).unwrap()
}

fn delay(number: usize, ms: u64) -> escapement_wire::v1::PlanStep {
    step(number, "delay").payload(json!({ "ms": ms }))
}

#[tokio::test]
async fn the_worker_of_every_earlier_version_works_for_this_orchestrator() {
    let Some(python) = python() else { return };
    for programs in programs() {
        let mut world = World::start().await;
        let mut worker = worker(&python, &programs, &world);
        let steps = [
            echo(0, json!({ "a": 1 })),
            fail(1, "BUSY").on_failure(OnFailure::Skip),
            delay(2, 10).after(&[0]),
        ];
        let result = world.execute(request(plan(steps))).await;
        assert_eq!(
            (result.status(), result.steps_executed),
            (Status::Partial, 2),
            "{}",
            worker.stderr()
        );
        let again = plan_with_retries([fail(0, "BUSY").on_failure(OnFailure::Retry)], 2, &["BUSY"]);
        let result = world.execute(request(again)).await;
        assert_eq!(result.status(), Status::Failure, "{result:?}");

        // A cancel frees the slot, and a stream that broke is opened again.
        let result = world
            .execute(request(plan([delay(0, 60_000).timeout_ms(200)])))
            .await;
        assert_eq!(result.error.unwrap().error_code, "STEP_TIMEOUT");
        world.settings = world.settings.clone().listen(world.orchestrator.address());
        world.crash_and_restart().await;
        let back = async || {
            let asked = ListWorkersRequest {};
            let listed = world.orchestrator.fleet().list_workers(asked).await.ok()?;
            (listed.into_inner().workers.len() == 1).then_some(())
        };
        wait_for("the worker to come back", LIMIT, back).await.unwrap();
        let result = world.execute(request(plan([echo(0, json!({ "b": 2 }))]))).await;
        assert_eq!(result.status(), Status::Success, "{}", worker.stderr());

        // It drains.
        let last = request(plan([delay(0, 700)]));
        let id = last.id();
        let call = world.executing(last);
        wait_for_started(&world, &id, 0).await;
        assert_eq!(worker.terminate(LIMIT).await.unwrap().code(), Some(0));
        assert_eq!(call.await.unwrap().unwrap().status(), Status::Success);
    }
}

#[tokio::test]
async fn a_caller_of_every_earlier_version_is_answered_as_it_was() {
    let Some(python) = python() else { return };
    for programs in programs() {
        let modules = python_modules(&python, &programs.join("proto"));
        let mut client = Command::new(&python);
        client
            .arg(programs.join("tests/clients/python/client.py"))
            .env("PYTHONPATH", modules.path());
        let_call(client).await;
    }
}
