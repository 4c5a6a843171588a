#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use std::convert::Infallible;

/// Gives its frames at once; then it ends, or says nothing more.
struct Frames(VecDeque<Vec<u8>>, bool);

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.0.pop_front() {
            Some(data) => Poll::Ready(Some(Ok(Frame::data(data.into())))),
            None if self.1 => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

/// Whether a body counts as small and whole, and its frames as they are given behind that.
async fn begun(frames: &[usize], ends: bool) -> (bool, Vec<usize>) {
    let mut body = PrefetchedBody::read(Frames(
        frames.iter().map(|length| vec![7; *length]).collect(),
        ends,
    ))
    .await;
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

/// A message of so many bytes, cut into frames of at most so many.
fn message(bytes: u32, frame_bytes: usize) -> Frames {
    let head = [&[0][..], &bytes.to_be_bytes()].concat();
    Frames(head.chunks(frame_bytes).map(<[u8]>::to_vec).collect(), true)
}

#[tokio::test]
async fn the_announced_length_is_read_however_the_head_is_cut() {
    for frame_bytes in [1, 2, 4, 5] {
        let mut body = PrefetchedBody::read(message(70_000, frame_bytes)).await;
        assert_eq!(body.announced().await, 70_000);
    }
    let mut cut_off = PrefetchedBody::read(Frames([vec![0, 1, 0]].into(), true)).await;
    assert_eq!(cut_off.announced().await, 0);
}
