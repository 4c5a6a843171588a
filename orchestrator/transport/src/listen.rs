//! The accept loop: one task for each connection, up to a limit. Knows neither HTTP nor services.

use crate::call_limits::Gate;
use crate::connection::{self, CallerThreads};
use crate::limits::{ACCEPT_CALM, ACCEPT_PAUSE, CONNECTION_CLOSE_TIMEOUT};
use std::sync::Arc;
use std::time::Instant;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tonic::service::Routes;
use tracing::{debug, info, warn};

/// The open connections.
#[derive(Debug)]
pub struct Connections {
    permits: Arc<Semaphore>,
    max: u32,
    /// Shared by all of them.
    gate: Gate,
    callers: CallerThreads,
}

impl Connections {
    /// Room for `max` connections.
    pub fn new(max: u32, callers: CallerThreads) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(max as usize)),
            max,
            gate: Gate::new(),
            callers,
        }
    }

    /// Waits until all have ended, for twice the time that one has for it at most; returns true if they have.
    pub async fn ended(&self) -> bool {
        tokio::time::timeout(2 * CONNECTION_CLOSE_TIMEOUT, self.permits.acquire_many(self.max))
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
                Ok((stream, _peer)) => {
                    failing = failing.and_then(Failing::accepted);
                    self.start(stream, routes.clone(), closing.clone());
                }
                Err(error) => {
                    failing = Some(Failing::failed(failing, &error));
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn start(&self, stream: TcpStream, routes: Routes, closing: watch::Receiver<bool>) {
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            debug!("too many connections; one closed");
            return;
        };
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%error, "connection closed before it began");
            return;
        }
        let (gate, callers) = (self.gate.of_connection(), self.callers.clone());
        tokio::spawn(async move {
            let _permit = permit;
            connection::serve(stream, routes, gate, callers, closing).await;
        });
    }
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
