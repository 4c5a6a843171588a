//! TLS on the side that serves, by rustls with ring: 1.3 unless the operator allows 1.2, `h2` by ALPN, no session tickets.
//! Decides whose certificates are verified, never what their holders may do.
//!
//! Certificate, key, roots and revocation lists are files that are reloaded while the process runs, see
//! [`reload`](crate::reload). A connection keeps its client's chain, and is drained once that is no longer trusted.

pub mod settings;

mod identity;

mod trust;

mod material;

mod handshake;

mod lease;

pub use identity::{InvalidIdentity, names_of};
pub use material::TlsServer;
pub use settings::{ClientAuth, ClientCa, MinVersion, TlsSettings};

pub(crate) use handshake::{Failed, Failures, Handshakes};
pub(crate) use lease::Lease;

#[cfg(test)]
mod testing;
