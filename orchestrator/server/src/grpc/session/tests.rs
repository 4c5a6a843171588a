#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use escapement_model::limits::SESSION_MESSAGE_BYTES_MAX;
use std::pin::pin;
use std::task::Poll;

fn session() -> OpenSession {
    OpenSession {
        key: SessionKey(1),
        outbound: mpsc::channel(1).0.downgrade(),
        engine_closed: oneshot::channel().1,
        unhandled: Arc::new(Semaphore::new(SESSION_UNHANDLED_UNITS_MAX as usize)),
    }
}

/// Returns a message of about this size.
fn request(bytes: usize) -> v1::SessionRequest {
    let started = vec![vec![1; bytes].into()];
    let acks = v1::AttemptAcks {
        started,
        ..v1::AttemptAcks::default()
    };
    v1::SessionRequest {
        seq: 1,
        message: Some(Message::AttemptAcks(acks)),
    }
}

/// Takes room for as many such messages as there is room for.
async fn fill(session: &OpenSession, bytes: usize) -> Vec<OwnedSemaphorePermit> {
    let mut rooms = Vec::new();
    let n_units = queue_units(&request(bytes));
    loop {
        let mut room = pin!(session.room(n_units));
        match std::future::poll_fn(|cx| Poll::Ready(room.as_mut().poll(cx))).await {
            Poll::Ready(room) => rooms.push(room),
            Poll::Pending => return rooms,
        }
        // Each poll costs a part of the task's budget.
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn one_session_has_only_so_much_of_the_engines_queue_until_it_is_handled() {
    let session = session();
    for _ in 0..2 {
        let rooms = fill(&session, 0).await;
        assert_eq!(rooms.len(), SESSION_UNHANDLED_UNITS_MAX as usize);
        assert!(rooms.len() < crate::limits::WORKERS_LANE_MAX / 10);
        drop(rooms);
    }
}

#[tokio::test]
async fn a_large_message_has_more_of_it_and_the_largest_still_fits() {
    let session = session();
    let rooms = fill(&session, SESSION_MESSAGE_BYTES_MAX).await;
    assert_eq!(rooms.len(), 1);
    drop(rooms);
    // Not even one that the transport should have stopped waits for ever.
    assert_eq!(fill(&session, 10 * SESSION_MESSAGE_BYTES_MAX).await.len(), 1);
}

#[test]
fn a_name_in_the_log_is_no_longer_than_a_label() {
    let hello = v1::Hello {
        worker_id: "w".repeat(100_000),
        instance_id: vec![7; 16].into(),
        ..v1::Hello::default()
    };
    let first = v1::SessionRequest {
        seq: 1,
        message: Some(Message::Hello(hello)),
    };
    let name = WorkerName::of(&first);
    assert_eq!(name.worker_id.len(), LABEL_CHARS_MAX);
    assert_eq!(name.instance_id, "07".repeat(16));
    let nobody = WorkerName::of(&request(1));
    assert!(nobody.worker_id.is_empty() && nobody.instance_id.is_empty());
}
