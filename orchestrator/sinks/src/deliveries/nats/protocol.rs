//! The protocol of NATS clients, as far as publishing with an answer needs it: text lines, each with a bounded length.
//! <https://docs.nats.io/reference/reference-protocols/nats-protocol>

use super::NatsTarget;
use escapement_credentials::secured;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A connection that the server has let in, and that listens to answers.
pub(crate) struct Connection {
    stream: BufReader<Box<dyn Stream>>,
    /// What answers come to begins so.
    inbox: String,
    n_published: u64,
    /// Largest message that the server takes, as it says.
    bytes_max: usize,
    /// True once the server said so after the handshake, or needs none.
    is_limit_proven: bool,
}

/// What came of a message that was published.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Reply {
    /// Something answered.
    Body(Vec<u8>),
    /// Nobody listens to the subject.
    NobodyListens,
    /// The user may not publish there.
    Denied(String),
    /// The server takes no message of that size; it was not sent.
    TooLarge {
        /// The limit that it named last.
        bytes_max: usize,
    },
}

/// What a connection runs over.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// What a server says first.
#[derive(Deserialize)]
struct Info {
    max_payload: usize,
    #[serde(default)]
    headers: bool,
    nonce: Option<String>,
    #[serde(default)]
    tls_required: bool,
    #[serde(default)]
    tls_available: bool,
}

/// What a server says.
enum Said {
    Info(Vec<u8>),
    Ping,
    Pong,
    /// To the subject of an answer. `headers`: how many of the bytes come before the body.
    Message {
        subject: String,
        headers: usize,
        bytes: Vec<u8>,
    },
    Error(String),
    /// What needs no answer.
    Other,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects, shakes hands, says who we are, and waits until the server agrees.
    ///
    /// # Errors
    /// Why there is no connection.
    pub(crate) async fn open(target: &NatsTarget) -> Result<Self, String> {
        let tcp = TcpStream::connect((target.host.as_str(), target.port)).await;
        let tcp = tcp.map_err(|error| error.to_string())?;
        tcp.set_nodelay(true).map_err(|error| error.to_string())?;
        let mut plain: BufReader<TcpStream> = BufReader::new(tcp);
        let Said::Info(info) = said(&mut plain).await? else {
            return Err("what answered is no server of NATS".to_owned());
        };
        let info: Info =
            serde_json::from_slice(&info).map_err(|error| format!("the server's INFO: {error}"))?;
        if !info.headers {
            return Err("the server knows no headers, which version 2.2 brought".to_owned());
        }
        // A machine between the two could put something before the handshake.
        if !plain.buffer().is_empty() {
            return Err("the server said more than INFO before it was answered".to_owned());
        }
        let tcp = plain.into_inner();
        let stream: Box<dyn Stream> = match &target.tls {
            Some(tls) if info.tls_required || info.tls_available => {
                Box::new(secured(tls, &target.host, tcp, &[]).await?)
            }
            Some(_) => return Err("the server speaks no TLS".to_owned()),
            None if info.tls_required => {
                return Err("the server wants TLS: the URL must begin with tls://".to_owned());
            }
            None => Box::new(tcp),
        };
        let mut connection = Self {
            stream: BufReader::new(stream),
            inbox: format!("_INBOX.{}", random()?),
            n_published: 0,
            bytes_max: info.max_payload,
            is_limit_proven: target.tls.is_none(),
        };
        connection.introduce(target, info.nonce.as_deref()).await?;
        Ok(connection)
    }

    async fn introduce(&mut self, target: &NatsTarget, challenge: Option<&str>) -> Result<(), String> {
        let mut connect = json!({
            "verbose": false,
            "pedantic": false,
            "tls_required": target.tls.is_some(),
            "name": "escapement",
            "lang": "rust",
            "version": env!("CARGO_PKG_VERSION"),
            "protocol": 1,
            "headers": true,
            "no_responders": true,
        });
        if let (Some(credentials), Some(challenge), Value::Object(connect)) =
            (&target.credentials, challenge, &mut connect)
        {
            connect.extend(credentials.answer(challenge));
        }
        let hello = format!("CONNECT {connect}\r\nSUB {}.* 1\r\nPING\r\n", self.inbox);
        self.write(hello.as_bytes()).await?;
        loop {
            match said(&mut self.stream).await? {
                Said::Pong => return Ok(()),
                Said::Ping => self.write(b"PONG\r\n").await?,
                Said::Error(why) => return Err(format!("the server says: {why}")),
                Said::Info(info) => self.take_info(&info),
                Said::Message { .. } | Said::Other => {}
            }
        }
    }

    /// Takes the limit that the server names after the handshake.
    fn take_info(&mut self, info: &[u8]) {
        if let Ok(info) = serde_json::from_slice::<Info>(info) {
            (self.bytes_max, self.is_limit_proven) = (info.max_payload, true);
        }
    }

