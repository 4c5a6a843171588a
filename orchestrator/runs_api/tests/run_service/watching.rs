//! Events as they become durable: without gaps, from any place, over kills, with a heartbeat.

use crate::world::{World, call, run_of};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::watch_run_response::Told;
use serde_json::json;
use std::time::Duration;
use tokio_stream::StreamExt;
use tonic::Code;

fn watch(run_id: &str, from_sequence: i64) -> v1::WatchRunRequest {
    v1::WatchRunRequest {
        run_id: run_id.to_owned(),
        from_sequence,
    }
}

async fn all(world: &mut World, run_id: &str, from: i64) -> Vec<v1::RunEvent> {
    let mut stream = world
        .client
        .watch_run(watch(run_id, from))
        .await
        .unwrap()
        .into_inner();
    let mut events = Vec::new();
    while let Some(answer) = stream.next().await {
        if let Some(Told::Event(event)) = answer.unwrap().told {
            events.push(event);
        }
    }
    events
}

// S13.
#[tokio::test]
async fn a_late_watcher_gets_everything_and_then_the_end() {
    let mut world = World::new();
    let run = world.finish(run_of(json!([call("a", "echo", &[])]))).await;
    let events = all(&mut world, &run.run_id, 0).await;
    let sequences: Vec<i64> = events.iter().map(|event| event.sequence).collect();
    assert_eq!(sequences, (1..=run.last_sequence).collect::<Vec<_>>());
    let types: Vec<&str> = events.iter().map(|event| event.event_type.as_str()).collect();
    assert_eq!(
        types,
        [
            "run_created",
            "plan_created",
            "run_started",
            "step_started",
            "tool_called",
            "tool_output",
            "step_completed",
            "run_completed"
        ]
    );
    assert_eq!(events[2].alias, ["plan:started", "started", "plan_started"]);
    let called = &events[4];
    assert_eq!(
        (
            called.step_key.as_str(),
            called.step_index,
            called.tool_name.as_str()
        ),
        ("a", Some(0), "echo")
    );
    assert_eq!(called.event_id, format!("{}/5", run.run_id));
    assert_eq!(
        crate::world::json_of(called.data.as_ref())["payload"],
        json!({"key": "a"})
    );
    assert!(events.iter().all(|event| event.hash.len() == 32));
    assert_eq!(all(&mut world, &run.run_id, 7).await.len(), 2);
    assert!(
        all(&mut world, &run.run_id, run.last_sequence + 1)
            .await
            .is_empty()
    );
}

// S14.
#[tokio::test]
async fn a_watcher_that_comes_back_after_a_kill_misses_nothing() {
    let mut world = World::new();
    let steps = json!([
        call("a", "echo", &[]),
        call("b", "hang", &["a"]),
        call("c", "echo", &["b"])
    ]);
    let run = world.create(run_of(steps)).await;
    let mut seen = Vec::new();
    let mut stream = world
        .client
        .watch_run(watch(&run.run_id, 1))
        .await
        .unwrap()
        .into_inner();
    while let Some(answer) = stream.next().await {
        if let Some(Told::Event(event)) = answer.unwrap().told {
            let hangs = event.event_type == "tool_called" && event.step_key == "b";
            seen.push(event);
            if hangs {
                break;
            }
        }
    }
    let mut world = world.killed();
    // The stream of the process that was killed ends in an error, or with it.
    while let Some(answer) = stream.next().await {
        assert_eq!(answer.unwrap_err().code(), Code::Unavailable);
    }
    let next = seen.last().unwrap().sequence + 1;
    let mut stream = world
        .client
        .watch_run(watch(&run.run_id, next))
        .await
        .unwrap()
        .into_inner();
    while let Some(answer) = stream.next().await {
        if let Some(Told::Event(event)) = answer.unwrap().told {
            if event.event_type == "run_recovered" {
                // It hangs again, in this process.
                while world.hung.lock().unwrap().is_empty() {
                    tokio::task::yield_now().await;
                }
                world.release();
            }
            seen.push(event);
        }
    }
    let sequences: Vec<i64> = seen.iter().map(|event| event.sequence).collect();
    assert_eq!(
        sequences,
        (1..=i64::try_from(seen.len()).unwrap()).collect::<Vec<_>>()
    );
    assert_eq!(seen.last().unwrap().event_type, "run_completed");
}

#[tokio::test]
async fn a_silent_stream_has_a_heartbeat_with_the_last_sequence() {
    let mut world = World::new();
    let run = world.create(run_of(json!([call("a", "hang", &[])]))).await;
    let mut stream = world
        .client
        .watch_run(watch(&run.run_id, 1))
        .await
        .unwrap()
        .into_inner();
    let mut last = 0;
    let beat = loop {
        match stream.next().await.unwrap().unwrap().told.unwrap() {
            Told::Event(event) => {
                last = event.sequence;
                if event.event_type == "tool_called" {
                    // Nothing comes any more, so time goes on at once.
                    tokio::time::pause();
                }
            }
            Told::Heartbeat(beat) => break beat,
        }
    };
    assert!(last >= 5, "{last}");
    assert_eq!(beat.last_sequence, last);
}

#[tokio::test]
async fn many_watchers_at_any_place_see_the_same_events() {
    let mut world = World::new();
    let steps: Vec<_> = (0..20).map(|n| call(&format!("s{n}"), "echo", &[])).collect();
    let run = world.create(run_of(json!(steps))).await;
    let mut watchers = Vec::new();
    for from in [0, 1, 2, 5, 17, 40] {
        let mut client = world.client.clone();
        let request = watch(&run.run_id, from);
        watchers.push(tokio::spawn(async move {
            let mut stream = client.watch_run(request).await.unwrap().into_inner();
            let mut seen = Vec::new();
            while let Some(answer) = stream.next().await {
                if let Some(Told::Event(event)) = answer.unwrap().told {
                    seen.push((event.sequence, event.hash));
                }
            }
            (from.max(1), seen)
        }));
    }
    let whole = all(&mut world, &run.run_id, 1).await;
    for watcher in watchers {
        let (from, seen) = tokio::time::timeout(Duration::from_secs(20), watcher)
            .await
            .unwrap()
            .unwrap();
        let expected = whole.iter().filter(|event| event.sequence >= from);
        let expected: Vec<_> = expected
            .map(|event| (event.sequence, event.hash.clone()))
            .collect();
        assert_eq!(seen, expected, "from {from}");
    }
}
