//! Everything that is recorded of an execution: it replays, a second interpreter comes to the same, it can be taken away as a
//! file, and a change of that shows.

use crate::backup::{Said, command};
use crate::grpcurl::{INSTALL, grpcurl};
use crate::plans::{
    RequestWords, StepWords, WORK, echo, fail, object, plan, plan_with_retries, request, step, unix_ms,
};
use crate::status_details::reason;
use crate::watching::wait_for_started;
use crate::world::{LIMIT, World};
use escapement_tests::reference::retell_archive;
use escapement_tests::{ScriptedWorker, fresh_id, tool, wait_for};
use escapement_wire::v1::execution::State;
use escapement_wire::v1::execution_error::Severity;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::plan_step::OnFailure;
use escapement_wire::v1::{
    ExecutePlanRequest, ExportExecutionRequest, Plan, PlanStep, ReplayExecutionRequest,
    ReplayExecutionResponse,
};
use escapement_wire::worker::v1::attempt_outcome::Outcome;
use escapement_wire::worker::v1::outcome_ack::Verdict;
use escapement_wire::worker::v1::{Failure, Success};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tonic::Code;

async fn try_replay(world: &World, id: &str) -> Result<ReplayExecutionResponse, tonic::Status> {
    let request = ReplayExecutionRequest {
        execution_id: id.to_owned(),
    };
    let answer = world.orchestrator.plans().replay_execution(request).await?;
    Ok(answer.into_inner())
}

async fn try_export(world: &World, id: &str) -> Result<Vec<u8>, tonic::Status> {
    let request = ExportExecutionRequest {
        execution_id: id.to_owned(),
    };
    let answer = world.orchestrator.plans().export_execution(request).await?;
    let (mut pieces, mut file) = (answer.into_inner(), Vec::new());
    while let Some(piece) = pieces.message().await? {
        assert!(
            (1..=64 << 10).contains(&piece.data.len()),
            "a piece is at most 64 KiB"
        );
        file.extend(piece.data);
    }
    Ok(file)
}

async fn verify(files: &[PathBuf]) -> Said {
    let files = files.iter().map(|file| file.to_str().unwrap());
    let arguments: Vec<&str> = ["verify"].into_iter().chain(files).collect();
    command(&arguments).await
}

async fn export_of_store(world: &World, id: &str, to: &Path) -> Said {
    let store = world.directory.join("store");
    let (store, to) = (store.to_str().unwrap(), to.to_str().unwrap());
    command(&["export", "--store-path", store, "--execution-id", id, "--to", to]).await
}

/// Each replays and is retold, and its file, by the call as by the command, is found good.
async fn all_replay(world: &World, ids: &[String]) {
    let mut files = Vec::new();
    let mut n_inputs = 0;
    for id in ids {
        let replayed = try_replay(world, id).await.unwrap();
        assert_eq!(replayed.first_difference, None, "{replayed:?}");
        assert!(
            replayed.identical && replayed.complete && replayed.chain_intact,
            "{replayed:?}"
        );
        assert!(replayed.decisions_identical && replayed.result_identical && replayed.audit_identical);
        n_inputs += replayed.inputs;
        let exported = try_export(world, id).await.unwrap();
        assert_eq!(retell_archive(&exported, 3), Ok(()), "{id}");
        let (by_call, by_command) = (
            world.directory.join(id),
            world.directory.join(format!("{id}-again")),
        );
        std::fs::write(&by_call, &exported).unwrap();
        let said = export_of_store(world, id, &by_command).await;
        assert_eq!(said.code, Some(0), "{said:?}");
        assert_eq!(said.last()["bytes"], exported.len());
        assert!(std::fs::read(&by_command).unwrap() == exported, "the same file");
        files.push(by_call);
    }
    let said = verify(&files).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(said.lines.len(), 1, "nothing but the last line: {said:?}");
    let last = said.last();
    assert_eq!(last["event"], "verified");
    assert_eq!(
        (&last["files"], &last["inputs"], &last["bad"]),
        (&json!(ids.len()), &json!(n_inputs), &json!(0))
    );
}

fn delay(number: usize, ms: u64) -> PlanStep {
    step(number, "delay").payload(json!({ "ms": ms }))
}

