//! What callers and operators do to a run.

use crate::world::{World, call, json_of, object, reason, run_of};
use escapement_wire::json::{from_opaque_value, to_opaque_value};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::create_run_request::What;
use escapement_wire::runs::v1::override_step_request::{Complete, Fail, Skip, Word};
use escapement_wire::runs::v1::run::{ErrorType, State};
use serde_json::json;
use tonic::Code;
use tonic_types::StatusExt;

fn pause(run: &v1::Run) -> v1::PauseRunRequest {
    v1::PauseRunRequest {
        run_id: run.run_id.clone(),
        ..v1::PauseRunRequest::default()
    }
}

fn resume(run: &v1::Run) -> v1::ResumeRunRequest {
    v1::ResumeRunRequest {
        run_id: run.run_id.clone(),
        ..v1::ResumeRunRequest::default()
    }
}

async fn paused(world: &mut World, steps: serde_json::Value) -> v1::Run {
    let run = world.create(run_of(steps)).await;
    world.reaches(&run.run_id, State::Running).await;
    let answer = world
        .client
        .pause_run(pause(&run))
        .await
        .unwrap()
        .into_inner()
        .run
        .unwrap();
    assert_eq!(
        (answer.state(), answer.plan_status.as_str()),
        (State::Pausing, "paused")
    );
    while world.hung.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    world.release();
    world.reaches(&run.run_id, State::Paused).await
}

#[tokio::test]
async fn a_run_is_paused_and_resumed_once_each() {
    let mut world = World::new();
    let run = paused(
        &mut world,
        json!([call("a", "hang", &[]), call("b", "echo", &["a"])]),
    )
    .await;
    assert_eq!((run.completed_steps, run.current_step_index), (1, 1));
    let refused = world.client.pause_run(pause(&run)).await.unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::FailedPrecondition, "ALREADY_PAUSED")
    );
    let started_at = run.started_at;
    world.client.resume_run(resume(&run)).await.unwrap();
    let ended = world.ended(&run.run_id).await;
    assert_eq!((ended.state(), ended.started_at), (State::Completed, started_at));
    let refused = world.client.resume_run(resume(&run)).await.unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::FailedPrecondition, "RUN_ENDED")
    );
}

#[tokio::test]
async fn resuming_a_run_that_waits_names_the_open_requests() {
    let mut world = World::new();
    let request = v1::CreateRunRequest {
        autonomy_level: Some(1),
        ..run_of(json!([call("a", "echo", &[])]))
    };
    let run = world.create(request).await;
    let run = world.reaches(&run.run_id, State::Waiting).await;
    let open = &run.open_requests[0];
    assert_eq!(
        (open.kind.as_str(), open.step_key.as_str(), open.quorum),
        ("approval", "", 1)
    );
    assert_eq!(
        open.created_at, run.updated_at,
        "asking was the last that happened"
    );
    let refused = world.client.resume_run(resume(&run)).await.unwrap_err();
    assert_eq!(reason(&refused), "NOT_PAUSED");
    let info = refused.get_details_error_info().unwrap();
    assert_eq!(info.metadata["open_requests"], open.input_request_id);
}

#[tokio::test]
async fn an_etag_and_a_request_id_guard_a_verb() {
    let mut world = World::new();
    let run = paused(
        &mut world,
        json!([call("a", "hang", &[]), call("b", "hang", &["a"])]),
    )
    .await;
    let late = v1::ResumeRunRequest {
        etag: "1".to_owned(),
        ..resume(&run)
    };
    let refused = world.client.resume_run(late).await.unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::Aborted, "ETAG_MISMATCH")
    );
    let once = v1::ResumeRunRequest {
        etag: run.etag.clone(),
        request_id: "resume 1".to_owned(),
        ..resume(&run)
    };
    world.client.resume_run(once.clone()).await.unwrap();
    let other = v1::ResumeRunRequest {
        reason: "another".to_owned(),
        ..once
    };
    let refused = world.client.resume_run(other).await.unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::AlreadyExists, "REQUEST_ID_REUSED")
    );
}

#[tokio::test]
async fn a_repeated_verb_has_one_effect() {
    let mut world = World::new();
    let run = world.create(run_of(json!([call("a", "hang", &[])]))).await;
    world.reaches(&run.run_id, State::Running).await;
    let once = v1::PauseRunRequest {
        request_id: "pause 1".to_owned(),
        reason: "lunch".to_owned(),
        ..pause(&run)
    };
    world.client.pause_run(once.clone()).await.unwrap();
    world.client.pause_run(once.clone()).await.unwrap();
    let mut world = world.killed();
    world.client.pause_run(once).await.unwrap();
}

