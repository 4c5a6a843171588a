//! How runs ended: every end once and in order for readers, and at least once for sinks, across kills.

use crate::feed::{next, refused, rest};
use crate::metrics::{address, scrape};
use crate::runs::{create, creation, ended};
use crate::sinks::kills::moody;
use crate::sinks::nats::Nats;
use crate::sinks::{event, taken, wait_for_taken, world};
use crate::status_details::reason;
use crate::world::{LIMIT, World};
use escapement_tests::{Dice, OrchestratorSettings, ReceivedRequest, Receiver, Reply, wait_for};
use escapement_wire::runs::v1::run::State;
use escapement_wire::runs::v1::run_service_client::RunServiceClient;
use escapement_wire::runs::v1::{CancelRunRequest, DeleteRunRequest, ReadEventsRequest, ReadEventsResponse};
use rustix::process::Signal;
use serde_json::{Value, json};
use tonic::transport::Channel;
use tonic::{Code, Streaming};

fn client(world: &World) -> RunServiceClient<Channel> {
    RunServiceClient::new(world.orchestrator.channel())
}

/// A plan that has nothing to do, and one that asks and waits.
fn plan(asks: bool) -> Value {
    let steps = match asks {
        true => json!([{"key": "ask", "type": "user_input", "config": {"question": "Which one?"}}]),
        false => json!([]),
    };
    json!({"schema": "escapement.plan/1", "name": "Ends", "steps": steps})
}

/// Makes a run and waits for its end; every third one is cancelled. Its id.
async fn run_to_its_end(world: &World, n: usize) -> String {
    let is_cancelled = n % 3 == 2;
    let run = create(
        &world.orchestrator,
        creation(&format!("run {n}"), &plan(is_cancelled)),
    )
    .await;
    if is_cancelled {
        let cancel = CancelRunRequest {
            run_id: run.run_id.clone(),
            ..CancelRunRequest::default()
        };
        client(world).cancel_run(cancel).await.unwrap();
    }
    let run = ended(&world.orchestrator, &run.run_id).await;
    let expected = if is_cancelled {
        State::Cancelled
    } else {
        State::Completed
    };
    assert_eq!(run.state(), expected, "{run:?}");
    run.run_id
}

/// Returns everything behind that place, to the newest.
fn behind(after_sequence: i64) -> ReadEventsRequest {
    ReadEventsRequest {
        after_sequence,
        wait_ms: Some(0),
        ..ReadEventsRequest::default()
    }
}

async fn read(world: &World, request: ReadEventsRequest) -> Streaming<ReadEventsResponse> {
    client(world).read_events(request).await.unwrap().into_inner()
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
    refused(client(world).read_events(request).await).await
}

