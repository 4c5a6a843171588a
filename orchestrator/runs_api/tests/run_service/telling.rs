//! Explanations, replays and exports.

use crate::world::{World, call, reason, run_of};
use escapement_run::record;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::run::State;
use serde_json::json;
use tokio_stream::StreamExt;
use tonic::Code;

#[tokio::test]
async fn an_explanation_says_what_waits_for_what() {
    let mut world = World::new();
    let run = world
        .create(run_of(json!([call("a", "hang", &[]), call("b", "echo", &["a"])])))
        .await;
    world.reaches(&run.run_id, State::Running).await;
    let request = v1::ExplainRunRequest {
        run_id: run.run_id.clone(),
        ..v1::ExplainRunRequest::default()
    };
    let told = world
        .client
        .explain_run(request.clone())
        .await
        .unwrap()
        .into_inner();
    let of_run = told.run.unwrap();
    assert_eq!(of_run.state(), State::Running);
    assert!(!of_run.text.is_empty() && !of_run.rules.is_empty() && of_run.due_at.is_some());
    assert_eq!(told.steps.len(), 2);
    assert_eq!(told.steps[1].waits_for_step_keys, ["a"]);
    let one = v1::ExplainRunRequest {
        step_keys: vec!["b".to_owned()],
        ..request.clone()
    };
    assert_eq!(
        world
            .client
            .explain_run(one)
            .await
            .unwrap()
            .into_inner()
            .steps
            .len(),
        1
    );
    let too_many = v1::ExplainRunRequest {
        step_keys: vec!["b".to_owned(); 1_025],
        ..request.clone()
    };
    assert_eq!(
        reason(&world.client.explain_run(too_many).await.unwrap_err()),
        "INVALID_ARGUMENT"
    );
    let unknown = v1::ExplainRunRequest {
        step_keys: vec!["b".to_owned(), "z".to_owned()],
        ..request
    };
    assert_eq!(
        reason(&world.client.explain_run(unknown).await.unwrap_err()),
        "UNKNOWN_STEP"
    );
}

// S75.
#[tokio::test]
async fn every_run_replays() {
    let mut world = World::new();
    let steps = json!([
        call("a", "echo", &[]),
        call("b", "large", &["a"]),
        call("c", "fail", &["b"])
    ]);
    let run = world.finish(run_of(steps)).await;
    let live = world.create(run_of(json!([call("a", "hang", &[])]))).await;
    world.reaches(&live.run_id, State::Running).await;
    for run_id in [run.run_id, live.run_id] {
        let request = v1::ReplayRunRequest { run_id };
        let replay = world.client.replay_run(request).await.unwrap().into_inner();
        assert!(
            replay.identical && replay.chain_intact && replay.state_identical,
            "{replay:?}"
        );
        assert!(replay.entries > 4 && replay.first_difference.is_none());
    }
}

// S70: the file is the one that `verify` reads.
#[tokio::test]
async fn an_export_is_a_whole_record_in_small_pieces() {
    let mut world = World::new();
    let run = world
        .finish(run_of(json!([call("a", "large", &[]), call("b", "echo", &[])])))
        .await;
    let request = v1::ExportRunRequest {
        run_id: run.run_id.clone(),
    };
    let mut stream = world.client.export_run(request).await.unwrap().into_inner();
    let mut file = Vec::new();
    while let Some(piece) = stream.next().await {
        let piece = piece.unwrap().data;
        assert!(!piece.is_empty() && piece.len() <= 64 << 10);
        file.extend(piece);
    }
    assert!(file.starts_with(b"escapement run record file 1\n"));
    assert!(file.len() > 100_000, "{}", file.len());
    let (read, faults) = record::read(&file.into()).unwrap();
    assert!(read.is_complete() && faults.is_empty(), "{faults:?}");
    assert_eq!(i64::try_from(read.entries.len()).unwrap(), run.last_sequence);
    let live = world.create(run_of(json!([call("a", "hang", &[])]))).await;
    let request = v1::ExportRunRequest { run_id: live.run_id };
    let refused = world.client.export_run(request).await.map(|_| ()).unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::FailedPrecondition, "RUN_NOT_ENDED")
    );
}

// RUN-14.10
#[tokio::test]
async fn who_lacks_notices_is_told_so() {
    let mut world = World::new();
    let watch = |after_cursor| v1::WatchNoticesRequest {
        user_id: "ada".to_owned(),
        after_cursor,
        ..v1::WatchNoticesRequest::default()
    };
    let mut gone = world
        .client
        .watch_notices(watch(1_000_000))
        .await
        .unwrap()
        .into_inner();
    let refused = gone.next().await.unwrap().unwrap_err();
    assert_eq!(reason(&refused), "CURSOR_GONE");
}

// RUN-3.8
#[tokio::test]
async fn a_step_that_a_branch_skips_says_so_in_a_sentence() {
    let mut world = World::new();
    let sides = json!({"condition": "false", "true_step": "yes", "false_step": "no"});
    let branch = json!({"key": "if", "type": "condition", "config": sides});
    let steps = json!([branch, call("yes", "echo", &["if"]), call("no", "echo", &["if"])]);
    let run = world.finish(run_of(steps)).await;
    let request = v1::ListRunStepsRequest {
        run_id: run.run_id,
        ..v1::ListRunStepsRequest::default()
    };
    let listed = world.client.list_run_steps(request).await.unwrap().into_inner();
    let texts: Vec<&str> = listed
        .steps
        .iter()
        .map(|step| step.reason_text.as_str())
        .collect();
    assert_eq!(texts, ["", "Skipped due to condition branch", ""]);
}
