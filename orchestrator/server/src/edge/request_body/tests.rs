#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use std::collections::VecDeque;
use std::future::poll_fn;
use tokio::time::{Instant, timeout};
use tonic::Code;

/// Gives its frames at once, and then nothing and no end.
struct HalfSent(VecDeque<Bytes>);

impl Body for HalfSent {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match self.0.pop_front() {
            Some(data) => Poll::Ready(Some(Ok(Frame::data(data)))),
            None => Poll::Pending,
        }
    }
}

fn half_sent(frames: &[usize]) -> HalfSent {
    HalfSent(frames.iter().map(|bytes| Bytes::from(vec![7; *bytes])).collect())
}

/// The length of the next frame, or the code with which the body ends.
async fn next(body: &mut RequestBody<HalfSent>) -> Result<usize, Code> {
    let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await.unwrap();
    frame
        .map(|frame| frame.into_data().unwrap().len())
        .map_err(|error| Status::from_error(error).code())
}

#[tokio::test(start_paused = true)]
async fn a_request_that_stays_incomplete_ends_after_its_time_and_gives_its_bytes_back() {
    let budget = BodyBudget::new(10);
    let begin = Instant::now();
    let mut body = RequestBody::limited(half_sent(&[3, 4]), budget.clone());
    assert_eq!(next(&mut body).await, Ok(3));
    assert_eq!(next(&mut body).await, Ok(4));
    assert_eq!(next(&mut body).await, Err(Code::DeadlineExceeded));
    assert!(begin.elapsed() >= REQUEST_TIMEOUT);
    assert_eq!(budget.0.taken.load(Ordering::Relaxed), 7);
    drop(body);
    assert_eq!(budget.0.taken.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_requests_may_be_silent_for_longer() {
    let mut body = RequestBody::unlimited(half_sent(&[3]));
    assert_eq!(next(&mut body).await, Ok(3));
    let silence = timeout(2 * REQUEST_TIMEOUT, next(&mut body)).await;
    assert!(silence.is_err());
}

#[tokio::test]
async fn requests_that_together_exceed_the_budget_are_refused_until_others_end() {
    let budget = BodyBudget::new(10);
    let mut first = RequestBody::limited(half_sent(&[6]), budget.clone());
    let mut second = RequestBody::limited(half_sent(&[4, 1]), budget.clone());
    assert_eq!(next(&mut first).await, Ok(6));
    assert_eq!(next(&mut second).await, Ok(4));
    assert_eq!(next(&mut second).await, Err(Code::ResourceExhausted));
    drop(first);
    let mut third = RequestBody::limited(half_sent(&[6]), budget);
    assert_eq!(next(&mut third).await, Ok(6));
}