/// Requests that the stock worker ends in every way that needs nobody's help.
fn mixed() -> Vec<(ExecutePlanRequest, Status)> {
    let skip = OnFailure::Skip;
    let busy = |number| fail(number, "BUSY").on_failure(OnFailure::Retry);
    let large = "large ".repeat(20_000);
    let short = Plan {
        timeout_ms: Some(150),
        ..plan([echo(0, json!({})), delay(1, 60_000).after(&[0])])
    };
    let limited = delay(0, 60_000).timeout_ms(30).on_failure(OnFailure::Retry);
    let no_region = ExecutePlanRequest {
        environment: Some(object(json!({}))),
        ..request(plan([echo(0, json!({}))]))
    };
    let success = [
        echo(0, json!({ "n": [1, null, true] })),
        echo(1, json!({ "large": large })).after(&[0]),
    ];
    let requests = [
        (request(plan(success)), Status::Success),
        (
            request(plan((0..40).map(|n| echo(n, json!({ "n": n }))))).concurrent(8),
            Status::Success,
        ),
        (
            request(plan([echo(0, json!({})), fail(1, "BROKEN").on_failure(skip)])),
            Status::Partial,
        ),
        (
            request(plan([
                fail(0, "BROKEN").on_failure(skip),
                echo(1, json!({})).after(&[0]),
            ])),
            Status::Failure,
        ),
        (
            request(plan([echo(0, json!({})), fail(1, "BROKEN")])),
            Status::Failure,
        ),
        (
            request(plan_with_retries([busy(0), echo(1, json!({}))], 3, &["BUSY"])),
            Status::Partial,
        ),
        (
            request(plan_with_retries(
                [limited, echo(1, json!({}))],
                2,
                &["STEP_TIMEOUT"],
            )),
            Status::Partial,
        ),
        (request(plan([delay(0, 60_000).timeout_ms(30)])), Status::Failure),
        (request(short), Status::Failure),
        (request(plan([step(0, "nobody_offers_this")])), Status::Failure),
        (no_region, Status::Failure),
    ];
    requests.into()
}

//
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_execution_of_a_mixed_load_replays_byte_for_byte() {
    let world = World::start_with(|settings| settings.flag("--registration-grace-ms", 300)).await;
    let _stock = world
        .stock_worker("stock", |settings| settings.flag("--max-in-flight", 16))
        .await;
    let mixed = mixed();
    let calls: Vec<_> = mixed
        .iter()
        .map(|(request, _)| world.executing(request.clone()))
        .collect();
    let mut ids = Vec::new();
    for (call, (request, status)) in calls.into_iter().zip(&mixed) {
        let result = call.await.unwrap().unwrap();
        assert_eq!(result.status(), *status, "{result:?}");
        ids.push(request.id());
    }
    ids.extend(of_scripted_worker(&world).await);
    all_replay(&world, &ids).await;
}

/// Executions in which a worker gives back, warns, sends too much, or leaves.
async fn of_scripted_worker(world: &World) -> Vec<String> {
    let mut first = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let returned = request(plan([step(0, WORK)]));
    let call = world.executing(returned.clone());
    let rejected = first.assignment().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    worker.keep_alive(Duration::from_secs(1));
    first.reject(&rejected).await;
    first.goodbye().await;
    let assignment = worker.started().await;
    let warning = Failure {
        code: "SLOW".to_owned(),
        message: "It took long.".to_owned(),
        context: Some(object(json!({ "ms": 7 }))),
        ..Failure::default()
    };
    let success = Success {
        output: Some(object(json!({ "done": true }))),
        warnings: vec![warning],
    };
    let outcome = Outcome::Success(success);
    assert_eq!(worker.report(&assignment, outcome).await, Verdict::Accepted);
    assert_eq!(call.await.unwrap().unwrap().status(), Status::Success);

    let refused = request(plan([step(0, WORK)]));
    let call = world.executing(refused.clone());
    let assignment = worker.started().await;
    let too_large = object(json!({ "fill": "x".repeat(1 << 20) }));
    worker.succeed_encoded(&assignment, too_large).await;
    let error = call.await.unwrap().unwrap().error.unwrap();
    assert_eq!(error.error_code, "RESOURCE_EXHAUSTED");

    let fatal = request(plan([step(0, WORK)]));
    let call = world.executing(fatal.clone());
    let assignment = worker.started().await;
    worker.fail(&assignment, "BROKEN", Severity::Fatal).await;
    assert_eq!(call.await.unwrap().unwrap().status(), Status::Failure);

    let left = request(plan([step(0, WORK)]));
    let call = world.executing(left.clone());
    worker.started().await;
    worker.goodbye().await;
    let error = call.await.unwrap().unwrap().error.unwrap();
    assert_eq!(error.cause.unwrap().error_code, "WORKER_LOST");
    [returned, refused, fatal, left]
        .map(|request| request.id())
        .into()
}

