//! The tonic part: one stream, its two directions apart. Numbers no message and understands none.

use escapement_credentials::Credentials;
use escapement_model::limits::SESSION_MESSAGE_BYTES_MAX;
use escapement_process::with_causes;
use escapement_wire::worker::v1::worker_service_client::WorkerServiceClient;
use escapement_wire::worker::v1::{SessionRequest, SessionResponse};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};

/// The stream to one orchestrator.
pub(super) struct Connection {
    writer: Writer,
    reader: Reader,
}

/// Sender of requests. Bounded: the session keeps what does not fit, so nothing is lost and nothing waits.
#[derive(Default)]
struct Writer {
    requests: Option<mpsc::Sender<SessionRequest>>,
    /// Waits for capacity, across polls.
    room: Option<Pin<Box<dyn Future<Output = bool> + Send>>>,
}

/// Receiver of responses. Never waits for the writer.
enum Reader {
    Closed,
    Opening(Pin<Box<dyn Future<Output = Result<Box<Open>, String>> + Send>>),
    Open(Box<Open>),
}

struct Open {
    responses: Streaming<SessionResponse>,
    /// Keeps the connection.
    _client: WorkerServiceClient<Channel>,
}

/// Readiness of a connection.
pub(super) enum Next {
    /// The queue takes a message.
    Writable,
    Read(Event),
}

/// Event of the reader.
pub(super) enum Event {
    /// The orchestrator has answered the call.
    Opened,
    Message(Box<SessionResponse>),
    /// The end of the stream, with its reason.
    Ended(String),
}

impl Connection {
    /// Begins to open a stream. Requests are queued from now on and go out with the call.
    pub(super) fn open(address: &str, credentials: Credentials) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUED_REQUESTS_MAX);
        let opening = open(address.to_owned(), credentials, receiver);
        Self {
            writer: Writer {
                requests: Some(sender),
                room: None,
            },
            reader: Reader::Opening(Box::pin(opening)),
        }
    }

    pub(super) fn end_requests(&mut self) {
        self.writer = Writer::default();
    }

    /// Queues the message that `next` makes. Returns false if the queue is full, or without a stream or a message.
    pub(super) fn send(&mut self, next: impl FnOnce() -> Option<SessionRequest>) -> bool {
        let permit = self.writer.requests.as_ref().map(mpsc::Sender::try_reserve);
        let Some(Ok(permit)) = permit else {
            return false;
        };
        let Some(message) = next() else { return false };
        permit.send(message);
        true
    }

    /// Polls for capacity for a message, if `wants_to_transmit`, or else for something that was read.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>, wants_to_transmit: bool) -> Poll<Next> {
        if wants_to_transmit && self.writer.poll_room(cx).is_ready() {
            return Poll::Ready(Next::Writable);
        }
        // Nothing is lost if this future is dropped: what it waits for is kept in the reader.
        pin!(self.reader.next()).poll(cx).map(Next::Read)
    }
}

impl Writer {
    /// Resolves when the queue takes a message. If the stream has ended, the reader reports that, not the writer.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(requests) = &self.requests else {
            return Poll::Pending;
        };
        let room = self.room.get_or_insert_with(|| {
            let requests = requests.clone();
            Box::pin(async move { requests.reserve().await.is_ok() })
        });
        match room.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(true) => {
                self.room = None;
                Poll::Ready(())
            }
            Poll::Ready(false) => {
                *self = Self::default();
                Poll::Pending
            }
        }
    }
}

impl Reader {
    /// Returns the next event. Nothing is lost if the future is dropped.
    async fn next(&mut self) -> Event {
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

async fn open(
    address: String,
    credentials: Credentials,
    requests: mpsc::Receiver<SessionRequest>,
) -> Result<Box<Open>, String> {
    let mut call = Request::new(ReceiverStream::new(requests));
    // Some small files, read on this thread: one for what blocks may not be had where threads are scarce.
    let endpoint = credentials.endpoint(&address)?;
    credentials.authorize(call.metadata_mut())?;
    let channel = endpoint
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
    let response = client.session(call).await.map_err(|status| reason_of(&status))?;
    Ok(Box::new(Open {
        responses: response.into_inner(),
        _client: client,
    }))
}

fn reason_of(status: &Status) -> String {
    format!("{:?}: {}", status.code(), status.message())
}

/// Requests between the session and the transport. Few: the session batches what waits,
/// and a heartbeat waits for what is queued before it.
const QUEUED_REQUESTS_MAX: usize = 4;
/// Time for a TCP connection; the session's own limit covers the rest of the greeting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);
/// h2 0.4.16 and later end a connection with many small unread frames; a wide window allows bursts.
const WINDOW_BYTES: u32 = 4 << 20;
/// Finds a dead peer below the stream; leases do not depend on it.
const KEEPALIVE: Duration = Duration::from_secs(30);
