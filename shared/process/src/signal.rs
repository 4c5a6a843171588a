//! The signals that ask a process to stop. Does not stop anything itself.

use std::task::Poll;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

/// Returns a future that resolves on the first SIGTERM, SIGINT or SIGHUP after this call.
///
/// A closed terminal sends SIGHUP, so this must not end running work either.
/// A process of a service manager has no terminal: there SIGHUP is a reload, with no files to read, and does nothing.
/// The handlers are installed by the call, not by the first poll, so no signal in between is lost.
/// A signal that cannot be caught is logged and never resolves the future.
///
/// # Panics
/// Outside of a tokio runtime with I/O enabled.
pub fn stop_signal() -> impl Future<Output = ()> + Send + 'static {
    let is_managed = std::env::var_os("NOTIFY_SOCKET").is_some();
    first_of(&[
        (SignalKind::terminate(), "SIGTERM", true),
        (SignalKind::interrupt(), "SIGINT", true),
        (SignalKind::hangup(), "SIGHUP", !is_managed),
    ])
}

/// Returns the same for SIGTERM and SIGINT alone, for a process with another use of SIGHUP, see [`hangups`].
///
/// # Panics
/// Outside of a tokio runtime with I/O enabled.
pub fn stop_signal_but_hangup() -> impl Future<Output = ()> + Send + 'static {
    first_of(&[
        (SignalKind::terminate(), "SIGTERM", true),
        (SignalKind::interrupt(), "SIGINT", true),
    ])
}

/// Calls `on_hangup` for each SIGHUP from this call on, for ever. Several that come at once may count as one.
///
/// # Panics
/// Outside of a tokio runtime with I/O enabled.
pub fn hangups(on_hangup: impl Fn() + Send + 'static) -> impl Future<Output = ()> + Send + 'static {
    let caught = signal(SignalKind::hangup());
    async move {
        match caught {
            Ok(mut hangups) => {
                while hangups.recv().await.is_some() {
                    info!(signal = "SIGHUP", "signal received");
                    on_hangup();
                }
            }
            Err(error) => warn!(signal = "SIGHUP", %error, "signal cannot be caught"),
        }
    }
}

/// Resolves with the first of these signals that asks to stop; the others are logged.
fn first_of(signals: &[(SignalKind, &'static str, bool)]) -> impl Future<Output = ()> + Send + use<> {
    let mut signals: Vec<(&str, bool, Signal)> = signals
        .iter()
        .filter_map(|&(kind, name, stops)| match signal(kind) {
            Ok(signal) => Some((name, stops, signal)),
            Err(error) => {
                warn!(signal = name, %error, "signal cannot be caught");
                None
            }
        })
        .collect();
    std::future::poll_fn(move |cx| {
        for (name, stops, signal) in &mut signals {
            while signal.poll_recv(cx).is_ready() {
                info!(signal = name, "signal received");
                if *stops {
                    return Poll::Ready(());
                }
            }
        }
        Poll::Pending
    })
}
