//! The order in which the engine takes what waits for it: operators, workers, plans, questions, long questions, open calls.
//! Handles nothing.
//!
//! Every lane has bounds of its own, so a flood in one fills no other,
//! and every batch takes from every lane, so no lane starves another.

use super::Message;
use crate::limits::{
    CONTROL_BATCH_MAX, CONTROL_LANE_MAX, LONG_READS_BATCH_MAX, LONG_READS_LANE_MAX, OPEN_BATCH_MAX,
    OPEN_LANE_MAX, READS_BATCH_MAX, READS_LANE_MAX, READS_PATIENCE, WORKERS_BATCH_MAX, WORKERS_LANE_MAX,
    WRITES_BATCH_MAX, WRITES_LANE_MAX, WRITES_PATIENCE,
};
use std::time::Duration;
use tokio::sync::mpsc;

/// On which way a message goes to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Operators and the process itself.
    Control,
    /// Sessions, and outcomes without a session.
    Workers,
    /// Plans that are handed in.
    Writes,
    /// Questions of callers.
    Reads,
    /// Questions of callers that take the engine long: why an execution waits, and which actions there are.
    LongReads,
    /// Calls that were let in before and ask on: watchers for the next piece, callers of an accepted plan for its result.
    /// Open calls are bounded, so each may wait for its place.
    Open,
}

/// The sending ends.
#[derive(Debug)]
pub(crate) struct Lanes([mpsc::Sender<Message>; N_LANES]);

/// The receiving ends.
#[derive(Debug)]
pub(crate) struct LaneReceivers([mpsc::Receiver<Message>; N_LANES]);

/// Reason why a message was not handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotSent {
    /// The engine's thread has ended.
    Gone,
    /// The lane stayed full for as long as a caller waits.
    Full,
}

pub(crate) fn lanes() -> (Lanes, LaneReceivers) {
    let (senders, receivers): (Vec<_>, Vec<_>) = ORDER.iter().map(|lane| mpsc::channel(lane.row().0)).unzip();
    let every = "one for each lane";
    (
        Lanes(senders.try_into().expect(every)),
        LaneReceivers(receivers.try_into().expect(every)),
    )
}

impl Lanes {
    /// Hands a message in, once there is room.
    pub(crate) async fn send(&self, lane: Lane, message: Message) -> Result<(), NotSent> {
        let sender = &self.0[lane.place()];
        let (_, _, Some(patience)) = lane.row() else {
            return sender.send(message).await.map_err(|_| NotSent::Gone);
        };
        sender
            .send_timeout(message, patience)
            .await
            .map_err(|error| match error {
                mpsc::error::SendTimeoutError::Timeout(_) => NotSent::Full,
                mpsc::error::SendTimeoutError::Closed(_) => NotSent::Gone,
            })
    }
}

impl Lanes {
    /// How many messages wait, by lane, in the order of the lanes.
    pub(crate) fn depths(&self) -> Vec<(&'static str, usize)> {
        let names = ["control", "workers", "writes", "reads", "long_reads", "open"];
        let depth = |sender: &mpsc::Sender<Message>| sender.max_capacity() - sender.capacity();
        names.into_iter().zip(self.0.iter().map(depth)).collect()
    }
}

impl LaneReceivers {
    /// Waits for a message of any lane; returns `None` if no sender is left.
    pub(crate) async fn recv(&mut self) -> Option<Message> {
        let [control, workers, writes, reads, long_reads, open] = &mut self.0;
        // Biased: in the order of the lanes. `top_up` takes from the others.
        tokio::select! {
            biased;
            message = control.recv() => message,
            message = workers.recv() => message,
            message = writes.recv() => message,
            message = reads.recv() => message,
            message = long_reads.recv() => message,
            message = open.recv() => message,
        }
    }

    /// Takes what else waits, as much of each lane as a batch has of it.
    pub(crate) fn top_up(&mut self, batch: &mut Vec<Message>) {
        for (lane, receiver) in ORDER.iter().zip(&mut self.0) {
            let (_, batch_max, _) = lane.row();
            for _ in 0..batch_max {
                let Ok(message) = receiver.try_recv() else {
                    break;
                };
                batch.push(message);
            }
        }
    }
}

impl Lane {
    fn place(self) -> usize {
        self as usize
    }

    /// Messages that wait in it, those of them that a batch takes, and how long a message waits for room: `None` until there is
    /// some, because who waits is bounded elsewhere.
    const fn row(self) -> (usize, usize, Option<Duration>) {
        match self {
            Lane::Control => (CONTROL_LANE_MAX, CONTROL_BATCH_MAX, None),
            Lane::Workers => (WORKERS_LANE_MAX, WORKERS_BATCH_MAX, None),
            Lane::Writes => (WRITES_LANE_MAX, WRITES_BATCH_MAX, Some(WRITES_PATIENCE)),
            Lane::Reads => (READS_LANE_MAX, READS_BATCH_MAX, Some(READS_PATIENCE)),
            Lane::LongReads => (LONG_READS_LANE_MAX, LONG_READS_BATCH_MAX, Some(READS_PATIENCE)),
            Lane::Open => (OPEN_LANE_MAX, OPEN_BATCH_MAX, None),
        }
    }
}

const N_LANES: usize = 6;
const ORDER: [Lane; N_LANES] = [
    Lane::Control,
    Lane::Workers,
    Lane::Writes,
    Lane::Reads,
    Lane::LongReads,
    Lane::Open,
];

#[cfg(test)]
mod tests;