//
#[tokio::test]
async fn what_a_killed_worker_left_behind_replays() {
    let world = World::start().await;
    let mut worker = world.stock_worker("killed", |settings| settings).await;
    let lost = request(plan([echo(0, json!({})), delay(1, 60_000).after(&[0])]));
    let call = world.executing(lost.clone());
    wait_for_started(&world, &lost.id(), 1).await;
    worker.process.kill().unwrap();
    let error = call.await.unwrap().unwrap().error.unwrap();
    assert_eq!(error.error_code, "WORKER_LOST");
    all_replay(&world, &[lost.id()]).await;
}

//
#[tokio::test]
async fn what_a_restart_interrupted_or_took_up_again_replays() {
    let mut world = World::start_with(|settings| {
        settings
            .flag("--max-running-executions", 1)
            .flag("--max-queued-in-memory", 1)
    })
    .await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let running = request(plan([step(0, WORK), step(1, WORK)]));
    world.submit(&running).await;
    worker.complete_next(json!({ "first": true })).await;
    worker.started().await;
    let deadline_ms = unix_ms() + 400;
    let short = Plan {
        timeout_ms: Some(1),
        ..plan([step(0, WORK)])
    };
    let too_late = ExecutePlanRequest {
        deadline_ms: Some(deadline_ms),
        ..request(short)
    };
    assert_eq!(world.submit(&too_late).await.state(), State::Queued);
    // More than are held in memory.
    let queued: Vec<_> = (0..4).map(|_| request(plan([step(0, WORK)]))).collect();
    for request in &queued {
        assert_eq!(world.submit(request).await.state(), State::Queued);
    }
    world.orchestrator.process.kill().unwrap();
    let passed = async || (unix_ms() > deadline_ms).then_some(());
    wait_for("the deadline", LIMIT, passed).await.unwrap();
    world.crash_and_restart().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    for _ in &queued {
        worker.complete_next(json!({ "after": true })).await;
    }
    let mut ids = vec![running.id(), too_late.id()];
    ids.extend(queued.iter().map(|request| request.id()));
    for id in &ids {
        world.result_of(id).await;
    }
    assert_eq!(try_replay(&world, &running.id()).await.unwrap().inputs, 0);
    all_replay(&world, &ids).await;
    // What was recorded before a restart is what is recorded behind it.
    let before = try_export(&world, &ids[2]).await.unwrap();
    world.crash_and_restart().await;
    assert_eq!(try_export(&world, &ids[2]).await.unwrap(), before);
}

#[tokio::test]
async fn what_is_not_settled_or_not_there_has_no_record_yet() {
    let flags = [("--max-running-executions", 1), ("--max-queued-in-memory", 1)];
    let world = World::start_with(|settings| {
        flags
            .iter()
            .fold(settings, |settings, (name, value)| settings.flag(name, value))
    })
    .await;
    let running = request(plan([step(0, WORK)]));
    world.submit(&running).await;
    // One of them waits in memory, the others in the store alone.
    let queued = [(); 3].map(|()| request(plan([step(0, WORK)])));
    for queued in &queued {
        world.submit(queued).await;
    }
    for waiting in queued.iter().chain([&running]) {
        for refused in [
            try_replay(&world, &waiting.id()).await.unwrap_err(),
            try_export(&world, &waiting.id()).await.unwrap_err(),
        ] {
            assert_eq!(
                reason(&refused, Code::FailedPrecondition),
                "EXECUTION_NOT_SETTLED"
            );
        }
    }
    for refused in [
        try_replay(&world, &fresh_id()).await.unwrap_err(),
        try_export(&world, &fresh_id()).await.unwrap_err(),
    ] {
        assert_eq!(reason(&refused, Code::NotFound), "EXECUTION_NOT_FOUND");
    }
    let refused = try_replay(&world, "7").await.unwrap_err();
    assert_eq!(reason(&refused, Code::InvalidArgument), "INVALID_ARGUMENT");
    let to = world.directory.join("record");
    let said = export_of_store(&world, &running.id(), &to).await;
    assert_eq!(said.code, Some(73), "{said:?}");
    assert!(said.stderr.contains("is not settled"), "{}", said.stderr);
    let said = export_of_store(&world, &fresh_id(), &to).await;
    assert_eq!(said.code, Some(73), "{said:?}");
    assert!(!to.exists());
    std::fs::write(&to, "mine").unwrap();
    let said = verify(&[to, world.directory.join("nowhere")]).await;
    assert_eq!(said.code, Some(73), "{said:?}");
    let unreadable = said.lines.iter().filter(|line| line["event"] == "unreadable");
    assert_eq!(unreadable.count(), 2);
}

