//! Peer of a connection, without its rights.

use escapement_access::CertificateIdentity;
use std::net::SocketAddr;
use std::sync::Arc;

/// Peer of a connection, as far as it is known.
#[derive(Debug)]
pub(crate) struct Peer {
    /// The address that it came from.
    pub(crate) address: SocketAddr,
    /// Identity in its verified certificate. `None` without one.
    pub(crate) certificate: Option<Arc<CertificateIdentity>>,
}
