//! Very many connections that say nothing, too little, or go at once. Tells when they are let go, and what they cost others.

use crate::arena::{Arena, LIMIT, scale};
use crate::intruder::{end_of, expect_alive, greeted, hello, steps};
use escapement_tests::raw_session::RawSession;
use escapement_tests::session_checker::Count;
use escapement_tests::{ScriptedWorker, wait_for};
use escapement_wire::v1::plan_result::Status;
use escapement_wire::worker::v1::session_error::Code;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// When a connection without a word is closed, and when a stream without a hello is ended.
const FIRST_BYTE: Duration = Duration::from_secs(10);
const HELLO: Duration = Duration::from_secs(5);
/// Pause between pings, and the patience with each.
const KEEPALIVE: Duration = Duration::from_secs(10 + 5);
/// How much later than its limit something may end while the machine is busy.
const MARGIN: Duration = Duration::from_secs(8);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_come_and_go_as_fast_as_they_can_leave_nothing() {
    let arena = Arena::start().await;
    let (begin, duration, n_least) = (
        Instant::now(),
        Duration::from_secs(scale(2, 20)),
        scale(1_000, 10_000),
    );
    let (n_made, n_refused) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut lanes = JoinSet::new();
    for lane in 0..16 {
        let (n_made, n_refused, address) = (
            Arc::clone(&n_made),
            Arc::clone(&n_refused),
            arena.orchestrator.address(),
        );
        lanes.spawn(async move {
            while begin.elapsed() < duration || n_made.load(Ordering::Relaxed) < n_least {
                let Ok(mut stream) = TcpStream::connect(address).await else {
                    n_refused.fetch_add(1, Ordering::Relaxed);
                    continue;
                };
                n_made.fetch_add(1, Ordering::Relaxed);
                // A third says a little, a third breaks without a word.
                if lane % 3 == 0 {
                    let _ = stream.write_all(b"PRI * HTTP/2.0\r\n").await;
                } else if lane % 3 == 1 {
                    let _ = stream.set_zero_linger();
                }
            }
        });
    }
    // Meanwhile a worker gets in and does its work.
    let id = arena.submit(steps("crowd", 1, &json!({}))).await;
    let mut worker = ScriptedWorker::connect(&arena.orchestrator, &["crowd"], 1).await;
    worker.complete_next(json!({})).await;
    assert_eq!(arena.result_of(&id).await.status(), Status::Success);
    lanes.join_all().await;
    let (n_made, seconds) = (n_made.load(Ordering::Relaxed), begin.elapsed().as_secs_f64());
    eprintln!(
        "connections: {n_made} in {seconds:.1} s, {:.0} each second; {} refused",
        n_made as f64 / seconds,
        n_refused.load(Ordering::Relaxed)
    );
    worker.goodbye().await;
    arena.finish().await.at_least(Count::OutcomesAccepted, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_never_speak_are_let_go_and_others_get_in_meanwhile() {
    let arena = Arena::start().await;
    let address = arena.orchestrator.address();
    let n_each = scale(1_000, 4_000);
    let descriptors_before = descriptors(&arena);
    let begin = Instant::now();
    let mut silent = Crowd::default();
    let mut half_sent = Crowd::default();
    for n in 0..n_each {
        silent.watch(TcpStream::connect(address).await.unwrap());
        // Half a preface, a whole one and nothing after it, a frame that is cut off.
        let said: &[u8] = match n % 3 {
            0 => b"PRI * HT",
            1 => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            _ => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x12\x04",
        };
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(said).await.unwrap();
        half_sent.watch(stream);
    }
    let made = begin.elapsed();
    eprintln!(
        "{} connections made in {made:?}, {} descriptors",
        2 * n_each,
        descriptors(&arena)
    );
    assert!(
        descriptors(&arena) >= descriptors_before + n_each,
        "the attack did nothing"
    );
    // Whoever has work to do gets in.
    let id = arena.submit(steps("crowd", 1, &json!({}))).await;
    let mut worker = ScriptedWorker::connect(&arena.orchestrator, &["crowd"], 1).await;
    worker.complete_next(json!({})).await;
    assert_eq!(arena.result_of(&id).await.status(), Status::Success);
    worker.goodbye().await;

    silent.expect_gone("silent", FIRST_BYTE + made + MARGIN).await;
    half_sent
        .expect_gone("half sent", KEEPALIVE + made + MARGIN)
        .await;
    arena.finish().await.at_least(Count::OutcomesAccepted, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_without_a_hello_are_ended_and_cost_the_engine_nothing() {
    let arena = Arena::start().await;
    let n_streams = scale(1_000, 4_000);
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
        took[took.len() - 1] <= HELLO + MARGIN,
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
    let mut crowd = Vec::new();
    let mut n_closed = 0;
    for _ in 0..200 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // What is closed at once says so within a moment; the others stay silent.
        let read = tokio::time::timeout(Duration::from_millis(20), stream.read_u8()).await;
        match read {
            Ok(_) => n_closed += 1,
            Err(_) => crowd.push(stream),
        }
    }
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

/// Connections that wait to be closed from the other side.
#[derive(Default)]
struct Crowd {
    ends: JoinSet<Duration>,
}

impl Crowd {
    fn watch(&mut self, mut stream: TcpStream) {
        self.ends.spawn(async move {
            let opened = Instant::now();
            let mut buffer = [0; 256];
            while let Ok(1..) = stream.read(&mut buffer).await {}
            opened.elapsed()
        });
    }

    async fn expect_gone(&mut self, what: &str, limit: Duration) {
        let all = async {
            let mut took = Vec::new();
            while let Some(one) = self.ends.join_next().await {
                took.push(one.unwrap());
            }
            took
        };
        let mut took = tokio::time::timeout(limit + LIMIT, all)
            .await
            .expect("connections stay open");
        took.sort();
        let (first, last) = (took[0], took[took.len() - 1]);
        eprintln!("{what}: gone after {first:?} to {last:?}");
        assert!(last <= limit, "{what}: one was let go only after {last:?}");
    }
}

fn descriptors(arena: &Arena) -> usize {
    let folder = format!("/proc/{}/fd", arena.orchestrator.process.id());
    std::fs::read_dir(folder).unwrap().count()
}
