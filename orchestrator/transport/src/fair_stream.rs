//! A connection's bytes in small portions: a peer that sends without a pause yields to others.
//! The bytes stay the same.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};

use crate::limits::READS_PER_TURN;
use crate::write_through::write_through;

/// A stream that stops after some reads without a pause, and continues in its next turn.
#[derive(Debug)]
pub(crate) struct FairStream<S> {
    stream: S,
    /// Reads since the last pause.
    n_reads: u32,
}

impl<S> FairStream<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, n_reads: 0 }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FairStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.n_reads == READS_PER_TURN {
            self.n_reads = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.n_reads = if read.is_pending() { 0 } else { self.n_reads + 1 };
        Poll::Ready(ready!(read))
    }
}

write_through!(FairStream);

#[cfg(test)]
mod tests;
