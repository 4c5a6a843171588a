//! Handshakes: their time limit, their number, and reports of failed ones. Verifies no certificate.

use super::identity::names_of;
use super::lease::Lease;
use super::material::{ALPN, TlsServer};
use super::trust::reason;
use crate::limits::NOTICE_INTERVAL;
use escapement_access::CertificateIdentity;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{debug, warn};

/// Reason why a connection did not come to HTTP/2.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Failed {
    /// The client began with a TLS handshake, and this port has no TLS.
    TlsOnPlaintext,
    /// The client did not begin with a TLS handshake, and this port requires one.
    PlaintextOnTls,
    /// The handshake took too long.
    TooSlow,
    /// Others came, and it had waited longest of all that were not there yet.
    TooMany,
    /// The handshake failed: versions, names of protocols, certificates.
    Handshake,
    /// The client did not ask for HTTP/2.
    NoAlpn,
    /// The client began with something else.
    NoHttp2,
}

impl Failed {
    /// Returns the name, for programs.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Failed::TlsOnPlaintext => "tls_on_plaintext",
            Failed::PlaintextOnTls => "plaintext_on_tls",
            Failed::TooSlow => "too_slow",
            Failed::TooMany => "too_many",
            Failed::Handshake => "handshake",
            Failed::NoAlpn => "no_alpn",
            Failed::NoHttp2 => "no_http2",
        }
    }

    /// Returns the probable cause.
    fn notice(self) -> &'static str {
        match self {
            Failed::TlsOnPlaintext => {
                "a client began with TLS, which this port does not speak; give --tls-cert here, or http:// there"
            }
            Failed::PlaintextOnTls => {
                "a client did not begin with TLS, which this port needs; give https:// there"
            }
            Failed::TooSlow => "a connection did not come to HTTP/2 in time",
            Failed::TooMany => "too many connections that do not come to HTTP/2; the oldest was closed",
            Failed::Handshake => "a TLS handshake failed",
            Failed::NoAlpn => "a client did not ask for HTTP/2 by ALPN",
            Failed::NoHttp2 => "a client spoke something else than HTTP/2",
        }
    }
}

/// Connections that failed, counted by reason. Each reason is logged once a minute at most.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<BTreeMap<Failed, Count>>);

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    n_all: u64,
    n_untold: u64,
    told_at: Option<Instant>,
}

impl Failures {
    /// Counts a failure, and reports all since the last report if that was a while ago.
    pub(crate) fn count(&self, why: Failed, detail: &str, now: Instant) -> bool {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(why).or_default();
        count.n_all += 1;
        count.n_untold += 1;
        if count
            .told_at
            .is_some_and(|told_at| now < told_at + NOTICE_INTERVAL)
        {
            return false;
        }
        warn!(
            n = count.n_untold,
            n_since_start = count.n_all,
            detail,
            "{}",
            why.notice()
        );
        (count.told_at, count.n_untold) = (Some(now), 0);
        true
    }
}

/// Settings of the handshakes of one listener.
#[derive(Clone, Debug)]
pub(crate) struct Handshakes {
    current: watch::Receiver<Arc<TlsServer>>,
}

/// A connection after its handshake.
#[derive(Debug)]
pub(crate) struct Secured {
    pub(crate) stream: TlsStream<TcpStream>,
    /// `None` for a client without a certificate.
    pub(crate) identity: Option<Arc<CertificateIdentity>>,
    /// Lease of the trust in the certificate.
    pub(crate) lease: Option<Lease>,
}

impl Handshakes {
    /// Creates the settings from the current files of each moment.
    pub(crate) fn new(current: watch::Receiver<Arc<TlsServer>>) -> Self {
        Self { current }
    }

    /// Shakes hands.
    pub(crate) async fn shake(
        &self,
        stream: TcpStream,
        deadline: Instant,
    ) -> Result<Secured, (Failed, String)> {
        let mut current = self.current.clone();
        let server = Arc::clone(&current.borrow_and_update());
        let accept = TlsAcceptor::from(Arc::clone(&server.config)).accept(stream);
        let stream = match timeout_at(deadline, accept).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err((Failed::Handshake, detail(&error))),
            Err(_elapsed) => return Err((Failed::TooSlow, String::new())),
        };
        let (_, session) = stream.get_ref();
        if session.alpn_protocol() != Some(ALPN) {
            return Err((Failed::NoAlpn, String::new()));
        }
        let (mut identity, mut lease) = (None, None);
        // The handshake has verified it.
        if let Some(chain @ [own, ..]) = session.peer_certificates() {
            let named = names_of(own).map_err(|error| (Failed::Handshake, error.to_string()))?;
            let named = Arc::new(named);
            let chain = chain.iter().map(|certificate| certificate.clone().into_owned());
            lease = Some(Lease::new(Arc::clone(&named), chain.collect(), current));
            identity = Some(named);
        }
        debug!(version = ?session.protocol_version(), has_certificate = identity.is_some(), "TLS handshake");
        Ok(Secured {
            stream,
            identity,
            lease,
        })
    }
}

/// Returns the text of the TLS library for a failure, or else of the operating system.
fn detail(error: &std::io::Error) -> String {
    let of_tls = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    of_tls.map_or_else(|| error.to_string(), reason)
}

#[cfg(test)]
mod tests;
