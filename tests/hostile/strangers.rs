//! Connections in a flood that speak HTTP/2 as they should, answer every ping, and never call.

use crate::den::{Den, LIMIT, scale};
use crate::frames::{ACK, PING, frame, whole_call};
use crate::handshakes::{by_reason, come_in};
use crate::wire::{Flood, Wire};
use escapement_tests::wait_for;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

/// Connections that the orchestrator takes; a quarter of them are for those that never call.
const CONNECTIONS_MAX: usize = 1_000;
const STRANGERS_MAX: usize = CONNECTIONS_MAX / 4;
/// Connections that come at once; fewer than there is room for.
const BATCH: usize = 100;
const WHO_AM_I: &str = "/escapement.v1.AccessService/WhoAmI";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_that_never_call_keep_no_room_and_nobody_out() {
    let den = Den::start_with(|settings| {
        settings
            .flag("--max-connections", CONNECTIONS_MAX)
            .flag("--metrics-listen", "127.0.0.1:0")
    })
    .await;
    let mut callers = JoinSet::new();
    callers.spawn(stay(den.address(), whole_call(WHO_AM_I, 1, &[])));
    let before = den.measure();
    let n_attackers = scale(2_500, 25_000);
    let (mut longest, mut n_most) = (Duration::ZERO, 0);
    let mut attackers = JoinSet::new();
    let gone = Arc::new(AtomicUsize::new(0));
    for number in 1..=n_attackers {
        let (address, gone_too) = (den.address(), Arc::clone(&gone));
        attackers.spawn(async move {
            stay(address, Vec::new()).await;
            gone_too.fetch_add(1, Ordering::Relaxed);
        });
        if number % BATCH != 0 {
            continue;
        }
        let are_gone = async || (gone.load(Ordering::Relaxed) + STRANGERS_MAX >= number).then_some(());
        wait_for("all that are too many to be let go", LIMIT, are_gone)
            .await
            .unwrap();
        longest = longest.max(come_in(&den).await);
        n_most = n_most.max(den.size().descriptors);
    }
    let (after, n_gone) = (den.size(), gone.load(Ordering::Relaxed));
    let grown_kib = after.peak_mib.saturating_sub(before.resident_mib) << 10;
    eprintln!(
        "{n_gone} of {n_attackers} were let go; others waited {longest:?} at most; {} KiB for each that stayed",
        grown_kib / STRANGERS_MAX as u64
    );
    assert!(
        n_most <= before.descriptors + STRANGERS_MAX + 16,
        "{n_most} descriptors, {} before",
        before.descriptors
    );
    let displaced = by_reason(&den, "escapement_connections_refused_total").await["displaced"];
    assert!(displaced >= n_gone as u64, "{displaced} of {n_gone} were counted");
    assert!(callers.try_join_next().is_none(), "who has called once stays");
    attackers.shutdown().await;
    callers.shutdown().await;
    den.finish("connections that never call", 64).await;
}

/// Says this at the begin, and nothing but answers to pings from then on, until the connection is closed.
pub(crate) async fn stay(address: SocketAddr, said: Vec<u8>) {
    let mut wire = Wire::open(address).await;
    assert_eq!(wire.flood(&said).await, Flood::Sent);
    let mut head = [0; 9];
    while wire.stream.read_exact(&mut head).await.is_ok() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        if wire.stream.read_exact(&mut payload).await.is_err() {
            return;
        }
        if head[3] == PING && head[4] & ACK == 0 {
            let _closed_meanwhile = wire.stream.write_all(&frame(PING, ACK, 0, &payload)).await;
        }
    }
}
