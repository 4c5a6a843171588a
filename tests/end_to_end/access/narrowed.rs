//! Policies that take a part of somebody's rights away while calls are open: what needs that part ends and says so, the rest goes on.

use super::credentials::{Token, policy, world_with};
use super::sessions::Session;
use crate::plans::{RequestWords, plan, request, step};
use crate::status_details::reason;
use crate::world::{LIMIT, World};
use escapement_tests::ScriptedWorker;
use escapement_wire::runs::v1::WatchInboxRequest;
use escapement_wire::runs::v1::inbox_service_client::InboxServiceClient;
use escapement_wire::v1::{
    GetExecutionRequest, SubscribeEventsRequest, WaitExecutionRequest, WatchExecutionRequest,
};
use std::path::Path;
use std::time::Duration;
use tokio::time::timeout;
use tonic::{Code, Status, Streaming};

async fn accepted(world: &World, token: &Token, namespace: &str) -> String {
    let mut submission = request(plan([step(0, "work")])).as_submission();
    submission.namespace = namespace.to_owned();
    let mut plans = world.orchestrator.plans();
    let accepted = plans.submit_plan(token.shows(submission)).await.unwrap();
    accepted.into_inner().execution.unwrap().execution_id
}

/// What a stream ends with, whatever it says before.
async fn end_of<T>(mut stream: Streaming<T>) -> Status {
    let end = async {
        loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the stream ended well"),
                Err(status) => return status,
            }
        }
    };
    timeout(LIMIT, end).await.unwrap()
}

fn change(file: &Path, entries: &[String]) {
    std::fs::write(file, policy(entries)).unwrap();
}

#[tokio::test]
async fn a_session_ends_with_the_right_that_it_has_lost_and_others_go_on() {
    let tokens = ["fewer", "none", "renamed", "same"].map(Token::new);
    let [fewer, none, renamed, same] = &tokens;
    let worker =
        |token: &Token, name: &str, more: &str| token.entry(name, &format!("roles = [\"worker\"]\n{more}"));
    let before = ["fewer", "none", "renamed", "same"];
    let before: Vec<String> = before
        .iter()
        .zip(&tokens)
        .map(|(name, token)| worker(token, name, ""))
        .collect();
    let (world, file) = world_with(&before).await;
    let mut sessions = Vec::new();
    for (instance, token) in (1..).zip(&tokens) {
        let mut session = Session::begin(&world, token, instance, "w-1", &["work", "more"]).await;
        assert!(session.refused_actions().await.is_empty());
        sessions.push(session);
    }
    let after = [
        worker(fewer, "fewer", "actions = [\"work\"]"),
        none.entry("none", "roles = [\"viewer\"]"),
        worker(renamed, "renamed", "worker_ids = [\"x-*\"]"),
        worker(same, "same", ""),
    ];
    change(&file, &after);
    let [fewer_session, none_session, renamed_session, same_session] = &mut sessions[..] else {
        panic!("there are four");
    };
    // It comes back, with what is left.
    let told = timeout(LIMIT, fewer_session.reconnect()).await.unwrap();
    assert!(
        told.starts_with("ACTION_NOT_PERMITTED") && told.contains("\"more\""),
        "{told}"
    );
    let mut again = Session::begin(&world, fewer, 1, "w-1", &["work", "more"]).await;
    assert_eq!(again.refused_actions().await, ["more"]);
    let told = timeout(LIMIT, none_session.denial()).await.unwrap();
    assert_eq!(told, "ROLE_MISSING");
    let told = timeout(LIMIT, renamed_session.denial()).await.unwrap();
    assert_eq!(told, "WORKER_ID_NOT_PERMITTED");
    let heard = timeout(Duration::from_millis(100), same_session.next()).await;
    assert!(heard.is_err(), "{heard:?}");
}

