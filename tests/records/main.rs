//! Record files: written by real runs, kept for ever, bent and forged, and read by two readers.
//! Knows no rule of the contract beyond what a record shows.
//!
//! `ESCAPEMENT_NEW_RECORDS=1 cargo test -p escapement-tests --test records kinds` adds the files that `corpus` lacks.
#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps says at which line its assumption broke"
)]

mod corpus;
mod flips;
mod forging;
mod frozen;
mod kinds;
mod readers;
mod rows;
mod stage;