    /// Publishes a message and waits for the answer. A connection with an error is of no more use.
    ///
    /// # Errors
    /// Why there is no answer.
    pub(crate) async fn publish(&mut self, subject: &str, id: &str, body: &[u8]) -> Result<Reply, String> {
        let headers = format!(
            "NATS/1.0\r\nNats-Msg-Id: {id}\r\nContent-Type: application/cloudevents+json; charset=UTF-8\r\n\r\n"
        );
        let bytes = headers.len() + body.len();
        let bytes_max = self.bytes_max;
        if bytes > bytes_max && self.is_limit_proven {
            return Ok(Reply::TooLarge { bytes_max });
        }
        self.n_published += 1;
        let answer_to = format!("{}.{}", self.inbox, self.n_published);
        let mut head = format!("HPUB {subject} {answer_to} {} {bytes}\r\n", headers.len());
        if bytes > bytes_max {
            self.write(head.as_bytes()).await?;
            if self.refuses_size().await? {
                return Ok(Reply::TooLarge { bytes_max });
            }
            head.clear();
        }
        let message = [head.as_bytes(), headers.as_bytes(), body, b"\r\n"].concat();
        self.write(&message).await?;
        loop {
            match said(&mut self.stream).await? {
                Said::Message {
                    subject,
                    headers,
                    bytes,
                } if subject == answer_to => return Ok(reply(headers, bytes)),
                Said::Ping => self.write(b"PONG\r\n").await?,
                Said::Error(why) if why.starts_with("Permissions Violation") => {
                    return Ok(Reply::Denied(why));
                }
                Said::Error(why) => return Err(format!("the server says: {why}")),
                Said::Info(info) => self.take_info(&info),
                // What answers a message that was given up, say.
                Said::Message { .. } | Said::Pong | Said::Other => {}
            }
        }
    }

    /// Returns true if the server refuses a message by the size in its first line.
    /// A limit that was named before the handshake may be an attacker's, and an event above the limit is discarded.
    async fn refuses_size(&mut self) -> Result<bool, String> {
        let said = timeout(SIZE_REFUSED_WITHIN, said(&mut self.stream)).await;
        match said {
            Err(_elapsed) => Ok(false),
            Ok(Ok(Said::Error(why))) if why.starts_with("Maximum Payload") => Ok(true),
            Ok(Ok(Said::Error(why))) => Err(format!("the server says: {why}")),
            Ok(Err(why)) => Err(why),
            // Tried again on another connection.
            Ok(Ok(_)) => Err("the server said something else before it had the message".to_owned()),
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        let written = async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        };
        written
            .await
            .map_err(|error| format!("the connection failed: {error}"))
    }
}

fn reply(headers: usize, mut bytes: Vec<u8>) -> Reply {
    let body = bytes.split_off(headers.min(bytes.len()));
    match bytes.starts_with(b"NATS/1.0 503") {
        true => Reply::NobodyListens,
        false => Reply::Body(body),
    }
}

/// Reads one thing that the server says.
async fn said(stream: &mut (impl AsyncBufReadExt + Unpin)) -> Result<Said, String> {
    let failed = |error: std::io::Error| format!("the connection failed: {error}");
    let mut line = Vec::new();
    let mut bounded = (&mut *stream).take(LINE_BYTES_MAX);
    bounded.read_until(b'\n', &mut line).await.map_err(failed)?;
    let line = match line.strip_suffix(b"\r\n") {
        Some(line) => std::str::from_utf8(line).map_err(|_| "the server said what is no text")?,
        None if line.is_empty() => return Err("the server closed the connection".to_owned()),
        None => return Err("the server said a line that does not end".to_owned()),
    };
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    Ok(match word {
        "INFO" => Said::Info(rest.as_bytes().to_vec()),
        "PING" => Said::Ping,
        "PONG" => Said::Pong,
        "-ERR" => Said::Error(rest.trim_matches('\'').chars().take(LOGGED_CHARS_MAX).collect()),
        "MSG" | "HMSG" => {
            let (subject, headers, bytes) =
                sizes(word, rest).ok_or("the server said a message that is none")?;
            let mut message = vec![0; bytes + 2];
            stream.read_exact(&mut message).await.map_err(failed)?;
            message.truncate(bytes);
            Said::Message {
                subject: subject.to_owned(),
                headers,
                bytes: message,
            }
        }
        _ => Said::Other,
    })
}

/// Subject, bytes of the headers, and bytes of all: `MSG subject sid [reply] bytes`, `HMSG subject sid [reply] headers bytes`.
fn sizes<'l>(word: &str, rest: &'l str) -> Option<(&'l str, usize, usize)> {
    let words: Vec<&str> = rest.split_ascii_whitespace().collect();
    let (bytes, before) = words.split_last()?;
    let headers = match word {
        "HMSG" => before.last()?.parse().ok()?,
        _ => 0,
    };
    let bytes = bytes.parse().ok().filter(|bytes| *bytes <= ANSWER_BYTES_MAX)?;
    (headers <= bytes).then_some((*words.first()?, headers, bytes))
}

/// 32 digits that nobody guesses: others of the same account could answer otherwise.
fn random() -> Result<String, String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| error.to_string())?;
    Ok(data_encoding::HEXLOWER.encode(&bytes))
}

/// Time in which a server refuses a message by its first line, which it reads before the rest.
const SIZE_REFUSED_WITHIN: Duration = Duration::from_secs(2);
/// Bytes of a line: 64 KiB. INFO names all servers of a cluster.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// Bytes of an answer: 64 KiB. Streams answer with less than one.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Characters of what a server says that go into the log.
const LOGGED_CHARS_MAX: usize = 200;
