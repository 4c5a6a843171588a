//! The beginning of a request's body: as much of it as is there already, up to a bound, and what it says of the rest.
//! Drops and changes nothing of the body but empty frames.

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
    /// What was read and is not given yet.
    beginning: VecDeque<Result<Frame<Bytes>, B::Error>>,
    rest: B,
    /// Nothing follows the beginning.
    is_whole: bool,
}

impl<B: Body<Data = Bytes> + Unpin> PrefetchedBody<B> {
    /// Reads what is there. Waits for nothing.
    pub(crate) async fn read(mut rest: B) -> Self {
        let mut beginning = VecDeque::new();
        let mut bytes = 0;
        let mut is_whole = false;
        while beginning.len() < SERVED_AT_ONCE_FRAMES_MAX && bytes <= SERVED_AT_ONCE_BYTES_MAX && !is_whole {
            let polled = poll_fn(|cx| Poll::Ready(Pin::new(&mut rest).poll_frame(cx))).await;
            match polled {
                Poll::Pending => break,
                Poll::Ready(None) => is_whole = true,
                Poll::Ready(Some(frame)) => {
                    bytes += frame
                        .as_ref()
                        .map_or(0, |frame| frame.data_ref().map_or(0, Bytes::len));
                    is_whole = frame.is_err() || rest.is_end_stream();
                    beginning.push_back(frame);
                }
            }
        }
        Self {
            beginning,
            rest,
            is_whole: is_whole && bytes <= SERVED_AT_ONCE_BYTES_MAX,
        }
    }

    /// True for a small body that is there to its end.
    pub(crate) fn is_small_and_whole(&self) -> bool {
        self.is_whole
    }

    /// Returns the bytes of the message that comes, as its head says. Waits for the head; 0 if the body ends before that.
    pub(crate) async fn announced(&mut self) -> usize {
        loop {
            if let Some(length) = self.length() {
                return length;
            }
            if self.is_whole || matches!(self.beginning.back(), Some(Err(_))) {
                return 0;
            }
            match poll_fn(|cx| Pin::new(&mut self.rest).poll_frame(cx)).await {
                // Without end they would be kept without end.
                Some(Ok(frame)) if frame.data_ref().is_some_and(Bytes::is_empty) => {}
                Some(frame) => self.beginning.push_back(frame),
                None => self.is_whole = true,
            }
        }
    }

    /// What the head says: a flag, and the length in four bytes. `None` while it is not there.
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
