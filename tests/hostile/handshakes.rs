//! Connections in a flood that do not come to HTTP/2: whole TLS handshakes, and ones that stop once the server has signed, each of
//! which costs it a signature; silence, single bytes, and what is something else.

use crate::den::{Den, LIMIT, scale};
use crate::frames::PREFACE;
use escapement_tests::{TlsTunnel, wait_for};
use escapement_wire::v1::WhoAmIRequest;
use escapement_wire::v1::access_service_client::AccessServiceClient;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// As fast as so many attackers can.
const ATTACKERS: usize = 32;
/// Connections that come at once; fewer than the system lets wait for a process.
const BATCH: usize = 100;
/// Connections that the orchestrator takes; a quarter of them may say nothing, and a quarter may have begun.
const CONNECTIONS_MAX: usize = 1_000;
const NEWCOMERS_MAX: usize = CONNECTIONS_MAX / 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_handshakes_takes_no_memory_and_others_are_served() {
    let (den, tunnel) = Den::start_over_tls().await;
    den.measure();
    let end = Instant::now() + Duration::from_secs(scale(4, 60));
    let mut attackers = JoinSet::new();
    for number in 0..ATTACKERS {
        let tunnel = Arc::clone(&tunnel);
        attackers.spawn(async move {
            let mut n_shaken = 0;
            while Instant::now() < end {
                let shaken = if number % 2 == 0 {
                    whole(&tunnel).await
                } else {
                    half(&tunnel).await
                };
                n_shaken += u32::from(shaken.is_ok());
            }
            n_shaken
        });
    }
    let n_shaken: u32 = attackers.join_all().await.into_iter().sum();
    eprintln!("{n_shaken} handshakes");
    assert!(n_shaken > 100, "the flood came through");
    den.finish("a flood of handshakes", 48).await;
}

/// Shakes hands and goes without a word.
async fn whole(tunnel: &TlsTunnel) -> std::io::Result<()> {
    let connection = tunnel.connect().await?;
    tunnel.shake(connection).await.map(drop)
}

/// Goes as soon as the server has answered the first message.
async fn half(tunnel: &TlsTunnel) -> std::io::Result<()> {
    let mut connection = tunnel.connect().await?;
    let hello = tunnel.client_hello().map_err(std::io::Error::other)?;
    connection.write_all(&hello).await?;
    connection.read_u8().await.map(drop)
}

