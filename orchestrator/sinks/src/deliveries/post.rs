//! One POST to one webhook, signed as Standard Webhooks 1.0 have it. Follows no redirect, and shows nothing of an answer but its status.

use super::message::{Message, Posted};
use super::way::WebhookTarget;
use bytes::Bytes;
use escapement_credentials::connect;
use escapement_delivery::Answer;
use escapement_triggers::sign;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST, RETRY_AFTER};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The way to one webhook, which keeps its connection.
#[derive(Debug, Default)]
pub(crate) struct Poster {
    connection: Option<Connection>,
    /// The rest of the last answer, which is not read yet.
    rest: Option<(Connection, Incoming)>,
}

#[derive(Debug)]
struct Connection {
    requests: SendRequest<Full<Bytes>>,
    /// Ends with the connection.
    _driving: JoinSet<()>,
}

impl Poster {
    /// Gives a message to the webhook at that time, Unix milliseconds. An error says why there is no answer. The head of an answer says
    /// all; its rest is for [`Poster::read_rest`].
    pub(crate) async fn post(
        &mut self,
        target: &WebhookTarget,
        message: &Message,
        unix_ms: i64,
    ) -> Result<Posted, String> {
        let request = request(target, message, unix_ms);
        // A connection that was left open may be closed by now, which shows only when it is used.
        if let Some(mut kept) = self.connection.take()
            && kept.requests.ready().await.is_ok()
            && let Ok(answer) = kept.requests.send_request(request.clone()).await
        {
            return Ok(self.answered(kept, answer));
        }
        let mut connection = Connection::open(target).await?;
        let answer = connection.requests.send_request(request).await;
        let answer = answer.map_err(|error| format!("the connection failed: {error}"))?;
        Ok(self.answered(connection, answer))
    }

    /// Reads the rest of the last answer. If it is short and comes soon, the connection is kept for the next message.
    pub(crate) async fn read_rest(&mut self) {
        let Some((connection, body)) = self.rest.take() else {
            return;
        };
        let read = Limited::new(body, REST_BYTES_MAX).collect();
        if let Ok(Ok(_)) = timeout(REST_TIMEOUT, read).await {
            self.connection = Some(connection);
        }
    }

    fn answered(&mut self, connection: Connection, answer: Response<Incoming>) -> Posted {
        let (head, body) = answer.into_parts();
        self.rest = Some((connection, body));
        let asked = head
            .headers
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok());
        let asked: Option<u64> = asked.and_then(|seconds| seconds.trim().parse().ok());
        let retry_after_ms = asked.map(|seconds| seconds.saturating_mul(1_000));
        (
            judged(head.status, retry_after_ms),
            format!("status {}", head.status.as_u16()),
        )
    }
}

fn judged(status: StatusCode, retry_after_ms: Option<u64>) -> Answer {
    match status {
        status if status.is_success() => Answer::Taken,
        StatusCode::GONE => Answer::Gone,
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => {
            Answer::Failed { retry_after_ms }
        }
        status if status.is_server_error() => Answer::Failed { retry_after_ms },
        _ => Answer::Refused,
    }
}

fn request(target: &WebhookTarget, message: &Message, unix_ms: i64) -> Request<Full<Bytes>> {
    let timestamp = (unix_ms / 1_000).to_string();
    let sign = |secret| sign(secret, &message.id, &timestamp, &message.body);
    let signatures: Vec<String> = target.secrets.iter().map(sign).collect();
    let path = target.uri.path_and_query().map_or("/", |path| path.as_str());
    let authority = target.uri.authority().map_or("", |authority| authority.as_str());
    Request::post(path)
        .header(HOST, authority)
        .header(CONTENT_TYPE, "application/cloudevents+json; charset=UTF-8")
        .header("webhook-id", &message.id)
        .header("webhook-timestamp", timestamp)
        .header("webhook-signature", signatures.join(" "))
        .body(Full::new(message.body.clone()))
        .expect("a URL that was parsed and plain ASCII make a request")
}

impl Connection {
    async fn open(target: &WebhookTarget) -> Result<Self, String> {
        let host = target.uri.host().unwrap_or_default();
        if target.uri.scheme_str() == Some("https") {
            let port = target.uri.port_u16().unwrap_or(443);
            return Self::over(connect(&target.tls, host, port, b"http/1.1").await?).await;
        }
        let port = target.uri.port_u16().unwrap_or(80);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((host, port)).await;
        Self::over(stream.map_err(|error| error.to_string())?).await
    }

    async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Result<Self, String> {
        let shaken = handshake(TokioIo::new(stream)).await;
        let (requests, connection) = shaken.map_err(|error| error.to_string())?;
        let mut driving = JoinSet::new();
        driving.spawn(async move {
            // Who sends a request is told.
            let _ended = connection.await;
        });
        Ok(Self {
            requests,
            _driving: driving,
        })
    }
}

/// Bytes of an answer's body that are read so that the connection can be kept: 4 KiB.
const REST_BYTES_MAX: usize = 4 << 10;
/// How long they may take. The next message waits for so long at most.
const REST_TIMEOUT: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests;
