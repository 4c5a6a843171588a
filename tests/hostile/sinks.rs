//! Receivers of events that take none: subscribers, a webhook, the file of the error handler. All are best effort.

use crate::den::{Den, LIMIT, scale};
use crate::frames::{INITIAL_WINDOW_SIZE, SUBSCRIBE, setting, whole_call};
use crate::large::{LARGE, Tireless, plan_of, settled};
use crate::wire::{Flood, Wire};
use escapement_tests::{PrivateDirectory, wait_for};
use std::io::Read;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::TcpListener;

/// A subscriber that never reads, a webhook that takes the connection and never answers, an error handler whose file is a full
/// pipe: each holds a bounded number of bytes, and executions go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sinks_that_take_nothing_hold_few_of_the_results() {
    let directory = PrivateDirectory::new("sinks").unwrap();
    let pipe = directory.join("failures");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Open for both directions, so that no open waits for the other side, and nothing is read.
    let kept = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&pipe)
        .unwrap();
    let webhook = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/events", webhook.local_addr().unwrap());
    let n_calls = Arc::new(AtomicUsize::new(0));
    let hangs = tokio::spawn({
        let n_calls = Arc::clone(&n_calls);
        async move {
            let mut taken = Vec::new();
            while let Ok((stream, _)) = webhook.accept().await {
                n_calls.fetch_add(1, Ordering::Relaxed);
                taken.push(stream);
            }
        }
    });
    let den = Den::start_with(|settings| {
        settings
            .flag("--event-webhook", url)
            .flag("--error-handler-path", pipe.display())
    })
    .await;
    let mut subscribers = Vec::new();
    for window in [0, 1, 65_535] {
        let settings = setting(INITIAL_WINDOW_SIZE, window);
        let mut wire = Wire::with_settings(den.address(), &settings).await;
        for stream in 0..10 {
            let call = whole_call(SUBSCRIBE, 2 * stream + 1, &[]);
            assert_eq!(wire.flood_deaf(&call).await, Flood::Sent);
        }
        subscribers.push(wire);
    }
    let _worker = Tireless::start(den.address()).await;
    let before = den.measure();
    // Failures of which each result has a megabyte: held by each of the three, they are more than is allowed below.
    for _ in 0..scale(64, 1_000) {
        settled(&den, plan_of(&[LARGE], true)).await;
    }
    let after = den.size();
    eprintln!(
        "sinks that take nothing: {} MiB before, {} after, {} at most",
        before.resident_mib, after.resident_mib, after.peak_mib
    );
    let called = async || (n_calls.load(Ordering::Relaxed) > 0).then_some(());
    wait_for("the webhook to be called", LIMIT, called).await.unwrap();
    // The process ends only when the error handler has written what it took, so the pipe is emptied now.
    let reader = std::thread::spawn(move || {
        let mut pipe = kept;
        let mut bytes = [0; 64 << 10];
        while pipe.read(&mut bytes).is_ok_and(|n| n > 0) {}
    });
    drop(subscribers);
    hangs.abort();
    den.finish("sinks that take nothing", 128).await;
    // It holds the pipe open itself and would read for ever.
    drop(reader);
}
