//! A webhook receiver on loopback that remembers what it got. Judges nothing.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Request, Response};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

use crate::authority::Issued;
use crate::http::serve;
use crate::{Fault, wait_for};

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    /// `POST` and the like.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// By lower-case name; of a repeated header the last.
    pub headers: BTreeMap<String, String>,
    /// The whole body.
    pub body: Bytes,
    /// Time at which it was complete.
    pub at: Instant,
    /// The status that it was answered with; `None` if it got no answer.
    pub status: Option<u16>,
}

/// What a receiver does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Answers with this status.
    Status(u16),
    /// The same, with `retry-after` in seconds.
    RetryAfter(u16, u64),
    /// Keeps the connection open, and says nothing.
    Silence,
    /// Closes the connection.
    Close,
}

type Script = dyn Fn(&ReceivedRequest) -> Reply + Send + Sync;

/// A running receiver. Stops on drop.
#[derive(Debug)]
pub struct Receiver {
    address: SocketAddr,
    origin: String,
    received: Arc<Mutex<Vec<ReceivedRequest>>>,
    accepting: AbortHandle,
}

impl Receiver {
    /// Listens on a free port of loopback and answers every request with the given HTTP status.
    ///
    /// # Errors
    /// The operating system's.
    pub async fn start(status: u16) -> Result<Self, Fault> {
        Self::start_with(move |_| Reply::Status(status)).await
    }

    /// The same, and does with each request what the function says.
    ///
    /// # Errors
    /// The operating system's.
    pub async fn start_with(
        script: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static,
    ) -> Result<Self, Fault> {
        Self::start_as(None, Arc::new(script)).await
    }

    /// Answers every request with the given HTTP status, over TLS, as `localhost` with this certificate.
    ///
    /// # Errors
    /// The operating system's, or the certificate is none.
    pub async fn start_encrypted(issued: &Issued, status: u16) -> Result<Self, Fault> {
        Self::start_as(Some(issued.acceptor()?), Arc::new(move |_| Reply::Status(status))).await
    }

    async fn start_as(tls: Option<TlsAcceptor>, script: Arc<Script>) -> Result<Self, Fault> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let origin = match tls {
            Some(_) => format!("https://localhost:{}", address.port()),
            None => format!("http://{address}"),
        };
        let received = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&received);
        let answer = move |request| answer(request, Arc::clone(&script), Arc::clone(&kept));
        let accepting = tokio::spawn(serve(listener, tls, answer)).abort_handle();
        Ok(Self {
            address,
            origin,
            received,
            accepting,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a URL of it; the path begins with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.origin)
    }

    /// Returns all requests so far, in the order in which their bodies were complete.
    pub fn received(&self) -> Vec<ReceivedRequest> {
        self.received
            .lock()
            .expect("nobody panics while holding it")
            .clone()
    }

    /// Waits until at least so many requests have arrived.
    ///
    /// # Errors
    /// After the limit.
    pub async fn wait_for_requests(
        &self,
        count: usize,
        limit: Duration,
    ) -> Result<Vec<ReceivedRequest>, Fault> {
        let what = format!("{count} requests at the webhook receiver");
        wait_for(&what, limit, async || {
            Some(self.received()).filter(|received| received.len() >= count)
        })
        .await
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn answer(
    request: Request<Incoming>,
    script: Arc<Script>,
    received: Arc<Mutex<Vec<ReceivedRequest>>>,
) -> Result<Response<Full<Bytes>>, Fault> {
    let (head, body) = request.into_parts();
    let mut reply = Reply::Close;
    if let Ok(body) = body.collect().await {
        let headers = head.headers.iter().map(|(name, value)| {
            (
                name.as_str().to_owned(),
                String::from_utf8_lossy(value.as_bytes()).into_owned(),
            )
        });
        let mut request = ReceivedRequest {
            method: head.method.to_string(),
            path: head
                .uri
                .path_and_query()
                .map_or_else(String::new, ToString::to_string),
            headers: headers.collect(),
            body: body.to_bytes(),
            at: Instant::now(),
            status: None,
        };
        reply = script(&request);
        request.status = match reply {
            Reply::Status(status) | Reply::RetryAfter(status, _) => Some(status),
            Reply::Silence | Reply::Close => None,
        };
        received
            .lock()
            .expect("nobody panics while holding it")
            .push(request);
    }
    let response = match reply {
        Reply::Status(status) => Response::builder().status(status),
        Reply::RetryAfter(status, seconds) => {
            Response::builder().status(status).header("retry-after", seconds)
        }
        Reply::Silence => std::future::pending().await,
        Reply::Close => return Err("the test wants it closed".into()),
    };
    Ok(response
        .body(Full::default())
        .expect("the test gives an HTTP status"))
}

#[cfg(test)]
mod tests {
    use super::Receiver;
    use std::io::{Read, Write};
    use std::time::Duration;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_request_is_remembered_whole_and_answered() {
        let receiver = Receiver::start(202).await.unwrap();
        let mut stream = std::net::TcpStream::connect(receiver.address()).unwrap();
        let request = "POST /hook?n=1 HTTP/1.1\r\nhost: x\r\nX-Kind: Test\r\nconnection: close\r\ncontent-length: 4\r\n\r\nbody";
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
        let received = receiver
            .wait_for_requests(1, Duration::from_secs(5))
            .await
            .unwrap();
        assert_eq!(
            (received[0].method.as_str(), received[0].path.as_str()),
            ("POST", "/hook?n=1")
        );
        assert_eq!(received[0].headers["x-kind"], "Test");
        assert_eq!(received[0].body, "body");
    }
}
