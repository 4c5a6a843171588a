//! JSON Web Tokens: what the policy knows of their issuers, the issuers' keys, and what a token says of its holder.
//! Opens no file and asks nobody for keys: they are given, as the bytes of a key set.

mod algorithm;
mod cache;
mod claims;
mod issuer;
mod keys;
mod token;

pub use algorithm::Algorithm;
pub use cache::JwtCache;
pub use issuer::KeySource;
pub use keys::{KeySet, UnusableKeys};

pub(crate) use claims::{ClaimCondition, ClaimValue};
pub(crate) use issuer::{Issuer, JwtGrant};
pub(crate) use token::Unverified;

/// Most bytes of a token.
pub(crate) const TOKEN_BYTES_MAX: usize = 8 << 10;

#[cfg(test)]
mod testing;

#[cfg(test)]
mod tests;
