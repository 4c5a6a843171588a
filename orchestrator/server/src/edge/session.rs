//! `WorkerService`: one stream per worker. Reads whatever else happens, and never waits for the writing side.
//! The engine decides what a session may do; the shell decides only when a stream is over.

use super::connection::Cutter;
use super::session_stream::SessionStream;
use super::{Edge, random_bytes};
use crate::convert::session_in::{self, WrongStructure};
use crate::engine_link::{EngineLink, Outbound, SessionLink};
use crate::limits::{SESSION_CLOSE_TIMEOUT, SESSION_QUEUE_MAX};
use escapement_engine::{Input, SessionErrorCode, SessionKey, ToWorker};
use escapement_model::SessionId;
use escapement_model::limits::HELLO_TIMEOUT_MS;
use escapement_wire::worker::v1;
use escapement_wire::worker::v1::worker_service_server::WorkerService;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};
use tonic::{Request, Response, Status, Streaming};
use tracing::debug;

/// The service.
#[derive(Debug)]
pub(crate) struct Sessions {
    edge: Edge,
}

impl Sessions {
    pub(crate) fn new(edge: Edge) -> Self {
        Self { edge }
    }
}

#[tonic::async_trait]
impl WorkerService for Sessions {
    type SessionStream = SessionStream;

    async fn report_outcomes(
        &self,
        request: Request<v1::ReportOutcomesRequest>,
    ) -> Result<Response<v1::ReportOutcomesResponse>, Status> {
        let _items = request.into_inner().items;
        Err(Status::unimplemented("not yet"))
    }

    /// Answers at once, because a client's call resolves only then; the handshake comes on the stream.
    async fn session(
        &self,
        request: Request<Streaming<v1::SessionRequest>>,
    ) -> Result<Response<SessionStream>, Status> {
        let cutter = request.extensions().get::<Cutter>().cloned();
        let (outbound, queue) = mpsc::channel(SESSION_QUEUE_MAX);
        let (end, end_rx) = oneshot::channel();
        let (alive, stream_gone) = oneshot::channel();
        let reader = SessionReader {
            inbound: request.into_inner(),
            engine: self.edge.engine.clone(),
            stream_gone,
            cutter,
            end: Some(end),
            is_gone: false,
        };
        tokio::spawn(reader.run(outbound));
        Ok(Response::new(SessionStream::new(
            queue,
            self.edge.greeting,
            end_rx,
            alive,
        )))
    }
}

/// The reading side of one session.
struct SessionReader {
    inbound: Streaming<v1::SessionRequest>,
    engine: EngineLink,
    /// Resolves when the response stream is gone.
    stream_gone: oneshot::Receiver<Infallible>,
    cutter: Option<Cutter>,
    end: Option<oneshot::Sender<Status>>,
    /// True once `stream_gone` has resolved; it must not be asked again.
    is_gone: bool,
}

/// An open session, as its reader knows it.
struct OpenSession {
    key: SessionKey,
    /// Weak, so that the stream ends when the engine lets go of it.
    outbound: mpsc::WeakSender<Outbound>,
    /// Resolves when the engine has let go.
    engine_closed: oneshot::Receiver<Infallible>,
}

impl SessionReader {
    async fn run(mut self, outbound: mpsc::Sender<Outbound>) {
        let Some(first) = self.first(&outbound).await else {
            return self.close(outbound).await;
        };
        let (open, engine_closed) = oneshot::channel();
        let weak = outbound.downgrade();
        let link = SessionLink {
            outbound,
            _open: open,
        };
        // The engine hears of a stream only once it has spoken: silent ones cost it nothing.
        let Ok(key) = self
            .engine
            .open_session(SessionId::new(random_bytes()), link)
            .await
        else {
            return;
        };
        let mut session = OpenSession {
            key,
            outbound: weak,
            engine_closed,
        };
        self.talk(first, &mut session).await;
        // The engine's thread may have ended.
        let _ended = self.engine.tell(Input::SessionClosed(key)).await;
        self.linger().await;
    }

