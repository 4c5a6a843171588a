//! Time for which a connection's client certificate is trusted: until it expires, or until reloaded files
//! no longer vouch for it. Ends no connection itself.

use super::material::TlsServer;
use super::trust::reason;
use crate::wall_clock::until;
use escapement_access::CertificateIdentity;
use rustls::pki_types::{CertificateDer, UnixTime};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// The trust in one client certificate.
#[derive(Debug)]
pub(crate) struct Lease {
    identity: Arc<CertificateIdentity>,
    chain: Vec<CertificateDer<'static>>,
    current: watch::Receiver<Arc<TlsServer>>,
}

impl Lease {
    pub(crate) fn new(
        identity: Arc<CertificateIdentity>,
        chain: Vec<CertificateDer<'static>>,
        current: watch::Receiver<Arc<TlsServer>>,
    ) -> Self {
        Self {
            identity,
            chain,
            current,
        }
    }

    /// Resolves once it is over, and says why.
    pub(crate) async fn lost(mut self) -> String {
        loop {
            // Biased: which of the two comes first changes nothing.
            let is_replaced = tokio::select! {
                biased;
                () = until(self.identity.not_after_ms) => return "its certificate has expired".to_owned(),
                changed = self.current.changed() => changed.is_ok(),
            };
            if !is_replaced {
                // The process ends.
                return std::future::pending().await;
            }
            // All connections hear of it at once, and each verification takes a fraction of a millisecond.
            sleep(self.turn()).await;
            if let Some(problem) = self.problem() {
                return problem;
            }
        }
    }

    fn problem(&mut self) -> Option<String> {
        let current = Arc::clone(&self.current.borrow_and_update());
        let Some(trust) = &current.trust else {
            return Some("certificates of clients are not asked for any more".to_owned());
        };
        let judged = trust.judge(&self.chain, UnixTime::now());
        judged.err().map(|error| reason(&error))
    }

    /// Returns a pause of its own for each certificate, so that not all are verified at once.
    fn turn(&self) -> Duration {
        let [low, high, ..] = self.identity.fingerprint;
        SPREAD * u32::from(u16::from_le_bytes([low, high])) / u32::from(u16::MAX)
    }
}

/// Time over which the connections are verified again.
const SPREAD: Duration = Duration::from_secs(1);
