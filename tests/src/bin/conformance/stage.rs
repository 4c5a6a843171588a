//! The port that a worker dials: serves streams, or does to connections what the check says.
//! Decides nothing about what is said on a stream.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use escapement_tests::{Fault, wait_for};
use h2::server::SendResponse;
use hyper::{Request, Response};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;

use crate::session::Session;
use crate::wire::Wire;

/// What becomes of a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Welcoming {
    /// HTTP/2 with the session service.
    Serve,
    /// The same, every byte written alone.
    ServeByteByByte,
    /// Closed before a byte was read.
    CloseAtOnce,
    /// Held open; nothing is read or written.
    SaysNothing,
    /// HTTP/2, and every call is answered by HTTP status 503.
    NoService,
    /// HTTP/2, and every call is answered by a gRPC status and nothing else.
    GrpcStatus(u16),
}

/// A port of loopback.
#[derive(Debug)]
pub(crate) struct Stage {
    address: SocketAddr,
    shared: Arc<Shared>,
    incoming: mpsc::Receiver<Session>,
    accepting: Option<AbortHandle>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    found: mpsc::Sender<Session>,
}

#[derive(Debug)]
struct State {
    welcoming: Welcoming,
    resets: bool,
    connects: Vec<Instant>,
    connections: Vec<AbortHandle>,
    sessions: Vec<Session>,
    n_refused: usize,
}

impl Stage {
    /// Listens on a free port and serves.
    pub(crate) async fn open() -> Result<Self, Fault> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (found, incoming) = mpsc::channel(SESSIONS_MAX);
        let state = Mutex::new(State {
            welcoming: Welcoming::Serve,
            resets: false,
            connects: Vec::new(),
            connections: Vec::new(),
            sessions: Vec::new(),
            n_refused: 0,
        });
        let shared = Arc::new(Shared { state, found });
        let accepting = Some(tokio::spawn(accept(listener, Arc::clone(&shared))).abort_handle());
        Ok(Self {
            address,
            shared,
            incoming,
            accepting,
        })
    }

    /// What a worker dials.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on new connections are treated so.
    pub(crate) fn welcome_by(&self, welcoming: Welcoming) {
        self.shared.with(|state| state.welcoming = welcoming);
    }

    /// From now on new connections end by RST where they are cut.
    pub(crate) fn reset_when_cut(&self) {
        self.shared.with(|state| state.resets = true);
    }

    /// Returns the time at which each connection came.
    pub(crate) fn connects(&self) -> Vec<Instant> {
        self.shared.with(|state| state.connects.clone())
    }

    /// Returns every stream so far.
    pub(crate) fn sessions(&self) -> Vec<Session> {
        self.shared.with(|state| state.sessions.clone())
    }

    /// Asks whether `Session` was called so far.
    pub(crate) fn was_called(&self) -> impl Fn() -> bool + Send + 'static {
        let shared = Arc::clone(&self.shared);
        move || shared.with(|state| !state.sessions.is_empty())
    }

    /// How many calls got no stream.
    pub(crate) fn n_refused(&self) -> usize {
        self.shared.with(|state| state.n_refused)
    }

    /// Ends every connection.
    pub(crate) fn cut_all(&self) {
        for connection in self.shared.with(|state| std::mem::take(&mut state.connections)) {
            connection.abort();
        }
    }

    /// Stops listening and ends every connection: a dial is refused.
    pub(crate) fn close_port(&mut self) {
        if let Some(accepting) = self.accepting.take() {
            accepting.abort();
        }
        self.cut_all();
    }

    /// Listens on the same port again.
    pub(crate) async fn open_port(&mut self) -> Result<(), Fault> {
        let what = format!("the port {} to be free again", self.address);
        let listener = wait_for(&what, Duration::from_secs(5), async || {
            TcpListener::bind(self.address).await.ok()
        });
        let accepting = tokio::spawn(accept(listener.await?, Arc::clone(&self.shared)));
        self.accepting = Some(accepting.abort_handle());
        Ok(())
    }

    /// Returns the next stream.
    ///
    /// # Errors
    /// None came within the limit.
    pub(crate) async fn stream(&mut self, limit: Duration) -> Result<Session, Fault> {
        match tokio::time::timeout(limit, self.incoming.recv()).await {
            Ok(session) => Ok(session.expect("the stage holds a sender itself")),
            Err(_) => Err(format!("expected a call of `Session` within {limit:?}, none came").into()),
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.close_port();
    }
}

