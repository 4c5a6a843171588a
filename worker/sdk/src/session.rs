//! The worker's side of the protocol as a state machine. Inputs are messages, ended handler tasks and the time;
//! outputs are messages, commands and the next wake-up.
//! Does not do I/O, read a clock, generate random numbers, run a handler or log.
//!
//! The shell owns the stream, the handler tasks and the clock. It calls `handle_*` when something happened,
//! and then `poll_command` and `poll_transmit` until both are empty.
//! Times are milliseconds on any clock that never goes back.

mod attempt;
mod attempts;
mod inbound;
mod outbox;
mod reconnect;
mod report;
mod stop;
mod stream;
#[cfg(test)]
pub(crate) mod tests;
mod transmit;
pub(crate) mod worker_state;

use crate::error::{StepError, WorkerError};
use crate::event::SessionEvent;
use attempt::Input;
use attempts::Attempts;
use bytes::Bytes;
use escapement_model::limits::HELLO_TIMEOUT_MS;
use escapement_model::{AttemptToken, BootId, Opaque, SessionId};
use escapement_wire::worker::v1::{Assignment, SessionLimits, SessionResponse};
use outbox::Effects;
use reconnect::Reconnect;
use stop::{Step, Stop};
use stream::{Sequence, StreamState};
use worker_state::WorkerState;

/// A worker and one orchestrator, over all their streams.
#[derive(Debug)]
pub(crate) struct Session {
    /// Address of the orchestrator, for people.
    address: String,
    drain_grace_ms: u64,
    attempts: Attempts,
    effects: Effects,
    stream: StreamState,
    /// Until when work may run; `None` before the first `Welcome` and after the lease ran out.
    lease_ends_ms: Option<u64>,
    /// Difference between the instance of this session and that of the worker; 0 at first.
    instance_salt: u64,
    /// The next stream begins another instance.
    is_another: bool,
    /// The last session that was welcomed.
    previous: Option<(SessionId, BootId)>,
    limits: SessionLimits,
    reconnect: Reconnect,
    stop: Option<Stop>,
    finished: Option<Result<(), WorkerError>>,
    /// The other orchestrators, if this one has just named them.
    peers: Option<Vec<String>>,
    ignored_messages: u64,
}

/// Command to the shell.
#[derive(Debug)]
pub enum Command {
    /// Open a stream, the messages of `poll_transmit` first.
    Connect,
    /// Send nothing more on the stream; go on reading.
    EndRequests,
    /// Drop the stream, and then report `handle_disconnected`.
    Close {
        /// Reason, for people.
        reason: String,
    },
    /// Run a handler task.
    Start(Box<TaskStart>),
    /// Cancel a handler task: its result is no longer needed.
    Cancel(AttemptToken),
    /// End a handler task.
    Abort(AttemptToken),
    /// Report an event to the program.
    Tell(SessionEvent),
}

/// A handler task to run.
#[derive(Debug)]
pub struct TaskStart {
    /// Names the attempt.
    pub token: AttemptToken,
    /// Time at which it is over, on the caller's clock.
    pub deadline_at_ms: u64,
    /// The assignment, as the orchestrator sent it.
    pub assignment: Assignment,
}

/// End of a handler task.
#[derive(Debug)]
pub enum TaskEnd {
    /// With an output.
    Success {
        /// Result of the handler.
        output: Opaque,
        /// Warnings of the handler.
        warnings: Vec<StepError>,
    },
    /// With an error, or by a panic.
    Failure(StepError),
    /// The task was aborted.
    Aborted,
}

impl Session {
    /// Creates a session that connects at this time, with the orchestrator at this address.
    pub(crate) fn new(connect_at_ms: u64, address: String, drain_grace_ms: u64) -> Self {
        Self {
            address,
            drain_grace_ms,
            attempts: Attempts::default(),
            effects: Effects::default(),
            stream: StreamState::Waiting {
                until_ms: connect_at_ms,
            },
            lease_ends_ms: None,
            instance_salt: 0,
            is_another: false,
            previous: None,
            limits: inbound::limits_of(None),
            reconnect: Reconnect::default(),
            stop: None,
            finished: None,
            peers: None,
            ignored_messages: 0,
        }
    }

    /// Returns the other orchestrators, once each time that this one names them.
    pub(crate) fn poll_peers(&mut self) -> Option<Vec<String>> {
        self.peers.take()
    }

    /// Returns the last process lifetime of the orchestrator that welcomed this session.
    pub(crate) fn boot_id(&self) -> Option<BootId> {
        self.previous.map(|(_, boot_id)| boot_id)
    }

