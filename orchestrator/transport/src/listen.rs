//! The accept loop: one task for each connection, up to a limit, and what happens until it speaks HTTP/2.
//! Knows neither HTTP nor services.

use crate::call_access::AccessRules;
use crate::call_limits::Gate;
use crate::connection::{self, Accepted, CallerThreads};
use crate::limits::{
    ACCEPT_CALM, ACCEPT_PAUSE, BEGINNING_CONNECTIONS_MAX, CONNECTION_CLOSE_TIMEOUT, NEWCOMERS_MIN,
    PREFACE_TIMEOUT, SILENT_CONNECTIONS_MAX, STRANGERS_MAX,
};
use crate::newcomers::{Newcomers, Place};
use crate::peer::Peer;
use crate::tally::{Carrier, Happened, Tally};
use crate::tls::{Failed, Failures, Handshakes, TlsServer};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::server::TlsStream;
use tonic::service::Routes;
use tracing::{debug, info, warn};

/// The open connections.
#[derive(Debug)]
pub struct Connections {
    permits: Arc<Semaphore>,
    max: u32,
    /// Silent connections.
    silent: Newcomers,
    /// Connections that have sent data, but not the HTTP/2 preface.
    beginning: Newcomers,
    /// Connections without an authorized call.
    strangers: Newcomers,
    /// Shared by all of them.
    gate: Gate,
    callers: CallerThreads,
    /// `None`: nothing is encrypted.
    handshakes: Option<Handshakes>,
    failures: Arc<Failures>,
    rules: AccessRules,
    tally: Tally,
}

impl Connections {
    /// Creates the listener for `max` connections, whose callers are authorized by the rules. With `tls` each begins with a handshake by
    /// the current files; without, no connection is encrypted. `tally` counts all of them and their calls.
    pub fn new(
        max: u32,
        callers: CallerThreads,
        tls: Option<watch::Receiver<Arc<TlsServer>>>,
        rules: AccessRules,
        tally: Tally,
    ) -> Self {
        // Each kind of unauthenticated connections has a quarter of the maximum.
        let newcomers = |n_max: usize| Newcomers::new(n_max.min((max as usize / 4).max(NEWCOMERS_MIN)));
        Self {
            permits: Arc::new(Semaphore::new(max as usize)),
            max,
            silent: newcomers(SILENT_CONNECTIONS_MAX),
            beginning: newcomers(BEGINNING_CONNECTIONS_MAX),
            strangers: newcomers(STRANGERS_MAX),
            gate: Gate::new(),
            callers,
            handshakes: tls.map(Handshakes::new),
            failures: Arc::default(),
            rules,
            tally,
        }
    }

    /// Waits until all have ended, for twice the time that one has for it at most; returns true if they have.
    pub async fn ended(&self) -> bool {
        timeout(2 * CONNECTION_CLOSE_TIMEOUT, self.permits.acquire_many(self.max))
            .await
            .is_ok()
    }

