//! TLS handshakes in a flood: whole ones, and ones that stop once the server has signed. Each costs the server a signature.

use crate::den::{Den, scale};
use escapement_tests::TlsTunnel;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

/// As fast as so many attackers can.
const ATTACKERS: usize = 32;

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
