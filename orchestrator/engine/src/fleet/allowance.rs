//! Number of messages that a session may send, and what each costs. Work entitles to its answers, time to a little more.
//! Ends nothing.

use crate::limits::{
    ENTRIES_PER_MESSAGE, MESSAGES_PER_ASSIGNMENT, MESSAGES_PER_CANCEL, TEXT_BYTES_PER_ENTRY,
};
use crate::worker::{ActionSpec, FromWorker};

use alloc::string::String;
use bytes::Bytes;

/// What is left of a session's messages, in thousandths, so that each millisecond counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    left_milli: u64,
    burst_milli: u64,
    /// Messages per second are thousandths of a message per millisecond.
    milli_per_ms: u64,
    counted_at_ms: u64,
}

impl Allowance {
    pub(super) fn new(burst: u32, per_second: u32, now_ms: u64) -> Self {
        let burst_milli = u64::from(burst) * MILLI;
        Self {
            left_milli: burst_milli,
            burst_milli,
            milli_per_ms: u64::from(per_second),
            counted_at_ms: now_ms,
        }
    }

    /// Takes what a message costs; false if less is left. `n_held`: attempts that the session has.
    pub(super) fn take(&mut self, cost: u64, n_held: usize, now_ms: u64) -> bool {
        let grown = (now_ms - self.counted_at_ms).saturating_mul(self.milli_per_ms);
        self.counted_at_ms = now_ms;
        // Time fills it up to the burst and no further; what work entitles to stays.
        let filled = self.left_milli.saturating_add(grown).min(self.burst_milli);
        // What came of attempts goes with them, or quiet hours of work would be saved up for one loud second.
        let held_milli = n_held as u64 * (MESSAGES_PER_ASSIGNMENT + MESSAGES_PER_CANCEL) * MILLI;
        self.left_milli = self
            .left_milli
            .max(filled)
            .min(self.burst_milli.saturating_add(held_milli));
        match self.left_milli.checked_sub(cost * MILLI) {
            Some(left_milli) => {
                self.left_milli = left_milli;
                true
            }
            None => false,
        }
    }

    /// Adds messages that the session's work explains.
    pub(super) fn entitle(&mut self, n_messages: u64) {
        self.left_milli = self.left_milli.saturating_add(n_messages * MILLI);
    }
}

/// What a message costs: one, and one more for each `ENTRIES_PER_MESSAGE` entries of its lists, or as much text.
///
/// Outputs cost nothing: they come once for each attempt, and are carried without being looked at.
pub(super) fn cost_of(message: &FromWorker) -> u64 {
    let (n_entries, text_bytes) = match message {
        FromWorker::Hello(hello) => {
            let labels = hello.labels.iter().map(|(key, value)| key.len() + value.len());
            (
                hello.actions.len() + hello.in_flight.len() + hello.labels.len(),
                hello.worker_id.len() + labels.sum::<usize>() + texts(&hello.actions),
            )
        }
        FromWorker::RegisterActions { actions, .. } => (actions.len(), texts(actions)),
        FromWorker::Capacity { per_action, .. } => {
            (per_action.len(), per_action.keys().map(String::len).sum())
        }
        FromWorker::AttemptAcks {
            started,
            rejected,
            stopped,
        } => (started.len() + rejected.len() + stopped.len(), 0),
        FromWorker::Outcomes { items, unreadable } => (
            items.len() + unreadable.len(),
            unreadable.iter().map(Bytes::len).sum(),
        ),
        FromWorker::Snapshot { in_flight, .. } => (in_flight.len(), 0),
        FromWorker::Heartbeat { .. } | FromWorker::Drain | FromWorker::Goodbye | FromWorker::Unknown => {
            (0, 0)
        }
    };
    1 + cost_of_entries(n_entries + text_bytes / TEXT_BYTES_PER_ENTRY)
}

/// What entries cost beside their message.
pub(super) fn cost_of_entries(n_entries: usize) -> u64 {
    (n_entries / ENTRIES_PER_MESSAGE) as u64
}

fn texts(actions: &[ActionSpec]) -> usize {
    let texts = |spec: &ActionSpec| {
        spec.name.len() + spec.description.len() + spec.input_schema.len() + spec.traits.len()
    };
    actions.iter().map(texts).sum()
}

const MILLI: u64 = 1_000;
