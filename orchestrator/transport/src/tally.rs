//! Reports events of connections and calls to a listener. Costs nothing without a listener.

use crate::call_class::CallClass;
use escapement_access::{Denial, row};
use hyper::header::HeaderMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tonic::Code;

/// Something that happened to a connection or to a call. No text in it is chosen by a client.
#[derive(Clone, Debug, PartialEq)]
pub enum Happened {
    /// A connection speaks HTTP/2.
    Connected(Carrier),
    /// The connection ended.
    Disconnected(Carrier),
    /// A connection was closed at once, or before its first authorized call.
    ConnectionRefused(&'static str),
    /// A handshake succeeded, in this time.
    HandshakeMade(Duration),
    /// A connection did not come to HTTP/2: it spoke TLS or none where it must not, or its handshake failed.
    HandshakeFailed(&'static str),
    /// A call showed credentials that are worth nothing; the reason of the refusal.
    AuthenticationFailed(&'static str),
    /// A call came that may be made.
    CallBegan(CallClass),
    /// The call is over. A call that is not answered to its end, because its caller is gone, is cancelled.
    CallEnded(CallClass),
    /// A call was answered, or refused.
    Answered(Answered),
    /// Files were read again: what they hold, and whether it was put in force.
    Reloaded(&'static str, bool),
}

/// End of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    /// Service and method. `None` for an unknown call.
    pub method: Option<Arc<str>>,
    /// Status.
    pub code: Code,
    /// Time from its head to the end of its answer; `None` for streams, whose clients decide how long they last.
    pub took: Option<Duration>,
}

/// Transport of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// Without encryption.
    Plaintext,
    /// TLS, with a client that showed no certificate.
    Tls,
    /// TLS, with a client certificate.
    MutualTls,
}

/// Listener for events. Cheap to clone; without a listener no event is computed.
#[derive(Clone, Default)]
pub struct Tally(Option<Arc<dyn Fn(Happened) + Send + Sync>>);

impl Tally {
    /// Calls this function, which must not wait: it runs on the threads of connections.
    pub fn new(tell: impl Fn(Happened) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(tell)))
    }

    pub(crate) fn tell(&self, happened: Happened) {
        if let Some(tell) = &self.0 {
            tell(happened);
        }
    }

    /// Follows a call from its head on. `None` without a listener.
    pub(crate) fn call(&self, path: &str, class: CallClass) -> Option<FollowedCall> {
        self.0.is_some().then(|| {
            let is_known = row(path).is_some();
            FollowedCall {
                tally: self.clone(),
                method: is_known.then(|| path.trim_start_matches('/').into()),
                class,
                began: Instant::now(),
                is_let_in: false,
                code: None,
            }
        })
    }

    /// Follows a connection until what is returned is dropped.
    pub(crate) fn connection(&self, carrier: Carrier) -> FollowedConnection {
        self.tell(Happened::Connected(carrier));
        FollowedConnection(self.clone(), carrier)
    }
}

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tally").finish_non_exhaustive()
    }
}

/// A connection that speaks HTTP/2.
#[derive(Debug)]
pub(crate) struct FollowedConnection(Tally, Carrier);

impl Drop for FollowedConnection {
    fn drop(&mut self) {
        self.0.tell(Happened::Disconnected(self.1));
    }
}

/// A call in progress; reported when it is dropped.
#[derive(Debug)]
pub(crate) struct FollowedCall {
    tally: Tally,
    method: Option<Arc<str>>,
    class: CallClass,
    began: Instant,
    is_let_in: bool,
    code: Option<Code>,
}

impl FollowedCall {
    /// Records that the call is permitted, and counts as open from here on.
    pub(crate) fn let_in(&mut self) {
        self.is_let_in = true;
        self.tally.tell(Happened::CallBegan(self.class));
    }

    /// Records that the call is denied: its credentials are invalid, or have no right to it.
    pub(crate) fn denied(&self, denial: &Denial) {
        if denial.is_of_credentials() {
            self.tally.tell(Happened::AuthenticationFailed(denial.reason()));
        }
    }

    /// Takes the status from the headers, or from the trailers, that have it.
    pub(crate) fn read(&mut self, headers: &HeaderMap) {
        if let Some(status) = headers.get(STATUS) {
            self.code = Some(Code::from_bytes(status.as_bytes()));
        }
    }
}

impl Drop for FollowedCall {
    fn drop(&mut self) {
        if self.is_let_in {
            self.tally.tell(Happened::CallEnded(self.class));
        }
        let streams =
            self.class.streams() || matches!(self.class, CallClass::Sessions | CallClass::Reflections);
        self.tally.tell(Happened::Answered(Answered {
            method: self.method.take(),
            code: self.code.unwrap_or(Code::Cancelled),
            took: (!streams).then(|| self.began.elapsed()),
        }));
    }
}

const STATUS: &str = "grpc-status";

#[cfg(test)]
mod tests;
