#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::engine_link::{Message, Route, link};

/// A watch that was answered, and the engine's end of it.
async fn answered() -> (Watch, mpsc::Sender<Watched>) {
    let (engine, mut end) = link();
    let watch = engine.watch(ExecutionId::from_random([1; 16])).await.unwrap();
    let Some(Message::Input(_, Route::Watcher(_, items))) = end.messages.recv().await else {
        panic!("a watcher");
    };
    (watch, items)
}

#[tokio::test]
async fn a_page_of_a_watch_that_is_cut_is_refused_and_not_empty() {
    let (mut watch, items) = answered().await;
    drop(items);
    let refused = live_entries(&mut watch, 1).await.unwrap_err();
    assert_eq!(refused, Rejection::Refused(Refusal::Draining));
}
