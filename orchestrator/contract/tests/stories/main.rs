//! Stories that prove the rules of `CONTRACT.md`, on a virtual clock. Every test names the rules that it
//! proves.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed unwrap is a failed test, and nothing outside reads or uses a test target"
)]

mod story;

mod certificate;
mod durability;
mod ending;
mod errors;
mod explained_walks;
mod explaining;
mod inputs;
mod limits;
mod never;
mod order;
mod outputs;
mod record;
mod replaying;
mod requests;
mod retries;
mod walk;
mod warnings;
