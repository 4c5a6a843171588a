//! Very many connections that say nothing, too little, or go at once. Tells when they are let go, and what they cost others.

use crate::arena::{Arena, LIMIT, scale};
use crate::intruder::{end_of, expect_alive, greeted, hello};
use escapement_tests::raw_session::RawSession;
use escapement_tests::session_checker::Count;
use escapement_tests::{ScriptedWorker, is_over_tls, wait_for};
use escapement_wire::worker::v1::session_error::Code;
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
const HELLO: Duration = Duration::from_secs(5);

/// How much later than its limit something may end while the machine is busy, with a thousand handshakes of a debug build, say.
fn margin() -> Duration {
    Duration::from_secs(if is_over_tls() { 40 } else { 8 })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_without_a_hello_are_ended_and_cost_the_engine_nothing() {
    let arena = Arena::start().await;
    // Over TLS fewer: all shake hands at once, with a debug build, and each handshake has ten seconds.
    let n_streams = if is_over_tls() { 300 } else { scale(1_000, 4_000) };
    let mut streams = JoinSet::new();
    let begin = Instant::now();
    for _ in 0..n_streams {
        let mut session = RawSession::open(arena.orchestrator.address()).await.unwrap();
        streams.spawn(async move {
            let opened = Instant::now();
            let error = end_of(&mut session).await.expect("it is told why");
            assert_eq!(error.code(), Code::ProtocolViolation);
            opened.elapsed()
        });
    }
    eprintln!("{n_streams} streams opened in {:?}", begin.elapsed());
    let mut bystander = greeted(&arena.orchestrator, hello(&["crowd"], 1)).await;
    expect_alive(&mut bystander, 1).await;
    let mut took = streams.join_all().await;
    took.sort();
    eprintln!("ended after {:?} to {:?}", took[0], took[took.len() - 1]);
    assert!(
        took[0] + Duration::from_millis(500) >= HELLO,
        "one was ended after {:?}",
        took[0]
    );
    assert!(
        took[took.len() - 1] <= HELLO + margin(),
        "one was ended only after {:?}",
        took[took.len() - 1]
    );
    drop(bystander);
    let n_opened = {
        let lines = arena.lines();
        let opened = lines
            .iter()
            .filter(|line| line.what == escapement_tests::session_journal::What::Opened);
        opened.count()
    };
    assert_eq!(n_opened, 2, "the engine heard of streams that said nothing");
    arena.finish().await.at_least(Count::Sessions, 1);
}

/// Beyond the limit a connection is closed at once, and there is room again when others go.
#[tokio::test]
async fn more_connections_than_there_may_be_are_closed_and_room_comes_back() {
    let arena = Arena::start_with(|settings| settings.flag("--max-connections", 50)).await;
    let address = arena.orchestrator.address();
    let mut crowd = JoinSet::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        crowd.spawn(async move {
            // What is closed at once says so soon; the others stay silent, and are let go after ten seconds.
            let read = tokio::time::timeout(Duration::from_secs(4), stream.read_u8()).await;
            read.is_err().then_some(stream)
        });
    }
    let crowd: Vec<TcpStream> = crowd.join_all().await.into_iter().flatten().collect();
    let n_closed = 200 - crowd.len();
    assert!(n_closed >= 150, "{n_closed} of 200 were closed");
    drop(crowd);
    let again = async || {
        let said = ScriptedWorker::hello_for(ScriptedWorker::specs(&["crowd"]), 1);
        ScriptedWorker::try_open(&arena.orchestrator.url(), said)
            .await
            .ok()
    };
    let (worker, _) = wait_for("room for a worker", LIMIT, again).await.unwrap();
    worker.goodbye().await;
    arena.finish().await.at_least(Count::Sessions, 1);
}
