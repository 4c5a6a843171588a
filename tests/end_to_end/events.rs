//! Events: who gets them, and that nobody's absence changes anything.

use crate::plans::{RequestWords, echo, fail, plan, request};
use crate::world::{LIMIT, World};
use escapement_tests::{ClosedPort, PrivateDirectory, Receiver, documents, wait_for};
use escapement_wire::v1::event_service_client::EventServiceClient;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::plan_step::OnFailure;
use escapement_wire::v1::{CloudEvent, PlanResult, SubscribeEventsRequest, SubscribeEventsResponse};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tokio::task::JoinSet;
use tonic::transport::Endpoint;
use tonic::{Code, Streaming};

use crate::plans::StepWords;

/// Subscribes; once the answer is there, so is the subscription.
pub(crate) async fn subscribe(world: &World, types: &[&str]) -> Streaming<SubscribeEventsResponse> {
    let types = types.iter().map(|name| (*name).to_owned()).collect();
    world
        .orchestrator
        .events()
        .subscribe_events(SubscribeEventsRequest {
            types,
            ..SubscribeEventsRequest::default()
        })
        .await
        .unwrap()
        .into_inner()
}

/// Returns the next event; none may be missing.
pub(crate) async fn next_event(events: &mut Streaming<SubscribeEventsResponse>) -> CloudEvent {
    let next = tokio::time::timeout(LIMIT, events.message())
        .await
        .expect("an event within the limit");
    let answer = next.unwrap().expect("the subscription goes on");
    assert_eq!(answer.dropped, 0);
    answer.event.unwrap()
}

