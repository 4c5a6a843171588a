//! A web server for one answer on a port of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

/// Answers one request and hands back what it asked.
pub(crate) struct OneAnswer {
    /// Where it listens.
    pub(crate) port: u16,
    asked: JoinHandle<Asked>,
}

/// What was asked.
pub(crate) struct Asked {
    /// The request line and the headers.
    pub(crate) head: String,
    /// The body, as long as `content-length` says.
    pub(crate) body: String,
}

impl OneAnswer {
    /// Listens, and answers the first request with these bytes.
    pub(crate) fn new(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let asked = read(&mut stream);
            // The other side may have given up.
            let _ = stream.write_all(&answer);
            asked
        });
        Self { port, asked }
    }

    /// Answers with a status, a content type and a body.
    pub(crate) fn with(status: &str, content_type: &str, body: &str) -> Self {
        let length = body.len();
        Self::new(format!(
            "HTTP/1.1 {status}\r\nx-own: 1\r\ncontent-type: {content_type}\r\n\
             content-length: {length}\r\n\r\n{body}"
        ))
    }

    /// What was asked.
    pub(crate) fn asked(self) -> Asked {
        self.asked.join().unwrap()
    }
}

fn read(stream: &mut TcpStream) -> Asked {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(
            reader.read_line(&mut head).unwrap(),
            0,
            "the request ended early: {head}"
        );
    }
    let lower = head.to_ascii_lowercase();
    let length = lower
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |n| n.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    Asked {
        head,
        body: String::from_utf8(body).unwrap(),
    }
}
