//! Forks and retries.

use crate::world::{World, call, object, reason, run_of};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::run::State;
use serde_json::json;
use tonic::Code;
use tonic_types::StatusExt;

// S62.
#[tokio::test]
async fn forks_and_retries_keep_what_completed_and_their_chain_is_bounded() {
    let mut world = World::new();
    let steps = json!([call("a", "echo", &[]), call("b", "fail", &["a"])]);
    let first = world.finish(run_of(steps)).await;
    let fork = v1::ForkRunRequest {
        run_id: first.run_id.clone(),
        from_step: "a".to_owned(),
        request_id: "fork".to_owned(),
        allow_repeat_effects: true,
        ..v1::ForkRunRequest::default()
    };
    let unasked = v1::ForkRunRequest {
        request_id: "unasked".to_owned(),
        allow_repeat_effects: false,
        ..fork.clone()
    };
    let refused = world.client.fork_run(unasked).await.unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::FailedPrecondition, "EFFECTS_WOULD_REPEAT")
    );
    assert!(
        refused.message().contains("allow_repeat_effects allows: a"),
        "{refused:?}"
    );
    let forked = world
        .client
        .fork_run(fork.clone())
        .await
        .unwrap()
        .into_inner()
        .run
        .unwrap();
    assert_eq!(
        (&forked.forked_from, &forked.chain_id),
        (&first.run_id, &first.run_id)
    );
    let again = world
        .client
        .fork_run(fork.clone())
        .await
        .unwrap()
        .into_inner()
        .run
        .unwrap();
    assert_eq!(again.run_id, forked.run_id);
    let unknown = v1::ForkRunRequest {
        from_step: "z".to_owned(),
        request_id: "unknown".to_owned(),
        ..fork
    };
    assert_eq!(
        reason(&world.client.fork_run(unknown).await.unwrap_err()),
        "UNKNOWN_STEP"
    );
    let mut last = first.clone();
    for n in 1..=3 {
        let retry = v1::RetryRunRequest {
            run_id: last.run_id.clone(),
            ..v1::RetryRunRequest::default()
        };
        let run = world
            .client
            .retry_run(retry)
            .await
            .unwrap()
            .into_inner()
            .run
            .unwrap();
        last = world.ended(&run.run_id).await;
        assert_eq!((last.retry_count, &last.chain_id), (n, &first.run_id));
        let evidence = v1::ListEvidenceRequest {
            run_id: last.run_id.clone(),
            ..v1::ListEvidenceRequest::default()
        };
        let evidence = world
            .client
            .list_evidence(evidence)
            .await
            .unwrap()
            .into_inner()
            .evidence;
        let kept = &evidence[0];
        assert_eq!((kept.step_id.as_str(), kept.execution_id.as_str()), ("a", ""));
        assert_eq!(evidence.len(), 2);
    }
    let fourth = v1::RetryRunRequest {
        run_id: last.run_id,
        ..v1::RetryRunRequest::default()
    };
    let refused = world.client.retry_run(fourth).await.unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::FailedPrecondition, "RETRIES_USED_UP")
    );
    let done = world.finish(run_of(json!([]))).await;
    let not_failed = v1::RetryRunRequest {
        run_id: done.run_id,
        ..v1::RetryRunRequest::default()
    };
    assert_eq!(
        reason(&world.client.retry_run(not_failed).await.unwrap_err()),
        "NOT_FAILED"
    );
}

// K29b.
// S62, RUN-8.8.
#[tokio::test]
async fn a_fork_with_an_edited_document_keeps_what_is_as_it_was() {
    let mut world = World::new();
    let first = world
        .finish(run_of(json!([call("a", "echo", &[]), call("b", "fail", &["a"])])))
        .await;
    let with = |steps: serde_json::Value| v1::ForkRunRequest {
        run_id: first.run_id.clone(),
        document: Some(object(
            &json!({"schema": "escapement.plan/1", "name": "p", "steps": steps}),
        )),
        ..v1::ForkRunRequest::default()
    };
    let mended = with(json!([
        call("a", "echo", &[]),
        call("b", "echo", &["a"]),
        call("c", "echo", &[])
    ]));
    let fork = world
        .client
        .fork_run(mended)
        .await
        .unwrap()
        .into_inner()
        .run
        .unwrap();
    let fork = world.ended(&fork.run_id).await;
    assert_eq!(
        (fork.state(), fork.completed_steps, &fork.forked_from),
        (State::Completed, 3, &first.run_id)
    );
    assert_ne!(fork.revision_digest, first.revision_digest);
    let replay = v1::ReplayRunRequest {
        run_id: fork.run_id.clone(),
    };
    assert!(
        world
            .client
            .replay_run(replay)
            .await
            .unwrap()
            .into_inner()
            .identical
    );
    let fields = |status: tonic::Status| {
        let violations = status
            .get_error_details()
            .bad_request()
            .unwrap()
            .field_violations
            .clone();
        let fields: Vec<String> = violations.into_iter().map(|violation| violation.field).collect();
        (reason(&status), fields)
    };
    let changed = with(json!([call("b", "echo", &[]), call("a", "fail", &[])]));
    let refused = world.client.fork_run(changed).await.unwrap_err();
    assert_eq!(
        fields(refused),
        (
            "KEPT_STEP_CHANGED".to_owned(),
            vec!["document.steps[1].config".to_owned()]
        )
    );
    let none = with(json!([{"key": "a", "type": "nothing"}]));
    let refused = world.client.fork_run(none).await.unwrap_err();
    assert_eq!(
        fields(refused),
        (
            "PLAN_INVALID".to_owned(),
            vec!["document.steps[0].type".to_owned()]
        )
    );
}

