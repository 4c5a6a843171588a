//! `WorkerService`: one stream per worker. Reads whatever else happens, and never waits for the writing side.
//! The engine decides what a session may do; the shell decides only when a stream is over.
//!
//! It waits for the engine, though: what one session has said and the engine has not handled is bounded.

pub(crate) mod reports;
pub(crate) mod stream;

use self::stream::{RefusedActions, SessionStream};
use super::caller::Caller;
use super::{Edge, random_bytes};
use crate::host::handle::{EngineGone, EngineHandle, Lane, Outbound, SessionLink};
use crate::limits::{
    SESSION_CLOSE_TIMEOUT, SESSION_QUEUE_MAX, SESSION_UNHANDLED_UNIT_BYTES, SESSION_UNHANDLED_UNITS_MAX,
};
use escapement_access::{Denial, Principal};
use escapement_codec::session_in::{self, WrongStructure};
use escapement_codec::session_out::{self, session_error_code};
use escapement_codec::session_rights::SessionRights;
use escapement_engine::{FromWorker, Input, SessionErrorCode, SessionKey};
use escapement_model::limits::{HELLO_TIMEOUT_MS, LABEL_CHARS_MAX};
use escapement_model::{InstanceId, SessionId};
use escapement_transport::share::{CallTenant, SharePart};
use escapement_transport::{
    CallClass, ConnectionAbort, CredentialsEnd, Refusal, WorkerPlace, WorkerPlaces, WorkerRoots,
};
use escapement_wire::worker::v1;
use escapement_wire::worker::v1::session_request::Message;
use escapement_wire::worker::v1::session_response::Message as LastMessage;
use escapement_wire::worker::v1::worker_service_server::WorkerService;
use prost::Message as _;
use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{sleep, timeout};
use tonic::{Request, Response, Status, Streaming};
use tracing::{debug, info};

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
        let (metadata, extensions, request) = request.into_parts();
        let caller = self.edge.caller(&extensions, &metadata).await?;
        let answer = reports::report_outcomes(&self.edge, request, &caller).await?;
        Ok(Response::new(answer))
    }

    /// Answers at once, because a client's call resolves only then; the handshake comes on the stream.
    async fn session(
        &self,
        request: Request<Streaming<v1::SessionRequest>>,
    ) -> Result<Response<SessionStream>, Status> {
        let tenant = CallTenant::of(request.extensions());
        let silence = self.edge.silent_sessions.take(&tenant, 1);
        let silence = silence.map_err(|why| Refusal::for_want(why, CallClass::Sessions))?;
        let abort = request.extensions().get::<ConnectionAbort>().cloned();
        let credentials_end = request.extensions().get::<CredentialsEnd>().cloned();
        let principal = Arc::clone(Caller::of(request.extensions()).principal());
        let owner = tenant.unwrap_or_default();
        let refused_actions = Arc::new(OnceLock::new());
        let (outbound, queue) = mpsc::channel(SESSION_QUEUE_MAX);
        let (end, end_rx) = oneshot::channel();
        let (alive, stream_gone) = oneshot::channel();
        let reader = SessionReader {
            inbound: request.into_inner(),
            engine: self.edge.engine.clone(),
            places: self.edge.places.clone(),
            roots: self.edge.roots.clone(),
            rights: SessionRights::new(principal),
            owner,
            credentials_end,
            refused_actions: Arc::clone(&refused_actions),
            stream_gone,
            abort,
            end: Some(end),
            is_gone: false,
        };
        tokio::spawn(reader.run(outbound, silence));
        Ok(Response::new(SessionStream::new(
            queue,
            self.edge.greeting.clone(),
            refused_actions,
            end_rx,
            alive,
        )))
    }
}

/// The reading side of one session.
struct SessionReader {
    inbound: Streaming<v1::SessionRequest>,
    engine: EngineHandle,
    places: WorkerPlaces,
    roots: WorkerRoots,
    rights: SessionRights,
    /// Owner of its registrations.
    owner: Arc<str>,
    /// `None` if nobody judges who they are.
    credentials_end: Option<CredentialsEnd>,
    /// What the hello offered and the principal may not.
    refused_actions: RefusedActions,
    /// Resolves when the response stream is gone.
    stream_gone: oneshot::Receiver<Infallible>,
    abort: Option<ConnectionAbort>,
    end: Option<oneshot::Sender<Status>>,
    /// True once `stream_gone` has resolved; it must not be asked again.
    is_gone: bool,
}

