//! The file of sinks is read again.

use super::{execute, taken, wait_for_taken, world};
use crate::world::LIMIT;
use escapement_tests::{ReceivedRequest, Receiver, Reply, wait_for};
use rustix::process::Signal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[tokio::test]
async fn a_sink_that_is_gone_gets_nothing_until_its_file_changes() {
    let is_back = Arc::new(AtomicBool::new(false));
    let script = {
        let is_back = Arc::clone(&is_back);
        move |_: &ReceivedRequest| match is_back.load(Ordering::Relaxed) {
            true => Reply::Status(204),
            false => Reply::Status(410),
        }
    };
    let (gone, stays) = (
        Receiver::start_with(script).await.unwrap(),
        Receiver::start(204).await.unwrap(),
    );
    let (mut world, mut sinks) = world(
        |sinks| {
            let sinks = sinks.sink("gone", &gone.url("/"), "");
            sinks.sink("stays", &stays.url("/"), "")
        },
        |settings| settings.flag("--tls-reload-interval-ms", 0),
    )
    .await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let ids = execute(&world, 9).await;
    assert_eq!(taken(&wait_for_taken(&stays, 9).await), ids);
    assert_eq!(gone.received().len(), 1, "it said that it is gone");

    is_back.store(true, Ordering::Relaxed);
    let another = Receiver::start(204).await.unwrap();
    sinks = sinks.sink("another", &another.url("/"), "");
    world.orchestrator.process.signal(Signal::HUP).unwrap();
    assert_eq!(taken(&wait_for_taken(&gone, 9).await), ids);
    assert_eq!(
        taken(&wait_for_taken(&another, 9).await),
        ids,
        "a new one begins with the oldest"
    );
    assert_eq!(stays.received().len(), 9, "and who had them gets none again");

    // A file that is wrong changes nothing.
    sinks.text += "[[sink]]\nnane = \"x\"\n";
    sinks.write();
    world.orchestrator.process.signal(Signal::HUP).unwrap();
    let log = world.directory.join("orchestrator.stderr");
    let refused = wait_for("the refusal in the log", LIMIT, async || {
        let log = std::fs::read_to_string(&log).ok()?;
        log.contains("unknown field `nane`").then_some(())
    });
    refused.await.unwrap();
    let more = execute(&world, 1).await;
    for receiver in [&gone, &stays, &another] {
        let received = wait_for_taken(receiver, 10).await;
        assert_eq!(taken(&received)[9..], more);
    }
}
