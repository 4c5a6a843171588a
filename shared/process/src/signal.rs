//! The signals that ask a process to stop. Does not stop anything itself.

use std::task::Poll;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

/// A future that resolves on the first SIGTERM, SIGINT or SIGHUP after this call.
///
/// SIGHUP is what a terminal sends that is closed, so it must not end what runs either.
/// The handlers are installed by the call, not by the first poll, so no signal in between is lost.
/// A signal that cannot be caught is logged and never resolves the future.
///
/// # Panics
/// Outside of a tokio runtime with I/O enabled.
pub fn stop_signal() -> impl Future<Output = ()> + Send + 'static {
    let mut signals: Vec<(&str, Signal)> = [
        (SignalKind::terminate(), "SIGTERM"),
        (SignalKind::interrupt(), "SIGINT"),
        (SignalKind::hangup(), "SIGHUP"),
    ]
    .into_iter()
    .filter_map(|(kind, name)| match signal(kind) {
        Ok(signal) => Some((name, signal)),
        Err(error) => {
            warn!(signal = name, %error, "signal cannot be caught");
            None
        }
    })
    .collect();
    std::future::poll_fn(move |cx| {
        for (name, signal) in &mut signals {
            if signal.poll_recv(cx).is_ready() {
                info!(signal = name, "signal received");
                return Poll::Ready(());
            }
        }
        Poll::Pending
    })
}
