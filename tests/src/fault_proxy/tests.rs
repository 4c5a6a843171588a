#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps says where its assumption broke"
)]

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::{Direction, FaultProxy, Flow, Side};
use crate::wait_for;

const LIMIT: Duration = Duration::from_secs(10);
/// Long enough for what is not held back to arrive.
const WHILE: Duration = Duration::from_millis(80);

/// A proxy with one connection through it: the client's end and the target's.
struct Line {
    proxy: FaultProxy,
    target: TcpListener,
    near: TcpStream,
    far: TcpStream,
}

async fn line() -> Line {
    let target = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = FaultProxy::start(target.local_addr().unwrap()).await.unwrap();
    let (near, far) = connect(&proxy, &target).await;
    Line {
        proxy,
        target,
        near,
        far,
    }
}

async fn connect(proxy: &FaultProxy, target: &TcpListener) -> (TcpStream, TcpStream) {
    let near = TcpStream::connect(proxy.address()).await.unwrap();
    let (far, _) = timeout(LIMIT, target.accept()).await.unwrap().unwrap();
    (near, far)
}

async fn arrives(stream: &mut TcpStream, expected: &[u8]) {
    let mut bytes = vec![0; expected.len()];
    timeout(LIMIT, stream.read_exact(&mut bytes))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(bytes, expected);
}

async fn nothing_arrives(stream: &mut TcpStream) {
    let mut byte = [0];
    assert!(
        timeout(WHILE, stream.read(&mut byte)).await.is_err(),
        "something arrived"
    );
}

async fn is_at_end(stream: &mut TcpStream) {
    let mut byte = [0];
    assert_eq!(timeout(LIMIT, stream.read(&mut byte)).await.unwrap().unwrap(), 0);
}

