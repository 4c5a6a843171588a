//! The contract through real gRPC: real processes, real sockets, signals and SQLite files.
//! Knows nothing of the crates under test but the wire types and the SDK.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps says at which line its assumption broke"
)]

mod pages;
mod recording_worker;
mod status_details;
mod story;
mod world;

mod absences;
mod access;
mod backup;
mod callers;
mod certificates;
mod clients;
mod collectors;
mod conformance;
mod demonstration;
mod environment;
mod events;
mod explaining;
mod feed;
mod fleet;
mod grpcurl;
mod handlers;
mod ids;
mod kept;
mod large_plans;
mod lists;
mod logs;
mod metrics;
mod models;
mod nesting;
mod never;
mod order_of_endings;
mod produced;
mod queues;
mod records;
mod refusals;
mod rendering;
mod retention;
mod run_endings;
mod runs;
mod scaling;
mod signals;
mod simulating;
mod sinks;
mod sizes;
mod starting;
mod tls;
mod traces;
mod validation;
mod waiting;
mod watching;

use escapement_tests::plans;
