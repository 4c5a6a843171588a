//! Who is let go before a connection speaks HTTP/2. On a paused clock.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::limits::PREFACE_TIMEOUT;
use crate::newcomers::Newcomers;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

/// Reads until nothing comes for the whole patience; returns what was read, and how it ended.
async fn read_after(said: &[u8], is_gone: bool) -> (Vec<u8>, io::Result<()>, Arc<Beginning>) {
    let (mut client, server) = duplex(1 << 10);
    client.write_all(said).await.unwrap();
    let client = (!is_gone).then_some(client);
    let (beginning, place) = (Arc::<Beginning>::default(), Newcomers::new(1).enter());
    let deadline = Instant::now() + PREFACE_TIMEOUT;
    let mut guarded = Guarded::new(server, deadline, place, Arc::clone(&beginning));
    let mut read = Vec::new();
    let ended = tokio::time::timeout(2 * PREFACE_TIMEOUT, guarded.read_to_end(&mut read)).await;
    drop(client);
    let ended = ended.map_or(Ok(()), |ended| ended.map(drop));
    (read, ended, beginning)
}

#[tokio::test(start_paused = true)]
async fn who_says_nothing_or_half_a_preface_is_let_go_in_time() {
    for said in [&b""[..], &PREFACE[..1], &PREFACE[..PREFACE.len() - 1]] {
        let (read, ended, beginning) = read_after(said, false).await;
        assert_eq!(read, said);
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut, "{said:?}");
        assert_eq!(
            (beginning.has_begun(), beginning.failed()),
            (false, Some(Failed::TooSlow))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn who_says_something_else_is_let_go_at_once() {
    let begin = Instant::now();
    for said in [
        &b"x"[..],
        b"GET / HTTP/1.1\r\n",
        b"PRI * HTTP/1.0\r\n\r\nSM\r\n\r\n",
    ] {
        let (_, ended, beginning) = read_after(said, false).await;
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::InvalidData, "{said:?}");
        assert_eq!(
            (beginning.has_begun(), beginning.failed()),
            (false, Some(Failed::NoHttp2))
        );
    }
    assert_eq!(begin.elapsed(), std::time::Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn who_has_not_spoken_goes_for_one_that_comes_and_who_has_stays() {
    let newcomers = Newcomers::new(1);
    let deadline = Instant::now() + PREFACE_TIMEOUT;
    for (said, stays) in [(&PREFACE[..PREFACE.len() - 1], false), (PREFACE, true)] {
        let (mut client, server) = duplex(1 << 10);
        client.write_all(said).await.unwrap();
        let beginning = Arc::<Beginning>::default();
        let mut guarded = Guarded::new(server, deadline, newcomers.enter(), Arc::clone(&beginning));
        let mut read = vec![0; said.len()];
        guarded.read_exact(&mut read).await.unwrap();
        let another = newcomers.enter();
        let next = tokio::time::timeout(PREFACE_TIMEOUT / 2, guarded.read_u8()).await;
        assert_eq!(next.is_err(), stays, "{next:?}");
        assert_eq!(beginning.failed(), (!stays).then_some(Failed::TooMany));
        drop(another);
    }
}

#[tokio::test(start_paused = true)]
async fn a_whole_preface_ends_the_guard_and_loses_nothing() {
    let more = [PREFACE, b"\0\0\0\x04\0\0\0\0\0"].concat();
    for said in [PREFACE, &more] {
        let (read, ended, beginning) = read_after(said, false).await;
        assert_eq!(read, said);
        assert!(ended.is_ok() && beginning.has_begun(), "{ended:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_goes_before_it_has_spoken_is_not_waited_for() {
    let begin = Instant::now();
    for said in [&b""[..], &PREFACE[..5]] {
        let (read, ended, beginning) = read_after(said, true).await;
        assert_eq!(read, said);
        assert!(ended.is_ok() && !beginning.has_begun());
        assert_eq!(beginning.failed(), None);
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
    let place = Newcomers::new(1).enter();
    let mut guarded = Guarded::new(server, deadline, place, Arc::default());
    let ended = guarded.read_to_end(&mut Vec::new()).await;
    assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
    assert_eq!(Instant::now(), deadline);
}
