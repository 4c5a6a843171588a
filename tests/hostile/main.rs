//! Callers that mean harm: floods, bombs, half requests, silence, very many watchers; against the real process.
//! Knows no rule of the contract: what is asked is that the process lives, stays small, and serves others meanwhile.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test fails by panicking and its name is its documentation"
)]

mod canary;
mod den;
mod frames;
mod large;
mod large_runs;
mod messages;
mod shares;
mod slowness;
mod wire;

mod bodies;
mod costs;
mod decoding;
mod evaluations;
mod floods;
mod greetings;
mod handshakes;
mod health;
mod late_messages;
mod made_up;
mod overload;
mod pages;
mod queue;
mod registrations;
mod saved;
mod simulations;
mod sinks;
mod strangers;
mod streams;
mod watchers;
mod watchers_of_runs;
mod workers;
