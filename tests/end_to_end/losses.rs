//! Workers that go away with an attempt in their hands. Those that are killed stand in `signals`.

use crate::plans::{RequestWords, StepWords, WORK, json_of, plan, plan_with_retries, request, step, step_id};
use crate::story;
use crate::world::World;
use bytes::Bytes;
use escapement_tests::ScriptedWorker;
use escapement_wire::v1::execution_error::Severity;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::plan_step::OnFailure;
use escapement_wire::worker::v1::attempt_verdict::Verdict as KeepOrStop;
use escapement_wire::worker::v1::in_flight::Phase;
use escapement_wire::worker::v1::outcome_ack::Verdict;
use serde_json::json;

//
#[tokio::test]
async fn an_attempt_that_a_worker_rejects_is_handed_out_again_uncounted() {
    let world = World::start().await;
    let mut first = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let request = request(plan([step(0, WORK)]));
    let id = request.id();
    let call = world.executing(request);
    let rejected = first.assignment().await;
    let mut second = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    first.reject(&rejected).await;
    let again = second.complete_next(json!({})).await;
    assert_eq!((rejected.attempt, again.attempt), (1, 1));
    assert_ne!(rejected.attempt_token, again.attempt_token);
    assert_eq!(call.await.unwrap().unwrap().status(), Status::Success);
    let record = story::step(&world.record_of(&id).await, 0);
    assert!(record.contains(&"1 returned: rejected".to_owned()), "{record:?}");
    assert_eq!(record.last().unwrap(), "completed after 1");
}

//
#[tokio::test]
async fn an_attempt_that_had_not_started_when_its_worker_left_is_handed_out_again() {
    let world = World::start().await;
    let mut first = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let request = request(plan([step(0, WORK)]));
    let id = request.id();
    let call = world.executing(request);
    first.assignment().await;
    first.goodbye().await;
    let mut second = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    assert_eq!(second.complete_next(json!({})).await.attempt, 1);
    assert_eq!(call.await.unwrap().unwrap().status(), Status::Success);
    let expected = [
        "1 waits",
        "1 assigned",
        "1 returned: goodbye",
        "1 waits",
        "1 assigned",
        "1 started",
        "completed after 1",
    ];
    assert_eq!(story::step(&world.record_of(&id).await, 0), expected);
}

//
#[tokio::test]
async fn an_attempt_that_had_started_when_its_worker_left_is_lost() {
    let world = World::start().await;
    for (on_failure, listed, status) in [
        (OnFailure::Halt, "WORKER_LOST", Status::Failure),
        (OnFailure::Retry, "OTHER", Status::Failure),
        (OnFailure::Retry, "WORKER_LOST", Status::Success),
        (OnFailure::Retry, "*", Status::Success),
    ] {
        let mut first = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
        let request = request(plan_with_retries(
            [step(0, WORK).on_failure(on_failure)],
            2,
            &[listed],
        ));
        let id = request.id();
        let call = world.executing(request);
        let lost = first.started().await;
        let mut second = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
        first.goodbye().await;
        if status == Status::Success {
            let again = second.complete_next(json!({})).await;
            assert_eq!((lost.attempt, again.attempt), (1, 2));
        }
        let result = call.await.unwrap().unwrap();
        assert_eq!(result.status(), status, "{on_failure:?}, {listed} listed");
        let record = story::step(&world.record_of(&id).await, 0);
        assert!(
            record.contains(&"1 failed: WORKER_LOST error".to_owned()),
            "{record:?}"
        );
        if status == Status::Failure {
            let error = result.error.unwrap();
            assert_eq!(
                (error.error_code.as_str(), error.severity()),
                ("WORKER_LOST", Severity::Fatal)
            );
        }
        second.goodbye().await;
    }
}

#[tokio::test]
async fn a_worker_that_comes_back_in_time_delivers_what_it_started() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let request = request(plan([step(0, WORK)]));
    let id = request.id();
    let call = world.executing(request);
    let assignment = worker.started().await;
    let (mut worker, verdicts) = worker
        .reconnect_with(&world.orchestrator, &assignment, Phase::Running)
        .await;
    assert_eq!(verdicts.len(), 1);
    assert_eq!(verdicts[0].verdict(), KeepOrStop::Keep);
    assert_eq!(worker.n_assignments_sent().await, 0, "its only slot is taken");
    assert_eq!(
        worker.succeed(&assignment, json!({ "from": "before" })).await,
        Verdict::Accepted
    );
    let result = call.await.unwrap().unwrap();
    assert_eq!(
        json_of(result.result_payload.as_ref()),
        json!({ step_id(0): { "from": "before" } })
    );
    let expected = ["1 waits", "1 assigned", "1 started", "completed after 1"];
    assert_eq!(story::step(&world.record_of(&id).await, 0), expected);
}

//
#[tokio::test]
async fn a_worker_that_comes_back_to_a_restarted_orchestrator_is_told_to_stop() {
    let mut world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let request = request(plan([step(0, WORK)]));
    let id = request.id();
    world.submit(&request).await;
    let assignment = worker.started().await;
    world.crash_and_restart().await;
    let (mut worker, verdicts) = worker
        .reconnect_with(&world.orchestrator, &assignment, Phase::Running)
        .await;
    assert_eq!(verdicts.len(), 1);
    assert_eq!(verdicts[0].verdict(), KeepOrStop::Stop);
    let before = world.result_of(&id).await;
    assert_eq!(before.status(), Status::Failure);
    assert_ne!(
        worker.succeed(&assignment, json!({ "too": "late" })).await,
        Verdict::Accepted
    );
    assert_eq!(world.result_of(&id).await, before);
}

//
#[tokio::test]
async fn an_outcome_with_a_token_that_was_never_handed_out_counts_for_nothing() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let mut other = ScriptedWorker::connect(&world.orchestrator, &["other"], 1).await;
    let call = world.executing(request(plan([step(0, WORK)])));
    let assignment = worker.started().await;
    let mut forged = assignment.clone();
    forged.attempt_token = Bytes::from_static(&[7; 16]);
    assert_eq!(
        worker.succeed(&forged, json!({ "forged": true })).await,
        Verdict::Unknown
    );
    assert_eq!(
        other.succeed(&assignment, json!({ "foreign": true })).await,
        Verdict::Unknown
    );
    assert_eq!(
        worker.succeed(&assignment, json!({ "own": true })).await,
        Verdict::Accepted
    );
    let result = call.await.unwrap().unwrap();
    assert_eq!(
        json_of(result.result_payload.as_ref()),
        json!({ step_id(0): { "own": true } })
    );
}