#[tokio::test]
async fn a_cancelled_run_ends_at_once_and_cancelling_it_again_answers_alike() {
    let mut world = World::new();
    let run = world.create(run_of(json!([call("a", "hang", &[])]))).await;
    world.reaches(&run.run_id, State::Running).await;
    let cancel = v1::CancelRunRequest {
        run_id: run.run_id.clone(),
        ..v1::CancelRunRequest::default()
    };
    let first = world
        .client
        .cancel_run(cancel.clone())
        .await
        .unwrap()
        .into_inner()
        .run
        .unwrap();
    assert_eq!(
        (first.state(), first.error_type()),
        (State::Cancelled, ErrorType::Cancelled)
    );
    assert_eq!(
        (first.reason.as_str(), first.plan_status.as_str()),
        ("user", "cancelled")
    );
    assert_eq!(first.orphans.len(), 1);
    let again = world
        .client
        .cancel_run(cancel.clone())
        .await
        .unwrap()
        .into_inner()
        .run
        .unwrap();
    assert_eq!(again, first);
    let discard = v1::DiscardRunRequest {
        run_id: run.run_id,
        ..v1::DiscardRunRequest::default()
    };
    let refused = world.client.discard_run(discard).await.unwrap_err();
    assert_eq!(reason(&refused), "RUN_ENDED");
    let done = world.finish(run_of(json!([]))).await;
    let late = v1::CancelRunRequest {
        run_id: done.run_id,
        ..cancel
    };
    let refused = world.client.cancel_run(late).await.unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::FailedPrecondition, "RUN_ENDED")
    );
    let other = world.create(run_of(json!([call("a", "hang", &[])]))).await;
    let discard = v1::DiscardRunRequest {
        run_id: other.run_id,
        ..v1::DiscardRunRequest::default()
    };
    for _ in 0..2 {
        let run = world
            .client
            .discard_run(discard.clone())
            .await
            .unwrap()
            .into_inner()
            .run
            .unwrap();
        assert_eq!(run.reason, "discarded");
    }
}

#[tokio::test]
async fn a_generation_that_was_in_flight_is_among_what_a_run_leaves_behind() {
    let mut world = World::new();
    let request = v1::CreateRunRequest {
        what: Some(What::Goal("to know".to_owned())),
        planner: Some(v1::Planner {
            action: "hang".to_owned(),
            ..v1::Planner::default()
        }),
        autonomy_level: Some(4),
        ..v1::CreateRunRequest::default()
    };
    let run = world.create(request).await;
    while world.hung.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let cancel = v1::CancelRunRequest {
        run_id: run.run_id,
        ..v1::CancelRunRequest::default()
    };
    let cancelled = world.client.cancel_run(cancel).await.unwrap().into_inner();
    let sent = world.sent.lock().unwrap()[0].to_string();
    assert_eq!(cancelled.run.unwrap().orphans, [sent]);
}

#[tokio::test]
async fn a_rewind_repeats_no_effect_unless_it_may() {
    let mut world = World::new();
    let run = paused(
        &mut world,
        json!([call("a", "hang", &[]), call("b", "echo", &["a"])]),
    )
    .await;
    let rewind = v1::RewindRunRequest {
        run_id: run.run_id.clone(),
        step_key: "a".to_owned(),
        ..v1::RewindRunRequest::default()
    };
    let refused = world.client.rewind_run(rewind.clone()).await.unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::FailedPrecondition, "EFFECTS_WOULD_REPEAT")
    );
    let unknown = v1::RewindRunRequest {
        step_key: "z".to_owned(),
        ..rewind.clone()
    };
    let refused = world.client.rewind_run(unknown).await.unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::InvalidArgument, "UNKNOWN_STEP")
    );
    assert!(refused.message().contains("a, b"));
    let allowed = v1::RewindRunRequest {
        allow_repeat_effects: true,
        ..rewind
    };
    let run = world
        .client
        .rewind_run(allowed)
        .await
        .unwrap()
        .into_inner()
        .run
        .unwrap();
    assert_eq!(run.completed_steps, 0);
}

// S60.
#[tokio::test]
async fn a_checkpoint_keeps_data_and_a_rollback_needs_one() {
    let mut world = World::new();
    let run = paused(
        &mut world,
        json!([call("a", "hang", &[]), call("b", "echo", &["a"])]),
    )
    .await;
    let rollback = v1::RollbackRunRequest {
        run_id: run.run_id.clone(),
        mode: v1::rollback_run_request::Mode::Restore.into(),
        ..v1::RollbackRunRequest::default()
    };
    let refused = world.client.rollback_run(rollback.clone()).await.unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::FailedPrecondition, "NO_CHECKPOINT")
    );
    let create = v1::CreateCheckpointRequest {
        run_id: run.run_id.clone(),
        data: Some(object(&json!({"page": 3}))),
        ..v1::CreateCheckpointRequest::default()
    };
    let made = world
        .client
        .create_checkpoint(create.clone())
        .await
        .unwrap()
        .into_inner()
        .checkpoint
        .unwrap();
    assert_eq!(
        (made.number, made.completed_steps.clone()),
        (1, vec!["a".to_owned()])
    );
    let large = v1::CreateCheckpointRequest {
        data: Some(object(&json!({"page": "x".repeat(512_000)}))),
        ..create
    };
    let refused = world.client.create_checkpoint(large).await.unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::InvalidArgument, "DATA_TOO_LARGE")
    );
    let list = v1::ListCheckpointsRequest {
        run_id: run.run_id.clone(),
        ..v1::ListCheckpointsRequest::default()
    };
    let listed = world.client.list_checkpoints(list).await.unwrap().into_inner();
    assert_eq!(listed.checkpoints, std::slice::from_ref(&made));
    let back = world.client.rollback_run(rollback).await.unwrap().into_inner();
    assert_eq!(back.run.unwrap().completed_steps, 1);
    assert_eq!(
        json_of(back.checkpoint.unwrap().data.as_ref()),
        json!({"page": 3})
    );
    let unasked = v1::RollbackRunRequest {
        run_id: run.run_id,
        ..v1::RollbackRunRequest::default()
    };
    let refused = world.client.rollback_run(unasked.clone()).await.unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::FailedPrecondition, "EFFECTS_WOULD_REPEAT")
    );
    let reset = v1::RollbackRunRequest {
        allow_repeat_effects: true,
        ..unasked
    };
    let back = world
        .client
        .rollback_run(reset)
        .await
        .unwrap()
        .into_inner()
        .run
        .unwrap();
    assert_eq!((back.state(), back.completed_steps), (State::Paused, 0));
}

