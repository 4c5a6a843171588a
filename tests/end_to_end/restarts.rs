//! kill -9 of the orchestrator at every stage of an execution, and the restart on the same store.

use crate::plans::{RequestWords, StepWords, WORK, json_of, plan, plan_with_retries, request, step, unix_ms};
use crate::recording_worker::RecordingWorker;
use crate::story::mandatory_actions;
use crate::world::World;
use escapement_tests::OrchestratorSettings;
use escapement_tests::ScriptedWorker;
use escapement_wire::v1::audit_entry::Event;
use escapement_wire::v1::execution::State;
use escapement_wire::v1::execution_error::Severity;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::plan_step::OnFailure;
use escapement_wire::v1::{ExecutePlanRequest, Plan};
use prost::Message;
use serde_json::json;

fn one_at_a_time(settings: OrchestratorSettings) -> OrchestratorSettings {
    settings.flag("--max-running-executions", 1)
}

//
#[tokio::test]
async fn what_was_queued_at_a_kill_runs_after_the_restart() {
    let mut world = World::start_with(one_at_a_time).await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 4).await;
    world.submit(&request(plan([step(0, WORK)]))).await;
    worker.started().await;
    let queued = request(plan([step(0, WORK).payload(json!({ "kept": "payload" }))]));
    let before = world.submit(&queued).await;
    assert_eq!(before.state(), State::Queued);

    world.crash_and_restart().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 4).await;
    let assignment = worker.complete_next(json!({ "ran": "after" })).await;
    assert_eq!(assignment.execution_id, queued.id());
    assert_eq!(json_of(assignment.payload.as_ref()), json!({ "kept": "payload" }));
    assert_eq!(world.result_of(&queued.id()).await.status(), Status::Success);
    let after = world.execution(&queued.id()).await;
    assert_eq!(
        (after.accepted_at, after.deadline_ms),
        (before.accepted_at, before.deadline_ms)
    );
}

//
#[tokio::test]
async fn what_ran_at_a_kill_is_a_failure_after_the_restart_and_never_resumed() {
    let mut world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 4).await;
    let steps = [
        step(0, WORK),
        step(1, WORK).on_failure(OnFailure::Retry),
        step(2, WORK),
    ];
    let running = request(plan_with_retries(steps, 5, &["*"]));
    let id = running.id();
    let call = world.executing(running.clone());
    worker.complete_next(json!({ "lost": true })).await;
    worker.started().await;
    world.crash_and_restart().await;
    call.await.unwrap().unwrap_err();

    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 4).await;
    let result = world.result_of(&id).await;
    assert_eq!(
        (result.status(), result.steps_executed, result.steps_total),
        (Status::Failure, 0, 3)
    );
    let error = result.error.as_ref().unwrap();
    assert_eq!(
        (error.error_code.as_str(), error.severity()),
        ("UNKNOWN_ERROR", Severity::Fatal)
    );
    assert_eq!(
        json_of(error.context.as_ref())["reason"],
        "orchestrator_restarted"
    );
    assert_eq!(worker.n_assignments_sent().await, 0, "nothing is resumed");
    assert_eq!(
        world.execute(running).await,
        result,
        "the same request attaches to the failure"
    );
    let record = world.record_of(&id).await;
    assert_eq!(mandatory_actions(&record, "5.3").len(), 14);
    assert!(matches!(record.last().unwrap().event, Some(Event::Settled(_))));
}

//
#[tokio::test]
async fn what_was_settled_at_a_kill_keeps_every_byte() {
    let mut world = World::start().await;
    let worker = RecordingWorker::start(&world.orchestrator.url(), 4);
    let skip = OnFailure::Skip;
    let plans = [
        plan([step(0, "record")]),
        plan([step(0, "record"), step(1, "list_output").on_failure(skip)]),
        plan([step(0, "record"), step(1, "panic")]),
    ];
    let mut before = Vec::new();
    for plan in plans {
        let request = request(plan);
        let id = request.id();
        world.execute(request).await;
        before.push((
            id.clone(),
            world.execution(&id).await.encode_to_vec(),
            world.record_of(&id).await,
        ));
    }
    worker.stop().await;
    for _ in 0..2 {
        world.crash_and_restart().await;
        for (id, execution, record) in &before {
            assert_eq!(&world.execution(id).await.encode_to_vec(), execution);
            assert_eq!(&world.record_of(id).await, record);
        }
    }
}

