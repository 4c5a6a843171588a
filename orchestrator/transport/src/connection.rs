//! A connection: HTTP/2 with our own limits on silence, idleness and a slow end.

mod serving;
mod usage;

use self::serving::answered_by;
use self::usage::{OpenRequest, Usage};
use crate::call_access::{AccessRules, Ending};
use crate::call_class::{CallClass, class_of, message_bytes_max};
use crate::call_limits::Gate;
use crate::call_slots::PendingUpload;
use crate::credentials_end::{CallScopes, CredentialsEnd};
use crate::fair_stream::FairStream;
use crate::guarded::Guarded;
use crate::limits::{
    CONNECTION_CLOSE_TIMEOUT, CONNECTION_IDLE_MAX, CONNECTION_WINDOW_BYTES, HEADER_LIST_BYTES_MAX,
    KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT, STRANGER_IDLE_MAX, STREAM_WINDOW_BYTES,
    STREAMS_PER_CONNECTION_MAX,
};
use crate::newcomers::{Newcomers, Place};
use crate::peer::Peer;
use crate::refusal::of_denial;
use crate::refused_body::throw_away;
use crate::request_body::{BodyBudget, RequestBody};
use crate::response_budget::{ResponsePermit, TakeDeadline};
use crate::share::CallTenant;
use crate::tally::{Carrier, FollowedCall, Happened, Tally};
use crate::tls::{Failed, Lease};
use bytes::Bytes;
use escapement_access::{Denial, Principal, PrincipalKind};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::ready;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::service::Routes;
use tracing::{debug, info};

/// The threads on which calls of callers are served. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CallerThreads {
    /// For all requests that are not large.
    pub small: Handle,
    /// For requests so large that reading and validating one takes a while; only others of them wait for that.
    pub large: Handle,
}

/// A connection that was let in, before it speaks HTTP/2.
#[derive(Debug)]
pub(crate) struct Accepted<S> {
    pub(crate) stream: S,
    pub(crate) peer: Peer,
    pub(crate) carrier: Carrier,
    /// Lease of the trust in its certificate.
    pub(crate) lease: Option<Lease>,
    /// Time at which it must have said that it speaks HTTP/2.
    pub(crate) deadline: Instant,
    /// Until it has said so.
    pub(crate) place: Place,
    /// Slots for unauthenticated connections, of which it holds one until its first authorized call.
    pub(crate) strangers: Newcomers,
}

/// Serves one connection until it ends. When `closing` turns true it gets a short time to finish. Returns the reason if it was closed
/// before HTTP/2.
pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    accepted: Accepted<S>,
    rules: &AccessRules,
    routes: Routes,
    gate: Gate,
    callers: CallerThreads,
    tally: Tally,
    closing: watch::Receiver<bool>,
) -> Option<Failed> {
    let _followed = tally.connection(accepted.carrier);
    let usage = Arc::new(Usage::new(rules.of_connection(accepted.peer)));
    let service = ConnectionService {
        routes,
        gate,
        callers,
        tally: tally.clone(),
        usage: Arc::clone(&usage),
    };
    let stream = FairStream::new(accepted.stream);
    let beginning = Arc::clone(&usage.beginning);
    let stream = Guarded::new(stream, accepted.deadline, accepted.place, beginning);
    let connection = settings().serve_connection(TokioIo::new(stream), service);
    let displaced = async {
        usage.displaced(&accepted.strangers).await;
        tally.tell(Happened::ConnectionRefused("displaced"));
    };
    drive(connection, &usage, accepted.lease, displaced, closing).await;
    usage.beginning.failed()
}

fn settings() -> http2::Builder<TokioExecutor> {
    let mut settings = http2::Builder::new(TokioExecutor::new());
    settings
        .timer(TokioTimer::new())
        .adaptive_window(false)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
        .max_header_list_size(HEADER_LIST_BYTES_MAX)
        .keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT);
    settings
}

type Connection<S> = http2::Connection<TokioIo<Guarded<FairStream<S>>>, ConnectionService, TokioExecutor>;