impl Shared {
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().expect("nobody panics while holding it"))
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let (welcoming, resets) = shared.with(|state| {
            state.connects.push(Instant::now());
            (state.welcoming, state.resets)
        });
        if resets {
            let _ = stream.set_zero_linger();
        }
        if welcoming == Welcoming::CloseAtOnce {
            continue;
        }
        let connection = serve(stream, welcoming, Arc::clone(&shared));
        shared.with(|state| state.connections.push(connection.abort_handle()));
    }
}

fn serve(stream: TcpStream, welcoming: Welcoming, shared: Arc<Shared>) -> JoinHandle<()> {
    let (own_tx, own_rx) = tokio::sync::oneshot::channel::<AbortHandle>();
    let connection = tokio::spawn(async move {
        let Ok(own) = own_rx.await else { return };
        let wire = match welcoming {
            Welcoming::SaysNothing => return hold(stream).await,
            Welcoming::ServeByteByByte => Wire::split(stream),
            _ => Wire::whole(stream),
        };
        let mut builder = h2::server::Builder::new();
        builder
            .initial_connection_window_size(WINDOW_BYTES)
            .initial_window_size(WINDOW_BYTES);
        let Ok(mut connection) = builder.handshake::<_, Bytes>(wire).await else {
            return;
        };
        while let Some(Ok((request, respond))) = connection.accept().await {
            if matches!(welcoming, Welcoming::NoService | Welcoming::GrpcStatus(_)) {
                shared.with(|state| state.n_refused += 1);
            }
            match welcoming {
                Welcoming::NoService => refuse(respond, 503, None),
                Welcoming::GrpcStatus(status) => refuse(respond, 200, Some(status)),
                _ => call(request, respond, own.clone(), &shared).await,
            }
        }
    });
    // The receiver waits for it, so it is there.
    let _ = own_tx.send(connection.abort_handle());
    connection
}

async fn hold(stream: TcpStream) {
    std::future::pending::<()>().await;
    drop(stream);
}

async fn call(
    request: Request<h2::RecvStream>,
    mut respond: SendResponse<Bytes>,
    connection: AbortHandle,
    shared: &Shared,
) {
    if request.uri().path() != SESSION {
        return refuse(respond, 200, Some(UNIMPLEMENTED));
    }
    let authorization = request.headers().get("authorization");
    let authorization = authorization.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let response = Response::builder()
        .header("content-type", "application/grpc")
        .body(());
    let response = response.expect("the header is well-formed");
    let Ok(outbound) = respond.send_response(response, false) else {
        return;
    };
    let session = Session::start(authorization, request.into_body(), outbound, connection);
    shared.with(|state| state.sessions.push(session.clone()));
    // More than fit are not looked at by any check, but stand in the list.
    let _ = shared.found.try_send(session);
}

fn refuse(mut respond: SendResponse<Bytes>, http_status: u16, grpc_status: Option<u16>) {
    let mut response = Response::builder().status(http_status);
    if let Some(status) = grpc_status {
        response = response
            .header("content-type", "application/grpc")
            .header("grpc-status", status);
    }
    let response = response.body(()).expect("the headers are well-formed");
    let _ = respond.send_response(response, true);
}

const SESSION: &str = "/escapement.worker.v1.WorkerService/Session";
const UNIMPLEMENTED: u16 = 12;
/// As the protocol's page asks of a server.
const WINDOW_BYTES: u32 = 8 << 20;
const SESSIONS_MAX: usize = 4096;
