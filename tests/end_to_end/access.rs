//! Who may do what, with a policy: every call by every role, in the right namespace, in a wrong one and without credentials; and
//! what becomes of live connections when the policy changes.

mod answers;
mod attempts;
mod authors;
pub(crate) mod credentials;
mod expiry;
mod handlers;
pub(crate) mod issuers;
mod matrix;
mod narrowed;
mod nobody;
mod open_calls;
mod operators;
mod policies;
mod rotation;
mod sessions;
mod shares;
mod tenants;
