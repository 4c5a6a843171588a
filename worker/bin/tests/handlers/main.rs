//! The stock handlers, called directly with contexts of the SDK's own, against real files,
//! programs and sockets.
//! Starts no orchestrator: stand-ins answer as they are told.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test fails by panicking, and its name is its documentation"
)]

mod configuration;
mod demonstrations;
#[path = "../../../sdk/tests/shell/fake.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "other tests use the rest of the stand-in"
)]
mod fake;
mod files;
mod filters;
mod http;
mod models;
mod nested;
mod programs;
mod refusals;
mod server;
mod session;
mod templates;

use escapement_sdk::testing::ContextBuilder;
use escapement_sdk::{StepContext, StepError};
use escapement_worker::config::Config;
use escapement_worker::sandbox::Root;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Returns a configuration with everything closed.
fn closed() -> Config {
    Config::closed(PathBuf::from(env!("CARGO_BIN_EXE_worker")))
}

/// Returns a configuration that sees the files of a fresh directory.
fn with_root() -> (Config, TempDir) {
    let directory = TempDir::new().unwrap();
    let config = Config {
        root: Some(Root::open(directory.path()).unwrap()),
        ..closed()
    };
    (config, directory)
}

fn context() -> StepContext {
    ContextBuilder::new("tested").build()
}

fn context_with(time_left: Duration) -> StepContext {
    ContextBuilder::new("tested").time_left(time_left).build()
}

/// Returns the code of an error, and its severity if the handler states one: `HTTP_CONNECT`, `INVALID_PAYLOAD fatal`.
fn kind(error: &StepError) -> String {
    let severity = error.stated_severity();
    severity.map_or(error.code().to_owned(), |severity| {
        format!("{} {}", error.code(), severity.as_str())
    })
}

/// Returns an input as a plan would write it.
fn input<T: DeserializeOwned>(payload: Value) -> T {
    serde_json::from_value(payload).unwrap()
}

/// Waits until `condition` holds, for 20 s at most.
async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < limit, "{what} did not come about within 20 s");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