#[tokio::test]
async fn streams_and_waits_end_with_the_namespace_that_their_caller_has_lost() {
    let [planner, worker] = ["planner", "worker"].map(Token::new);
    let entry = |namespaces: &str| {
        planner.entry(
            "planner",
            &format!("roles = [\"submitter\"]\nnamespaces = {namespaces}"),
        )
    };
    let of_worker = worker.entry("worker", "roles = [\"worker\"]");
    let (world, file) = world_with(&[entry("[\"default\", \"other\"]"), of_worker.clone()]).await;
    let hello = ScriptedWorker::hello_for(ScriptedWorker::specs(&["work"]), 4);
    let url = world.orchestrator.url();
    let works = ScriptedWorker::open_showing(&url, hello, &worker.secret);
    let mut works = works.await.0;
    works.keep_alive(Duration::from_secs(1));
    let here = accepted(&world, &planner, "default").await;
    let attempt_here = works.started().await;
    let there = accepted(&world, &planner, "other").await;
    works.started().await;
    let mut plans = world.orchestrator.plans();
    // Over one connection, on which what is asked first is judged first.
    let wait = |execution_id: &String| {
        planner.shows(WaitExecutionRequest {
            execution_id: execution_id.clone(),
            timeout_ms: Some(60_000),
        })
    };
    let (mut one, mut other) = (plans.clone(), plans.clone());
    let (waits_here, waits_there) = (wait(&here), wait(&there));
    let waits_here = tokio::spawn(async move { one.wait_execution(waits_here).await });
    let waits_there = tokio::spawn(async move { other.wait_execution(waits_there).await });
    let watch = |execution_id: &String| {
        planner.shows(WatchExecutionRequest {
            execution_id: execution_id.clone(),
            ..WatchExecutionRequest::default()
        })
    };
    let watch_here = plans.watch_execution(watch(&here)).await.unwrap().into_inner();
    let watch_there = plans.watch_execution(watch(&there)).await.unwrap().into_inner();
    let mut events = world.orchestrator.events();
    let everywhere = planner.shows(SubscribeEventsRequest::default());
    let everywhere = events.subscribe_events(everywhere).await.unwrap().into_inner();
    change(&file, &[entry("[\"default\"]"), of_worker]);
    for ended in [end_of(watch_there).await, end_of(everywhere).await] {
        assert_eq!(reason(&ended, Code::PermissionDenied), "NAMESPACE_NOT_PERMITTED");
        assert!(ended.message().contains("\"other\""), "{ended:?}");
    }
    let ended = timeout(LIMIT, waits_there).await.unwrap().unwrap().unwrap_err();
    assert_eq!(reason(&ended, Code::PermissionDenied), "NAMESPACE_NOT_PERMITTED");
    // What it still may goes on, over the same connection.
    let ask = GetExecutionRequest {
        execution_id: here.clone(),
    };
    assert!(plans.get_execution(planner.shows(ask)).await.is_ok());
    works.succeed(&attempt_here, serde_json::json!({})).await;
    let waited = timeout(LIMIT, waits_here).await.unwrap().unwrap().unwrap();
    assert!(waited.into_inner().execution.unwrap().result.is_some());
    let mut watched = watch_here;
    while let Some(entry) = watched.message().await.unwrap() {
        drop(entry);
    }
}

#[tokio::test]
async fn who_is_held_to_one_user_is_told_no_more_of_others() {
    let viewer = Token::new("viewer");
    let entry = |more: &str| viewer.entry("viewer", &format!("roles = [\"viewer\"]\n{more}"));
    let (world, file) = world_with(&[entry("")]).await;
    let mut inbox = InboxServiceClient::new(world.orchestrator.channel());
    let inbox = inbox
        .watch_inbox(viewer.shows(WatchInboxRequest::default()))
        .await
        .unwrap();
    let mut events = world.orchestrator.events();
    let events = events
        .subscribe_events(viewer.shows(SubscribeEventsRequest::default()))
        .await
        .unwrap();
    change(&file, &[entry("user = true")]);
    for ended in [
        end_of(inbox.into_inner()).await,
        end_of(events.into_inner()).await,
    ] {
        assert_eq!(reason(&ended, Code::PermissionDenied), "USER_NOT_PERMITTED");
    }
}