/// What somebody does who takes a connection and never speaks.
#[derive(Clone, Copy, Debug)]
enum Manner {
    Silent,
    /// Begins right, and goes on a byte a second.
    Slow,
    /// Begins right, and goes on with something else.
    Noisy,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_that_never_speak_keep_no_room_and_nobody_out() {
    let den = Den::start_with(|settings| {
        settings
            .flag("--max-connections", CONNECTIONS_MAX)
            .flag("--metrics-listen", "127.0.0.1:0")
    })
    .await;
    keep_out(den, "connections that never speak").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_that_never_shake_hands_keep_no_room_and_nobody_out() {
    let directory = escapement_tests::PrivateDirectory::new("tunnel").unwrap();
    let den = Den::start_with(|settings| {
        let settings = settings.over_tls(directory.path()).unwrap();
        settings
            .flag("--max-connections", CONNECTIONS_MAX)
            .flag("--metrics-listen", "127.0.0.1:0")
    })
    .await;
    keep_out(den, "connections that never shake hands").await;
}

async fn keep_out(den: Den, attack: &str) {
    let before = den.measure().descriptors;
    // More of each manner than there is room for.
    let n_attackers = scale(1_500, 9_000);
    let tunnel = den.orchestrator.tunnel.clone();
    let (mut longest, n_most) = (Duration::ZERO, Cell::new(0));
    let look = || {
        let n_open = den.size().descriptors;
        n_most.set(n_most.get().max(n_open));
        n_open
    };
    let mut attackers = JoinSet::new();
    for number in 0..n_attackers {
        let manner = [Manner::Silent, Manner::Slow, Manner::Noisy][number % 3];
        let (tunnel, address) = (tunnel.clone(), den.address());
        attackers.spawn(async move {
            let (connection, begin) = match tunnel {
                Some(tunnel) => (tunnel.connect().await, tunnel.client_hello().unwrap()),
                None => (TcpStream::connect(address).await, PREFACE.to_vec()),
            };
            let ended = timeout(LIMIT, never_speak(connection.unwrap(), manner, &begin)).await;
            assert!(ended.is_ok(), "it is let go: {manner:?}");
        });
        if number % BATCH == 0 {
            // What the orchestrator does not accept in time the system forgets, and whoever says nothing never hears of that.
            let accepted = async || {
                let n_failed: u64 = failures(&den).await.values().sum();
                let n_open = look().saturating_sub(before);
                (n_failed + n_open as u64 >= number as u64).then_some(())
            };
            wait_for("all so far", LIMIT, accepted).await.unwrap();
            longest = longest.max(come_in(&den).await);
        }
    }
    let begin = Instant::now();
    while !attackers.is_empty() {
        longest = longest.max(come_in(&den).await);
        look();
        while let Some(ended) = attackers.try_join_next() {
            ended.unwrap();
        }
    }
    eprintln!(
        "{n_attackers} were let go after {:?}; others waited {longest:?} at most",
        begin.elapsed()
    );
    // Room for so many that say nothing, for so many that have begun, and for those who are let in.
    let n_most = n_most.get();
    eprintln!("{n_most} descriptors at most, {before} before");
    assert!(
        n_most <= before + 2 * NEWCOMERS_MAX + 32,
        "{n_most} descriptors, {before} before"
    );
    let told = || failures(&den);
    let all = async || (told().await.values().sum::<u64>() == n_attackers as u64).then_some(());
    wait_for("all of them to be counted", LIMIT, all).await.unwrap();
    let told = told().await;
    let noisy = if tunnel.is_some() { "handshake" } else { "no_http2" };
    for reason in [noisy, "too_slow", "too_many"] {
        assert!(told[reason] > 0, "{reason}: {told:?}");
    }
    den.finish(attack, 64).await;
}

/// Somebody who means to speak comes over a connection of its own; gives how long that took.
pub(crate) async fn come_in(den: &Den) -> Duration {
    let since = Instant::now();
    let mut access = AccessServiceClient::new(den.channel().await);
    let answer = timeout(LIMIT, access.who_am_i(WhoAmIRequest {})).await.unwrap();
    assert!(answer.is_ok(), "a good client gets in: {answer:?}");
    since.elapsed()
}

/// Keeps a connection until it is closed.
async fn never_speak(mut connection: TcpStream, manner: Manner, begin: &[u8]) {
    let said = match manner {
        Manner::Silent => Vec::new(),
        Manner::Slow => begin[..1].to_vec(),
        Manner::Noisy => [&begin[..1], &[0xa5; 4_096]].concat(),
    };
    let _closed_meanwhile = connection.write_all(&said).await;
    let mut later = begin[1..].iter();
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    let mut answer = [0; 1_024];
    loop {
        tokio::select! {
            read = connection.read(&mut answer) => match read {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            },
            _ = seconds.tick(), if matches!(manner, Manner::Slow) => {
                let byte = later.next().copied().unwrap_or_default();
                let _closed_meanwhile = connection.write_all(&[byte]).await;
            }
        }
    }
}

/// The connections that did not come to HTTP/2, by the reason, as the figures say.
async fn failures(den: &Den) -> BTreeMap<String, u64> {
    by_reason(den, "escapement_handshake_failures_total").await
}

/// The values of this figure by the reason, of an orchestrator with `--metrics-listen`.
pub(crate) async fn by_reason(den: &Den, figure: &str) -> BTreeMap<String, u64> {
    let log = den.orchestrator.process.stderr();
    let served = log.lines().find(|line| line.contains("metrics served")).unwrap();
    let address = served
        .split_once("address=")
        .unwrap()
        .1
        .split_whitespace()
        .next()
        .unwrap();
    let mut scrape = TcpStream::connect(address).await.unwrap();
    scrape
        .write_all(b"GET /metrics HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut text = String::new();
    scrape.read_to_string(&mut text).await.unwrap();
    let samples = text.lines().filter_map(|line| {
        let labels = line.strip_prefix(figure)?.strip_prefix("{reason=\"")?;
        let (reason, value) = labels.split_once("\"} ")?;
        Some((reason.to_owned(), value.parse().ok()?))
    });
    samples.collect()
}
