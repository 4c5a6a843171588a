//! Who is let go before a connection speaks HTTP/2. On a paused clock.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::limits::PREFACE_TIMEOUT;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Reads until nothing comes for the whole patience; returns what was read, and how it ended.
async fn read_after(said: &[u8], is_gone: bool) -> (Vec<u8>, io::Result<()>, bool) {
    let (mut client, server) = duplex(1 << 10);
    client.write_all(said).await.unwrap();
    let client = (!is_gone).then_some(client);
    let has_begun = Arc::new(AtomicBool::new(false));
    let mut guarded = Guarded::new(server, Instant::now() + PREFACE_TIMEOUT, Arc::clone(&has_begun));
    let mut read = Vec::new();
    let ended = tokio::time::timeout(2 * PREFACE_TIMEOUT, guarded.read_to_end(&mut read)).await;
    drop(client);
    let ended = ended.map_or(Ok(()), |ended| ended.map(drop));
    (read, ended, has_begun.load(Ordering::Relaxed))
}

#[tokio::test(start_paused = true)]
async fn who_says_nothing_or_half_a_preface_is_let_go_in_time() {
    for said in [&b""[..], &PREFACE[..1], &PREFACE[..PREFACE.len() - 1], b"x"] {
        let (read, ended, has_begun) = read_after(said, false).await;
        assert_eq!(read, said);
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut, "{said:?}");
        assert!(!has_begun);
    }
}

#[tokio::test(start_paused = true)]
async fn a_whole_preface_ends_the_guard_and_loses_nothing() {
    let more = [PREFACE, b"\0\0\0\x04\0\0\0\0\0"].concat();
    for said in [PREFACE, &more] {
        let (read, ended, has_begun) = read_after(said, false).await;
        assert_eq!(read, said);
        assert!(ended.is_ok() && has_begun, "{ended:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_goes_before_it_has_spoken_is_not_waited_for() {
    let begin = Instant::now();
    for said in [&b""[..], &PREFACE[..5]] {
        let (read, ended, has_begun) = read_after(said, true).await;
        assert_eq!(read, said);
        assert!(ended.is_ok() && !has_begun);
    }
    assert_eq!(begin.elapsed(), std::time::Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_byte_each_second_is_too_slow() {
    let (mut client, server) = duplex(1 << 10);
    tokio::spawn(async move {
        // The paused clock goes on by itself.
        let mut seconds = tokio::time::interval(std::time::Duration::from_secs(1));
        for byte in PREFACE {
            seconds.tick().await;
            if client.write_all(&[*byte]).await.is_err() {
                return;
            }
        }
    });
    let deadline = Instant::now() + PREFACE_TIMEOUT;
    let mut guarded = Guarded::new(server, deadline, Arc::default());
    let ended = guarded.read_to_end(&mut Vec::new()).await;
    assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
    assert_eq!(Instant::now(), deadline);
}