//
#[tokio::test]
async fn a_subscriber_gets_one_cloud_event_for_each_execution() {
    let world = World::start().await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let mut events = subscribe(&world, &[]).await;
    let mut failures = subscribe(&world, &["plan_execution_failure"]).await;
    let plans = [
        ("plan_execution_success", plan([echo(0, json!({ "n": "1" }))])),
        (
            "plan_execution_partial",
            plan([echo(0, json!({})), fail(1, "BUSY").on_failure(OnFailure::Skip)]),
        ),
        ("plan_execution_failure", plan([fail(0, "BROKEN")])),
    ];
    for (kind, plan) in plans {
        let request = request(plan);
        let (id, plan_id) = (request.id(), request.plan_id());
        let result = world.execute(request).await;
        let event = next_event(&mut events).await;
        assert_eq!((event.r#type.as_str(), event.specversion.as_str()), (kind, "1.0"));
        assert_eq!((event.id, event.subject), (id, plan_id));
        assert_eq!(event.datacontenttype, "application/json");
        assert_eq!(
            (event.source.as_str(), event.namespace.as_str()),
            ("/escapement", "default")
        );
        assert!(
            event.time.ends_with('Z') && event.time.contains('T'),
            "{}",
            event.time
        );
        assert_eq!(event.data, Some(result.clone()));
        if result.status() == Status::Failure {
            assert_eq!(next_event(&mut failures).await.data, Some(result));
        }
    }
}

#[tokio::test]
async fn a_subscription_to_what_does_not_exist_is_refused() {
    let world = World::start().await;
    let request = SubscribeEventsRequest {
        types: vec!["plan_execution_paused".to_owned()],
        ..SubscribeEventsRequest::default()
    };
    let refused = world
        .orchestrator
        .events()
        .subscribe_events(request)
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
}

//
#[tokio::test]
async fn a_webhook_gets_the_cloud_event_in_structured_form() {
    let receiver = Receiver::start(204).await.unwrap();
    let url = receiver.url("/events");
    let world = World::start_with(|settings| settings.flag("--event-webhook", url)).await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let request = request(plan([echo(0, json!({ "n": "1" }))]));
    let (id, plan_id) = (request.id(), request.plan_id());
    let result = world.execute(request).await;
    let received = receiver.wait_for_requests(1, LIMIT).await.unwrap();
    assert_eq!(
        (received[0].method.as_str(), received[0].path.as_str()),
        ("POST", "/events")
    );
    assert!(
        received[0].headers["content-type"].starts_with("application/cloudevents+json"),
        "{received:?}"
    );
    let event: Value = serde_json::from_slice(&received[0].body).unwrap();
    assert_eq!(event["specversion"], "1.0");
    assert_eq!(event["type"], "plan_execution_success");
    assert_eq!(
        (event["id"].as_str(), event["subject"].as_str()),
        (Some(id.as_str()), Some(plan_id.as_str()))
    );
    assert_eq!(event["datacontenttype"], "application/json");
    assert_written(&event["data"], &result);
    assert_eq!(received.len(), 1, "one execution, one event");
}

/// Holds what a receiver got of a result against the contract's JSON of it.
fn assert_written(received: &Value, result: &PlanResult) {
    let written = documents::result(result);
    for field in [
        "plan_id",
        "execution_id",
        "status",
        "completed_at",
        "duration_ms",
        "steps_executed",
        "result_payload",
    ] {
        assert_eq!(received[field], written[field], "{field}");
    }
    let codes = [received, &written].map(|result| result["error"]["error_code"].clone());
    assert_eq!(codes[0], codes[1]);
}

//
#[tokio::test]
async fn a_webhook_that_nobody_answers_changes_nothing() {
    let directory = PrivateDirectory::new("end-to-end").unwrap();
    let closed = ClosedPort::bind().unwrap();
    let url = format!("http://{}/events", closed.address());
    let mut world = World::start_in(directory, |settings| settings.flag("--event-webhook", url)).await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    for _ in 0..20 {
        let request = request(plan([echo(0, json!({}))]));
        let id = request.id();
        assert_eq!(world.execute(request).await.status(), Status::Success);
        let record = world.record_of(&id).await;
        assert_eq!(
            crate::story::mandatory_actions(&record, "5.1")[4],
            "5 emit_completion_event"
        );
    }
    assert!(world.orchestrator.process.is_running());
}

//
#[tokio::test]
async fn a_webhook_that_answers_with_an_error_changes_nothing() {
    let receiver = Receiver::start(500).await.unwrap();
    let url = receiver.url("/?token=not-for-the-log");
    let world = World::start_with(|settings| settings.flag("--event-webhook", url)).await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let result = world.execute(request(plan([echo(0, json!({}))]))).await;
    assert_eq!(result.status(), Status::Success);
    receiver.wait_for_requests(1, LIMIT).await.unwrap();
    let log = world.orchestrator.process.stderr();
    assert!(log.contains("--event-webhook=(secret)"), "{log}");
    assert!(!log.contains("not-for-the-log"), "{log}");
}

//
#[tokio::test]
async fn the_error_handler_sees_failures_only_also_behind_a_rotation() {
    let directory = PrivateDirectory::new("end-to-end").unwrap();
    let file = directory.join("failures.jsonl");
    let flag = file.display().to_string();
    let world = World::start_in(directory, |settings| settings.flag("--error-handler-path", flag)).await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let success = request(plan([echo(0, json!({}))]));
    let partial = request(plan([
        echo(0, json!({})),
        fail(1, "BUSY").on_failure(OnFailure::Skip),
    ]));
    let failures = [
        request(plan([fail(0, "BROKEN")])),
        request(plan([fail(0, "TORN")])),
    ];
    let [broken, torn] = failures;
    world.execute(success).await;
    let broken = world.execute(broken).await;
    world.execute(partial).await;
    let failed = async || {
        let line = wait_for("a failure in the file", LIMIT, async || {
            let text = std::fs::read_to_string(&file).ok()?;
            serde_json::from_str::<Value>(text.strip_suffix('\n')?).ok()
        });
        line.await.unwrap()
    };
    assert_written(&failed().await, &broken);
    // As a rotation does.
    std::fs::rename(&file, file.with_extension("1")).unwrap();
    let torn = world.execute(torn).await;
    assert_written(&failed().await, &torn);
}

//
#[tokio::test]
async fn a_webhook_that_never_answers_changes_nothing() {
    let directory = PrivateDirectory::new("end-to-end").unwrap();
    // Connections wait in its backlog for ever.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/events", silent.local_addr().unwrap());
    let mut world = World::start_in(directory, |settings| settings.flag("--event-webhook", url)).await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    for _ in 0..5 {
        let result = world.execute(request(plan([echo(0, json!({}))]))).await;
        assert_eq!(result.status(), Status::Success);
    }
    let exit = world.orchestrator.process.terminate(LIMIT).await.unwrap();
    assert_eq!(exit.code(), Some(0));
}

//
#[tokio::test]
async fn a_subscriber_that_leaves_changes_nothing() {
    let world = World::start().await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    drop(subscribe(&world, &[]).await);
    let mut stays = subscribe(&world, &[]).await;
    for _ in 0..3 {
        let result = world.execute(request(plan([echo(0, json!({}))]))).await;
        assert_eq!(next_event(&mut stays).await.data, Some(result));
    }
}

/// More than an orchestrator keeps for one subscriber (1024) and the connection holds.
const N_EVENTS: usize = 1_200;

//
#[tokio::test]
async fn a_subscriber_that_does_not_read_loses_events_that_are_counted_and_holds_nothing_up() {
    let world = World::start().await;
    // A connection of its own that takes in next to nothing: what is not read stays with the orchestrator.
    let endpoint = Endpoint::from_shared(world.orchestrator.url()).unwrap();
    let channel = endpoint
        .initial_stream_window_size(1_024)
        .connect()
        .await
        .unwrap();
    let mut events = EventServiceClient::new(channel)
        .subscribe_events(SubscribeEventsRequest::default())
        .await
        .unwrap()
        .into_inner();

    let mut running = JoinSet::new();
    let mut ended = BTreeSet::new();
    for _ in 0..N_EVENTS {
        if running.len() == 100 {
            ended.insert(running.join_next().await.unwrap().unwrap());
        }
        // Lacks its context, so that it ends without a worker.
        let mut request = request(plan([echo(0, json!({}))]));
        request.environment = None;
        let call = world.executing(request);
        running.spawn(async move { call.await.unwrap().unwrap().execution_id });
    }
    ended.extend(running.join_all().await);
    assert_eq!(ended.len(), N_EVENTS, "every execution went on to its end");

    let (mut n_read, mut n_dropped) = (0, 0);
    while n_read + n_dropped < N_EVENTS {
        let next = tokio::time::timeout(LIMIT, events.message()).await;
        let answer = next.expect("every event is read or counted").unwrap().unwrap();
        assert!(ended.remove(&answer.event.unwrap().id), "each event at most once");
        n_read += 1;
        n_dropped = usize::try_from(answer.dropped).unwrap();
    }
    assert_eq!((n_read + n_dropped, ended.len()), (N_EVENTS, n_dropped));
    assert!(n_dropped > 0, "nothing was lost, so nothing was proved");
}
