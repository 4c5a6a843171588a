//! What goes to one worker: numbers the messages and keeps each below the size limit.
//! Decides nothing; ends when the engine's end of the queue is gone and the queue is empty.

use crate::convert::session_out::{self, Greeting};
use crate::engine_link::Outbound;
use crate::limits::ASSIGNMENTS_OVERHEAD_BYTES;
use escapement_engine::{Assignment, ToWorker};
use escapement_model::limits::SESSION_MESSAGE_BYTES_MAX;
use escapement_wire::worker::v1;
use escapement_wire::worker::v1::session_response::Message;
use prost::Message as _;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::{mpsc, oneshot};
use tonic::Status;

/// The response stream of one session.
#[derive(Debug)]
pub(crate) struct SessionStream {
    queue: mpsc::Receiver<Outbound>,
    numbering: Numbering,
    /// Why the stream ends, where it does not end well.
    end: oneshot::Receiver<Status>,
    /// Never used: its drop tells the reader that this stream is gone.
    _alive: oneshot::Sender<Infallible>,
}

impl SessionStream {
    pub(crate) fn new(
        queue: mpsc::Receiver<Outbound>,
        greeting: Greeting,
        end: oneshot::Receiver<Status>,
        alive: oneshot::Sender<Infallible>,
    ) -> Self {
        Self {
            queue,
            numbering: Numbering::new(greeting),
            end,
            _alive: alive,
        }
    }
}

impl futures_core::Stream for SessionStream {
    type Item = Result<v1::SessionResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(response) = self.numbering.ready.pop_front() {
                return Poll::Ready(Some(Ok(response)));
            }
            match self.queue.poll_recv(cx) {
                Poll::Ready(Some(outbound)) => self.numbering.push(outbound),
                Poll::Ready(None) => {
                    // Closed first, so that a reason is given once and a later poll ends the stream.
                    let status = self.end.try_recv().ok();
                    self.end.close();
                    return Poll::Ready(status.map(Err));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

/// Numbers messages. The numbers are given here and not taken from the engine, because a large `Assignments`
/// becomes
/// several messages and the answer to an unreadable token comes from the shell.
#[derive(Debug)]
pub(crate) struct Numbering {
    greeting: Greeting,
    seq: u64,
    last_assignment_seq: u64,
    /// Numbered, not sent yet; more than one only after a split.
    ready: VecDeque<v1::SessionResponse>,
}

impl Numbering {
    pub(crate) fn new(greeting: Greeting) -> Self {
        Self {
            greeting,
            seq: 0,
            last_assignment_seq: 0,
            ready: VecDeque::new(),
        }
    }

    fn push(&mut self, outbound: Outbound) {
        match outbound {
            Outbound::Engine(ToWorker::Assignments(assignments)) => self.push_assignments(&assignments),
            Outbound::Engine(ToWorker::DrainStarted { .. }) => {
                let last_assignment_seq = self.last_assignment_seq;
                self.number(Message::DrainStarted(v1::DrainStarted { last_assignment_seq }));
            }
            Outbound::Engine(message) => self.number(session_out::message(message, &self.greeting)),
        }
    }

    /// One assignment always fits: payload, environment and headers have limits of their own.
    fn push_assignments(&mut self, assignments: &[Assignment]) {
        let mut items = Vec::new();
        let mut bytes_left = SESSION_MESSAGE_BYTES_MAX - ASSIGNMENTS_OVERHEAD_BYTES;
        for assignment in assignments {
            let item = session_out::assignment(assignment);
            let bytes = item.encoded_len() + ITEM_HEADER_BYTES;
            if bytes > bytes_left && !items.is_empty() {
                self.number_assignments(std::mem::take(&mut items));
                bytes_left = SESSION_MESSAGE_BYTES_MAX - ASSIGNMENTS_OVERHEAD_BYTES;
            }
            bytes_left = bytes_left.saturating_sub(bytes);
            items.push(item);
        }
        if !items.is_empty() {
            self.number_assignments(items);
        }
    }

    fn number_assignments(&mut self, items: Vec<v1::Assignment>) {
        self.number(Message::Assignments(v1::Assignments { items }));
        self.last_assignment_seq = self.seq;
    }

    fn number(&mut self, message: Message) {
        self.seq += 1;
        self.ready.push_back(v1::SessionResponse {
            seq: self.seq,
            message: Some(message),
        });
    }
}

/// Key and length of one item.
const ITEM_HEADER_BYTES: usize = 6;

#[cfg(test)]
mod tests;
