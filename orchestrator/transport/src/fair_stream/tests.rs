#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use std::task::Waker;
use tokio::io::AsyncReadExt;

#[tokio::test]
async fn whoever_sends_without_a_pause_is_stopped_now_and_then_and_loses_nothing() {
    let said = vec![7; 100];
    let mut fair = FairStream::new(said.as_slice());
    let mut one = [0];
    let mut cx = Context::from_waker(Waker::noop());
    for n in 0..2 * READS_PER_TURN + 2 {
        let mut buffer = ReadBuf::new(&mut one);
        let polled = Pin::new(&mut fair).poll_read(&mut cx, &mut buffer);
        assert_eq!(
            polled.is_pending(),
            n % (READS_PER_TURN + 1) == READS_PER_TURN,
            "read {n}"
        );
    }
    let n_read = 2 * READS_PER_TURN as usize;
    let mut rest = Vec::new();
    fair.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest.len(), said.len() - n_read);
}
