//! A connection's bytes, a little at a time: a peer that sends without a pause gives others their turn in between.
//! Changes no byte.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};

use crate::limits::READS_PER_TURN;
use crate::write_through::write_through;

/// A stream that stops after so many reads without a pause, and goes on when it is its turn again.
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
