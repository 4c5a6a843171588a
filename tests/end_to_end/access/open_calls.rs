//! Calls that are open at a time: whatever one namespace opens, others come in, and it is told why it does not.

use super::credentials::{Token, world_with};
use crate::plans::{RequestWords, plan, request, step};
use crate::status_details::reason;
use crate::world::{LIMIT, World};
use escapement_tests::wait_for;
use escapement_wire::v1::event_service_client::EventServiceClient;
use escapement_wire::v1::{ListExecutionsRequest, SubscribeEventsRequest, SubscribeEventsResponse};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_types::StatusExt;

/// Subscriptions that an orchestrator has at a time, and that one connection carries.
const SUBSCRIPTIONS_MAX: usize = 4_096;
const STREAMS_PER_CONNECTION: usize = 1_000;

async fn connect(world: &World) -> Channel {
    let endpoint = Endpoint::from_shared(world.orchestrator.url()).unwrap();
    endpoint.connect().await.unwrap()
}

async fn subscribe(channel: &Channel, token: &Token) -> Result<Streaming<SubscribeEventsResponse>, Status> {
    let mut events = EventServiceClient::new(channel.clone());
    let subscribed = events.subscribe_events(token.shows(SubscribeEventsRequest::default()));
    Ok(subscribed.await?.into_inner())
}

/// Subscribes until that is refused; gives all streams, and the refusal.
async fn subscribe_to_the_end(
    world: &World,
    token: &Token,
) -> (Vec<Streaming<SubscribeEventsResponse>>, Status) {
    let mut streams = Vec::new();
    let mut channel = connect(world).await;
    loop {
        match subscribe(&channel, token).await {
            Ok(stream) => streams.push(stream),
            Err(refused) => return (streams, refused),
        }
        if streams.len() % STREAMS_PER_CONNECTION == 0 {
            channel = connect(world).await;
        }
    }
}

#[tokio::test]
async fn one_namespace_leaves_as_many_streams_to_others_as_it_has() {
    let [greedy, colleague, other] = ["greedy", "colleague", "other"].map(Token::new);
    let entries = [
        greedy.entry("greedy", "roles = [\"viewer\"]"),
        colleague.entry("colleague", "roles = [\"submitter\"]"),
        other.entry("other", "roles = [\"submitter\"]\nnamespaces = [\"other\"]"),
    ];
    let (world, _file) = world_with(&entries).await;
    let (mut of_greedy, refused) = subscribe_to_the_end(&world, &greedy).await;
    assert_eq!(of_greedy.len(), SUBSCRIPTIONS_MAX / 2);
    assert_eq!(reason(&refused, Code::ResourceExhausted), "OVERLOADED");
    let info = refused.get_details_error_info().unwrap();
    let said = ["kind", "of"].map(|key| info.metadata[key].as_str());
    assert_eq!(said, ["subscriptions", "tenant"]);
    let channel = connect(&world).await;
    // What counts is the namespace, and other calls of it are not concerned.
    let refused = subscribe(&channel, &colleague).await.unwrap_err();
    assert_eq!(reason(&refused, Code::ResourceExhausted), "OVERLOADED");
    let list = greedy.shows(ListExecutionsRequest::default());
    assert!(world.orchestrator.plans().list_executions(list).await.is_ok());
    // Another namespace comes in, and is told of its events.
    let mut of_other = subscribe(&channel, &other).await.unwrap();
    let work = request(plan([step(0, "work")])).as_submission();
    let deadline_ms = Some(1);
    let work = escapement_wire::v1::SubmitPlanRequest { deadline_ms, ..work };
    let mut plans = world.orchestrator.plans();
    let submitted = plans.submit_plan(other.shows(work)).await.unwrap().into_inner();
    let told = tokio::time::timeout(LIMIT, of_other.message()).await.unwrap();
    let told = told.unwrap().unwrap().event.unwrap();
    assert_eq!(told.id, submitted.execution.unwrap().execution_id);
    // What one ends others of the namespace may begin; the other one has taken a place of those that are free.
    of_greedy.truncate(SUBSCRIPTIONS_MAX / 2 - 2);
    let begun = async || subscribe(&channel, &colleague).await.ok();
    wait_for("a stream in the place of those that ended", LIMIT, begun)
        .await
        .unwrap();
}

/// Watches the health over the connection until that is refused, or as often as it can.
async fn watch_health(channel: &Channel) -> Vec<Streaming<HealthCheckResponse>> {
    let mut health = HealthClient::new(channel.clone());
    let mut watches = Vec::new();
    while watches.len() < STREAMS_PER_CONNECTION {
        match health.watch(HealthCheckRequest::default()).await {
            Ok(watch) => watches.push(watch.into_inner()),
            Err(refused) => {
                assert_eq!(reason(&refused, Code::Unavailable), "OVERLOADED");
                break;
            }
        }
    }
    watches
}

#[tokio::test]
async fn strangers_that_watch_the_health_leave_room_to_others_and_hinder_no_check() {
    let (world, _file) = world_with(&[]).await;
    let mut kept = Vec::new();
    for _ in 0..5 {
        let channel = connect(&world).await;
        kept.push((watch_health(&channel).await, channel));
    }
    let probe = connect(&world).await;
    let mut health = HealthClient::new(probe);
    let checked = health.check(HealthCheckRequest::default()).await;
    assert!(checked.is_ok(), "{checked:?}");
    let watched = health.watch(HealthCheckRequest::default()).await;
    assert!(watched.is_ok(), "{watched:?}");
    let n_first = kept[0].0.len();
    assert!(n_first < STREAMS_PER_CONNECTION, "one connection has {n_first}");
}
