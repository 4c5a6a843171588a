//! A real signal, sent by this process to itself.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use escapement_process::stop_signal;
use std::process::Command;
use std::time::Duration;

#[tokio::test]
async fn the_first_sigterm_resolves_the_future_even_before_its_first_poll() {
    let stopped = stop_signal();
    let killed = Command::new("kill")
        .args(["-TERM", &std::process::id().to_string()])
        .status()
        .unwrap();
    assert!(killed.success());
    tokio::time::timeout(Duration::from_secs(20), stopped)
        .await
        .unwrap();
}