//
#[tokio::test]
async fn a_deadline_that_passes_while_the_orchestrator_is_down_ends_what_was_queued() {
    let mut world = World::start_with(one_at_a_time).await;
    world.submit(&request(plan([step(0, WORK)]))).await;
    let short = Plan {
        timeout_ms: Some(1),
        ..plan([step(0, WORK)])
    };
    let deadline_ms = unix_ms() + 400;
    let queued = ExecutePlanRequest {
        deadline_ms: Some(deadline_ms),
        ..request(short)
    };
    assert_eq!(world.submit(&queued).await.state(), State::Queued);
    world.orchestrator.process.kill().unwrap();
    let passed = async || (unix_ms() > deadline_ms).then_some(());
    escapement_tests::wait_for("the deadline to pass", crate::world::LIMIT, passed)
        .await
        .unwrap();
    world.crash_and_restart().await;
    let result = world.result_of(&queued.id()).await;
    assert_eq!((result.status(), result.steps_executed), (Status::Failure, 0));
    assert_eq!(result.error.unwrap().error_code, "DEADLINE_EXCEEDED");
}

//
#[tokio::test]
async fn after_two_kills_in_a_row_every_accepted_execution_has_one_result() {
    let mut world = World::start_with(one_at_a_time).await;
    let _without_slots = ScriptedWorker::connect(&world.orchestrator, &[WORK], 0).await;
    let mut accepted = Vec::new();
    for _ in 0..6 {
        let request = request(plan([step(0, WORK)]));
        world.submit(&request).await;
        accepted.push(request.id());
    }
    // Without a free slot the first one runs and waits. Each kill ends the one that runs.
    world.crash_and_restart().await;
    let _without_slots = ScriptedWorker::connect(&world.orchestrator, &[WORK], 0).await;
    world.result_of(&accepted[0]).await;
    let second_runs = async || (world.execution(&accepted[1]).await.state() == State::Running).then_some(());
    escapement_tests::wait_for("the second to run", crate::world::LIMIT, second_runs)
        .await
        .unwrap();
    world.crash_and_restart().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    for id in &accepted[2..] {
        assert_eq!(
            &worker.complete_next(json!({})).await.execution_id,
            id,
            "oldest first"
        );
    }
    let mut statuses = Vec::new();
    for id in &accepted {
        statuses.push(world.result_of(id).await.status());
    }
    let (failure, success) = (Status::Failure, Status::Success);
    assert_eq!(statuses, [failure, failure, success, success, success, success]);
}

//
#[tokio::test]
async fn the_queue_keeps_its_order_through_a_restart() {
    let mut world = World::start_with(one_at_a_time).await;
    let _without_slots = ScriptedWorker::connect(&world.orchestrator, &[WORK], 0).await;
    world.submit(&request(plan([step(0, WORK)]))).await;
    let mut queued = Vec::new();
    for priority in [0, 5, -1, 5] {
        let request = request(Plan {
            priority: Some(priority),
            ..plan([step(0, WORK)])
        });
        world.submit(&request).await;
        queued.push(request.id());
    }
    world.crash_and_restart().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let mut served = Vec::new();
    for _ in &queued {
        served.push(worker.complete_next(json!({})).await.execution_id);
    }
    let expected: Vec<_> = [1, 3, 0, 2]
        .iter()
        .map(|at: &usize| queued[*at].clone())
        .collect();
    assert_eq!(served, expected);
}

//
#[tokio::test]
async fn a_kill_under_load_loses_nothing_that_was_acknowledged_and_repeats_nothing_that_ran() {
    let mut world = World::start_with(|settings| settings.flag("--max-running-executions", 8)).await;
    let before = RecordingWorker::start(&world.orchestrator.url(), 8);
    let mut submissions = Vec::new();
    for _ in 0..400 {
        let request = request(plan([step(0, "record"), step(1, "record")]));
        let mut plans = world.orchestrator.plans();
        let id = request.id();
        let submission = request.as_submission();
        submissions.push(tokio::spawn(async move {
            plans.submit_plan(submission).await.ok().map(|_| id)
        }));
    }
    let some_ran = async || (before.seen().len() > 40).then_some(());
    escapement_tests::wait_for("some handlers to run", crate::world::LIMIT, some_ran)
        .await
        .unwrap();
    world.crash_and_restart().await;
    let after = RecordingWorker::start(&world.orchestrator.url(), 8);
    let mut acknowledged = Vec::new();
    for submission in submissions {
        acknowledged.extend(submission.await.unwrap());
    }
    assert!(
        acknowledged.len() > 20,
        "{} were acknowledged",
        acknowledged.len()
    );
    for id in acknowledged {
        let result = world.result_of(&id).await;
        let n_before = before
            .seen()
            .iter()
            .filter(|seen| seen.execution_id == id)
            .count();
        let n_after = after.seen().iter().filter(|seen| seen.execution_id == id).count();
        match result.status() {
            Status::Success => assert!(
                [(2, 0), (0, 2)].contains(&(n_before, n_after)),
                "{n_before}, {n_after}"
            ),
            Status::Failure => {
                let error = result.error.unwrap();
                assert_eq!(
                    json_of(error.context.as_ref())["reason"],
                    "orchestrator_restarted"
                );
                assert_eq!(n_after, 0, "what had started is never resumed");
            }
            other => panic!("{other:?}"),
        }
    }
    after.stop().await;
}
