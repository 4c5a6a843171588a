//! Plan documents: what is read, what is refused, what makes two the same, what templates become.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that unwraps says at which line its assumption broke"
)]

mod digests;
mod documents;
mod graphs;
mod hostile;
mod imports;
mod json;
mod malformed;
mod paying;
mod rendering;
mod right;
mod splicing;
mod unknown_fields;
