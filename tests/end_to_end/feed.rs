//! `ReadEvents`: every ending, once and in order, also for a reader that was away while the orchestrator was killed.

use crate::plans::{RequestWords, echo, fail, plan, request};
use crate::status_details::reason;
use crate::world::{LIMIT, World};
use escapement_tests::wait_for;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::{GetExecutionRequest, ReadEventsRequest, ReadEventsResponse};
use serde_json::json;
use tonic::{Code, Response, Streaming};
use tonic_types::StatusExt;

/// Returns everything behind that place, to the newest.
fn behind(after_sequence: i64) -> ReadEventsRequest {
    ReadEventsRequest {
        after_sequence,
        wait_ms: Some(0),
        ..ReadEventsRequest::default()
    }
}

async fn read(world: &World, request: ReadEventsRequest) -> Streaming<ReadEventsResponse> {
    let answer = world.orchestrator.events().read_events(request).await;
    answer.unwrap().into_inner()
}

/// What the stream tells next; `None` at its end.
pub(crate) async fn next<T>(events: &mut Streaming<T>) -> Option<T> {
    let next = tokio::time::timeout(LIMIT, events.message()).await;
    next.expect("an event within the limit")
        .expect("the stream goes on")
}

/// All that is told, to the end of the stream.
pub(crate) async fn rest<T>(mut events: Streaming<T>) -> Vec<T> {
    let mut told = Vec::new();
    while let Some(answer) = next(&mut events).await {
        told.push(answer);
    }
    told
}

/// Returns the reason why a call that reads is refused, or its stream ended.
pub(crate) async fn refused<T: std::fmt::Debug>(
    answer: Result<Response<Streaming<T>>, tonic::Status>,
) -> tonic::Status {
    match answer {
        Err(status) => status,
        Ok(answer) => {
            let first = tokio::time::timeout(LIMIT, answer.into_inner().message()).await;
            first.unwrap().expect_err("it is refused")
        }
    }
}

async fn all(world: &World, request: ReadEventsRequest) -> Vec<ReadEventsResponse> {
    rest(read(world, request).await).await
}

/// Sequences with the ids of their events; a heartbeat has none.
fn ids(told: &[ReadEventsResponse]) -> Vec<(i64, Option<&str>)> {
    let ids = told
        .iter()
        .map(|told| (told.sequence, told.event.as_ref().map(|event| event.id.as_str())));
    ids.collect()
}

async fn refusal(world: &World, request: ReadEventsRequest) -> tonic::Status {
    refused(world.orchestrator.events().read_events(request).await).await
}

