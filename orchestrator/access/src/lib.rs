//! Who may do what: the policy, credentials, and the matrix of rights.
//! Decides alone, from bytes and times that it is given: reads no file, opens no socket, knows no clock, no gRPC and no engine.

#![no_std]
#![warn(clippy::too_many_lines)]

extern crate alloc;

mod pattern;
mod role;

mod certificate;
mod grant;
mod principal;

mod token;

mod jwt;

mod matrix;

mod denial;

mod policy;

mod access;

mod authorship;

mod sessions;

pub use access::{Access, Credentials, shown_attempt};
pub use authorship::Recorded;
pub use certificate::CertificateIdentity;
pub use denial::Denial;
pub use grant::{Grant, NamespaceScope, UserScope};
pub use jwt::{Algorithm, JwtCache, KeySet, KeySource, UnusableKeys};
pub use matrix::{Permission, Row, row};
pub use pattern::{Pattern, PatternError};
pub use policy::{NamespaceLimits, Policy, PolicyViolation};
pub use principal::{Principal, PrincipalKind};
pub use role::{Role, Roles};
pub use sessions::InstanceOwners;
pub use token::{NotAToken, StaticToken};