    /// Accepts until `closing` turns true.
    pub async fn accept(&self, listener: TcpListener, routes: Routes, mut closing: watch::Receiver<bool>) {
        let mut failing: Option<Failing> = None;
        loop {
            // Biased: once it closes, no other connection is let in.
            let accepted = tokio::select! {
                biased;
                _ = closing.wait_for(|closing| *closing) => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, address)) => {
                    failing = failing.and_then(Failing::accepted);
                    self.start(stream, address, routes.clone(), closing.clone());
                    self.room_is_made().await;
                }
                Err(error) => {
                    failing = Some(Failing::failed(failing, &error));
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Waits for connections that this or another one has evicted. Otherwise a flood would be accepted faster than
    /// its connections are closed, and the maximum would be exceeded.
    async fn room_is_made(&self) {
        let are_gone = async {
            self.silent.are_gone().await;
            self.beginning.are_gone().await;
        };
        // Each is gone the next time that it is looked at; a connection that is held up must not keep others out.
        let _others_come_in_all_the_same = timeout(ACCEPT_PAUSE, are_gone).await;
    }

    fn start(&self, stream: TcpStream, address: SocketAddr, routes: Routes, closing: watch::Receiver<bool>) {
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            self.tally.tell(Happened::ConnectionRefused("too_many"));
            debug!("too many connections; one closed");
            return;
        };
        if let Err(error) = stream.set_nodelay(true) {
            self.tally.tell(Happened::ConnectionRefused("broken"));
            debug!(%error, "connection closed before it began");
            return;
        }
        let rules = self.rules.clone();
        let (gate, callers) = (self.gate.of_connection(), self.callers.clone());
        let silent = self.silent.enter();
        let opening = Opening {
            deadline: Instant::now() + PREFACE_TIMEOUT,
            beginning: self.beginning.clone(),
            strangers: self.strangers.clone(),
            handshakes: self.handshakes.clone(),
            tally: self.tally.clone(),
        };
        let tally = self.tally.clone();
        let failures = Arc::clone(&self.failures);
        tokio::spawn(async move {
            let _permit = permit;
            let opened = opening.open(stream, address, silent, closing.clone()).await;
            let counting = tally.clone();
            let failed = match opened {
                Ok(Opened::Plaintext(accepted)) => {
                    connection::serve(accepted, &rules, routes, gate, callers, tally, closing).await
                }
                Ok(Opened::Secured(accepted)) => {
                    connection::serve(*accepted, &rules, routes, gate, callers, tally, closing).await
                }
                Ok(Opened::Gone) => return debug!("connection without a word ended"),
                Err((why, detail)) => {
                    failures.count(why, &detail, Instant::now());
                    debug!(?why, detail, %address, "connection closed before it spoke HTTP/2");
                    return counting.tell(Happened::HandshakeFailed(why.as_str()));
                }
            };
            if let Some(why) = failed {
                failures.count(why, "", Instant::now());
                debug!(?why, %address, "connection closed before it spoke HTTP/2");
                counting.tell(Happened::HandshakeFailed(why.as_str()));
            }
        });
    }
}

/// Opening of a connection up to HTTP/2.
#[derive(Debug)]
struct Opening {
    deadline: Instant,
    beginning: Newcomers,
    strangers: Newcomers,
    handshakes: Option<Handshakes>,
    tally: Tally,
}

/// Result of an opening.
#[derive(Debug)]
enum Opened {
    Plaintext(Accepted<TcpStream>),
    Secured(Box<Accepted<TlsStream<TcpStream>>>),
    /// The connection ended without data, or had none before the process ended.
    Gone,
}

impl Opening {
    async fn open(
        self,
        stream: TcpStream,
        address: SocketAddr,
        mut silent: Place,
        mut closing: watch::Receiver<bool>,
    ) -> Result<Opened, (Failed, String)> {
        let failed = |why| Err((why, String::new()));
        // Biased: a speaking client is served, and drained in the proper way.
        let first = tokio::select! {
            biased;
            first = first_byte(&stream) => first,
            _ = closing.wait_for(|closing| *closing) => None,
            () = sleep_until(self.deadline) => return failed(Failed::TooSlow),
            () = silent.lost() => return failed(Failed::TooMany),
        };
        let Some(first) = first else {
            return Ok(Opened::Gone);
        };
        drop(silent);
        let mut place = self.beginning.enter();
        let deadline = self.deadline;
        match (self.handshakes, first == TLS_HANDSHAKE) {
            (None, true) => failed(Failed::TlsOnPlaintext),
            (Some(_), false) => failed(Failed::PlaintextOnTls),
            (None, false) => Ok(Opened::Plaintext(Accepted {
                stream,
                peer: Peer {
                    address,
                    certificate: None,
                },
                carrier: Carrier::Plaintext,
                lease: None,
                deadline,
                place,
                strangers: self.strangers,
            })),
            (Some(handshakes), true) => {
                let began = Instant::now();
                // Biased: as above.
                let secured = tokio::select! {
                    biased;
                    secured = handshakes.shake(stream, deadline) => secured?,
                    _ = closing.wait_for(|closing| *closing) => return Ok(Opened::Gone),
                    () = place.lost() => return failed(Failed::TooMany),
                };
                self.tally.tell(Happened::HandshakeMade(began.elapsed()));
                let has_certificate = secured.identity.is_some();
                Ok(Opened::Secured(Box::new(Accepted {
                    stream: secured.stream,
                    peer: Peer {
                        address,
                        certificate: secured.identity,
                    },
                    carrier: match has_certificate {
                        true => Carrier::MutualTls,
                        false => Carrier::Tls,
                    },
                    lease: secured.lease,
                    deadline,
                    place,
                    strangers: self.strangers,
                })))
            }
        }
    }
}

/// Returns the first byte, left where it is; `None` if the connection ends before it.
async fn first_byte(stream: &TcpStream) -> Option<u8> {
    let mut first = [0];
    let n_read = stream.peek(&mut first).await.ok()?;
    (n_read > 0).then_some(first[0])
}

/// A time in which connections cannot be accepted. Its begin and its end are logged once.
#[derive(Clone, Copy, Debug)]
struct Failing {
    n_failures: u64,
    last: Instant,
}

impl Failing {
    fn failed(before: Option<Self>, error: &std::io::Error) -> Self {
        if before.is_none() {
            warn!(%error, "connections are not accepted");
        }
        Self {
            n_failures: before.map_or(0, |before| before.n_failures) + 1,
            last: Instant::now(),
        }
    }

    /// Returns `None` once it is over.
    fn accepted(self) -> Option<Self> {
        if self.last.elapsed() < ACCEPT_CALM {
            return Some(self);
        }
        info!(n_failures = self.n_failures, "connections are accepted again");
        None
    }
}

/// The first byte of a TLS connection: a record of a handshake.
const TLS_HANDSHAKE: u8 = 0x16;