#[tokio::test]
async fn a_reader_that_comes_back_gets_every_end_once_and_in_order_across_kills() {
    let mut world = World::start().await;
    let (mut expected, mut seen) = (Vec::new(), Vec::<ReadEventsResponse>::new());
    for round in 0..3 {
        let live = ReadEventsRequest {
            wait_ms: None,
            after_id: seen
                .last()
                .map_or_else(String::new, |last| last.event.clone().unwrap().id),
            ..behind(seen.last().map_or(0, |last| last.sequence))
        };
        // Opened before anything ends, so that it is told live.
        let mut events = read(&world, live).await;
        for n in 0..6 {
            expected.push(run_to_its_end(&world, round * 6 + n).await);
        }
        // The last ones of a round are left for the next reader.
        for _ in 0..4 {
            seen.push(next(&mut events).await.unwrap());
        }
        drop(events);
        world.crash_and_restart().await;
    }
    seen.extend(all(&world, behind(seen.last().unwrap().sequence)).await);
    assert_eq!(seen.len(), expected.len());
    for ((place, told), (n, run_id)) in (1..).zip(&seen).zip(expected.iter().enumerate()) {
        assert_eq!(told.sequence, place);
        let event = told.event.as_ref().unwrap();
        let data = event.data.as_ref().unwrap();
        let (kind, state) = match n % 3 {
            2 => ("run_cancelled", State::Cancelled),
            _ => ("run_completed", State::Completed),
        };
        assert_eq!((&event.id, &data.run_id), (run_id, run_id));
        assert_eq!((event.r#type.as_str(), data.state()), (kind, state));
        assert_eq!(
            (event.source.as_str(), event.namespace.as_str()),
            ("/escapement", "default")
        );
        let run = ended(&world.orchestrator, run_id).await;
        assert_eq!(Some(data.completed_at), run.completed_at);
        assert_eq!(
            (data.last_sequence, &data.user_id),
            (run.last_sequence, &run.user_id)
        );
        assert_eq!((data.outcome, &data.reason), (run.outcome, &run.reason));
    }
    // And once more from the beginning, as it was before each of the kills.
    assert_eq!(all(&world, behind(0)).await, seen);
}

#[tokio::test]
async fn a_reader_of_ends_gets_what_it_asked_for_and_is_told_how_far_it_is() {
    let world = World::start().await;
    assert_eq!(all(&world, behind(0)).await, []);
    let mut runs = Vec::new();
    for n in 0..4 {
        runs.push(run_to_its_end(&world, n).await);
    }
    let cancelled = ReadEventsRequest {
        types: vec!["run_cancelled".to_owned()],
        ..behind(0)
    };
    let expected = [(3, Some(runs[2].as_str())), (4, None)];
    assert_eq!(ids(&all(&world, cancelled).await), expected);
    let elsewhere = ReadEventsRequest {
        namespace: "billing".to_owned(),
        ..behind(0)
    };
    assert_eq!(ids(&all(&world, elsewhere).await), [(4, None)]);
    for (request, field) in [
        (behind(-1), "after_sequence"),
        (
            ReadEventsRequest {
                types: vec!["plan_execution_success".to_owned()],
                ..behind(0)
            },
            "types",
        ),
        (
            ReadEventsRequest {
                wait_ms: Some(86_400_001),
                ..behind(0)
            },
            "wait_ms",
        ),
        (
            ReadEventsRequest {
                after_id: "no id".to_owned(),
                ..behind(0)
            },
            "after_id",
        ),
    ] {
        let refused = refusal(&world, request).await;
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().starts_with(field), "{refused}");
    }
    // What is behind the newest, and another run than the one that was seen.
    let of_another = ReadEventsRequest {
        after_id: runs[0].clone(),
        ..behind(2)
    };
    for request in [behind(5), of_another] {
        assert_eq!(
            reason(&refusal(&world, request).await, Code::OutOfRange),
            "CURSOR_GONE"
        );
    }
    // A run that was deleted has no event, and cuts nobody off.
    let delete = DeleteRunRequest {
        run_id: runs[1].clone(),
    };
    client(&world).delete_run(delete).await.unwrap();
    let places = [
        (1, Some(runs[0].as_str())),
        (3, Some(runs[2].as_str())),
        (4, Some(runs[3].as_str())),
    ];
    assert_eq!(ids(&all(&world, behind(0)).await), places);
    let behind_it = ReadEventsRequest {
        after_id: runs[1].clone(),
        ..behind(2)
    };
    assert_eq!(ids(&all(&world, behind_it).await), places[1..]);
}

#[tokio::test]
async fn every_end_of_a_run_comes_to_its_sinks_in_order_and_at_least_once_across_kills() {
    let runs = moody(1).await;
    let (mut world, _sinks) = world(
        |sinks| sinks.sink("runs", &runs.url("/"), "feed = \"runs\"\ntimeout_ms = 1000"),
        |settings| settings,
    )
    .await;
    let mut dice = Dice::new(3);
    let mut expected = Vec::new();
    for round in 0..5 {
        let before = runs.received().len();
        for n in 0..4 {
            expected.push(run_to_its_end(&world, round * 4 + n).await);
        }
        // At some moment of the deliveries: with some of them done, and one perhaps under way.
        let n_more = usize::try_from(dice.roll(4)).unwrap();
        runs.wait_for_requests(before + n_more, LIMIT).await.unwrap();
        world.crash_and_restart().await;
    }
    let received = wait_for_taken(&runs, expected.len()).await;
    assert_eq!(
        taken(&received),
        expected,
        "everything, and in the order of ending"
    );
    for request in &received {
        let event = event(request);
        let place = expected.iter().position(|id| event["id"] == id.as_str()).unwrap();
        assert_eq!(event["sequence"], format!("{:020}", place + 1));
        assert_eq!(event["data"]["run_id"], event["id"]);
        let kind = if place % 3 == 2 {
            "run_cancelled"
        } else {
            "run_completed"
        };
        assert_eq!(event["type"], kind);
    }
}

#[tokio::test]
async fn ends_of_runs_come_to_a_stream_once_and_in_order_across_kills_of_both() {
    let Some(mut nats) = Nats::start("").await else {
        return;
    };
    nats.make_stream(json!({})).await;
    let url = nats.url();
    let (mut world, _sinks) = world(
        |sinks| sinks.nats_sink("bus", &url, "feed = \"runs\""),
        |settings| settings,
    )
    .await;
    let mut expected = Vec::new();
    for round in 0..3 {
        for n in 0..3 {
            expected.push(run_to_its_end(&world, round * 3 + n).await);
        }
        nats.messages(expected.len() - 1).await;
        nats.server.kill().unwrap();
        world.crash_and_restart().await;
        nats.server.restart().await.unwrap();
    }
    let messages = nats.messages(expected.len()).await;
    let ids = messages.iter().map(|(_, event)| event["id"].as_str().unwrap());
    assert_eq!(ids.collect::<Vec<_>>(), expected);
    for (headers, event) in &messages {
        let subject = format!("escapement.default.{}", event["type"].as_str().unwrap());
        assert!(
            headers.contains(&format!("Nats-Subject: {subject}\r\n")),
            "{headers}"
        );
    }
}

#[tokio::test]
async fn what_a_sink_of_runs_lacks_is_kept_and_what_was_deleted_is_told_as_lost() {
    let receiver = Receiver::start_with(|_: &ReceivedRequest| Reply::Status(503))
        .await
        .unwrap();
    let change = |settings: OrchestratorSettings| {
        settings
            .flag("--keep-runs-count", 1)
            .flag("--metrics-listen", "127.0.0.1:0")
    };
    let (mut world, mut sinks) = world(
        |sinks| sinks.sink("crm", &receiver.url("/"), "feed = \"runs\""),
        change,
    )
    .await;
    let mut runs = Vec::new();
    for n in 0..3 {
        runs.push(run_to_its_end(&world, n).await);
    }
    let delete = DeleteRunRequest {
        run_id: runs[1].clone(),
    };
    client(&world).delete_run(delete).await.unwrap();
    let address = address(&world).await;
    let lags = wait_for("what the sink lacks", LIMIT, async || {
        let samples = scrape(&address).await;
        (samples.get("escapement_event_feed_lag{sink=\"crm\"}") == Some(&3.0)).then_some(())
    });
    lags.await.unwrap();
    let kept = [(1, Some(runs[0].as_str())), (3, Some(runs[2].as_str()))];
    assert_eq!(
        ids(&all(&world, behind(0)).await),
        kept,
        "nothing else is removed"
    );
    // Another receiver at the same place, which takes everything.
    let willing = Receiver::start(204).await.unwrap();
    sinks.text = sinks.text.replace(&receiver.url("/"), &willing.url("/"));
    sinks.write();
    world.orchestrator.process.signal(Signal::HUP).unwrap();
    let received = wait_for_taken(&willing, 3).await;
    assert_eq!(taken(&received), [runs[0].as_str(), "lost-2-2", runs[2].as_str()]);
    assert_eq!(event(&received[1])["type"], "events_lost");
    // Now all but the newest may go.
    let removed = wait_for("the removal of what the sink has had", LIMIT, async || {
        let told = all(&world, behind(0)).await;
        (ids(&told) == [(3, Some(runs[2].as_str()))]).then_some(())
    });
    removed.await.unwrap();
}
