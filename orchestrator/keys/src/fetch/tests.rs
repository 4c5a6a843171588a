#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
//! Issuers that answer rightly, wrongly and never, on real sockets.

use super::{check, fetch};
use escapement_access::{KeySet, KeySource};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::oneshot;

/// Longer than an answer takes that comes at all.
const LIMIT: Duration = Duration::from_secs(20);

fn source(url: String, token_file: Option<String>) -> KeySource {
    KeySource::Url {
        url,
        ca_file: None,
        token_file,
    }
}

/// Answers one request with these bytes and keeps the connection open after that; tells what it was asked.
async fn issuer(answer: Vec<u8>) -> (KeySource, oneshot::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/keys?all=1", listener.local_addr().unwrap());
    let (asked, question) = oneshot::channel();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        asked.send(String::from_utf8(head).unwrap()).unwrap();
        // Whoever asks may have heard enough before the end.
        let _heard_enough = stream.write_all(&answer).await;
        let _closed = stream.read_u8().await;
    });
    (source(url, None), question)
}

fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

fn set() -> String {
    let x = "A".repeat(43);
    format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","kid":"one","x":"{x}"}}]}}"#)
}

#[tokio::test]
async fn keys_are_asked_for_by_path_and_with_the_token_of_the_file() {
    let (asked, question) = issuer(answer("200 OK", "", set().as_bytes())).await;
    let KeySource::Url { url, .. } = asked else {
        unreachable!("it has a URL")
    };
    let file = std::env::temp_dir().join(format!("escapement-keys-{}", std::process::id()));
    std::fs::write(&file, "a.b.c\n").unwrap();
    let with_token = source(url, Some(file.display().to_string()));
    assert_eq!(check(&with_token), Ok(()));
    assert_eq!(
        fetch(&with_token, LIMIT).await,
        Ok(KeySet::parse(set().as_bytes()).unwrap())
    );
    let question = question.await.unwrap();
    assert!(question.starts_with("GET /keys?all=1 HTTP/1.1\r\n"), "{question}");
    assert!(question.contains("authorization: Bearer a.b.c\r\n"), "{question}");
    std::fs::remove_file(&file).unwrap();
    assert!(check(&with_token).unwrap_err().contains("No such file"));
}

#[tokio::test]
async fn what_is_no_set_of_keys_is_refused_with_the_reason() {
    let large = vec![b' '; 10 << 20];
    let too_many = format!(r#"{{"keys":[{}]}}"#, vec!["{}"; KeySet::KEYS_MAX + 1].join(","));
    for (answer, why) in [
        (answer("500 Internal Server Error", "", b""), "status 500"),
        (
            answer("302 Found", "location: http://127.0.0.1:1/\r\n", set().as_bytes()),
            "status 302",
        ),
        (answer("200 OK", "", &large), "length limit exceeded"),
        (answer("200 OK", "", b"<html>"), "is no JSON"),
        (answer("200 OK", "", b"{\"keys\":[]}"), "has no key"),
        (answer("200 OK", "", too_many.as_bytes()), "more than 64 keys"),
        (b"220 mail.example\r\n".to_vec(), "the connection failed"),
    ] {
        let (source, _question) = issuer(answer).await;
        let problem = fetch(&source, LIMIT).await.unwrap_err();
        assert!(problem.contains(why), "{why}: {problem}");
    }
}

#[tokio::test]
async fn an_issuer_that_is_slow_or_away_is_not_waited_for() {
    // It begins to answer and never ends.
    let (slow, _question) = issuer(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".to_vec()).await;
    let problem = fetch(&slow, Duration::from_millis(100)).await.unwrap_err();
    assert_eq!(problem, "there was no whole answer within 100 ms");
    // Bound, so that no other process gets the port; no socket listens on it.
    let closed = TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}/", closed.local_addr().unwrap());
    assert!(fetch(&source(url, None), LIMIT).await.is_err());
}
