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

/// Without a limit of its own.
fn limited(
    body: HalfSent,
    budget: BodyBudget,
    place: Option<(PendingUpload, CallClass)>,
) -> RequestBody<HalfSent> {
    RequestBody::limited(body, usize::MAX, budget, place)
}

fn half_sent(frames: &[usize]) -> HalfSent {
    HalfSent(frames.iter().map(|bytes| Bytes::from(vec![7; *bytes])).collect())
}

/// Returns the length of the next frame, or the code with which the body ends.
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
    let mut body = limited(half_sent(&[SMALL_REQUEST_BYTES, 3, 4]), budget.clone(), None);
    assert_eq!(next(&mut body).await, Ok(SMALL_REQUEST_BYTES));
    assert_eq!(next(&mut body).await, Ok(3));
    assert_eq!(next(&mut body).await, Ok(4));
    assert_eq!(next(&mut body).await, Err(Code::DeadlineExceeded));
    assert!(begin.elapsed() >= REQUEST_TIMEOUT);
    assert_eq!(budget.whole.n_taken(), 7);
    drop(body);
    assert_eq!(budget.whole.n_taken(), 0);
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
    let large = |bytes| half_sent(&[SMALL_REQUEST_BYTES + bytes, 1]);
    let mut first = limited(large(6), budget.clone(), None);
    let mut second = limited(large(4), budget.clone(), None);
    assert_eq!(next(&mut first).await, Ok(SMALL_REQUEST_BYTES + 6));
    assert_eq!(next(&mut second).await, Ok(SMALL_REQUEST_BYTES + 4));
    assert_eq!(next(&mut second).await, Err(Code::ResourceExhausted));
    let mut small = limited(half_sent(&[SMALL_REQUEST_BYTES]), budget.clone(), None);
    assert_eq!(
        next(&mut small).await,
        Ok(SMALL_REQUEST_BYTES),
        "a small one comes through"
    );
    drop(first);
    let mut third = limited(large(6), budget, None);
    assert_eq!(next(&mut third).await, Ok(SMALL_REQUEST_BYTES + 6));
}

#[tokio::test]
async fn one_connection_has_only_a_part_of_the_budget_and_gives_it_back_to_the_whole() {
    let whole = BodyBudget::new(10);
    let (one, other) = (whole.part(2), whole.part(2));
    let large = |bytes| half_sent(&[SMALL_REQUEST_BYTES + bytes]);
    let mut first = limited(large(5), one.clone(), None);
    assert!(next(&mut first).await.is_ok());
    let mut second = limited(large(1), one.clone(), None);
    assert_eq!(next(&mut second).await, Err(Code::ResourceExhausted));
    let mut elsewhere = limited(large(5), other, None);
    assert!(next(&mut elsewhere).await.is_ok());
    let mut third = limited(large(1), whole.part(2), None);
    assert_eq!(
        next(&mut third).await,
        Err(Code::ResourceExhausted),
        "the whole is taken"
    );
    drop((first, second, elsewhere, third));
    assert_eq!(whole.whole.n_taken(), 0);
    assert_eq!(one.connection.n_taken(), 0);
}

#[tokio::test]
async fn a_request_is_refused_by_the_length_that_it_announces_however_that_is_cut() {
    let head = [0, 0, 0, 1, 1];
    for cut in 0..=head.len() {
        for (bytes_max, expected) in [(257, Ok(head.len() - cut)), (256, Err(Code::ResourceExhausted))] {
            let frames = [&head[..cut], &head[cut..]].map(Bytes::copy_from_slice);
            let mut body = RequestBody::limited(HalfSent(frames.into()), bytes_max, BodyBudget::new(9), None);
            let first = next(&mut body).await;
            let last = if first == Ok(cut) && cut < head.len() {
                next(&mut body).await
            } else {
                first.map(|_| 0)
            };
            assert_eq!(last, expected, "cut at {cut}, {bytes_max}");
        }
    }
}

#[tokio::test]
async fn a_tenant_has_at_most_as_many_bytes_as_it_leaves_free() {
    let whole = BodyBudget::new(12);
    // Each over a connection of its own, so that only the tenant counts.
    let of = |tenant: &str| whole.part(1).of(Some(tenant.into()));
    let large = |bytes| half_sent(&[SMALL_REQUEST_BYTES + bytes]);
    let mut first = limited(large(6), of("a"), None);
    assert!(next(&mut first).await.is_ok());
    let mut second = limited(large(1), of("a"), None);
    assert_eq!(next(&mut second).await, Err(Code::ResourceExhausted));
    let mut others = limited(large(3), of("b"), None);
    assert!(next(&mut others).await.is_ok(), "whatever the first one does");
    drop(first);
    let mut third = limited(large(4), of("a"), None);
    assert!(next(&mut third).await.is_ok(), "what was given back");
}
