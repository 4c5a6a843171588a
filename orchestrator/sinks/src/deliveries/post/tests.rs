#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::judged;
use crate::deliveries::file::SinksFile;
use crate::deliveries::message::Message;
use crate::deliveries::sender::Sender;
use bytes::Bytes;
use escapement_delivery::Answer;
use hyper::StatusCode;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[test]
fn a_status_says_whether_it_is_about_the_event_or_about_the_sink() {
    let later = Answer::Failed {
        retry_after_ms: Some(7_000),
    };
    for (status, answer) in [
        (200, Answer::Taken),
        (204, Answer::Taken),
        (301, Answer::Refused),
        (400, Answer::Refused),
        (404, Answer::Refused),
        (408, later),
        (410, Answer::Gone),
        (413, Answer::Refused),
        (425, later),
        (429, later),
        (500, later),
        (503, later),
    ] {
        let status = StatusCode::from_u16(status).unwrap();
        assert_eq!(judged(status, Some(7_000)), answer, "{status}");
    }
}

const SECRET: &[u8] = b"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// Reads a request whose body is `{}`.
async fn request(stream: &mut TcpStream) {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n{}") {
        assert_ne!(
            stream.read_buf(&mut read).await.unwrap(),
            0,
            "the request is whole"
        );
    }
}

/// Answers each connection's first request with this head, which promises more, and then with `rest` again and again, if there is
/// any. Its URL, and how many connections came.
async fn never_ending(head: &'static str, rest: &'static str) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let n_connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&n_connections);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move {
                request(&mut stream).await;
                stream.write_all(head.as_bytes()).await.unwrap();
                while !rest.is_empty() && stream.write_all(rest.as_bytes()).await.is_ok() {}
                // Open until the other side closes it.
                let _closed = stream.read(&mut [0]).await;
            });
        }
    });
    (url, n_connections)
}

async fn answers_of(url: &str, count: usize) -> Vec<Answer> {
    let text = format!(
        "version = 1\n[[sink]]\nname = \"crm\"\nkind = \"webhook\"\nurl = \"{url}\"\nsecret_file = \"s\"\ntimeout_ms = 1000\n"
    );
    let file = SinksFile::parse(text.as_bytes(), &|_: &Path| SECRET).unwrap();
    let message = Message {
        id: "id".to_owned(),
        kind: "kind".to_owned(),
        namespace: None,
        body: Bytes::from_static(b"{}"),
    };
    let mut sender = Sender::default();
    let mut answers = Vec::new();
    for _ in 0..count {
        answers.push(sender.give(&file.sinks()[0], &message, 0).await.0);
    }
    answers
}

#[tokio::test]
async fn the_status_decides_although_the_rest_of_the_answer_never_ends() {
    let taken = vec![Answer::Taken; 2];
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for rest in ["", "1\r\nx\r\n"] {
        let (url, n_connections) = never_ending(head, rest).await;
        assert_eq!(answers_of(&url, 2).await, taken, "{rest:?}");
        let n_connections = n_connections.load(Ordering::Relaxed);
        assert_eq!(
            n_connections, 2,
            "one with an answer that goes on is not used again"
        );
    }
    let (url, _) = never_ending("HTTP/1.1 410 Gone\r\ncontent-length: 9\r\n\r\n", "").await;
    assert_eq!(answers_of(&url, 1).await, [Answer::Gone]);
}
