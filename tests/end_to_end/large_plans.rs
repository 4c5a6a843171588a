//! Plans of 1024 steps. How fast they are is measured elsewhere.

use crate::plans::{RequestWords, plan, request, step, step_id};
use crate::recording_worker::RecordingWorker;
use crate::world::World;
use escapement_model::limits::STEPS_MAX;
use escapement_wire::v1::audit_entry::Event;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::{AuditEntry, ExecutePlanRequest, PlanResult, PlanStep};
use std::collections::BTreeSet;

fn record_step(number: usize, after: impl IntoIterator<Item = usize>) -> PlanStep {
    PlanStep {
        depends_on: after.into_iter().map(step_id).collect(),
        ..step(number, "record")
    }
}

/// Executes a plan whose steps all complete.
/// Gives its result, its record, and the steps in the order of their handlers.
async fn run(request: ExecutePlanRequest) -> (PlanResult, Vec<AuditEntry>, Vec<String>) {
    let world = World::start().await;
    let worker = RecordingWorker::start(&world.orchestrator.url(), 256);
    let id = request.id();
    let result = world.execute(request).await;
    assert_eq!(result.status(), Status::Success, "{:?}", result.error);
    assert_eq!(usize::try_from(result.steps_executed).unwrap(), STEPS_MAX);
    assert_eq!(usize::try_from(result.steps_total).unwrap(), STEPS_MAX);
    let seen: Vec<_> = worker.seen().into_iter().map(|seen| seen.step_id).collect();
    assert_eq!(
        seen.iter().collect::<BTreeSet<_>>().len(),
        STEPS_MAX,
        "each step ran"
    );
    assert_eq!(seen.len(), STEPS_MAX, "and none ran twice");
    let payload = result.result_payload.as_ref().unwrap();
    let keys: Vec<_> = payload
        .entries()
        .map(|entry| entry.unwrap().0.to_owned())
        .collect();
    assert_eq!(keys.len(), STEPS_MAX);
    let record = world.record_of(&id).await;
    assert!(
        record
            .iter()
            .map(|entry| entry.sequence)
            .eq(1..=i64::try_from(record.len()).unwrap())
    );
    (result, record, seen)
}

//
#[tokio::test]
async fn a_fan_out_of_1024_steps_has_256_of_them_under_way_and_no_more() {
    let fan_out =
        std::iter::once(record_step(0, [])).chain((1..STEPS_MAX).map(|number| record_step(number, [0])));
    let (_, record, seen) = run(request(plan(fan_out)).concurrent(256)).await;
    assert_eq!(seen[0], step_id(0));
    let mut under_way = 0;
    let mut most = 0;
    let mut turns = Vec::new();
    for entry in &record {
        match entry.event.as_ref().unwrap() {
            Event::StepWaiting(waiting) => {
                under_way += 1;
                turns.push(waiting.step_id.clone());
            }
            Event::StepCompleted(_) => under_way -= 1,
            _ => {}
        }
        most = most.max(under_way);
    }
    assert_eq!((most, under_way), (256, 0));
    assert_eq!(
        turns,
        (0..STEPS_MAX).map(step_id).collect::<Vec<_>>(),
        "turns come in canonical order"
    );
}
