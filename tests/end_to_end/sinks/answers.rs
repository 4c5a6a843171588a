//! What a sink answers, and what is made of it.

use super::{execute, taken, wait_for_taken, world};
use crate::metrics::{address, scrape};
use crate::world::LIMIT;
use escapement_tests::authority::Authority;
use escapement_tests::{ClosedPort, PrivateDirectory, ReceivedRequest, Receiver, Reply, wait_for};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Returns a receiver that replies in this order, and takes everything behind it.
async fn replying<const N: usize>(replies: [Reply; N]) -> Receiver {
    let next = AtomicUsize::new(0);
    let script = move |_: &ReceivedRequest| {
        let reply = replies.get(next.fetch_add(1, Ordering::Relaxed));
        reply.copied().unwrap_or(Reply::Status(204))
    };
    Receiver::start_with(script).await.unwrap()
}

#[tokio::test]
async fn the_same_event_comes_again_until_it_is_taken() {
    let replies = [
        Reply::Status(500),
        Reply::Silence,
        Reply::Close,
        Reply::Status(302),
        Reply::RetryAfter(429, 1),
    ];
    let receiver = replying(replies).await;
    let (world, _sinks) = world(
        |sinks| sinks.sink("crm", &receiver.url("/"), "timeout_ms = 300"),
        |settings| settings.flag("--metrics-listen", "127.0.0.1:0"),
    )
    .await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let ids = execute(&world, 2).await;
    let received = wait_for_taken(&receiver, 2).await;
    assert_eq!(received.len(), 7, "{received:?}");
    for request in &received[..6] {
        assert_eq!(request.headers["webhook-id"], ids[0]);
        assert_eq!(request.body, received[0].body);
    }
    assert!(
        received[5].at - received[4].at >= Duration::from_secs(1),
        "as it asked"
    );
    assert_eq!(taken(&received), ids);

    let address = address(&world).await;
    let figure = |outcome| format!("escapement_events_total{{sink=\"crm\",outcome=\"{outcome}\"}}");
    let samples = wait_for("the figures", LIMIT, async || {
        let samples = scrape(&address).await;
        (samples.get(&figure("delivered")) == Some(&2.0)).then_some(samples)
    });
    let samples = samples.await.unwrap();
    assert_eq!(samples[&figure("refused")], 5.0);
    assert_eq!(
        (samples[&figure("given_up")], samples[&figure("dropped")]),
        (0.0, 0.0)
    );
    assert_eq!(samples["escapement_event_feed_lag{sink=\"crm\"}"], 0.0);
    assert_eq!(samples["escapement_event_feed_lag_seconds{sink=\"crm\"}"], 0.0);
}

#[tokio::test]
async fn an_event_that_is_refused_for_too_long_is_given_up_and_the_next_one_comes() {
    let refused = std::sync::Mutex::new(None);
    // Never takes what comes first.
    let script = move |request: &ReceivedRequest| {
        let id = &request.headers["webhook-id"];
        let mut first = refused.lock().unwrap();
        match first.get_or_insert_with(|| id.clone()) == id {
            true => Reply::Status(400),
            false => Reply::Status(204),
        }
    };
    let receiver = Receiver::start_with(script).await.unwrap();
    let (world, _sinks) = world(
        |sinks| sinks.sink("crm", &receiver.url("/"), "give_up_after_ms = 1000"),
        |settings| settings.flag("--metrics-listen", "127.0.0.1:0"),
    )
    .await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let ids = execute(&world, 3).await;
    let received = wait_for_taken(&receiver, 2).await;
    assert_eq!(taken(&received), ids[1..]);
    let samples = scrape(&address(&world).await).await;
    assert_eq!(
        samples["escapement_events_total{sink=\"crm\",outcome=\"given_up\"}"],
        1.0
    );
}

#[tokio::test]
async fn a_sink_by_tls_is_believed_by_its_certificate_alone() {
    let (theirs, another) = (
        Authority::new("theirs").unwrap(),
        Authority::new("another").unwrap(),
    );
    let issued = theirs.issue(&["localhost"]).unwrap();
    let receivers = [
        Receiver::start_encrypted(&issued, 204).await.unwrap(),
        Receiver::start_encrypted(&issued, 204).await.unwrap(),
    ];
    let directory = PrivateDirectory::new("authorities").unwrap();
    let trusting = |authority: &Authority, name: &str| {
        let file = directory.join(name);
        std::fs::write(&file, authority.pem()).unwrap();
        format!("ca_file = \"{}\"", file.display())
    };
    let (world, _sinks) = world(
        |sinks| {
            let sinks = sinks.sink("theirs", &receivers[0].url("/"), &trusting(&theirs, "theirs"));
            sinks.sink("another", &receivers[1].url("/"), &trusting(&another, "another"))
        },
        |settings| settings.flag("--metrics-listen", "127.0.0.1:0"),
    )
    .await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let ids = execute(&world, 3).await;
    assert_eq!(taken(&wait_for_taken(&receivers[0], 3).await), ids);
    let address = address(&world).await;
    let refused = wait_for("a refused handshake", LIMIT, async || {
        let samples = scrape(&address).await;
        let tries = samples.get("escapement_events_total{sink=\"another\",outcome=\"refused\"}")?;
        (*tries > 1.0).then_some(())
    });
    refused.await.unwrap();
    assert!(receivers[1].received().is_empty());
}

#[tokio::test]
async fn a_dead_sink_holds_up_neither_executions_nor_other_sinks() {
    // Connections wait in its backlog for ever.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = ClosedPort::bind().unwrap();
    let closed_url = format!("http://{}/", closed.address());
    let silent_url = format!("http://{}/", silent.local_addr().unwrap());
    let receiver = Receiver::start(204).await.unwrap();
    let (world, _sinks) = world(
        |sinks| {
            let sinks = sinks.sink("silent", &silent_url, "timeout_ms = 120000");
            let sinks = sinks.sink("closed", &closed_url, "");
            sinks.sink("alive", &receiver.url("/"), "")
        },
        |settings| settings.flag("--metrics-listen", "127.0.0.1:0"),
    )
    .await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let ids = execute(&world, 20).await;
    assert_eq!(taken(&wait_for_taken(&receiver, 20).await), ids);
    let address = address(&world).await;
    // The live one may have had the last event before it is counted, and a scrape of a busy engine lacks figures.
    let lags = wait_for("what the dead sinks lack", LIMIT, async || {
        let samples = scrape(&address).await;
        let lag = |sink| samples.get(&format!("escapement_event_feed_lag{{sink=\"{sink}\"}}"));
        let lags = [*lag("silent")?, *lag("closed")?];
        lags.iter().all(|lag| *lag >= 20.0).then_some(lags)
    });
    lags.await.unwrap();
}
