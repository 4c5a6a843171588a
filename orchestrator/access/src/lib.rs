//! Who may do what: the policy, credentials, and the matrix of rights.
//! Decides alone, from bytes and times that it is given: reads no file, opens no socket, knows no clock and no engine.

mod certificate;
mod principal;

pub use certificate::CertificateIdentity;
pub use principal::{Principal, PrincipalKind};