/// An open session, as its reader knows it.
struct OpenSession {
    key: SessionKey,
    /// Weak, so that the stream ends when the engine lets go of it.
    outbound: mpsc::WeakSender<Outbound>,
    /// Resolves when the engine has let go, and says why.
    engine_closed: oneshot::Receiver<&'static str>,
    /// What the engine has not handled; its queue is shared by all sessions.
    unhandled: Arc<Semaphore>,
}

impl SessionReader {
    async fn run(mut self, outbound: mpsc::Sender<Outbound>, silence: SharePart) {
        let Some(mut first) = self.first(&outbound).await else {
            return self.close(outbound).await;
        };
        drop(silence);
        let place = match self.begin(&mut first) {
            Ok(place) => place,
            Err(denial) => {
                send_last(&outbound, session_out::denied(&denial));
                return self.close(outbound).await;
            }
        };
        let (closed, engine_closed) = oneshot::channel();
        let weak = outbound.downgrade();
        let link = SessionLink::new(outbound, closed);
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
            unhandled: Arc::new(Semaphore::new(SESSION_UNHANDLED_UNITS_MAX as usize)),
        };
        let name = WorkerName::of(&first);
        let _root = self.roots.begin(session_in::root_of(&first), &name.worker_id);
        name.log_begin(key, self.rights.principal());
        let reason = self.read_loop(first, &mut session).await;
        name.log_end(key, reason);
        // The engine's thread may have ended.
        let _ended = self.engine.tell(Lane::Workers, Input::SessionClosed(key)).await;
        // Any other worker may come back, and keeps its place for a while.
        if let Some(place) = place.filter(|_| reason == GOODBYE) {
            place.give_up();
        }
        self.drain_then_abort().await;
    }

    /// Holds a hello against the rights of its principal, before the engine hears of it.
    fn begin(&mut self, first: &mut v1::SessionRequest) -> Result<Option<WorkerPlace>, Denial> {
        let refused = self.rights.restrict(first)?;
        self.refused_actions.set(refused).expect("a session begins once");
        let instance_id = match &first.message {
            Some(Message::Hello(hello)) => InstanceId::from_slice(&hello.instance_id),
            _ => None,
        };
        let begin = |instance_id| self.places.begin(instance_id, self.rights.principal());
        // Without one the engine refuses the session.
        instance_id.map(begin).transpose()
    }

    /// Returns the first message, within the time for it.
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
                send_last(
                    outbound,
                    no_protocol(format!("no Hello within {HELLO_TIMEOUT_MS} ms")),
                );
                None
            }
        }
    }

    /// Passes messages on until either side ends the stream; says why it ended.
    async fn read_loop(&mut self, first: v1::SessionRequest, session: &mut OpenSession) -> &'static str {
        let mut next = Some(first);
        let mut said_goodbye = false;
        while let Some(request) = next {
            said_goodbye |= matches!(request.message, Some(Message::Goodbye(_)));
            if let Err(reason) = self.forward(request, session).await {
                return reason;
            }
            // Biased: an end comes before another message, and the engine's before that of the stream, which follows it.
            let read = loop {
                tokio::select! {
                    biased;
                    reason = &mut session.engine_closed => return reason.unwrap_or(ORCHESTRATOR_STOPS),
                    _ = &mut self.stream_gone => {
                        self.is_gone = true;
                        return if said_goodbye { GOODBYE } else { "connection lost" };
                    }
                    judged = judged_again(&mut self.credentials_end) => {
                        let judged = judged.and_then(|principal| self.rights.judge_again(principal));
                        if let Err(denial) = judged {
                            if let Some(outbound) = session.outbound.upgrade() {
                                send_last(&outbound, session_out::taken_away(&denial));
                            }
                            return denial.reason();
                        }
                    }
                    read = self.inbound.message() => break read,
                }
            };
            next = match read {
                Ok(next) => next,
                Err(status) => {
                    // What follows a message that does not decode cannot be trusted.
                    debug!(session = session.key.0, %status, "session stream broken");
                    self.end_with(status);
                    return "stream broken";
                }
            };
        }
        if said_goodbye { GOODBYE } else { "stream ended" }
    }

    /// Hands one message to the engine.
    ///
    /// # Errors
    /// Why the session must end.
    async fn forward(
        &mut self,
        mut request: v1::SessionRequest,
        session: &OpenSession,
    ) -> Result<(), &'static str> {
        // A hello was held against them already, and the same again changes nothing.
        if let Err(denial) = self.rights.restrict(&mut request) {
            if let Some(outbound) = session.outbound.upgrade() {
                send_last(&outbound, session_out::denied(&denial));
            }
            return Err(denial.reason());
        }
        let seq = request.seq;
        let n_units = queue_units(&request);
        let mut incoming = match session_in::incoming(request) {
            Ok(incoming) => incoming,
            Err(WrongStructure(why)) => {
                if let Some(outbound) = session.outbound.upgrade() {
                    send_last(&outbound, no_protocol(why.to_owned()));
                }
                return Err(session_error_code(SessionErrorCode::ProtocolViolation).as_str_name());
            }
        };
        if incoming.dropped_items > 0 {
            debug!(
                session = session.key.0,
                dropped_items = incoming.dropped_items,
                "items without a token dropped"
            );
        }
        if let FromWorker::Hello(hello) = &mut incoming.message {
            hello.owner = Arc::clone(&self.owner);
        }
        let said = Input::SessionMessage {
            session: session.key,
            seq,
            message: incoming.message,
        };
        // Only now: what waits is what was read, which is smaller than the message can be.
        let room = session.room(n_units).await;
        let passed_on = self.engine.forward(said, room).await;
        passed_on.map_err(|EngineGone| ORCHESTRATOR_STOPS)
    }

    async fn close(self, outbound: mpsc::Sender<Outbound>) {
        drop(outbound);
        self.drain_then_abort().await;
    }

    /// Gives the worker time to take what was sent, reading on so that its own writes do not get stuck;
    /// then cuts the connection of one that does not.
    async fn drain_then_abort(mut self) {
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
        if let Some(abort) = self.abort {
            debug!("worker does not read; its connection was cut");
            abort.abort();
        }
    }

    fn end_with(&mut self, status: Status) {
        if let Some(end) = self.end.take() {
            // The stream may be gone already.
            let _gone = end.send(status);
        }
    }
}