async fn drive<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    connection: Connection<S>,
    usage: &Usage,
    lease: Option<Lease>,
    displaced: impl Future<Output = ()>,
    mut closing: watch::Receiver<bool>,
) {
    let mut connection = pin!(connection);
    let mut displaced = pin!(displaced);
    let mut distrusted = pin!(distrusted(lease));
    let mut lost = pin!(usage.access.lost());
    let mut is_closing = false;
    let mut requests_seen = 0;
    let mut due = Instant::now() + STRANGER_IDLE_MAX;
    loop {
        // Biased: progress of the connection comes first, because its end makes all else void.
        let told_to_go = tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    debug!(%error, "connection ended");
                }
                return;
            }
            () = usage.abort.aborted() => return,
            _ = closing.wait_for(|closing| *closing), if !is_closing => {
                // Who has not spoken has nothing to finish.
                if !usage.beginning.has_begun() {
                    return;
                }
                true
            }
            why = lost.as_mut(), if !is_closing => {
                info!(why, "connection told to go");
                usage.access.end(Ending::OfLost);
                true
            }
            why = distrusted.as_mut(), if !is_closing => {
                info!(why, "connection told to go: its client certificate is not trusted any more");
                usage.access.end(Ending::OfAll);
                true
            }
            () = displaced.as_mut(), if !is_closing => {
                if !usage.is_busy() {
                    return;
                }
                true
            }
            () = sleep_until(due) => {
                if is_closing {
                    debug!("connection did not end in time and was cut");
                    return;
                }
                let requests = usage.n_requests();
                let is_idle = requests == requests_seen && !usage.is_busy();
                requests_seen = requests;
                is_idle
            }
        };
        if told_to_go {
            is_closing = true;
            connection.as_mut().graceful_shutdown();
        }
        due = Instant::now()
            + match (is_closing, usage.is_known()) {
                (true, _) => CONNECTION_CLOSE_TIMEOUT,
                (false, true) => CONNECTION_IDLE_MAX,
                (false, false) => STRANGER_IDLE_MAX,
            };
    }
}

/// Resolves when the trust in the client's certificate is lost; never without one.
async fn distrusted(lease: Option<Lease>) -> String {
    match lease {
        Some(lease) => lease.lost().await,
        None => std::future::pending().await,
    }
}

/// The services of one connection, counting its open requests.
struct ConnectionService {
    routes: Routes,
    gate: Gate,
    callers: CallerThreads,
    tally: Tally,
    usage: Arc<Usage>,
}

impl hyper::service::Service<hyper::Request<Incoming>> for ConnectionService {
    type Response = hyper::Response<CountedBody>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, mut request: hyper::Request<Incoming>) -> Self::Future {
        let class = class_of(request.uri().path());
        let mut followed = self.tally.call(request.uri().path(), class);
        // First of all: a call that is not permitted uses no resource of the process.
        let principal = match self.usage.access.judge(&mut request, &self.usage.abort) {
            Ok(principal) => principal,
            Err(denial) => return turned_away(request, denied(&denial, followed)),
        };
        let tenant = self.usage.access.tenant_of(&principal, class);
        // An unauthenticated caller must not hold an answer in transit without a limit.
        let is_bounded = class == CallClass::Health && principal.has_proven_nothing();
        let entered = match tenant.as_deref().filter(|_| is_bounded) {
            Some(connection) => self.gate.enter_stranger(class, connection),
            None => self.gate.enter(class, tenant.clone()),
        };
        let (place, incomplete) = match entered {
            Ok(let_in) => let_in,
            // The request is dropped as a whole.
            Err(rejection) => return turned_away(request, refused(rejection.into(), followed)),
        };
        followed.iter_mut().for_each(FollowedCall::let_in);
        let end = self.end_of(class, &principal, &mut request);
        let abort = self.usage.abort.clone();
        request.extensions_mut().insert(abort.clone());
        request.extensions_mut().insert(CallTenant(tenant.clone()));
        let open = OpenRequest::new(&self.usage, place, &principal);
        // Routes are always ready: `poll_ready` of the router says so at once.
        let bytes = self.gate.bytes_of(class, tenant.clone());
        let request = request.map(|body| within(bytes, body, class, incomplete));
        let mut routes = self.routes.clone();
        let callers = class.row().is_of_callers.then(|| self.callers.clone());
        let answered = async move {
            Ok::<_, Infallible>(match callers {
                None => routes.call(request).await?,
                Some(callers) => answered_by(callers, class, routes, request).await?,
            })
        };
        Box::pin(async move {
            let mut end = end;
            let mut answer = match end.as_mut().filter(|_| class.waits()) {
                None => answered.await?,
                // Biased: an answer that is there is given.
                Some(end) => tokio::select! {
                    biased;
                    answer = answered => answer?,
                    denial = end => return Ok(refused(of_denial(&denial), followed)),
                },
            };
            let end = end.filter(|_| class.streams());
            followed.iter_mut().for_each(|call| call.read(answer.headers()));
            let mut room = answer.extensions_mut().remove::<ResponsePermit>();
            let counted = room.as_mut().map_or(Ok(()), |room| room.make_of(&tenant, class));
            if let Err(refusal) = counted {
                return Ok(refused(refusal.into(), followed));
            }
            let room = match is_bounded {
                true => Some(room.unwrap_or_default().until_taken_by_stranger(abort)),
                false => room.map(|room| room.until_taken(Some(abort))),
            };
            Ok(answer.map(|body| CountedBody {
                body,
                rest: Bytes::new(),
                end,
                followed,
                _open: Some(open),
                _room: room,
            }))
        })
    }
}

