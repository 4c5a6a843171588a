//! What handlers do wrong, and what it counts as.

use crate::plans::{RequestWords, StepWords, json_of, plan, request, step, step_id};
use crate::recording_worker::RecordingWorker;
use crate::world::{LIMIT, World};
use escapement_model::limits::OUTPUT_BYTES_MAX;
use escapement_tests::{PrivateDirectory, WorkerSettings, wait_for};
use escapement_wire::v1::audit_entry::Event;
use escapement_wire::v1::execution_error::Severity;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::plan_step::OnFailure;
use escapement_wire::v1::{AuditEntry, ExecutionError, PlanResult};
use serde_json::json;
use std::path::PathBuf;

/// Returns the error of a failure, after checking its code and that it is fatal and of the first step.
#[track_caller]
fn fatal(result: PlanResult, code: &str) -> ExecutionError {
    assert_eq!((result.status(), result.steps_executed), (Status::Failure, 0));
    let error = result.error.unwrap();
    assert_eq!(
        (error.error_code.as_str(), error.severity()),
        (code, Severity::Fatal),
        "{error:?}"
    );
    assert_eq!(error.step_id, Some(step_id(0)));
    error
}

#[tokio::test]
async fn a_worker_that_allows_no_program_gets_no_step_that_runs_one() {
    let world = World::start().await;
    let _plain = world.stock_worker("plain", |settings| settings).await;
    let _configured = world
        .stock_worker("configured", |settings| settings.flag("--allow-program", "sh"))
        .await;
    let program = json!({ "program": "sh", "args": ["-c", "true"] });
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let step = step(0, "process.run").payload(program.clone());
            world.executing(request(plan([step])))
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().status(), Status::Success);
    }
}

//
#[tokio::test]
async fn a_program_that_one_worker_may_not_run_goes_to_the_one_that_may() {
    let world = World::start().await;
    let (sh, true_) = ("sh", "true");
    let _workers = [
        world
            .stock_worker(sh, |settings| settings.flag("--allow-program", sh))
            .await,
        world
            .stock_worker(true_, |settings| settings.flag("--allow-program", true_))
            .await,
    ];
    let run = |program: &str| {
        let step = step(0, "process.run").payload(json!({ "program": program, "args": ["-c", "true"] }));
        request(plan([step.on_failure(OnFailure::Skip)]))
    };
    let workers_of = |record: &[AuditEntry]| -> Vec<String> {
        let assigned = record.iter().filter_map(|entry| match &entry.event {
            Some(Event::AttemptAssigned(assigned)) => Some(assigned.worker_id.clone()),
            _ => None,
        });
        assigned.collect()
    };
    let calls: Vec<_> = (0..20)
        .map(|n| [sh, true_][n % 2])
        .map(|program| (program, run(program)))
        .map(|(program, request)| (program, request.id(), world.executing(request)))
        .collect();
    for (program, id, call) in calls {
        let result = call.await.unwrap().unwrap();
        assert_eq!(
            (result.status(), result.steps_executed),
            (Status::Success, 1),
            "{result:?}"
        );
        let workers = workers_of(&world.record_of(&id).await);
        assert_eq!(workers.last().map(String::as_str), Some(program), "{workers:?}");
    }

    let nobodys = run("env");
    let error = fatal(world.execute(nobodys.clone()).await, "PROCESS_NOT_ALLOWED");
    assert!(error.message.contains("--allow-program"), "{error:?}");
    let mut workers = workers_of(&world.record_of(&nobodys.id()).await);
    workers.sort();
    assert_eq!(workers, [sh, true_], "each is asked once");
}

//
#[tokio::test]
async fn a_handler_that_panics_is_an_unknown_error_and_the_worker_lives_on() {
    let world = World::start().await;
    let worker = RecordingWorker::start(&world.orchestrator.url(), 4);
    let result = world
        .execute(request(plan([step(0, "panic").on_failure(OnFailure::Skip)])))
        .await;
    let error = fatal(result, "UNKNOWN_ERROR");
    let told = format!("{} {}", error.message, json_of(error.context.as_ref()));
    assert!(told.contains("breaks on purpose"), "{told}");
    let after = world.execute(request(plan([step(0, "record")]))).await;
    assert_eq!(after.status(), Status::Success);
    worker.stop().await;
}

//
#[tokio::test]
async fn an_output_that_is_no_object_is_an_unknown_error() {
    let world = World::start().await;
    let _worker = RecordingWorker::start(&world.orchestrator.url(), 4);
    fatal(
        world.execute(request(plan([step(0, "list_output")]))).await,
        "UNKNOWN_ERROR",
    );
}

//
#[tokio::test]
async fn an_output_that_is_too_large_ends_its_step_alone_and_the_session_survives() {
    let world = World::start().await;
    let worker = RecordingWorker::start(&world.orchestrator.url(), 4);
    let large = step(0, "large_output").payload(json!({ "bytes": OUTPUT_BYTES_MAX }));
    let (too_large, beside) = tokio::join!(
        world.execute(request(plan([large]))),
        world.execute(request(plan([step(0, "record"), step(1, "record")]))),
    );
    fatal(too_large, "RESOURCE_EXHAUSTED");
    assert_eq!(beside.status(), Status::Success);
    let after = world.execute(request(plan([step(0, "record")]))).await;
    assert_eq!(after.status(), Status::Success);
    let fits = step(0, "large_output").payload(json!({ "bytes": OUTPUT_BYTES_MAX - 100 }));
    assert_eq!(
        world.execute(request(plan([fits]))).await.status(),
        Status::Success
    );
    worker.stop().await;
}

//
#[tokio::test]
async fn a_payload_that_the_stock_worker_cannot_read_is_invalid() {
    let world = World::start().await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let step = step(0, "delay")
        .payload(json!({ "ms": "soon" }))
        .on_failure(OnFailure::Skip);
    let error = fatal(world.execute(request(plan([step]))).await, "INVALID_PAYLOAD");
    assert!(error.message.contains("ms"), "{}", error.message);
}

#[tokio::test]
async fn workers_that_see_different_directories_are_warned_of_and_others_are_not() {
    let world = World::start().await;
    let directory = PrivateDirectory::new("roots").unwrap();
    let [one, other] = ["one", "other"].map(|name| {
        let root = directory.join(name);
        std::fs::create_dir_all(&root).unwrap();
        root
    });
    let warned = || {
        let log = world.orchestrator.process.stderr();
        log.matches("see different directories").count()
    };
    let url = world.orchestrator.url();
    let worker = async |name: &str, root: &PathBuf| {
        let settings = WorkerSettings::new(&url, name, root, world.directory.path());
        settings.connect().await.unwrap()
    };
    let _first = worker("first", &one).await;
    let _second = worker("second", &one).await;
    let _third = worker("third", &other).await;
    wait_for("the warning", LIMIT, async || (warned() > 0).then_some(()))
        .await
        .unwrap();
    assert_eq!(warned(), 1, "two of them see the same");
}
