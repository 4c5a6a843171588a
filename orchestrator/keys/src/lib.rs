//! The keys of the issuers of JSON Web Tokens: fetched from their addresses, again and again, and put beside the policy.
//! Judges no token, and lets nobody wait: a caller whose key is not there yet is told so, and the key is asked for.

#![warn(clippy::too_many_lines)]

mod limits;

mod schedule;

mod fetch;

mod state;

mod keys;

pub use fetch::check;
pub use keys::Keys;
