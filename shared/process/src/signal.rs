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
    first_of(&[
        (SignalKind::terminate(), "SIGTERM"),
        (SignalKind::interrupt(), "SIGINT"),
        (SignalKind::hangup(), "SIGHUP"),
    ])
}

/// The same for SIGTERM and SIGINT alone, of a process to which SIGHUP says something else, see [`hangups`].
///
/// # Panics
/// Outside of a tokio runtime with I/O enabled.
pub fn stop_signal_but_hangup() -> impl Future<Output = ()> + Send + 'static {
    first_of(&[
        (SignalKind::terminate(), "SIGTERM"),
        (SignalKind::interrupt(), "SIGINT"),
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

fn first_of(signals: &[(SignalKind, &'static str)]) -> impl Future<Output = ()> + Send + use<> {
    let mut signals: Vec<(&str, Signal)> = signals
        .iter()
        .filter_map(|&(kind, name)| match signal(kind) {
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
