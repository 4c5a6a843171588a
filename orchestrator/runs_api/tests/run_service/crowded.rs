//! Calls while every place for those who read is taken.

use crate::world::{World, call, run_of};
use escapement_runs_shell::limits::{READERS_MAX, READERS_QUEUE_MAX};
use escapement_runs_shell::{CallError, as_tenant};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::run::State;
use serde_json::json;
use std::pin::Pin;
use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::timeout;
use tokio_stream::StreamExt;

type Asking = Pin<Box<dyn Future<Output = Result<(), CallError>> + Send>>;

/// Calls that hold every permit of a tenant, or all of them, for as long as this lives.
struct Crowd {
    asking: Vec<Asking>,
    held: Vec<mpsc::Sender<()>>,
}

async fn crowd(world: &World) -> Crowd {
    let crowd = crowd_of(world, None).await;
    assert_eq!(crowd.asking.len(), READERS_MAX + READERS_QUEUE_MAX);
    crowd
}

async fn crowd_of(world: &World, tenant: Option<&str>) -> Crowd {
    let (mut asking, mut held) = (Vec::new(), Vec::new());
    loop {
        let (holds, release) = mpsc::channel::<()>();
        let readers = world.handle.readers().clone();
        let ask = async move {
            let read = readers.read(move |_| {
                let _released = release.recv();
                Ok(())
            });
            read.await
        };
        let mut ask: Asking = Box::pin(as_tenant(tenant.map(Into::into), ask));
        // Each takes its permit when it is asked for the first time.
        match std::future::poll_fn(|cx| Poll::Ready(ask.as_mut().poll(cx))).await {
            Poll::Pending => asking.push(ask),
            Poll::Ready(refused) => {
                assert_eq!(refused, Err(CallError::Overloaded));
                return Crowd { asking, held };
            }
        }
        held.push(holds);
    }
}

#[tokio::test]
async fn a_tenant_that_fills_its_share_has_no_other_refused() {
    let mut world = World::new();
    let run = world.create(run_of(json!([call("a", "echo", &[])]))).await;
    let mut crowd = crowd_of(&world, Some("many")).await;
    assert_eq!(crowd.asking.len(), (READERS_MAX + READERS_QUEUE_MAX) / 2);
    let request = v1::ListRunsRequest::default();
    let listed = async { world.client.list_runs(request).await };
    let mut listed = Box::pin(as_tenant(Some("other".into()), listed));
    std::future::poll_fn(|cx| {
        assert!(listed.as_mut().poll(cx).is_pending(), "it waits for a reader");
        Poll::Ready(())
    })
    .await;
    // Those that read are done; the other tenant has the next turn but one.
    for held in crowd.held.drain(..READERS_MAX + 1) {
        held.send(()).unwrap();
    }
    let done = crowd.asking.drain(..READERS_MAX + 1);
    for asking in done {
        asking.await.unwrap();
    }
    let listed = listed.await.unwrap().into_inner();
    assert_eq!(listed.runs[0].run_id, run.run_id);
}

#[tokio::test]
async fn a_verb_that_is_durable_is_answered_without_a_place() {
    let mut world = World::new();
    let run = world.create(run_of(json!([call("a", "hang", &[])]))).await;
    let _crowd = crowd(&world).await;
    let request = v1::CancelRunRequest {
        run_id: run.run_id.clone(),
        ..v1::CancelRunRequest::default()
    };
    let cancelled = world.client.cancel_run(request).await.unwrap().into_inner();
    let cancelled = cancelled.run.unwrap();
    assert_eq!(cancelled.state(), State::Cancelled);
}

#[tokio::test]
async fn who_waits_for_a_run_waits_for_a_place_too() {
    let mut world = World::new();
    let run = world.finish(run_of(json!([call("a", "echo", &[])]))).await;
    // Work on the store may have removed runs, so the thread forgets those that have ended and the store is asked.
    world.handle.with_store(|_, _, _| Ok(())).await.unwrap();
    let crowd = crowd(&world).await;
    let request = v1::WaitRunRequest {
        run_id: run.run_id.clone(),
        timeout_ms: Some(0),
    };
    let mut client = world.client.clone();
    let mut wait = Box::pin(client.wait_run(request));
    assert!(timeout(CROWDED, &mut wait).await.is_err(), "it waits");
    drop(crowd);
    let ended = wait.await.unwrap().into_inner().run.unwrap();
    assert_eq!(ended.state(), State::Completed);
}

#[tokio::test]
async fn a_watcher_waits_for_a_place_and_misses_nothing() {
    let mut world = World::new();
    let run = world.create(run_of(json!([call("a", "hang", &[])]))).await;
    world.reaches(&run.run_id, State::Running).await;
    while world.hung.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let request = v1::WatchRunRequest {
        run_id: run.run_id.clone(),
        from_sequence: 1,
    };
    let mut stream = world.client.watch_run(request).await.unwrap().into_inner();
    let crowd = crowd(&world).await;
    world.release();
    let mut n_told = 0;
    while let Ok(answer) = timeout(CROWDED, stream.next()).await {
        answer.unwrap().unwrap();
        n_told += 1;
    }
    drop(crowd);
    while let Some(answer) = stream.next().await {
        answer.unwrap();
        n_told += 1;
    }
    assert_eq!(n_told, world.ended(&run.run_id).await.last_sequence);
}

/// How long a call is seen to wait.
const CROWDED: Duration = Duration::from_millis(300);
