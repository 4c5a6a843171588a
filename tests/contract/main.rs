//! The contract crate judged from the outside: by a table of malformed requests, by a second
//! validator and by a second interpreter, both written from the contract's text alone.
//! Shares no rule with what it judges.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps says at which line its assumption broke"
)]

mod agreement;
mod cases;
mod certificates;
mod digests;
mod documents;
mod driver;
mod endings;
mod generate;
mod large_plans;
mod malformed;
mod nesting;
mod reference;
mod validation_agreement;
