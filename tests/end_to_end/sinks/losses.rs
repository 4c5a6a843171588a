//! Retention and a sink that lags behind.

use super::{event, execute, wait_for_taken, world};
use crate::metrics::{address, scrape};
use crate::world::{LIMIT, World};
use escapement_tests::{ReceivedRequest, Receiver, Reply, wait_for};
use escapement_wire::v1::ListExecutionsRequest;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Returns a receiver that takes nothing until it is told to.
async fn waiting() -> (Receiver, Arc<AtomicBool>) {
    let takes = Arc::new(AtomicBool::new(false));
    let taking = Arc::clone(&takes);
    let script = move |_: &ReceivedRequest| match taking.load(Ordering::Relaxed) {
        true => Reply::Status(204),
        false => Reply::Status(503),
    };
    (Receiver::start_with(script).await.unwrap(), takes)
}

async fn n_kept(world: &World) -> usize {
    let listed = world
        .orchestrator
        .plans()
        .list_executions(ListExecutionsRequest::default())
        .await;
    listed.unwrap().into_inner().executions.len()
}

async fn wait_for_removal(world: &World) {
    let removed = wait_for("the removal of all but two", LIMIT, async || {
        (n_kept(world).await == 2).then_some(())
    });
    removed.await.unwrap();
}

#[tokio::test]
async fn what_a_sink_lacks_is_not_removed_until_it_has_it() {
    let (receiver, takes) = waiting().await;
    let (mut world, _sinks) = world(
        |sinks| sinks.sink("slow", &receiver.url("/"), ""),
        |settings| settings.flag("--keep-settled-count", 2).switch("--no-runs"),
    )
    .await;
    let worker = world.stock_worker("stock", |settings| settings).await;
    let ids = execute(&world, 6).await;
    drop(worker);
    // Removal is due at once after a start, and every second.
    let before = receiver.received().len();
    world.crash_and_restart().await;
    receiver.wait_for_requests(before + 15, LIMIT).await.unwrap();
    assert_eq!(n_kept(&world).await, 6);
    takes.store(true, Ordering::Relaxed);
    let received = wait_for_taken(&receiver, 6).await;
    assert_eq!(super::taken(&received), ids);
    wait_for_removal(&world).await;
}

#[tokio::test]
async fn behind_the_patience_it_is_removed_and_the_sink_is_told_what_it_lost() {
    let (receiver, takes) = waiting().await;
    let (mut world, _sinks) = world(
        |sinks| sinks.sink("slow", &receiver.url("/"), ""),
        |settings| {
            let settings = settings.flag("--keep-settled-count", 2).switch("--no-runs");
            let settings = settings.flag("--feed-patience-ms", 0);
            settings.flag("--metrics-listen", "127.0.0.1:0")
        },
    )
    .await;
    let worker = world.stock_worker("stock", |settings| settings).await;
    let ids = execute(&world, 6).await;
    wait_for_removal(&world).await;
    drop(worker);
    // What the process has read already is not lost; another one knows nothing of it.
    world.crash_and_restart().await;
    takes.store(true, Ordering::Relaxed);
    let received = wait_for_taken(&receiver, 3).await;
    assert_eq!(super::taken(&received), ["lost-1-4", &ids[4], &ids[5]]);
    let notice = received
        .iter()
        .find(|request| request.headers["webhook-id"] == "lost-1-4")
        .map(event)
        .unwrap();
    assert_eq!(notice["type"], "events_lost");
    assert_eq!(
        (&notice["data"]["first"], &notice["data"]["last"]),
        (&1.into(), &4.into())
    );
    let samples = scrape(&address(&world).await).await;
    assert_eq!(
        samples["escapement_events_total{sink=\"slow\",outcome=\"dropped\"}"],
        4.0
    );
    let log = std::fs::read_to_string(world.directory.join("orchestrator.stderr")).unwrap();
    assert!(log.contains("first=1 last=4"), "{log}");
}
