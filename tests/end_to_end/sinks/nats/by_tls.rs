//! Deliveries by TLS to a server of NATS: events that are too large, limits that were forged, certificates without trust.

use super::{Nats, ids, start};
use crate::metrics::{address, scrape};
use crate::plans::{RequestWords, echo, plan, request};
use crate::world::{LIMIT, World};
use escapement_tests::authority::{Authority, replace};
use escapement_tests::wait_for;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

/// Largest message that the server takes.
const BYTES_MAX: usize = 16 << 10;

/// Executes a plan whose result, and with it the event, has about so many bytes.
async fn execute_with(world: &World, bytes: usize) -> String {
    let request = request(plan([echo(0, json!({ "fill": "x".repeat(bytes) }))]));
    let id = request.id();
    world.execute(request).await;
    id
}

#[tokio::test]
async fn an_event_too_large_for_a_tls_server_only_delays_the_next_one() {
    let authority = Authority::new("nats").unwrap();
    let Some(nats) = Nats::start_by_tls(&authority, &format!("max_payload: {BYTES_MAX}")).await else {
        return;
    };
    nats.make_stream(json!({})).await;
    let roots = nats.file("roots.pem", &authority.pem());
    let more = format!("ca_file = {roots:?}\ngive_up_after_ms = 1000");
    let (world, _sinks) = start(|sinks| sinks.nats_sink("bus", &nats.tls_url(), &more)).await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let small = execute_with(&world, 1).await;
    execute_with(&world, 2 * BYTES_MAX).await;
    let behind = execute_with(&world, 1).await;
    assert_eq!(ids(&nats.messages(2).await), [small, behind]);

    let samples = scrape(&address(&world).await).await;
    let figure = |outcome| samples[&format!("escapement_events_total{{sink=\"bus\",outcome=\"{outcome}\"}}")];
    assert_eq!((figure("given_up"), figure("dropped")), (1.0, 0.0));
    assert!(figure("refused") > 1.0, "it was tried again before");
    let log = world.orchestrator.process.stderr();
    let said = format!("the server takes messages of {BYTES_MAX} bytes at most");
    for event in ["sink does not take an event", "event is given up"] {
        let mut lines = log.lines().filter(|line| line.contains(event));
        assert!(lines.any(|line| line.contains(&said)), "{event}: {log}");
    }
}

#[tokio::test]
async fn a_limit_forged_before_the_handshake_loses_no_event() {
    // An attacker between the two can change the line that comes before the handshake.
    let authority = Authority::new("nats").unwrap();
    let Some(nats) = Nats::start_by_tls(&authority, &format!("max_payload: {BYTES_MAX}")).await else {
        return;
    };
    nats.make_stream(json!({})).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("tls://localhost:{}", listener.local_addr().unwrap().port());
    let between = tokio::spawn(lie(listener, nats.server.port()));
    let roots = nats.file("roots.pem", &authority.pem());
    let more = format!("ca_file = {roots:?}\ngive_up_after_ms = 1000");
    let (world, _sinks) = start(|sinks| sinks.nats_sink("bus", &url, &more)).await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let id = execute_with(&world, BYTES_MAX / 2).await;
    assert_eq!(ids(&nats.messages(1).await), [id]);
    between.abort();
}

/// Passes on what a server and its clients say, with a limit of a hundred bytes in its first line.
async fn lie(listener: TcpListener, port: u16) {
    loop {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut server = BufReader::new(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
        tokio::spawn(async move {
            let mut info = String::new();
            server.read_line(&mut info).await.unwrap();
            let limit = format!("\"max_payload\":{BYTES_MAX}");
            assert!(info.contains(&limit), "{info}");
            let info = info.replace(&limit, "\"max_payload\":100");
            client.write_all(info.as_bytes()).await.unwrap();
            // Either side may end it.
            let _ended = copy_bidirectional(&mut client, &mut server).await;
        });
    }
}

#[tokio::test]
async fn a_server_that_is_not_trusted_gets_nothing_until_it_is() {
    let (theirs, another) = (
        Authority::new("nats").unwrap(),
        Authority::new("another").unwrap(),
    );
    let Some(nats) = Nats::start_by_tls(&theirs, "").await else {
        return;
    };
    nats.make_stream(json!({})).await;
    let roots = nats.file("roots.pem", &another.pem());
    let more = format!("ca_file = {roots:?}\ngive_up_after_ms = 1000");
    let (world, _sinks) = start(|sinks| sinks.nats_sink("bus", &nats.tls_url(), &more)).await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let id = execute_with(&world, 1).await;
    let log = async || {
        let log = world.orchestrator.process.stderr();
        let mut lines = log.lines();
        let line = lines.find(|line| line.contains("sink does not take an event"))?;
        Some(line.to_owned())
    };
    let line = wait_for("a line in the log", LIMIT, log).await.unwrap();
    for said in [
        "sink=bus",
        &id,
        "invalid peer certificate: UnknownIssuer",
        "is_refused=false",
    ] {
        assert!(line.contains(said), "{said}: {line}");
    }
    let tried = async || {
        let samples = scrape(&address(&world).await).await;
        let tries = samples.get("escapement_events_total{sink=\"bus\",outcome=\"refused\"}")?;
        (*tries > 3.0).then_some(())
    };
    wait_for("more tries in vain", LIMIT, tried).await.unwrap();
    assert!(nats.messages(0).await.is_empty());
    // A failed handshake refuses no event, so the event is still due when the server is trusted.
    replace(std::path::Path::new(&roots), &theirs.pem()).unwrap();
    assert_eq!(ids(&nats.messages(1).await), [id]);
}
