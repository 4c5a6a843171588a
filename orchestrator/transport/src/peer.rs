//! Who is at the other end of a connection. Says nothing of what they may.

use escapement_access::CertificateIdentity;
use std::net::SocketAddr;
use std::sync::Arc;

/// Who is at the other end, as far as the connection knows.
#[derive(Debug)]
pub(crate) struct Peer {
    /// The address that it came from.
    pub(crate) address: SocketAddr,
    /// What its certificate says, verified. `None` without one.
    pub(crate) certificate: Option<Arc<CertificateIdentity>>,
}
