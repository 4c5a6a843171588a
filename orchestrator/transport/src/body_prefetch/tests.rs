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

/// Returns a message of so many bytes behind its head, cut into frames of at most so many.
fn message(bytes: u32, frame_bytes: usize, ends: bool) -> Frames {
    let message = [&[0][..], &bytes.to_be_bytes(), &vec![7; bytes as usize]].concat();
    Frames(message.chunks(frame_bytes).map(<[u8]>::to_vec).collect(), ends)
}

/// What is said of a body, `None` for nothing yet, and its frames as they are given behind that.
async fn begun(frames: Frames) -> (Option<bool>, Vec<usize>) {
    let mut body = PrefetchedBody::new(frames);
    let said = {
        let mut is_small = std::pin::pin!(body.is_small());
        poll_fn(|cx| Poll::Ready(is_small.as_mut().poll(cx))).await
    };
    let said = match said {
        Poll::Ready(is_small) => Some(is_small),
        Poll::Pending => None,
    };
    let mut given = Vec::new();
    while let Poll::Ready(Some(frame)) = poll_fn(|cx| Poll::Ready(Pin::new(&mut body).poll_frame(cx))).await {
        given.push(frame.unwrap().into_data().unwrap().len());
    }
    (said, given)
}

const MAX: u32 = SERVED_AT_ONCE_BYTES_MAX as u32;

#[tokio::test]
async fn a_small_body_is_waited_for_to_its_end_and_given_unchanged() {
    for bytes in [0, 1, MAX] {
        let whole = bytes as usize + 5;
        assert_eq!(
            begun(message(bytes, whole, true)).await,
            (Some(true), vec![whole])
        );
        assert_eq!(begun(message(bytes, whole, false)).await, (None, vec![whole]));
    }
    assert_eq!(begun(message(2, 3, true)).await, (Some(true), vec![3, 3, 1]));
    assert_eq!(
        begun(Frames([vec![0; 3]].into(), true)).await,
        (Some(true), vec![3])
    );
    assert_eq!(begun(Frames(VecDeque::new(), true)).await, (Some(true), vec![]));
}

#[tokio::test]
async fn a_body_that_is_large_or_cut_into_many_pieces_is_not_waited_for_and_given_unchanged_too() {
    let large = MAX as usize + 6;
    for ends in [true, false] {
        assert_eq!(
            begun(message(MAX + 1, large, ends)).await,
            (Some(false), vec![large])
        );
        assert_eq!(begun(message(0, 1, ends)).await, (Some(false), vec![1; 5]));
        assert_eq!(begun(message(1, 1, ends)).await, (Some(false), vec![1; 6]));
    }
}

#[tokio::test]
async fn the_announced_length_is_read_however_the_head_is_cut() {
    for frame_bytes in [1, 2, 4, 5] {
        let mut body = PrefetchedBody::new(message(70_000, frame_bytes, true));
        assert_eq!(body.announced().await, 70_000);
    }
    let mut cut_off = PrefetchedBody::new(Frames([vec![0, 1, 0]].into(), true));
    assert_eq!(cut_off.announced().await, 0);
}
