//! The acceptance stories of runs on real processes: a real orchestrator, a worker with a ledger, kills and restarts.
//! Knows nothing of the crates under test but their descriptors and the SDK. `STORIES.md` says which test tells which story.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps says at which line its assumption broke"
)]

mod api;
mod commands;
mod folded;
mod plan_words;
mod script;
mod witness;
mod world;

mod artifacts;
mod children;
mod clocks;
mod data;
mod discards;
mod extensions;
mod failures;
mod figures;
mod firings;
mod goals;
mod injected;
mod limits;
mod lists;
mod malformed;
mod models;
mod notices;
mod overlap;
mod people;
mod planning;
mod plans;
mod reasons;
mod records;
mod recovery;
mod refused;
mod repeats;
mod restores;
mod samples;
mod sessions;
mod sizes;
mod starts;
mod states;
mod storm;
mod table;
mod triggers;
mod verbs;
mod watching;
mod webhooks;