impl OpenSession {
    /// Waits until the engine has handled enough of what this session said before.
    async fn room(&self, n_units: u32) -> OwnedSemaphorePermit {
        Arc::clone(&self.unhandled)
            .acquire_many_owned(n_units)
            .await
            .expect("nobody closes it")
    }
}

/// What a message takes of its session's part of the engine's queue; never more than there is.
fn queue_units(request: &v1::SessionRequest) -> u32 {
    let n_more = request.encoded_len() / SESSION_UNHANDLED_UNIT_BYTES;
    u32::try_from(n_more).map_or(SESSION_UNHANDLED_UNITS_MAX, |n_more| {
        SESSION_UNHANDLED_UNITS_MAX.min(n_more.saturating_add(1))
    })
}

/// Who a session says it is, for the log.
struct WorkerName {
    worker_id: String,
    instance_id: String,
}

impl WorkerName {
    /// Empty for a session that does not begin with a hello.
    fn of(first: &v1::SessionRequest) -> Self {
        let (worker_id, instance_id) = match &first.message {
            Some(Message::Hello(hello)) => (hello.worker_id.as_str(), hello.instance_id.as_ref()),
            _ => Default::default(),
        };
        Self {
            // Not checked yet: a log line must not grow with what a worker says.
            worker_id: worker_id.chars().take(LABEL_CHARS_MAX).collect(),
            instance_id: InstanceId::from_slice(instance_id).map_or_else(String::new, |id| id.to_hex()),
        }
    }

    fn log_begin(&self, key: SessionKey, principal: &Principal) {
        let Self {
            worker_id,
            instance_id,
        } = self;
        let principal = &*principal.name;
        info!(
            session = key.0,
            worker_id, instance_id, principal, "worker session begins"
        );
    }

    fn log_end(&self, key: SessionKey, reason: &str) {
        let Self {
            worker_id,
            instance_id,
        } = self;
        info!(
            session = key.0,
            worker_id, instance_id, reason, "worker session ended"
        );
    }
}

/// Says why the session ends. Where even that does not fit into the queue, the end itself must do.
fn send_last(outbound: &mpsc::Sender<Outbound>, last: LastMessage) {
    let _full = outbound.try_send(Outbound::Last(last));
}

fn no_protocol(detail: String) -> LastMessage {
    session_out::error(SessionErrorCode::ProtocolViolation, detail)
}

/// Returns whose the session is, each time that the rules are replaced; never if no rules judge it.
///
/// # Errors
/// As [`CredentialsEnd::judged_again`].
async fn judged_again(end: &mut Option<CredentialsEnd>) -> Result<Arc<Principal>, Denial> {
    match end {
        Some(end) => end.judged_again().await,
        None => std::future::pending().await,
    }
}

/// Reason why a session ended that the engine did not end.
const ORCHESTRATOR_STOPS: &str = "orchestrator stops";
/// Reason why a session ended whose worker has left.
const GOODBYE: &str = "goodbye";

#[cfg(test)]
mod tests;
