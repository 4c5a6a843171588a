//! Settled executions are removed as the operator says, their ids stay used, and the file stays bounded.

use crate::plans::{RequestWords, StepWords, WORK, object, plan, request, step};
use crate::recording_worker::RecordingWorker;
use crate::status_details::reason;
use crate::world::{LIMIT, World};
use escapement_tests::{ScriptedWorker, fresh_id, wait_for};
use escapement_wire::v1::execution::State;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::{
    ExecutePlanRequest, Execution, GetExecutionRequest, ListAuditEntriesRequest, ListExecutionsRequest,
    WaitExecutionRequest, WatchExecutionRequest,
};
use serde_json::json;
use std::time::Duration;
use tonic::Code;
use tonic_types::StatusExt;

/// Returns the executions that are listed, newest first, in small pages.
async fn listed(world: &World) -> Vec<Execution> {
    let (mut all, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = ListExecutionsRequest {
            page_size: Some(3),
            page_token,
            ..ListExecutionsRequest::default()
        };
        let page = world.orchestrator.plans().list_executions(request).await.unwrap();
        let page = page.into_inner();
        all.extend(page.executions);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return all;
        }
    }
}

async fn ids_listed(world: &World) -> Vec<String> {
    let listed = listed(world).await;
    listed
        .into_iter()
        .map(|execution| execution.execution_id)
        .collect()
}

/// Waits until an execution is not there any more; what asking for it says then.
async fn removed(world: &World, execution_id: &str) -> tonic::Status {
    let asked = async || {
        let request = GetExecutionRequest {
            execution_id: execution_id.to_owned(),
        };
        world.orchestrator.plans().get_execution(request).await.err()
    };
    wait_for("the removal of an execution", LIMIT, asked)
        .await
        .unwrap()
}

/// Executes one plan of one step by the recording worker.
async fn run_one(world: &World) -> ExecutePlanRequest {
    let request = request(plan([step(0, "record")]));
    assert_eq!(world.execute(request.clone()).await.status(), Status::Success);
    request
}

/// Everything that can be asked about a removed execution, and every way in which its ids could be used again.
async fn refuse_everything(world: &World, request: &ExecutePlanRequest) {
    let execution_id = request.id();
    let gone = removed(world, &execution_id).await;
    assert_eq!(reason(&gone, Code::NotFound), "EXECUTION_REMOVED");
    let details = gone.get_error_details();
    let metadata = &details.error_info().unwrap().metadata;
    assert_eq!(metadata["execution_id"], execution_id);
    assert_eq!(metadata["plan_id"], request.plan_id());
    let number = |key: &str| metadata[key].parse::<i64>().unwrap();
    assert!(number("settled_at") <= number("removed_at"), "{metadata:?}");

    let mut plans = world.orchestrator.plans();
    let wait = WaitExecutionRequest {
        execution_id: execution_id.clone(),
        timeout_ms: Some(5_000),
    };
    let watch = WatchExecutionRequest {
        execution_id: execution_id.clone(),
        from_sequence: 1,
        ..WatchExecutionRequest::default()
    };
    let entries = ListAuditEntriesRequest {
        execution_id: execution_id.clone(),
        from_sequence: 1,
        page_size: None,
    };
    for refused in [
        plans.wait_execution(wait).await.unwrap_err(),
        plans.watch_execution(watch).await.map(drop).unwrap_err(),
        plans.list_audit_entries(entries).await.unwrap_err(),
    ] {
        assert_eq!(reason(&refused, Code::NotFound), "EXECUTION_REMOVED");
    }
    for refused in [
        world.try_submit(request).await.map(drop).unwrap_err(),
        world.try_execute(request.clone()).await.map(drop).unwrap_err(),
    ] {
        assert_eq!(reason(&refused, Code::FailedPrecondition), "EXECUTION_REMOVED");
    }
    let mut other = request.clone();
    other.environment = Some(object(json!({ "region": "us" })));
    let mut other_plan = request.clone();
    other_plan.plan.as_mut().unwrap().id = fresh_id();
    for other in [other, other_plan] {
        let refused = world.try_submit(&other).await.unwrap_err();
        assert_eq!(reason(&refused, Code::AlreadyExists), "EXECUTION_ID_IN_USE");
    }
    let same_plan = ExecutePlanRequest {
        execution_id: Some(fresh_id()),
        ..request.clone()
    };
    let refused = world.try_submit(&same_plan).await.unwrap_err();
    assert_eq!(reason(&refused, Code::FailedPrecondition), "PLAN_ID_USED");
    let details = refused.get_error_details();
    assert_eq!(
        details.error_info().unwrap().metadata["execution_id"],
        execution_id
    );
}

//
#[tokio::test]
async fn settled_executions_beyond_the_count_are_removed_while_others_run_and_their_ids_stay_used() {
    let mut world =
        World::start_with(|settings| settings.flag("--keep-settled-count", 5).switch("--no-runs")).await;
    let mut scripted = ScriptedWorker::connect(&world.orchestrator, &[WORK], 4).await;
    let worker = RecordingWorker::start(&world.orchestrator.url(), 4);
    let runs = request(plan([step(0, WORK)]));
    let running = world.executing(runs.clone());
    let assignment = scripted.started().await;
    let mut requests = Vec::new();
    for _ in 0..20 {
        requests.push(run_one(&world).await);
    }
    for request in &requests[..15] {
        removed(&world, &request.id()).await;
    }
    let mut kept: Vec<String> = requests[15..].iter().rev().map(RequestWords::id).collect();
    kept.push(runs.id());
    assert_eq!(ids_listed(&world).await, kept);
    for request in &requests[15..] {
        assert_eq!(world.result_of(&request.id()).await.status(), Status::Success);
        assert!(!world.record_of(&request.id()).await.is_empty());
    }
    let n_ran = worker.seen().len();
    refuse_everything(&world, &requests[0]).await;

    world.crash_and_restart().await;
    running.abort();
    drop((assignment, scripted));
    refuse_everything(&world, &requests[0]).await;
    refuse_everything(&world, &requests[14]).await;
    assert_eq!(worker.seen().len(), n_ran, "nothing ran again");
    // What ran when the orchestrator went down is settled by the restart: what settled first gives way to it.
    let gone = removed(&world, &requests[15].id()).await;
    assert_eq!(reason(&gone, Code::NotFound), "EXECUTION_REMOVED");
    kept.retain(|id| *id != requests[15].id());
    assert_eq!(ids_listed(&world).await, kept);
}

