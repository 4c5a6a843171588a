//! The signals that ask a process to stop. Does not stop anything itself.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::warn;

/// A future that resolves on the first SIGTERM or SIGINT after this call.
///
/// The handlers are installed by the call, not by the first poll, so no signal in between is lost.
/// A signal that cannot be caught is logged and never resolves the future.
///
/// # Panics
/// Outside of a tokio runtime with I/O enabled.
pub fn stop_signal() -> impl Future<Output = ()> + Send + 'static {
    let terminate = listen(SignalKind::terminate(), "SIGTERM");
    let interrupt = listen(SignalKind::interrupt(), "SIGINT");
    async move {
        let mut terminate = std::pin::pin!(received(terminate));
        let mut interrupt = std::pin::pin!(received(interrupt));
        std::future::poll_fn(|cx| {
            if terminate.as_mut().poll(cx).is_ready() {
                return std::task::Poll::Ready(());
            }
            interrupt.as_mut().poll(cx)
        })
        .await;
    }
}

fn listen(kind: SignalKind, name: &'static str) -> Option<Signal> {
    signal(kind)
        .inspect_err(|error| warn!(signal = name, %error, "signal cannot be caught"))
        .ok()
}

async fn received(signal: Option<Signal>) {
    match signal {
        Some(mut signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}
