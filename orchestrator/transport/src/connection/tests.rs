//! Who is served and who is let go, before a connection speaks HTTP/2. On a paused clock.

use super::{PREFACE, speaks};
use crate::limits::PREFACE_TIMEOUT;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::Instant;

/// A connection whose client has said this.
async fn after(said: &[u8]) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    client.write_all(said).await.unwrap();
    (client, server)
}

/// Whether it is served, and whether that took the whole patience.
async fn verdict(server: &TcpStream) -> (bool, bool) {
    let begin = Instant::now();
    let (_closing, is_closing) = watch::channel(false);
    let is_served = speaks(server, is_closing).await;
    (is_served, begin.elapsed() >= PREFACE_TIMEOUT)
}

#[tokio::test(start_paused = true)]
async fn who_says_nothing_or_half_a_preface_is_let_go_in_time() {
    for said in [&b""[..], &PREFACE[..1], &PREFACE[..PREFACE.len() - 1]] {
        let (_client, server) = after(said).await;
        assert_eq!(verdict(&server).await, (false, true), "{said:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_says_the_preface_or_something_else_is_served_at_once() {
    let more = [PREFACE, b"\0\0\0\x04\0\0\0\0\0"].concat();
    for said in [PREFACE, &more, b"GET / HTTP/1.0\r\n\r\n", b"x", b"PRI * HTTP/1"] {
        let (_client, server) = after(said).await;
        assert_eq!(verdict(&server).await, (true, false), "{said:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_goes_before_it_has_spoken_is_not_waited_for() {
    for said in [&b""[..], &PREFACE[..5]] {
        let (client, server) = after(said).await;
        drop(client);
        assert_eq!(verdict(&server).await, (true, false), "{said:?}");
    }
}
