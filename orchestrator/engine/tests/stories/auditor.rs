//! Judges everything that an engine sends to workers, in every story. Knows nothing of what the engine believes.

use escapement_engine::{Assignment, ToWorker};
use escapement_model::{AttemptToken, limits};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Auditor {
    streams: BTreeMap<u64, Stream>,
    /// Number of the message that carried each attempt.
    pub seq_of: BTreeMap<AttemptToken, u64>,
}

#[derive(Default)]
struct Stream {
    last_seq: u64,
    last_assignment_seq: u64,
    last_snapshot: u64,
    is_welcome: bool,
    is_draining: bool,
    is_over: bool,
}

impl Auditor {
    pub fn sent(&mut self, session: u64, seq: u64, message: &ToWorker) {
        let stream = self.streams.entry(session).or_default();
        assert_eq!(seq, stream.last_seq + 1, "messages are numbered without gaps");
        stream.last_seq = seq;
        assert!(
            !stream.is_over,
            "nothing follows the end of a stream: {message:?}"
        );
        match message {
            ToWorker::Welcome(_) => {
                assert_eq!(seq, 1, "welcome comes first");
                stream.is_welcome = true;
            }
            ToWorker::SessionError { .. } => stream.is_over = true,
            _ => assert!(stream.is_welcome, "nothing comes before welcome: {message:?}"),
        }
        match message {
            ToWorker::Assignments(items) => {
                assert!(!stream.is_draining, "nothing is assigned after drain_started");
                stream.last_assignment_seq = seq;
                check_list(items.len());
                let bytes: usize = items.iter().map(at_least_bytes).sum();
                assert!(bytes <= limits::SESSION_MESSAGE_BYTES_MAX);
                for item in items {
                    let before = self.seq_of.insert(item.token, seq);
                    assert!(before.is_none(), "each token is handed out once");
                }
            }
            ToWorker::DrainStarted { last_assignment_seq } => {
                assert_eq!(*last_assignment_seq, stream.last_assignment_seq);
                stream.is_draining = true;
            }
            ToWorker::SnapshotRequest { n } => {
                assert_eq!(*n, stream.last_snapshot + 1, "requests are numbered without gaps");
                stream.last_snapshot = *n;
            }
            ToWorker::OutcomeAcks(items) => check_list(items.len()),
            ToWorker::UnknownOutcomes(items) => check_list(items.len()),
            ToWorker::Cancels(items) => check_list(items.len()),
            ToWorker::Welcome(_)
            | ToWorker::HeartbeatAck { .. }
            | ToWorker::Reconnect { .. }
            | ToWorker::SessionError { .. } => {}
        }
    }

    pub fn closed(&mut self, session: u64) {
        self.streams.entry(session).or_default().is_over = true;
    }
}

fn check_list(n_items: usize) {
    assert!((1..=16_384).contains(&n_items), "{n_items} items in one message");
}

fn at_least_bytes(item: &Assignment) -> usize {
    item.request.plan().step(item.step).payload().len() + item.request.environment().len()
}