// S90.
#[tokio::test]
async fn an_operators_word_stands_for_a_step() {
    let mut world = World::new();
    let steps = json!([
        call("a", "hang", &[]),
        call("b", "echo", &["a"]),
        call("c", "echo", &["a"]),
        call("d", "echo", &["a"])
    ]);
    let run = paused(&mut world, steps).await;
    let word = |step_key: &str, word: Word| v1::OverrideStepRequest {
        run_id: run.run_id.clone(),
        step_key: step_key.to_owned(),
        word: Some(word),
        reason: "by hand".to_owned(),
        ..v1::OverrideStepRequest::default()
    };
    let output = Some(to_opaque_value(&json!(["kept"])));
    let complete = word("b", Word::Complete(Complete { output }));
    world.client.override_step(complete.clone()).await.unwrap();
    world
        .client
        .override_step(word("c", Word::Skip(Skip {})))
        .await
        .unwrap();
    let refused = world.client.override_step(complete.clone()).await.unwrap_err();
    assert_eq!(reason(&refused), "STEP_SETTLED");
    let result = v1::GetStepResultRequest {
        run_id: run.run_id.clone(),
        step_key: "b".to_owned(),
        ..v1::GetStepResultRequest::default()
    };
    let result = world
        .client
        .get_step_result(result)
        .await
        .unwrap()
        .into_inner()
        .value
        .unwrap();
    assert_eq!(from_opaque_value(&result).unwrap(), json!(["kept"]));
    let fail = Fail {
        code: "GIVEN_UP".to_owned(),
        message: "no use".to_owned(),
    };
    world
        .client
        .override_step(word("d", Word::Fail(fail)))
        .await
        .unwrap();
    world.client.resume_run(resume(&run)).await.unwrap();
    let ended = world.ended(&run.run_id).await;
    assert_eq!(
        (ended.state(), ended.error_type()),
        (State::Failed, ErrorType::ExecutionError)
    );
    assert_eq!(ended.error.unwrap().code, "GIVEN_UP");
    let live = world.create(run_of(json!([call("a", "hang", &[])]))).await;
    world.reaches(&live.run_id, State::Running).await;
    let running = v1::OverrideStepRequest {
        run_id: live.run_id,
        step_key: "a".to_owned(),
        ..complete
    };
    let refused = world.client.override_step(running).await.unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::FailedPrecondition, "NOT_PAUSED")
    );
}

// S73: over the API.
#[tokio::test]
async fn a_run_is_deleted_once_it_has_ended_and_its_id_stays_used() {
    let mut world = World::new();
    let live = world.create(run_of(json!([call("a", "hang", &[])]))).await;
    let delete = |run: &v1::Run| v1::DeleteRunRequest {
        run_id: run.run_id.clone(),
    };
    let refused = world.client.delete_run(delete(&live)).await.unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::FailedPrecondition, "RUN_NOT_ENDED")
    );
    let done = world.finish(run_of(json!([]))).await;
    world.client.delete_run(delete(&done)).await.unwrap();
    let get = v1::GetRunRequest {
        run_id: done.run_id.clone(),
    };
    let refused = world.client.get_run(get).await.unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::NotFound, "RUN_REMOVED")
    );
    let left = refused.get_error_details();
    let left = &left.error_info().unwrap().metadata;
    assert_eq!(
        (&left["run_id"], left["state"].as_str()),
        (&done.run_id, "completed")
    );
    assert_eq!(left["ended_at"], done.completed_at.unwrap().to_string());
    assert!(left["removed_at"].parse::<i64>().unwrap() >= done.completed_at.unwrap());
    let refused = world.client.delete_run(delete(&done)).await.unwrap_err();
    assert_eq!(reason(&refused), "RUN_REMOVED");
}
