//! A stream that must begin as HTTP/2 does before a deadline. Judges no byte: HTTP/2 does.

use crate::limits::PREFACE_BYTES;
use crate::write_through::write_through;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// A stream whose reads fail with [`io::ErrorKind::TimedOut`] unless as many bytes as a preface has come by the deadline.
/// HTTP/2 pings find a dead peer only after the preface; before it, silence is ended here.
#[derive(Debug)]
pub(crate) struct Guarded<S> {
    stream: S,
    /// Until that many have come.
    n_missing: usize,
    /// `None` once the preface has come.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Turns true with the last byte of the preface.
    has_begun: Arc<AtomicBool>,
}

impl<S> Guarded<S> {
    /// `has_begun` turns true with the last byte of the preface.
    pub(crate) fn new(stream: S, deadline: Instant, has_begun: Arc<AtomicBool>) -> Self {
        Self {
            stream,
            n_missing: PREFACE_BYTES,
            deadline: Some(Box::pin(sleep_until(deadline))),
            has_begun,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let n_before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let Some(deadline) = &mut self.deadline else {
            return read;
        };
        if read.is_pending() {
            ready!(deadline.as_mut().poll(cx));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let n_read = buffer.filled().len() - n_before;
        // The end of the stream and errors are for HTTP/2 to judge.
        self.n_missing = self.n_missing.saturating_sub(n_read);
        if self.n_missing == 0 {
            self.deadline = None;
            self.has_begun.store(true, Ordering::Relaxed);
        }
        read
    }
}

write_through!(Guarded);

#[cfg(test)]
mod tests;