    /// Returns true if `Hello` was sent or is about to be, and has no answer.
    pub(crate) fn is_greeting(&self) -> bool {
        matches!(self.stream, StreamState::Greeting { .. })
    }

    /// Returns true if the session has this attempt.
    pub(crate) fn has(&self, token: AttemptToken) -> bool {
        self.attempts.contains(token)
    }

    /// Attempts that the worker has not been released from.
    pub(crate) fn attempts(&self) -> impl Iterator<Item = AttemptToken> {
        self.attempts.tokens()
    }

    /// Outcomes that wait for their acknowledgements.
    pub(crate) fn unacknowledged(&self) -> usize {
        self.attempts.n_finished()
    }

    /// Continues after all, on another stream.
    pub(crate) fn revive(&mut self, reason: String) {
        self.finished = None;
        self.close(reason);
    }

    /// Messages of kinds that this revision does not know.
    pub(crate) fn ignored_messages(&self) -> u64 {
        self.ignored_messages
    }

    /// Handles a message that was read.
    pub(crate) fn handle_message(
        &mut self,
        now_ms: u64,
        response: SessionResponse,
        worker_state: &mut WorkerState,
    ) {
        self.handle_timeout(now_ms);
        if let Err(violation) = self.receive(now_ms, response, worker_state) {
            self.close(format!("the orchestrator broke the protocol: {violation}"));
        }
        self.settle();
    }

    /// Handles the end of the stream, or its failure to open. `random` is any number, uniformly distributed.
    pub(crate) fn handle_disconnected(&mut self, now_ms: u64, random: u64, reason: String) {
        self.handle_timeout(now_ms);
        let left = matches!(self.stream, StreamState::Leaving { .. });
        if left && self.stop.is_some() {
            self.finish(Ok(()));
        }
        if !matches!(self.stream, StreamState::Waiting { .. }) {
            self.effects.command(Command::Tell(SessionEvent::Disconnected {
                orchestrator: self.address.clone(),
                reason,
                left,
            }));
        }
        if std::mem::take(&mut self.is_another) {
            // An odd number, so that it is always another one.
            self.instance_salt = self.instance_salt.wrapping_add(random | 1);
        }
        self.effects.clear_stream();
        self.stream = StreamState::Waiting {
            until_ms: now_ms.saturating_add(self.reconnect.delay_ms(random)),
        };
        self.settle();
    }

    /// Handles the end of a handler task.
    pub(crate) fn handle_ended(&mut self, now_ms: u64, token: AttemptToken, end: TaskEnd) {
        self.handle_timeout(now_ms);
        self.attempts
            .ended(now_ms, token, end, &self.limits, &mut self.effects);
        self.settle();
    }

    /// Begins the stop of the worker: drain, then end.
    pub(crate) fn handle_stop(&mut self, now_ms: u64) {
        self.handle_leave(now_ms, self.drain_grace_ms);
    }

    /// Drains this session, then ends it, within this grace or an earlier one that ends sooner.
    pub(crate) fn handle_leave(&mut self, now_ms: u64, grace_ms: u64) {
        let stop = Stop::new(now_ms, grace_ms);
        match &mut self.stop {
            Some(before) if before.is_within(&stop) => {}
            Some(before) => *before = stop,
            None => {
                self.stop = Some(stop);
                if let Some(welcomed) = self.stream.welcomed_mut() {
                    welcomed.drain_pending = true;
                }
            }
        }
        self.handle_timeout(now_ms);
    }

    /// Resumes a draining session, on another stream.
    pub(crate) fn rejoin(&mut self) {
        self.stop = None;
        self.close("it is a peer again".to_owned());
    }

    /// Handles the time that has passed. Every other `handle_*` does this first, so that no work happens in expired time.
    pub(crate) fn handle_timeout(&mut self, now_ms: u64) {
        if self.finished.is_some() {
            return;
        }
        if self.lease_ends_ms.is_some_and(|ends_ms| ends_ms <= now_ms) {
            self.lease_ends_ms = None;
            self.attempts
                .apply_to_all(now_ms, Input::LeaseExpired, &mut self.effects);
            if matches!(self.stream, StreamState::Up { .. }) {
                self.close("no heartbeat was acknowledged within the lease".to_owned());
            }
        }
        self.attempts.handle_timeout(now_ms, &mut self.effects);
        while let Some(step) = self.stop.as_mut().and_then(|stop| stop.poll(now_ms)) {
            match step {
                Step::StopTasks => {
                    self.attempts
                        .apply_to_all(now_ms, Input::DrainOver, &mut self.effects);
                }
                Step::AbandonTasks => {
                    self.attempts
                        .apply_to_all(now_ms, Input::Abandoned, &mut self.effects);
                }
                Step::GiveUp => self.finish(match self.attempts.len() {
                    0 => Ok(()),
                    unsettled => Err(WorkerError::DrainIncomplete { unsettled }),
                }),
            }
        }
        self.handle_stream_timeout(now_ms);
        self.settle();
    }

