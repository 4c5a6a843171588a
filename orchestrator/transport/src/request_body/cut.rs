//! Cuts a stream of messages where each head and each message ends, so that its reader keeps no room of a large message.
//! Changes no byte, and judges none.
//!
//! The reader has one buffer for a stream. It grows with the largest message and never shrinks; a session would hold 4 MiB for
//! its whole life. But a buffer that is filled to its last byte, as by a message that nothing follows in the same piece, is
//! given up for the next piece, if that is a buffer of its own.

use super::{Announced, BoxError};
use bytes::Bytes;
use http_body::{Body, Frame};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Where the stream is.
#[derive(Debug, Default)]
pub(crate) struct MessageCut {
    /// What has come and is not given yet.
    rest: Bytes,
    head: Announced,
    /// Bytes of the message that are still to come; 0 within a head.
    n_missing: usize,
    /// True for a large message, up to the first byte after it.
    is_large: bool,
}

impl MessageCut {
    /// True if nothing that has come is left.
    pub(crate) fn is_all_given(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn poll_frame<B>(
        &mut self,
        body: &mut B,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
    {
        if self.rest.is_empty() {
            let frame = match ready!(Pin::new(body).poll_frame(cx)) {
                Some(Ok(frame)) => frame.into_data(),
                other => return Poll::Ready(other.map(|frame| frame.map_err(Into::into))),
            };
            match frame {
                Ok(data) => self.rest = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        Poll::Ready(Some(Ok(Frame::data(self.piece()))))
    }

    /// The next piece of what has come, which is within a head or within a message.
    fn piece(&mut self) -> Bytes {
        if self.n_missing > 0 {
            let piece = self.rest.split_to(self.n_missing.min(self.rest.len()));
            self.n_missing -= piece.len();
            return piece;
        }
        let piece = self.rest.split_to(self.head.n_missing().min(self.rest.len()));
        let follows_large = !piece.is_empty() && std::mem::take(&mut self.is_large);
        if let Some(length) = self.head.read(&piece) {
            self.head = Announced::default();
            self.n_missing = length;
            self.is_large = length > LARGE_BYTES;
        }
        match follows_large {
            true => Bytes::copy_from_slice(&piece),
            false => piece,
        }
    }
}

/// Bytes of a message whose room is not kept.
const LARGE_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests;
