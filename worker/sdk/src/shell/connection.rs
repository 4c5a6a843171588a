//! The tonic part: one stream, its two directions apart. Numbers no message and understands none.

use crate::error::with_causes;
use escapement_model::limits::SESSION_MESSAGE_BYTES_MAX;
use escapement_wire::worker::v1::worker_service_client::WorkerServiceClient;
use escapement_wire::worker::v1::{SessionRequest, SessionResponse};
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

/// The stream to the orchestrator, or none.
#[derive(Default)]
pub(super) struct Connection {
    writer: Writer,
    reader: Reader,
}

/// Where requests go in. Bounded: the session keeps what does not fit, so nothing is lost and nothing waits.
#[derive(Default)]
pub(super) struct Writer(Option<mpsc::Sender<SessionRequest>>);

/// Where responses come out. Never waits for the writer.
#[derive(Default)]
pub(super) enum Reader {
    #[default]
    Closed,
    Opening(Pin<Box<dyn Future<Output = Result<Box<Open>, String>> + Send>>),
    Open(Box<Open>),
}

pub(super) struct Open {
    responses: Streaming<SessionResponse>,
    /// Keeps the connection.
    _client: WorkerServiceClient<Channel>,
}

/// What the reader has seen.
pub(super) enum Event {
    /// The orchestrator has answered the call.
    Opened,
    Message(Box<SessionResponse>),
    /// Nothing more comes, for this reason.
    Ended(String),
}

impl Connection {
    /// Begins to open a stream. Requests are queued from now on and go out with the call.
    pub(super) fn open(&mut self, address: &str) {
        let (sender, receiver) = mpsc::channel(QUEUED_REQUESTS_MAX);
        self.writer = Writer(Some(sender));
        self.reader = Reader::Opening(Box::pin(open(address.to_owned(), receiver)));
    }

    pub(super) fn end_requests(&mut self) {
        self.writer = Writer(None);
    }

    pub(super) fn close(&mut self) {
        *self = Self::default();
    }

    pub(super) fn halves(&mut self) -> (&Writer, &mut Reader) {
        (&self.writer, &mut self.reader)
    }
}

impl Writer {
    /// Queues the message that `next` makes. False where there is no room, no stream or no message.
    pub(super) fn send(&self, next: impl FnOnce() -> Option<SessionRequest>) -> bool {
        let Some(Ok(permit)) = self.0.as_ref().map(mpsc::Sender::try_reserve) else {
            return false;
        };
        let Some(message) = next() else { return false };
        permit.send(message);
        true
    }

    /// Resolves when there is room. Where there is no stream any more the reader says so, not the writer.
    pub(super) async fn ready(&self) {
        if let Some(sender) = &self.0
            && sender.reserve().await.is_ok()
        {
            return;
        }
        std::future::pending().await
    }
}

impl Reader {
    /// The next event. Nothing is lost where the future is dropped.
    pub(super) async fn next(&mut self) -> Event {
        match self {
            Reader::Closed => std::future::pending().await,
            Reader::Opening(opening) => match opening.await {
                Ok(open) => {
                    *self = Reader::Open(open);
                    Event::Opened
                }
                Err(reason) => {
                    *self = Reader::Closed;
                    Event::Ended(reason)
                }
            },
            Reader::Open(open) => match open.responses.message().await {
                Ok(Some(message)) => Event::Message(Box::new(message)),
                Ok(None) => Event::Ended("the orchestrator ended the stream".to_owned()),
                // After a decode error the stream is not to be trusted, so every error is its end.
                Err(status) => Event::Ended(reason_of(&status)),
            },
        }
    }
}

async fn open(address: String, requests: mpsc::Receiver<SessionRequest>) -> Result<Box<Open>, String> {
    let channel = Endpoint::from_shared(address)
        .map_err(|error| with_causes(&error))?
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_adaptive_window(false)
        .initial_connection_window_size(WINDOW_BYTES)
        .initial_stream_window_size(WINDOW_BYTES)
        .http2_keep_alive_interval(KEEPALIVE)
        .connect()
        .await
        .map_err(|error| with_causes(&error))?;
    let mut client = WorkerServiceClient::new(channel)
        .max_decoding_message_size(SESSION_MESSAGE_BYTES_MAX)
        .max_encoding_message_size(SESSION_MESSAGE_BYTES_MAX);
    // `Hello` is queued already: the call resolves only at response headers.
    let response = client
        .session(ReceiverStream::new(requests))
        .await
        .map_err(|status| reason_of(&status))?;
    Ok(Box::new(Open {
        responses: response.into_inner(),
        _client: client,
    }))
}

fn reason_of(status: &Status) -> String {
    format!("{:?}: {}", status.code(), status.message())
}

/// Requests between the session and the transport. Few, since the session batches what waits.
const QUEUED_REQUESTS_MAX: usize = 16;
/// Time for a TCP connection; the session's own limit covers the rest of the greeting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);
/// From h2 0.4.16 on, many small unread frames end the connection; a wide window leaves room for bursts.
const WINDOW_BYTES: u32 = 4 << 20;
/// Finds a dead peer below the stream; leases do not depend on it.
const KEEPALIVE: Duration = Duration::from_secs(30);
