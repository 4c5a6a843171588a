//! Which execution leaves the queue next, and which step gets a worker.

use crate::plans::{RequestWords, WORK, plan, request, step};
use crate::status_details::reason;
use crate::world::World;
use escapement_tests::ScriptedWorker;
use escapement_wire::v1::execution::State;
use escapement_wire::v1::{ExecutePlanRequest, Plan};
use serde_json::json;
use tonic::Code;

fn with_priority(priority: i32) -> ExecutePlanRequest {
    request(Plan {
        priority: Some(priority),
        ..plan([step(0, WORK)])
    })
}

//
#[tokio::test]
async fn with_one_slot_the_queue_is_served_by_priority_and_then_by_age() {
    let world = World::start_with(|settings| settings.flag("--max-running-executions", 1)).await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 8).await;
    let first = with_priority(-100);
    world.submit(&first).await;
    let holds_the_slot = worker.started().await;
    let mut queued = Vec::new();
    for priority in [0, -5, 7, 7, 0] {
        let request = with_priority(priority);
        assert_eq!(world.submit(&request).await.state(), State::Queued);
        queued.push(request.id());
    }
    worker.succeed(&holds_the_slot, json!({})).await;
    let mut served = Vec::new();
    for _ in &queued {
        served.push(worker.complete_next(json!({})).await.execution_id);
        assert_eq!(
            worker.n_assignments_sent().await.max(1),
            1,
            "one execution runs at a time"
        );
    }
    let expected: Vec<_> = [2, 3, 0, 4, 1]
        .iter()
        .map(|at: &usize| queued[*at].clone())
        .collect();
    assert_eq!(served, expected);
}

//
#[tokio::test]
async fn a_higher_priority_does_not_interrupt_what_runs() {
    let world = World::start_with(|settings| settings.flag("--max-running-executions", 1)).await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 8).await;
    let low = request(plan([step(0, WORK), step(1, WORK)]));
    world.submit(&low).await;
    let first = worker.started().await;
    let high = with_priority(1_000);
    world.submit(&high).await;
    worker.succeed(&first, json!({})).await;
    let next = worker.complete_next(json!({})).await;
    assert_eq!(next.execution_id, low.id());
    assert_eq!(worker.complete_next(json!({})).await.execution_id, high.id());
}

//
#[tokio::test]
async fn steps_of_different_executions_get_a_free_worker_by_priority() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let busy = with_priority(0);
    world.submit(&busy).await;
    let holds_the_worker = worker.started().await;
    let (low, high) = (with_priority(1), with_priority(2));
    for request in [&low, &high] {
        world.submit(request).await;
        let waits = async || {
            let progress = world.execution(&request.id()).await.progress.unwrap();
            (progress.steps_waiting == 1).then_some(())
        };
        escapement_tests::wait_for("the step to wait for a worker", crate::world::LIMIT, waits)
            .await
            .unwrap();
    }
    worker.succeed(&holds_the_worker, json!({})).await;
    assert_eq!(worker.complete_next(json!({})).await.execution_id, high.id());
    assert_eq!(worker.complete_next(json!({})).await.execution_id, low.id());
}

#[tokio::test]
async fn a_full_queue_refuses_and_accepts_again_later() {
    let world = World::start_with(|settings| settings.flag("--max-queued-executions", 1)).await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let first = with_priority(0);
    world.submit(&first).await;
    let second = with_priority(0);
    let refused = world.try_submit(&second).await.unwrap_err();
    assert_eq!(reason(&refused, Code::ResourceExhausted), "QUEUE_FULL");
    worker.complete_next(json!({})).await;
    world.result_of(&first.id()).await;
    world.submit(&second).await;
    worker.complete_next(json!({})).await;
    world.result_of(&second.id()).await;
}

//
#[tokio::test]
async fn steps_run_one_at_a_time_in_canonical_order_unless_more_are_asked_for() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 8).await;
    let steps = || [2, 0, 3, 1].map(|number| step(number, WORK));
    world.submit(&request(plan(steps()))).await;
    for expected in [2, 0, 3, 1] {
        let assignment = worker.started().await;
        assert_eq!(crate::plans::step_number(&assignment.step_id), expected);
        assert_eq!(worker.n_assignments_sent().await, 0, "the next step waits");
        worker.succeed(&assignment, json!({})).await;
    }
    world.submit(&request(plan(steps())).concurrent(3)).await;
    let together = [
        worker.started().await,
        worker.started().await,
        worker.started().await,
    ];
    let numbers = together
        .each_ref()
        .map(|assignment| crate::plans::step_number(&assignment.step_id));
    assert_eq!(numbers, [2, 0, 3]);
    assert_eq!(worker.n_assignments_sent().await, 0, "three slots, three steps");
    worker.succeed(&together[1], json!({})).await;
    assert_eq!(crate::plans::step_number(&worker.started().await.step_id), 1);
}