/// Returns a world with a settled execution, and its file.
async fn exported() -> (World, String, PathBuf) {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let request = request(plan([step(0, WORK)]));
    let call = world.executing(request.clone());
    worker.complete_next(json!({ "colour": "needle" })).await;
    call.await.unwrap().unwrap();
    let file = world.directory.join("record");
    let said = export_of_store(&world, &request.id(), &file).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    (world, request.id(), file)
}

#[tokio::test]
async fn a_file_that_was_changed_is_found_and_the_place_is_named() {
    let (world, id, file) = exported().await;
    let said = export_of_store(&world, &id, &file).await;
    assert_eq!(said.code, Some(73), "a file is never overwritten");
    let whole = std::fs::read(&file).unwrap();
    let changed = async |needle: &[u8], to: &[u8]| {
        let at = whole.windows(needle.len()).position(|window| window == needle);
        let mut bytes = whole.clone();
        bytes[at.unwrap()..][..to.len()].copy_from_slice(to);
        let file = world.directory.join("changed");
        std::fs::write(&file, bytes).unwrap();
        let said = verify(&[file]).await;
        assert_eq!(said.code, Some(74), "{said:?}");
        assert_eq!(
            (&said.last()["event"], &said.last()["bad"]),
            (&json!("verified"), &json!(1))
        );
        said
    };
    let names = |said: &Said, part: &str, sequence: u64| {
        let named = |line: &serde_json::Value| line["part"] == part && line["sequence"] == sequence;
        assert!(said.lines.iter().any(named), "{part} {sequence}: {said:?}");
    };
    let said = changed(b"needle", b"meddle").await;
    names(&said, "result", 0);
    names(&said, "file", 0);
    let entry = said.lines.iter().find(|line| line["part"] == "entry");
    assert_eq!(entry, None, "the entries are as they were: {said:?}");
    // The actions of the rule set stand behind `accepted`, `started` and the four entries of the step.
    names(&changed(b"validate_completion", b"V").await, "entry", 7);
    names(&changed(b"capture_metadata", b"CAP").await, "entry", 8);
    names(&changed(b"region", b"REGION").await, "accepted", 0);
    // The end of the file is missing.
    let cut = world.directory.join("cut");
    std::fs::write(&cut, &whole[..whole.len() - 10]).unwrap();
    let said = verify(&[cut, file]).await;
    assert_eq!((said.code, said.lines.len()), (Some(74), 2), "{said:?}");
}

#[tokio::test]
async fn what_grpcurl_prints_is_a_record_file_too() {
    let Some(program) = tool("grpcurl", INSTALL) else {
        return;
    };
    let (world, id, file) = exported().await;
    let address = world.orchestrator.address().to_string();
    let method = "escapement.v1.PlanExecutionService/ExportExecution";
    let output = grpcurl(&program, &[&address, method], &json!({ "execution_id": id }));
    assert!(output.status.success(), "{output:?}");
    let printed = world.directory.join("record.json");
    std::fs::write(&printed, output.stdout).unwrap();
    let said = verify(&[printed, file]).await;
    assert_eq!((said.code, said.lines.len()), (Some(0), 1), "{said:?}");
}