async fn is_reset(stream: &mut TcpStream) {
    let mut byte = [0];
    let error = timeout(LIMIT, stream.read(&mut byte)).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

async fn is_refused(address: SocketAddr) {
    wait_for("a refusal", LIMIT, async || {
        let outcome = TcpStream::connect(address).await;
        outcome
            .err()
            .filter(|error| error.kind() == ErrorKind::ConnectionRefused)
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn bytes_pass_both_ways_and_are_counted() {
    let mut line = line().await;
    line.near.write_all(b"question").await.unwrap();
    arrives(&mut line.far, b"question").await;
    line.far.write_all(b"yes").await.unwrap();
    arrives(&mut line.near, b"yes").await;
    let counted = async || Some(line.proxy.traffic()).filter(|traffic| traffic.to_client == 3);
    let traffic = wait_for("the counts", LIMIT, counted).await.unwrap();
    assert_eq!((traffic.connections, traffic.to_target), (1, 8));
    let connections = line.proxy.connections();
    assert_eq!(connections.len(), 1);
    assert_eq!(connections[0].client, line.near.local_addr().unwrap());
    assert_eq!((connections[0].to_target, connections[0].to_client), (8, 3));
}

#[tokio::test]
async fn the_end_of_a_stream_passes_and_the_connection_is_forgotten() {
    let mut line = line().await;
    line.near.shutdown().await.unwrap();
    is_at_end(&mut line.far).await;
    line.far.write_all(b"last").await.unwrap();
    arrives(&mut line.near, b"last").await;
    drop(line.far);
    is_at_end(&mut line.near).await;
    let gone = async || line.proxy.connections().is_empty().then_some(());
    wait_for("the end of the connection", LIMIT, gone).await.unwrap();
}

#[tokio::test]
async fn a_black_hole_takes_everything_and_its_sender_does_not_notice() {
    let mut line = line().await;
    line.proxy.set(Direction::ToTarget, Flow::BlackHole);
    // More than all buffers hold together.
    timeout(LIMIT, line.near.write_all(&vec![7; 32 << 20]))
        .await
        .unwrap()
        .unwrap();
    nothing_arrives(&mut line.far).await;
    line.far.write_all(b"other way").await.unwrap();
    arrives(&mut line.near, b"other way").await;
    line.near.shutdown().await.unwrap();
    nothing_arrives(&mut line.far).await;
    assert_eq!(line.proxy.traffic().to_target, 0);
}

#[tokio::test]
async fn what_is_held_arrives_when_the_partition_heals() {
    let mut line = line().await;
    line.proxy.set_both(Flow::Hold);
    let bytes: Vec<u8> = (0..8 << 20).map(|n: u32| n as u8).collect();
    timeout(LIMIT, line.near.write_all(&bytes))
        .await
        .unwrap()
        .unwrap();
    nothing_arrives(&mut line.far).await;
    line.proxy.set_both(Flow::Pass);
    arrives(&mut line.far, &bytes).await;
}

#[tokio::test]
async fn a_stall_is_felt_as_back_pressure_and_loses_nothing() {
    let mut line = line().await;
    line.proxy.set(Direction::ToTarget, Flow::Stall);
    let bytes = vec![7; 32 << 20];
    let mut n_sent = 0;
    // The buffers of the two sockets are smaller than this.
    while let Ok(n) = timeout(WHILE, line.near.write(&bytes[n_sent..])).await {
        n_sent += n.unwrap();
        assert!(n_sent < bytes.len(), "nothing held it up");
    }
    nothing_arrives(&mut line.far).await;
    line.proxy.set(Direction::ToTarget, Flow::Pass);
    arrives(&mut line.far, &bytes[..n_sent]).await;
}

#[tokio::test]
async fn a_delay_keeps_the_order() {
    let mut line = line().await;
    line.proxy.set(Direction::ToTarget, Flow::Delay(WHILE * 2));
    let start = Instant::now();
    line.near.write_all(b"one").await.unwrap();
    nothing_arrives(&mut line.far).await;
    line.proxy.set(Direction::ToTarget, Flow::Pass);
    line.near.write_all(b"two").await.unwrap();
    arrives(&mut line.far, b"onetwo").await;
    assert!(start.elapsed() >= WHILE * 2, "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_rate_is_kept() {
    let mut line = line().await;
    line.proxy.set(Direction::ToClient, Flow::Rate(10_000));
    let start = Instant::now();
    let bytes = vec![7; 4_000];
    line.far.write_all(&bytes).await.unwrap();
    arrives(&mut line.near, &bytes).await;
    assert!(
        start.elapsed() >= Duration::from_millis(370),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test]
async fn pieces_arrive_as_pieces_and_whole_in_the_end() {
    let mut line = line().await;
    line.proxy.set(Direction::ToTarget, Flow::Pieces(1));
    let bytes: Vec<u8> = (0..10_000_u32).map(|n| n as u8).collect();
    line.near.write_all(&bytes).await.unwrap();
    let mut first = vec![0; bytes.len()];
    // The first read does not find all: each byte is written by itself.
    let n = timeout(LIMIT, line.far.read(&mut first)).await.unwrap().unwrap();
    assert!(n < bytes.len(), "all at once");
    arrives(&mut line.far, &bytes[n..]).await;
}

#[tokio::test]
async fn one_connection_is_changed_and_another_is_not() {
    let mut line = line().await;
    let (mut near, mut far) = connect(&line.proxy, &line.target).await;
    line.proxy.set_one(1, Direction::ToTarget, Flow::BlackHole);
    line.near.write_all(b"lost").await.unwrap();
    near.write_all(b"there").await.unwrap();
    arrives(&mut far, b"there").await;
    nothing_arrives(&mut line.far).await;
    line.proxy.reset(2);
    is_reset(&mut near).await;
    is_reset(&mut far).await;
    let first = line.proxy.connections();
    assert_eq!(
        first.iter().map(|connection| connection.id).collect::<Vec<_>>(),
        [1]
    );
}

#[tokio::test]
async fn a_reset_reaches_both_sides_also_while_nothing_moves() {
    let mut line = line().await;
    line.proxy.set_both(Flow::Stall);
    line.proxy.reset_all();
    is_reset(&mut line.near).await;
    is_reset(&mut line.far).await;
}

#[tokio::test]
async fn a_reset_of_one_side_reaches_the_other() {
    let mut line = line().await;
    line.near.set_zero_linger().unwrap();
    drop(line.near);
    is_reset(&mut line.far).await;
}

#[tokio::test]
async fn a_half_close_is_seen_by_one_side_that_may_go_on_sending() {
    let mut line = line().await;
    line.proxy.half_close(1, Side::Target);
    is_at_end(&mut line.far).await;
    line.far.write_all(b"still here").await.unwrap();
    arrives(&mut line.near, b"still here").await;
    timeout(LIMIT, line.near.write_all(&vec![7; 32 << 20]))
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn one_side_is_closed_and_the_other_one_is_not_told() {
    let mut line = line().await;
    line.proxy.close_one_side(1, Side::Target);
    is_at_end(&mut line.far).await;
    timeout(LIMIT, line.near.write_all(&vec![7; 32 << 20]))
        .await
        .unwrap()
        .unwrap();
    nothing_arrives(&mut line.near).await;
    // What the closed side still sends meets no socket.
    let fails = async || line.far.try_write(&[1]).err();
    wait_for("the broken socket", LIMIT, fails).await.unwrap();
}

#[tokio::test]
async fn new_connections_are_refused_and_the_port_stays() {
    let mut line = line().await;
    line.proxy.refuse_connections();
    is_refused(line.proxy.address()).await;
    line.near.write_all(b"old").await.unwrap();
    arrives(&mut line.far, b"old").await;
    line.proxy.accept_connections().unwrap();
    let (mut near, mut far) = connect(&line.proxy, &line.target).await;
    near.write_all(b"new").await.unwrap();
    arrives(&mut far, b"new").await;
}

#[tokio::test]
async fn another_target_is_found_behind_the_same_address() {
    let line = line().await;
    drop(line.target);
    let mut lost = TcpStream::connect(line.proxy.address()).await.unwrap();
    is_reset(&mut lost).await;
    assert_eq!(line.proxy.traffic().unreachable, 1);
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    line.proxy.set_target(other.local_addr().unwrap());
    let (mut near, mut far) = connect(&line.proxy, &other).await;
    near.write_all(b"moved").await.unwrap();
    arrives(&mut far, b"moved").await;
}

#[tokio::test]
async fn nothing_is_left_when_the_proxy_is_dropped() {
    let mut line = line().await;
    let address = line.proxy.address();
    line.proxy.set_both(Flow::Stall);
    drop(line.proxy);
    is_at_end(&mut line.near).await;
    is_at_end(&mut line.far).await;
    is_refused(address).await;
}