/// Counts the bytes of a body that has a limit, and ends the wait for it.
fn within(
    bytes: Option<BodyBudget>,
    body: Incoming,
    class: CallClass,
    incomplete: Option<PendingUpload>,
) -> RequestBody<Incoming> {
    let Some(bytes) = bytes else {
        return RequestBody::unlimited(body);
    };
    let place = incomplete.map(|incomplete| (incomplete, class));
    RequestBody::limited(body, message_bytes_max(class), bytes, place)
}

impl ConnectionService {
    /// Returns the end of a call that may stay open, if its caller loses the rights for it. A session checks that itself.
    fn end_of<B>(
        &self,
        class: CallClass,
        principal: &Arc<Principal>,
        request: &mut hyper::Request<B>,
    ) -> Option<End> {
        let access = &self.usage.access;
        if principal.kind == PrincipalKind::Anonymous && !access.has_policy() {
            return None;
        }
        let end = CredentialsEnd::new(access, principal, request.uri().path());
        if class == CallClass::Sessions {
            request.extensions_mut().insert(end);
            return None;
        }
        (class.waits() || class.streams()).then(|| {
            let scopes = CallScopes::default();
            request.extensions_mut().insert(scopes.clone());
            Box::pin(end.taken_away(scopes)) as End
        })
    }
}

/// The answer to a call, while it is made.
type Answering = Pin<Box<dyn Future<Output = Result<hyper::Response<CountedBody>, Infallible>> + Send>>;

/// Gives an answer to a request of which nothing was read.
fn turned_away(request: hyper::Request<Incoming>, answer: hyper::Response<CountedBody>) -> Answering {
    throw_away(request.into_body());
    Box::pin(ready(Ok(answer)))
}

/// Returns the answer to a call that is not permitted, and counts it.
fn denied(denial: &Denial, followed: Option<FollowedCall>) -> hyper::Response<CountedBody> {
    followed.iter().for_each(|call| call.denied(denial));
    refused(of_denial(denial), followed)
}

fn refused(status: Status, mut followed: Option<FollowedCall>) -> hyper::Response<CountedBody> {
    let answer = status.into_http::<Body>();
    followed.iter_mut().for_each(|call| call.read(answer.headers()));
    answer.map(|body| CountedBody {
        body,
        rest: Bytes::new(),
        end: None,
        followed,
        _open: None,
        _room: None,
    })
}

/// A response body that keeps its request counted.
struct CountedBody {
    body: Body,
    /// Rest of the last frame, not passed on yet.
    rest: Bytes,
    /// Says why a stream ends whose caller has lost what it needs; `None` for any other answer.
    end: Option<End>,
    /// `None` if calls are not counted.
    followed: Option<FollowedCall>,
    /// `None` for a request that was not let in.
    _open: Option<OpenRequest>,
    /// For a large answer, and one to an unauthenticated caller.
    _room: Option<TakeDeadline>,
}

type End = Pin<Box<dyn Future<Output = Denial> + Send>>;

impl http_body::Body for CountedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(end) = &mut self.end
            && let Poll::Ready(denial) = end.as_mut().poll(cx)
        {
            self.end = None;
            // The rest of the answer is no longer for this caller.
            (self.body, self.rest) = (Body::empty(), Bytes::new());
            let mut trailers = HeaderMap::new();
            of_denial(&denial).add_header(&mut trailers)?;
            self.followed.iter_mut().for_each(|call| call.read(&trailers));
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        if self.rest.is_empty() {
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(frame) => {
                        if let (Some(call), Some(trailers)) = (&mut self.followed, frame.trailers_ref()) {
                            call.read(trailers);
                        }
                        return Poll::Ready(Some(Ok(frame)));
                    }
                },
                other => return other,
            }
        }
        // HTTP/2 takes a whole frame as soon as there is a window for one byte of it, and the answer would count as taken.
        let length = self.rest.len().min(FRAME_BYTES_MAX);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        // What a streamed answer has left is not known; nothing depends on it.
        SizeHint::default()
    }
}

/// Bytes of an answer in one piece.
const FRAME_BYTES_MAX: usize = 16 << 10;

#[cfg(test)]
mod tests;