#[tokio::test]
async fn settled_executions_are_removed_by_age_and_what_lives_is_not() {
    let world = World::start_with(|settings| {
        settings
            .flag("--keep-settled-ms", 1_500)
            .switch("--no-runs")
            .flag("--max-running-executions", 2)
    })
    .await;
    let mut scripted = ScriptedWorker::connect(&world.orchestrator, &[WORK], 4).await;
    let runs = request(plan([step(0, WORK)]));
    let call = world.executing(runs.clone());
    let assignment = scripted.started().await;
    let worker = RecordingWorker::start(&world.orchestrator.url(), 4);
    let settled = run_one(&world).await;
    let at = world.execution(&settled.id()).await.result.unwrap().completed_at;
    let gone = removed(&world, &settled.id()).await;
    let details = gone.get_error_details();
    let removed_at: i64 = details.error_info().unwrap().metadata["removed_at"]
        .parse()
        .unwrap();
    assert!(removed_at > at + 1_500, "removed {} ms later", removed_at - at);
    assert_eq!(world.execution(&runs.id()).await.state(), State::Running);
    scripted.succeed(&assignment, json!({})).await;
    assert_eq!(call.await.unwrap().unwrap().status(), Status::Success);
    worker.stop().await;
}

//
#[tokio::test]
async fn ids_that_the_operator_lets_go_can_be_used_again() {
    let world = World::start_with(|settings| {
        settings
            .flag("--keep-settled-ms", 1_000)
            .switch("--no-runs")
            .flag("--keep-ids-ms", 1_000)
    })
    .await;
    let worker = RecordingWorker::start(&world.orchestrator.url(), 4);
    let first = run_one(&world).await;
    let gone = removed(&world, &first.id()).await;
    assert_eq!(reason(&gone, Code::NotFound), "EXECUTION_REMOVED");
    let forgotten = async || {
        let status = removed(&world, &first.id()).await;
        (reason(&status, Code::NotFound) == "EXECUTION_NOT_FOUND").then_some(())
    };
    wait_for("the ids to be forgotten", LIMIT, forgotten)
        .await
        .unwrap();
    assert_eq!(world.execute(first).await.status(), Status::Success);
    assert_eq!(worker.seen().len(), 2);
    worker.stop().await;
}

/// Number of executions that the soak runs: in `cargo verify`, and where `ESCAPEMENT_LONG` is set.
const SOAK: (usize, usize) = (1_200, 20_000);
const SOAK_CALLERS: usize = 16;
const SOAK_KEPT: usize = 100;
const SOAK_OUTPUT_BYTES: usize = 40_000;

#[tokio::test]
async fn the_file_stays_bounded_however_much_runs() {
    let is_long = std::env::var_os("ESCAPEMENT_LONG").is_some();
    let n_all = if is_long { SOAK.1 } else { SOAK.0 };
    let world = World::start_with(|settings| {
        settings
            .flag("--keep-settled-count", SOAK_KEPT)
            .flag("--keep-ids-ms", 1_000)
            .switch("--no-runs")
    })
    .await;
    let worker = RecordingWorker::start(&world.orchestrator.url(), 64);
    let mut sizes = Vec::new();
    for _ in 0..10 {
        let mut callers = Vec::new();
        for _ in 0..SOAK_CALLERS {
            let mut plans = world.orchestrator.plans();
            callers.push(tokio::spawn(async move {
                for _ in 0..n_all / 10 / SOAK_CALLERS {
                    let step = step(0, "large_output").payload(json!({ "bytes": SOAK_OUTPUT_BYTES }));
                    let request = request(plan([step]));
                    plans.execute_plan(request).await.unwrap();
                }
            }));
        }
        for caller in callers {
            caller.await.unwrap();
        }
        let few = async || (listed(&world).await.len() <= SOAK_KEPT).then_some(());
        wait_for("the removals to catch up", Duration::from_secs(60), few)
            .await
            .unwrap();
        let file = |name: &str| {
            let path = world.directory.join("store").join(name);
            path.metadata().map_or(0, |metadata| metadata.len() >> 10)
        };
        sizes.push((file("store.db"), file("store.db-wal")));
    }
    eprintln!("{n_all} executions, {SOAK_KEPT} kept; KiB of the database and its log: {sizes:?}");
    worker.stop().await;
    // Without removal the database alone would have them all. Its log is copied at 32 MiB.
    let all_kib = (n_all * SOAK_OUTPUT_BYTES / 1024) as u64;
    let (last, log) = sizes[sizes.len() - 1];
    let bound = if is_long { 60_000 } else { all_kib * 2 / 3 };
    assert!(
        (1_000..bound).contains(&last),
        "{last} KiB, where {all_kib} were written"
    );
    assert!(log < 200 << 10, "the log has {log} KiB");
}
