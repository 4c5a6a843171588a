//! A stream that must begin as HTTP/2 does, before a deadline and as long as it holds its slot. The rest passes unchecked.

use crate::newcomers::Place;
use crate::tls::Failed;
use crate::write_through::write_through;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// Result of the beginning of a connection.
#[derive(Debug, Default)]
pub(crate) struct Beginning {
    has_begun: AtomicBool,
    failed: OnceLock<Failed>,
}

impl Beginning {
    /// Returns true once the peer has sent the HTTP/2 preface.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// Returns the reason why it was closed before that.
    pub(crate) fn failed(&self) -> Option<Failed> {
        self.failed.get().copied()
    }
}

/// A stream whose reads fail unless it begins with the preface of HTTP/2. All of it must come by the deadline, and before the slot
/// is lost. A silent client, or one of another protocol, keeps no connection.
#[derive(Debug)]
pub(crate) struct Guarded<S> {
    stream: S,
    /// `None` once the preface has come.
    awaited: Option<Awaited>,
    beginning: Arc<Beginning>,
}

#[derive(Debug)]
struct Awaited {
    /// Part of the preface that is still to come.
    preface: &'static [u8],
    deadline: Pin<Box<Sleep>>,
    place: Place,
}

impl Awaited {
    /// Returns the reason why the connection is not waited for any longer.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Failed> {
        if self.deadline.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Failed::TooSlow);
        }
        pin!(self.place.lost()).poll(cx).map(|()| Failed::TooMany)
    }

    /// Takes in what has come; false if it is something else.
    fn take(&mut self, said: &[u8]) -> bool {
        let n_bytes = said.len().min(self.preface.len());
        let (now, later) = self.preface.split_at(n_bytes);
        self.preface = later;
        said[..n_bytes] == *now
    }
}

impl<S> Guarded<S> {
    /// Wraps a stream; `beginning` gets the result. The slot is released with the last byte of the preface.
    pub(crate) fn new(stream: S, deadline: Instant, place: Place, beginning: Arc<Beginning>) -> Self {
        Self {
            stream,
            awaited: Some(Awaited {
                preface: PREFACE,
                deadline: Box::pin(sleep_until(deadline)),
                place,
            }),
            beginning,
        }
    }

    fn fail(&self, why: Failed, kind: io::ErrorKind) -> Poll<io::Result<()>> {
        let _first = self.beginning.failed.set(why);
        Poll::Ready(Err(kind.into()))
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
        let Some(awaited) = &mut self.awaited else {
            return read;
        };
        if read.is_pending() {
            return match awaited.poll(cx) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(why) => self.fail(why, io::ErrorKind::TimedOut),
            };
        }
        // The end of the stream and errors are for HTTP/2 to judge.
        if !awaited.take(&buffer.filled()[n_before..]) {
            buffer.set_filled(n_before);
            return self.fail(Failed::NoHttp2, io::ErrorKind::InvalidData);
        }
        if awaited.preface.is_empty() {
            self.awaited = None;
            self.beginning.has_begun.store(true, Ordering::Relaxed);
        }
        read
    }
}

/// With which HTTP/2 begins.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

write_through!(Guarded);

#[cfg(test)]
mod tests;
