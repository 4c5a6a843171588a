//! What a verified client certificate says of its holder.

use alloc::string::String;
use alloc::vec::Vec;

/// The names of a client certificate whose chain was verified by the handshake.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CertificateIdentity {
    /// Its SPIFFE id, `spiffe://DOMAIN/PATH`, if it has exactly one URI name of that scheme, vouched for by a root of that
    /// trust domain. `dns_names` is empty then.
    pub spiffe_id: Option<String>,
    /// Its DNS names, in lower case, in the order of the certificate.
    pub dns_names: Vec<String>,
    /// The end of its validity, in milliseconds since 1970.
    pub not_after_ms: i64,
    /// SHA-256 of the DER of the leaf.
    pub fingerprint: [u8; 32],
}
