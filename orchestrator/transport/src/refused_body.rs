//! Reads and discards the rest of a refused request, within bounds.
//!
//! HTTP/2 resets a stream whose request is not read, and soon forgets it. Data that its client had sent by then counts as an error of the
//! client. The 1,024th of these ends the whole connection, so a proxy whose callers are refused would lose it repeatedly.

use crate::limits::{REFUSED_BYTES_MAX, REFUSED_TIMEOUT};
use bytes::Bytes;
use http_body::Body;
use std::future::poll_fn;
use std::pin::Pin;
use tokio::time::timeout;

/// Reads the rest of a request while its answer is sent. Bounded by the streams of a connection.
pub(crate) fn throw_away<B>(body: B)
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Send,
{
    if !body.is_end_stream() {
        // What is too slow or too large is dropped, which resets its stream.
        tokio::spawn(async move { timeout(REFUSED_TIMEOUT, read_on(body)).await.ok() });
    }
}

async fn read_on<B: Body<Data = Bytes> + Unpin>(mut body: B) {
    let mut bytes_left = REFUSED_BYTES_MAX;
    while let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        match bytes_left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
            Some(left) => bytes_left = left,
            None => return,
        }
    }
}
