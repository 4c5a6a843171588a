//! What handlers do wrong, and what it counts as.

use crate::plans::{RequestWords, StepWords, WORK, json_of, plan, request, step, step_id};
use crate::recording_worker::RecordingWorker;
use crate::world::World;
use bytes::Bytes;
use escapement_model::Opaque;
use escapement_model::limits::OUTPUT_BYTES_MAX;
use escapement_model::opaque::StructBuilder;
use escapement_tests::ScriptedWorker;
use escapement_wire::v1::audit_entry::Event;
use escapement_wire::v1::execution_error::Severity;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::plan_step::OnFailure;
use escapement_wire::v1::{AuditEntry, ExecutionError, PlanResult};
use escapement_wire::worker::v1::attempt_outcome::Outcome;
use escapement_wire::worker::v1::outcome_ack::Verdict;
use escapement_wire::worker::v1::{Failure, Success};
use serde_json::json;

/// The error of a failure, after checking its code and that it is fatal and of the first step.
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

/// An object of exactly so many encoded bytes.
fn object_of(bytes: usize) -> Opaque {
    let around = StructBuilder::new()
        .text("fill", &"x".repeat(bytes))
        .build()
        .len()
        - bytes;
    let object = StructBuilder::new()
        .text("fill", &"x".repeat(bytes - around))
        .build();
    assert_eq!(object.len(), bytes);
    object
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
async fn the_orchestrator_itself_refuses_an_output_one_byte_over_the_limit() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let call = world.executing(request(plan([step(0, WORK).on_failure(OnFailure::Skip)])));
    let assignment = worker.started().await;
    worker
        .succeed_encoded(&assignment, object_of(OUTPUT_BYTES_MAX + 1))
        .await;
    fatal(call.await.unwrap().unwrap(), "RESOURCE_EXHAUSTED");

    let call = world.executing(request(plan([step(0, WORK)])));
    let assignment = worker.started().await;
    let at_the_limit = object_of(OUTPUT_BYTES_MAX);
    assert_eq!(
        worker.succeed_encoded(&assignment, at_the_limit.clone()).await,
        Verdict::Accepted
    );
    let result = call.await.unwrap().unwrap();
    assert_eq!(result.status(), Status::Success);
    let expected = StructBuilder::new()
        .object(&step_id(0), at_the_limit.as_encoded())
        .build();
    assert_eq!(result.result_payload, Some(expected));
}

//
#[tokio::test]
async fn an_output_that_does_not_decode_is_an_unknown_error_and_the_session_survives() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let call = world.executing(request(plan([step(0, WORK)])));
    let assignment = worker.started().await;
    // A map entry whose key is not UTF-8.
    let broken = Opaque::from_encoded(Bytes::from_static(&[
        0x0a, 0x06, 0x0a, 0x02, 0xff, 0xfe, 0x12, 0x00,
    ]));
    worker.succeed_encoded(&assignment, broken).await;
    fatal(call.await.unwrap().unwrap(), "UNKNOWN_ERROR");
    let call = world.executing(request(plan([step(0, WORK)])));
    worker.complete_next(json!({})).await;
    assert_eq!(call.await.unwrap().unwrap().status(), Status::Success);
}

//
#[tokio::test]
async fn codes_and_messages_of_workers_are_held_to_their_limits() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let long_code = "C".repeat(51);
    let cases = [
        ("", Severity::Error, "UNKNOWN_ERROR", Severity::Fatal),
        (&long_code, Severity::Error, "UNKNOWN_ERROR", Severity::Fatal),
        (
            "RESOURCE_EXHAUSTED",
            Severity::Warn,
            "RESOURCE_EXHAUSTED",
            Severity::Fatal,
        ),
        (
            "EXECUTION_HALTED",
            Severity::Fatal,
            "EXECUTION_HALTED",
            Severity::Error,
        ),
        ("OWN_CODE", Severity::Unspecified, "OWN_CODE", Severity::Error),
        ("OWN_CODE", Severity::Fatal, "OWN_CODE", Severity::Fatal),
    ];
    for (reported, said, expected, severity) in cases {
        // Where the first step only failed the second one completes, and the error shows its own severity.
        let call = world.executing(request(plan([
            step(0, WORK).on_failure(OnFailure::Skip),
            step(1, WORK),
        ])));
        let assignment = worker.started().await;
        let failure = Failure {
            code: reported.to_owned(),
            message: "m".repeat(1_200),
            severity: said.into(),
            ..Failure::default()
        };
        assert_eq!(
            worker.report(&assignment, Outcome::Failure(failure)).await,
            Verdict::Accepted
        );
        if severity == Severity::Error {
            worker.complete_next(json!({})).await;
        }
        let error = call.await.unwrap().unwrap().error.unwrap();
        assert_eq!(
            (error.error_code.as_str(), error.severity()),
            (expected, severity),
            "{reported:?} {said:?}"
        );
        assert_eq!(error.message.chars().count(), 1_000);
        if expected != reported {
            assert_eq!(json_of(error.context.as_ref())["original_code"], reported);
        }
    }
}

//
#[tokio::test]
async fn a_warning_with_an_output_completes_the_step_and_one_without_does_not() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let request = request(plan([step(0, WORK), step(1, WORK)]));
    let id = request.execution_id.clone().unwrap();
    let call = world.executing(request);
    let first = worker.started().await;
    let warning = Failure {
        code: "SLOW".to_owned(),
        ..Failure::default()
    };
    let success = Success {
        output: None,
        warnings: vec![warning],
    };
    worker.report(&first, Outcome::Success(success)).await;
    let second = worker.started().await;
    worker.fail(&second, "ODD", Severity::Warn).await;
    let result = call.await.unwrap().unwrap();
    assert_eq!((result.status(), result.steps_executed), (Status::Partial, 1));
    assert_eq!(result.error.unwrap().severity(), Severity::Warn);
    let record = world.record_of(&id).await;
    let warnings = record
        .iter()
        .find_map(|entry| match entry.event.as_ref().unwrap() {
            escapement_wire::v1::audit_entry::Event::StepCompleted(completed) => Some(&completed.warnings),
            _ => None,
        });
    let [warning] = warnings.unwrap().as_slice() else {
        panic!("one warning: {warnings:?}")
    };
    assert_eq!(
        (warning.error_code.as_str(), warning.severity()),
        ("SLOW", Severity::Warn)
    );
    assert_eq!(
        crate::story::step(&record, 1).last().unwrap(),
        "not completed after 1: warned_without_output"
    );
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