#[tokio::test]
async fn a_reader_that_comes_back_gets_every_event_once_and_in_order_across_kills() {
    let mut world = World::start().await;
    let mut expected = Vec::new();
    let mut seen: Vec<ReadEventsResponse> = Vec::new();
    for round in 0..3 {
        let worker = world
            .stock_worker(&format!("stock-{round}"), |settings| settings)
            .await;
        // Opened before anything ends, so that it is told live.
        let after = seen.last().map_or(0, |last| last.sequence);
        let mut events = read(
            &world,
            ReadEventsRequest {
                wait_ms: None,
                ..behind(after)
            },
        )
        .await;
        for n in 0..20 {
            let steps = if n % 3 == 0 {
                fail(0, "BROKEN")
            } else {
                echo(0, json!({ "n": n }))
            };
            let request = request(plan([steps]));
            expected.push((request.id(), world.execute(request).await));
        }
        // The last ones of a round are left for the next reader.
        for _ in 0..13 {
            seen.push(next(&mut events).await.unwrap());
        }
        drop((events, worker));
        world.crash_and_restart().await;
    }
    seen.extend(all(&world, behind(seen.last().unwrap().sequence)).await);
    assert_eq!(seen.len(), expected.len());
    for ((place, told), (id, result)) in (1..).zip(&seen).zip(&expected) {
        assert_eq!(told.sequence, place);
        let event = told.event.as_ref().unwrap();
        assert_eq!((&event.id, &event.subject), (id, &result.plan_id));
        assert_eq!(event.data.as_ref(), Some(result));
        let kind = match result.status() {
            Status::Failure => "plan_execution_failure",
            _ => "plan_execution_success",
        };
        assert_eq!(event.r#type, kind);
    }
    // And once more from the beginning, as it was before each of the kills.
    assert_eq!(all(&world, behind(0)).await, seen);
}

#[tokio::test]
async fn a_reader_gets_what_it_asked_for_and_is_told_how_far_it_is() {
    let world = World::start().await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    assert_eq!(all(&world, behind(0)).await, []);
    let mut of_kind = Vec::new();
    for steps in [fail(0, "A"), echo(0, json!({})), fail(0, "B"), echo(0, json!({}))] {
        let request = request(plan([steps]));
        of_kind.push(request.id());
        world.execute(request).await;
    }
    let failures = ReadEventsRequest {
        types: vec!["plan_execution_failure".to_owned()],
        ..behind(0)
    };
    let told = all(&world, failures.clone()).await;
    let expected = [
        (1, Some(of_kind[0].as_str())),
        (3, Some(of_kind[2].as_str())),
        (4, None),
    ];
    assert_eq!(ids(&told), expected, "the last message says how far it is");
    let elsewhere = ReadEventsRequest {
        namespace: "billing".to_owned(),
        ..behind(0)
    };
    assert_eq!(ids(&all(&world, elsewhere).await), [(4, None)]);
    // It stays open for as long as it is to wait.
    let mut live = read(
        &world,
        ReadEventsRequest {
            wait_ms: Some(60_000),
            ..behind(4)
        },
    )
    .await;
    let request = request(plan([echo(0, json!({}))]));
    let id = request.id();
    world.execute(request).await;
    assert_eq!(ids(&[next(&mut live).await.unwrap()]), [(5, Some(id.as_str()))]);
    assert_eq!(ids(&all(&world, behind(4)).await), [(5, Some(id.as_str()))]);

    let is_seen = |after_id: &str| ReadEventsRequest {
        after_id: after_id.to_owned(),
        ..behind(3)
    };
    assert_eq!(all(&world, is_seen(&of_kind[2])).await.len(), 2);
    for gone in [behind(6), is_seen(&of_kind[1])] {
        let status = refusal(&world, gone).await;
        assert_eq!(reason(&status, Code::OutOfRange), "CURSOR_GONE");
        let facts = status.get_details_error_info().unwrap().metadata;
        assert_eq!((facts["oldest"].as_str(), facts["newest"].as_str()), ("1", "5"));
    }
    let wrong = [
        ("after_sequence", behind(-1)),
        ("after_id", is_seen("x")),
        (
            "types",
            ReadEventsRequest {
                types: vec!["ended".to_owned()],
                ..failures
            },
        ),
        (
            "wait_ms",
            ReadEventsRequest {
                wait_ms: Some(86_400_001),
                ..behind(0)
            },
        ),
    ];
    for (field, request) in wrong {
        let status = refusal(&world, request).await;
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        let violations = status.get_details_bad_request().unwrap().field_violations;
        assert_eq!(violations[0].field, field);
    }
}

#[tokio::test]
async fn a_reader_is_told_if_events_behind_it_were_removed() {
    let world =
        World::start_with(|settings| settings.flag("--keep-settled-count", 2).switch("--no-runs")).await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let mut first = None;
    for _ in 0..6 {
        let request = request(plan([echo(0, json!({}))]));
        first.get_or_insert(request.id());
        world.execute(request).await;
    }
    let first = first.unwrap();
    wait_for("the removal of all but two", LIMIT, async || {
        let told = all(&world, behind(0)).await;
        (told.len() == 2).then_some(())
    })
    .await
    .unwrap();
    let ask = GetExecutionRequest { execution_id: first };
    assert!(world.orchestrator.plans().get_execution(ask).await.is_err());
    let told = all(&world, behind(0)).await;
    assert_eq!(told.iter().map(|told| told.sequence).collect::<Vec<_>>(), [5, 6]);
    assert_eq!(all(&world, behind(4)).await, told);
    let status = refusal(&world, behind(3)).await;
    assert_eq!(reason(&status, Code::OutOfRange), "CURSOR_GONE");
    assert_eq!(status.get_details_error_info().unwrap().metadata["oldest"], "5");
}
