//! Reads the beginning of a request's body: its head, and the rest of a small one.
//! The body stays as it is, except for empty frames.

use crate::limits::{SERVED_AT_ONCE_BYTES_MAX, SERVED_AT_ONCE_FRAMES_MAX};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A body of which the beginning was read before it was asked for.
#[derive(Debug)]
pub(crate) struct PrefetchedBody<B: Body> {
    /// Frames that were read and not passed on yet.
    beginning: VecDeque<Result<Frame<Bytes>, B::Error>>,
    rest: B,
    /// True if nothing follows the beginning.
    is_whole: bool,
}

impl<B: Body<Data = Bytes> + Unpin> PrefetchedBody<B> {
    /// Creates a body of which nothing was read.
    pub(crate) fn new(rest: B) -> Self {
        Self {
            beginning: VecDeque::new(),
            rest,
            is_whole: false,
        }
    }

    /// Returns the bytes of the message that comes, as its head says. Waits for the head; 0 if the body ends before that.
    pub(crate) async fn announced(&mut self) -> usize {
        loop {
            match self.length() {
                Some(length) => return length,
                None if self.is_whole => return 0,
                None => self.read_frame().await,
            }
        }
    }

    /// Waits for the rest of a small body. Returns false, and does not wait, for one that is large or comes in many pieces.
    pub(crate) async fn is_small(&mut self) -> bool {
        if self.announced().await > SERVED_AT_ONCE_BYTES_MAX {
            return false;
        }
        while !self.is_whole && self.beginning.len() < SERVED_AT_ONCE_FRAMES_MAX {
            self.read_frame().await;
        }
        self.is_whole
    }

    async fn read_frame(&mut self) {
        match poll_fn(|cx| Pin::new(&mut self.rest).poll_frame(cx)).await {
            // Without end they would be kept without end.
            Some(Ok(frame)) if frame.data_ref().is_some_and(Bytes::is_empty) => {
                self.is_whole = self.rest.is_end_stream();
            }
            Some(frame) => {
                self.is_whole = frame.is_err() || self.rest.is_end_stream();
                self.beginning.push_back(frame);
            }
            None => self.is_whole = true,
        }
    }

    /// Returns the length in the head: a flag, and the length in four bytes. `None` while it is not there.
    fn length(&self) -> Option<usize> {
        let frames = self
            .beginning
            .iter()
            .filter_map(|frame| frame.as_ref().ok()?.data_ref());
        let mut head = frames.flatten().copied().skip(1);
        let length = [head.next()?, head.next()?, head.next()?, head.next()?];
        Some(u32::from_be_bytes(length) as usize)
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for PrefetchedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.beginning.pop_front() {
            Some(frame) => Poll::Ready(Some(frame)),
            None if self.is_whole => Poll::Ready(None),
            None => Pin::new(&mut self.rest).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.beginning.is_empty() && (self.is_whole || self.rest.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        // Of what was read and what was not together; nothing depends on it.
        SizeHint::default()
    }
}

impl<B: Body + Unpin> Unpin for PrefetchedBody<B> {}

#[cfg(test)]
mod tests;
