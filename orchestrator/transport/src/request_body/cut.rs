//! Cuts a stream of messages at the end of each head and of each message. So its reader keeps no buffer of a large message.
//! The bytes stay the same.
//!
//! The reader has one buffer for a stream. It grows with the largest message and never shrinks; a session would hold 4 MiB for
//! its whole life. But a buffer that is filled to its last byte is dropped for the next piece, if that has a buffer of its own.
//! A message without further data in the same piece fills it like this.

use super::{Announced, BoxError};
use bytes::Bytes;
use http_body::{Body, Frame};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Position in the stream.
#[derive(Debug, Default)]
pub(crate) struct MessageCut {
    /// Received bytes that were not passed on yet.
    rest: Bytes,
    head: Announced,
    /// Bytes of the message that are still to come; 0 within a head.
    n_missing: usize,
    /// True for a large message, up to the first byte after it.
    is_large: bool,
}

impl MessageCut {
    /// Returns true if nothing that has come is left.
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

    /// Returns the next received piece, which is within a head or within a message.
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

/// Bytes from which on the buffer of a message is dropped.
const LARGE_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests;
