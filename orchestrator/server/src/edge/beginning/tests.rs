#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use std::convert::Infallible;

/// Gives its frames at once; then it ends, or says nothing more.
struct Frames(VecDeque<usize>, bool);

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.0.pop_front() {
            Some(length) => Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![7; length]))))),
            None if self.1 => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

/// Whether a body counts as small and whole, and its frames as they are given behind that.
async fn begun(frames: &[usize], ends: bool) -> (bool, Vec<usize>) {
    let mut body = Begun::read(Frames(frames.iter().copied().collect(), ends)).await;
    let is_small_and_whole = body.is_small_and_whole();
    let mut given = Vec::new();
    while let Poll::Ready(Some(frame)) = poll_fn(|cx| Poll::Ready(Pin::new(&mut body).poll_frame(cx))).await {
        given.push(frame.unwrap().into_data().unwrap().len());
    }
    (is_small_and_whole, given)
}

#[tokio::test]
async fn what_is_small_and_whole_is_known_and_given_unchanged() {
    const MAX: usize = SERVED_AT_ONCE_BYTES_MAX;
    for frames in [&[][..], &[0], &[MAX], &[MAX - 1, 1]] {
        assert_eq!(begun(frames, true).await, (true, frames.to_vec()));
    }
}

#[tokio::test]
async fn what_is_large_or_cut_up_or_not_there_is_given_unchanged_too() {
    const MAX: usize = SERVED_AT_ONCE_BYTES_MAX;
    let many = [1; SERVED_AT_ONCE_FRAMES_MAX + 1];
    for (frames, ends) in [
        (&[MAX + 1][..], true),
        (&[MAX, 1], true),
        (&[MAX, 0, 1, 5], true),
        (&many, true),
        (&[], false),
        (&[7], false),
    ] {
        assert_eq!(begun(frames, ends).await, (false, frames.to_vec()), "{frames:?}");
    }
}