    /// Returns the latest time for the next call of `handle_timeout`.
    pub(crate) fn poll_timeout(&self) -> Option<u64> {
        let stop = self.stop.as_ref().and_then(Stop::next_wake_ms);
        [
            self.lease_ends_ms,
            self.attempts.next_wake_ms(),
            stop,
            self.stream.next_wake_ms(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Returns the next command.
    pub(crate) fn poll_command(&mut self) -> Option<Command> {
        self.effects.poll_command()
    }

    /// Returns the worker's result, once.
    pub(crate) fn poll_finished(&mut self) -> Option<Result<(), WorkerError>> {
        self.finished.take()
    }

    fn handle_stream_timeout(&mut self, now_ms: u64) {
        match &mut self.stream {
            StreamState::Waiting { until_ms } if *until_ms <= now_ms => {
                self.effects.clear_stream();
                self.effects.command(Command::Connect);
                self.stream = StreamState::Greeting {
                    sequence: Sequence::default(),
                    deadline_ms: now_ms.saturating_add(HELLO_TIMEOUT_MS),
                };
            }
            StreamState::Greeting { deadline_ms, .. } if *deadline_ms <= now_ms => {
                self.close("the orchestrator did not answer Hello in time".to_owned());
            }
            StreamState::Leaving { until_ms } if *until_ms <= now_ms => {
                self.close("the worker said goodbye".to_owned());
                if self.stop.is_some() {
                    self.finish(Ok(()));
                }
            }
            StreamState::Up { welcomed, .. } => {
                welcomed.handle_timeout(now_ms);
                if welcomed.leave_at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
                    welcomed.leave_at_ms = None;
                    welcomed.goodbye_when_idle = true;
                }
            }
            StreamState::Waiting { .. }
            | StreamState::Greeting { .. }
            | StreamState::Leaving { .. }
            | StreamState::Closing => {}
        }
    }

    /// Takes the last steps once nothing is in flight.
    fn settle(&mut self) {
        let idle = self.attempts.len() == 0;
        match &mut self.stream {
            // An assignment came in the meantime: no goodbye with anything in flight.
            StreamState::Up { welcomed, .. } if !idle => welcomed.goodbye = None,
            StreamState::Up { welcomed, .. } if welcomed.goodbye.is_none() => {
                if self.stop.is_some() && welcomed.drain_started {
                    welcomed.goodbye = Some("drained");
                } else if welcomed.goodbye_when_idle {
                    welcomed.goodbye = Some("asked to reconnect");
                }
            }
            // Without a stream no `Goodbye` can be sent.
            StreamState::Waiting { .. } | StreamState::Greeting { .. } if idle && self.stop.is_some() => {
                self.finish(Ok(()))
            }
            StreamState::Up { .. }
            | StreamState::Waiting { .. }
            | StreamState::Greeting { .. }
            | StreamState::Leaving { .. }
            | StreamState::Closing => {}
        }
    }

    /// Asks the shell to drop the stream.
    fn close(&mut self, reason: String) {
        if !matches!(self.stream, StreamState::Closing | StreamState::Waiting { .. }) {
            self.stream = StreamState::Closing;
            self.effects.command(Command::Close { reason });
        }
    }

    fn finish(&mut self, end: Result<(), WorkerError>) {
        if self.finished.is_none() {
            self.finished = Some(end);
        }
    }
}

fn token_bytes(token: AttemptToken) -> Bytes {
    Bytes::copy_from_slice(token.as_bytes())
}

fn is_set(limit: i64) -> Option<i64> {
    (limit > 0).then_some(limit)
}

/// Milliseconds from the cancellation of a handler task to its abortion, if the orchestrator sets no other time.
const STOP_GRACE_MS: u64 = 500;
/// The same when the lease ran out: shorter than the margin that the orchestrator adds to the lease.
const LEASE_STOP_MS: u64 = escapement_model::limits::LEASE_MARGIN_MS / 2;
/// Milliseconds for the orchestrator to end the stream after `Goodbye`.
const LEAVE_MS: u64 = 1_000;
/// Attempts on one session, running or with an outcome that is not acknowledged. Bounds `Hello` as well.
const ATTEMPTS_MAX: usize = 16_384;
/// The longest limit that differs from no limit: a century.
const TIMEOUT_MS_MAX: u64 = 100 * 365 * 24 * 3_600_000;