// RUN-12.5
#[tokio::test]
async fn a_fork_with_an_edited_document_keeps_to_the_constraints_of_its_run() {
    let mut world = World::new();
    let constraints = v1::Constraints {
        forbidden_actions: vec!["x".to_owned()],
        ..v1::Constraints::default()
    };
    let first = v1::CreateRunRequest {
        constraints: Some(constraints),
        ..run_of(json!([call("a", "echo", &[])]))
    };
    let first = world.finish(first).await;
    let steps = json!([call("a", "echo", &[]), call("b", "x", &["a"])]);
    let fork = v1::ForkRunRequest {
        run_id: first.run_id,
        document: Some(object(
            &json!({"schema": "escapement.plan/1", "name": "p", "steps": steps}),
        )),
        ..v1::ForkRunRequest::default()
    };
    let refused = world.client.fork_run(fork).await.unwrap_err();
    let details = refused.get_error_details();
    let violation = &details.bad_request().unwrap().field_violations[0];
    assert_eq!(
        (reason(&refused).as_str(), violation.field.as_str()),
        ("PLAN_INVALID", "document.steps[1].config.tool_name")
    );
    assert_eq!(violation.reason, "CONSTRAINT_VIOLATED");
}

#[tokio::test]
async fn retries_of_the_same_run_again_and_again_are_those_of_its_chain() {
    let mut world = World::new();
    let first = world.finish(run_of(json!([call("b", "fail", &[])]))).await;
    let retry = v1::RetryRunRequest {
        run_id: first.run_id.clone(),
        ..v1::RetryRunRequest::default()
    };
    for n in 1..=3 {
        let retried = world.client.retry_run(retry.clone()).await.unwrap().into_inner();
        let retried = world.ended(&retried.run.unwrap().run_id).await;
        assert_eq!((retried.retry_count, &retried.chain_id), (n, &first.run_id));
    }
    let refused = world.client.retry_run(retry).await.unwrap_err();
    assert_eq!(reason(&refused), "RETRIES_USED_UP");
}

#[tokio::test]
async fn a_fork_or_retry_that_is_repeated_is_the_same_run_though_its_origin_is_gone() {
    let mut world = World::new();
    let first = world.finish(run_of(json!([call("b", "fail", &[])]))).await;
    let fork = v1::ForkRunRequest {
        run_id: first.run_id.clone(),
        request_id: "one".to_owned(),
        ..v1::ForkRunRequest::default()
    };
    let retry = v1::RetryRunRequest {
        run_id: first.run_id.clone(),
        request_id: "two".to_owned(),
        ..v1::RetryRunRequest::default()
    };
    let forked = world.client.fork_run(fork.clone()).await.unwrap().into_inner();
    let retried = world.client.retry_run(retry.clone()).await.unwrap().into_inner();
    let (forked, retried) = (forked.run.unwrap().run_id, retried.run.unwrap().run_id);
    let delete = v1::DeleteRunRequest { run_id: first.run_id };
    world.client.delete_run(delete).await.unwrap();
    let again = world.client.fork_run(fork.clone()).await.unwrap().into_inner();
    assert_eq!(again.run.unwrap().run_id, forked);
    let again = world.client.retry_run(retry).await.unwrap().into_inner();
    assert_eq!(again.run.unwrap().run_id, retried);
    let other = v1::ForkRunRequest {
        from_step: "b".to_owned(),
        ..fork
    };
    let refused = world.client.fork_run(other).await.unwrap_err();
    assert_eq!(reason(&refused), "REQUEST_ID_REUSED");
}