    /// The first message, within the time for it.
    async fn first(&mut self, outbound: &mpsc::Sender<Outbound>) -> Option<v1::SessionRequest> {
        let patience = Duration::from_millis(HELLO_TIMEOUT_MS);
        // Biased: a stream that is gone needs no first message.
        let first = tokio::select! {
            biased;
            _ = &mut self.stream_gone => {
                self.is_gone = true;
                return None;
            }
            first = timeout(patience, self.inbound.message()) => first,
        };
        match first {
            Ok(Ok(first)) => first,
            Ok(Err(status)) => {
                self.end_with(status);
                None
            }
            Err(_elapsed) => {
                violate(outbound, &format!("no Hello within {HELLO_TIMEOUT_MS} ms"));
                None
            }
        }
    }

    /// Passes messages on until either side ends the stream.
    async fn talk(&mut self, first: v1::SessionRequest, session: &mut OpenSession) {
        let mut next = Some(first);
        while let Some(request) = next {
            if !self.pass_on(request, session).await {
                return;
            }
            // Biased: an end comes before another message.
            let read = tokio::select! {
                biased;
                _ = &mut self.stream_gone => {
                    self.is_gone = true;
                    return;
                }
                _ = &mut session.engine_closed => return,
                read = self.inbound.message() => read,
            };
            next = match read {
                Ok(next) => next,
                Err(status) => {
                    // What follows a message that does not decode cannot be trusted.
                    debug!(session = session.key.0, %status, "session stream broken");
                    return self.end_with(status);
                }
            };
        }
    }

    /// Hands one message to the engine; false where the session must end.
    async fn pass_on(&mut self, request: v1::SessionRequest, session: &OpenSession) -> bool {
        let seq = request.seq;
        let incoming = match session_in::incoming(request) {
            Ok(incoming) => incoming,
            Err(WrongStructure(why)) => {
                if let Some(outbound) = session.outbound.upgrade() {
                    violate(&outbound, why);
                }
                return false;
            }
        };
        if incoming.dropped_items > 0 {
            debug!(
                session = session.key.0,
                dropped_items = incoming.dropped_items,
                "items without a token dropped"
            );
        }
        let message = Input::SessionMessage {
            session: session.key,
            seq,
            message: incoming.message,
        };
        self.engine.tell(message).await.is_ok()
    }

    async fn close(self, outbound: mpsc::Sender<Outbound>) {
        drop(outbound);
        self.linger().await;
    }

    /// Gives the worker time to take what was sent, reading on so that its own writes do not get stuck;
    /// then cuts the connection of one that does not.
    async fn linger(mut self) {
        if self.is_gone {
            return;
        }
        let patience = sleep(SESSION_CLOSE_TIMEOUT);
        tokio::pin!(patience);
        let mut inbound_is_open = true;
        loop {
            // Biased: the usual end comes first.
            tokio::select! {
                biased;
                _ = &mut self.stream_gone => return,
                () = &mut patience => break,
                read = self.inbound.message(), if inbound_is_open => {
                    inbound_is_open = matches!(read, Ok(Some(_)));
                }
            }
        }
        if let Some(cutter) = self.cutter {
            debug!("worker does not read; its connection was cut");
            cutter.cut();
        }
    }

    fn end_with(&mut self, status: Status) {
        if let Some(end) = self.end.take() {
            // The stream may be gone already.
            let _gone = end.send(status);
        }
    }
}

/// Says why the session ends. Where even that does not fit into the queue, the end itself must do.
fn violate(outbound: &mpsc::Sender<Outbound>, detail: &str) {
    let _full = outbound.try_send(Outbound::Engine(ToWorker::SessionError {
        code: SessionErrorCode::ProtocolViolation,
        detail: detail.to_owned(),
        retry_after_ms: RETRY_AFTER_MS,
    }));
}

/// For a worker that did not speak the protocol: it will hardly do better at once.
const RETRY_AFTER_MS: u64 = 1_000;
