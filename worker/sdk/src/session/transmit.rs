//! Order of the messages on the stream.

use crate::session::stream::{StreamState, WelcomedStream};
use crate::session::worker_state::WorkerState;
use crate::session::{Command, LEAVE_MS, Session};
use bytes::Bytes;
use escapement_wire::worker::v1::session_request::Message as Request;
use escapement_wire::worker::v1::{Drain, Goodbye, Heartbeat, Hello, SessionRequest, Snapshot};

impl Session {
    /// Returns true if `poll_transmit` has a message.
    pub(crate) fn wants_to_transmit(&self, worker_state: &WorkerState) -> bool {
        match &self.stream {
            StreamState::Greeting { sequence, .. } => sequence.hello_sent_at_ms.is_none(),
            StreamState::Up { welcomed, .. } => {
                self.effects.has_acks()
                    || self.effects.has_outcomes()
                    || welcomed.heartbeat_pending()
                    || self.has_update(welcomed, worker_state)
                    || welcomed.snapshot_wanted.is_some()
                    || welcomed.drain_pending
                    || welcomed.goodbye.is_some()
            }
            StreamState::Waiting { .. } | StreamState::Leaving { .. } | StreamState::Closing => false,
        }
    }

    /// Returns the next message to send.
    pub(crate) fn poll_transmit(
        &mut self,
        now_ms: u64,
        worker_state: &mut WorkerState,
    ) -> Option<SessionRequest> {
        let message = match &mut self.stream {
            StreamState::Greeting { sequence, .. } if sequence.hello_sent_at_ms.is_none() => {
                sequence.hello_sent_at_ms = Some(now_ms);
                Request::Hello(self.greeting(worker_state))
            }
            StreamState::Up { .. } => self.next_request(now_ms, worker_state)?,
            StreamState::Greeting { .. }
            | StreamState::Waiting { .. }
            | StreamState::Leaving { .. }
            | StreamState::Closing => {
                return None;
            }
        };
        let (StreamState::Greeting { sequence, .. } | StreamState::Up { sequence, .. }) = &mut self.stream
        else {
            unreachable!("only an open stream has a message")
        };
        let request = SessionRequest {
            seq: sequence.next_seq(),
            message: Some(message),
        };
        if matches!(request.message, Some(Request::Goodbye(_))) {
            self.stream = StreamState::Leaving {
                until_ms: now_ms + LEAVE_MS,
            };
            self.effects.command(Command::EndRequests);
        }
        Some(request)
    }

    /// Returns the next request. In this order: answers that the orchestrator waits for, messages that keep the lease, large
    /// messages, the end.
    fn next_request(&mut self, now_ms: u64, worker_state: &WorkerState) -> Option<Request> {
        if let Some(acks) = self.effects.take_acks() {
            return Some(acks);
        }
        let welcomed = self.stream.welcomed_mut()?;
        if let Some(n) = welcomed.take_heartbeat(now_ms) {
            return Some(Request::Heartbeat(Heartbeat {
                n,
                in_flight: u32::try_from(self.attempts.len()).unwrap_or(u32::MAX),
                in_flight_hash: Bytes::copy_from_slice(&self.attempts.hash()),
            }));
        }
        // A worker that stops has said that it wants nothing; no level takes that back.
        if self.stop.is_none() && welcomed.may_send_update() {
            // The actions go first: they bring levels of their own, which the asked ones replace.
            if welcomed.actions_told < worker_state.actions_revision() {
                welcomed.actions_told = worker_state.actions_revision();
                if welcomed.capacity_told == worker_state.capacity_revision() {
                    welcomed.pause_updates(now_ms);
                }
                return worker_state.actions().map(Request::RegisterActions);
            }
            if welcomed.capacity_told < worker_state.capacity_revision() {
                welcomed.capacity_told = worker_state.capacity_revision();
                welcomed.pause_updates(now_ms);
                return worker_state.capacity().map(Request::Capacity);
            }
        }
        if let Some(n) = welcomed.snapshot_wanted.take() {
            let last_assignment_seq = welcomed.last_assignment_seq;
            let in_flight = self.attempts.in_flight();
            return Some(Request::Snapshot(Snapshot {
                n,
                last_assignment_seq,
                in_flight,
            }));
        }
        if std::mem::take(&mut welcomed.drain_pending) {
            let deadline_ms = self.stop.as_ref().map_or(0, |stop| stop.deadline_ms(now_ms));
            return Some(Request::Drain(Drain {
                deadline_ms,
                reason: "the worker stops".to_owned(),
            }));
        }
        if let Some(outcomes) = self.attempts.take_outcomes(&mut self.effects, &self.limits) {
            return Some(outcomes);
        }
        let reason = self.stream.welcomed_mut()?.goodbye.take()?;
        Some(Request::Goodbye(Goodbye {
            reason: reason.to_owned(),
        }))
    }

    /// Returns the registration, and after a break all attempts that the worker still has.
    fn greeting(&self, worker_state: &mut WorkerState) -> Hello {
        let hello = worker_state.next_hello();
        let (session_id, boot_id) = self.previous.unzip();
        Hello {
            instance_id: instance(&hello.instance_id, self.instance_salt),
            previous_session_id: session_id
                .map_or_else(Bytes::new, |id| Bytes::copy_from_slice(id.as_bytes())),
            boot_id_seen: boot_id.map_or_else(Bytes::new, |id| Bytes::copy_from_slice(id.as_bytes())),
            in_flight: self.attempts.in_flight(),
            max_in_flight: if self.stop.is_some() {
                0
            } else {
                hello.max_in_flight
            },
            ..hello
        }
    }

    /// Returns true if the program has changed the worker's actions or levels since this stream sent them.
    fn has_update(&self, welcomed: &WelcomedStream, worker_state: &WorkerState) -> bool {
        self.stop.is_none()
            && welcomed.may_send_update()
            && (welcomed.actions_told < worker_state.actions_revision()
                || welcomed.capacity_told < worker_state.capacity_revision())
    }
}

/// Returns the instance of a session by that of its worker.
fn instance(of_worker: &Bytes, salt: u64) -> Bytes {
    let salt = salt.to_be_bytes().into_iter().chain(std::iter::repeat(0));
    of_worker
        .iter()
        .zip(salt)
        .map(|(byte, salt)| byte ^ salt)
        .collect()
}
