//! What needs a process of its own: real signals, sent by this process to itself, and its one subscriber.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use escapement_process::stop_signal;
use escapement_process::telemetry::{Format, InitError, init};
use rustix::process::{Signal, getpid, kill_process};
use std::time::Duration;

#[tokio::test]
async fn the_first_signal_that_asks_for_the_end_resolves_the_future_even_before_its_first_poll() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let stopped = stop_signal();
        kill_process(getpid(), signal).unwrap();
        tokio::time::timeout(Duration::from_secs(20), stopped)
            .await
            .unwrap();
    }
}

#[test]
fn a_second_start_is_refused() {
    init("off", Format::Json).unwrap();
    assert!(matches!(
        init("off", Format::Json),
        Err(InitError::AlreadyInstalled)
    ));
}
