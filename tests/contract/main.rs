//! The contract crate judged from the outside: by a table of malformed requests, by the bounds of certificates, and by
//! endings that random plans seldom reach. Shares no rule with what it judges.
//!
//! The second validator and the second interpreter judge it in the fuzz targets `plan` and `execution`.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps says at which line its assumption broke"
)]

mod cases;
mod certificates;
mod digests;
mod documents;
mod endings;
mod large_plans;
mod malformed;
mod nesting;
