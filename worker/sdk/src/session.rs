//! The worker's side of the protocol as a state machine: messages, ended bodies and the time come in;
//! messages, commands and the next wake-up go out.
//! Does no I/O, reads no clock, draws no random number, runs no handler, logs nothing.
//!
//! The shell owns the stream, the bodies and the clock. It calls `handle_*` when something happened,
//! and then `poll_command` and `poll_transmit` until both are empty.
//! Times are milliseconds on any clock that never goes back.

mod attempt;
mod inbound;
mod ledger;
mod link;
mod outbox;
mod reconnect;
mod report;
pub(crate) mod shared;
mod stop;
#[cfg(test)]
mod tests;

use crate::error::{StepError, WorkerError};
use crate::worker::SessionEvent;
use attempt::Input;
use bytes::Bytes;
use escapement_model::limits::HELLO_TIMEOUT_MS;
use escapement_model::{AttemptToken, BootId, Opaque, SessionId};
use escapement_wire::worker::v1::session_request::Message as Request;
use escapement_wire::worker::v1::{
    Assignment, Drain, Goodbye, Heartbeat, Hello, SessionLimits, SessionRequest, SessionResponse, Snapshot,
};
use ledger::Ledger;
use link::{Link, Stream};
use outbox::Effects;
use reconnect::Reconnect;
use shared::Shared;
use stop::{Step, Stop};

/// One worker and one orchestrator, over all their streams.
#[derive(Debug)]
pub(crate) struct Session {
    /// Of the orchestrator, for people.
    address: String,
    drain_grace_ms: u64,
    ledger: Ledger,
    effects: Effects,
    link: Link,
    /// Until when work may run; `None` before the first `Welcome` and after the lease ran out.
    lease_ends_ms: Option<u64>,
    /// The last session that was welcomed.
    previous: Option<(SessionId, BootId)>,
    limits: SessionLimits,
    reconnect: Reconnect,
    stop: Option<Stop>,
    finished: Option<Result<(), WorkerError>>,
    /// The other orchestrators, where this one has just named them.
    peers: Option<Vec<String>>,
    ignored_messages: u64,
}

/// What the shell has to do.
#[derive(Debug)]
pub enum Command {
    /// Open a stream, the messages of `poll_transmit` first.
    Connect,
    /// Send nothing more on the stream; go on reading.
    EndRequests,
    /// Drop the stream, and then report `handle_disconnected`.
    Close {
        /// Why, for people.
        reason: String,
    },
    /// Run a body.
    Start(Box<Job>),
    /// Tell a body that it is not wanted any more.
    Cancel(AttemptToken),
    /// End a body.
    Abort(AttemptToken),
    /// Tell the program.
    Tell(SessionEvent),
}

/// A body to run.
#[derive(Debug)]
pub struct Job {
    /// Names the attempt.
    pub token: AttemptToken,
    /// When it is over, on the caller's clock.
    pub deadline_at_ms: u64,
    /// As the orchestrator sent it.
    pub assignment: Assignment,
}

/// How a body ended.
#[derive(Debug)]
pub enum BodyEnd {
    /// With an output.
    Success {
        /// What it returned.
        output: Opaque,
        /// What it warned of.
        warnings: Vec<StepError>,
    },
    /// With an error, or by a panic.
    Failure(StepError),
    /// Its task was aborted.
    Aborted,
}

impl Session {
    /// A session that connects at this time, with the orchestrator at this address.
    pub(crate) fn new(connect_at_ms: u64, address: String, drain_grace_ms: u64) -> Self {
        Self {
            address,
            drain_grace_ms,
            ledger: Ledger::default(),
            effects: Effects::default(),
            link: Link::Waiting {
                until_ms: connect_at_ms,
            },
            lease_ends_ms: None,
            previous: None,
            limits: inbound::limits_of(None),
            reconnect: Reconnect::default(),
            stop: None,
            finished: None,
            peers: None,
            ignored_messages: 0,
        }
    }

    /// The other orchestrators, once each time that this one names them.
    pub(crate) fn poll_peers(&mut self) -> Option<Vec<String>> {
        self.peers.take()
    }

    /// The last process lifetime of the orchestrator that welcomed this session.
    pub(crate) fn boot_id(&self) -> Option<BootId> {
        self.previous.map(|(_, boot_id)| boot_id)
    }

    /// `Hello` was sent or is about to be, and not answered.
    pub(crate) fn is_greeting(&self) -> bool {
        matches!(self.link, Link::Greeting { .. })
    }

    /// Whether an attempt is entered here.
    pub(crate) fn has(&self, token: AttemptToken) -> bool {
        self.ledger.contains(token)
    }

    /// Attempts that the worker has not been released from.
    pub(crate) fn attempts(&self) -> impl Iterator<Item = AttemptToken> {
        self.ledger.tokens()
    }

    /// Goes on after all, on another stream.
    pub(crate) fn revive(&mut self, reason: String) {
        self.finished = None;
        self.close(reason);
    }

    /// Messages of kinds that this revision does not know.
    pub(crate) fn ignored_messages(&self) -> u64 {
        self.ignored_messages
    }

    /// A message was read.
    pub(crate) fn handle_message(&mut self, now_ms: u64, response: SessionResponse, shared: &mut Shared) {
        self.handle_timeout(now_ms);
        if let Err(violation) = self.receive(now_ms, response, shared) {
            self.close(format!("the orchestrator broke the protocol: {violation}"));
        }
        self.settle();
    }

    /// The stream ended, or could not be opened. `random` is any number, uniformly drawn.
    pub(crate) fn handle_disconnected(&mut self, now_ms: u64, random: u64, reason: String) {
        self.handle_timeout(now_ms);
        let left = matches!(self.link, Link::Leaving { .. });
        if left && self.stop.is_some() {
            self.finish(Ok(()));
        }
        if !matches!(self.link, Link::Waiting { .. }) {
            self.effects.command(Command::Tell(SessionEvent::Disconnected {
                orchestrator: self.address.clone(),
                reason,
                left,
            }));
        }
        self.effects.clear_stream();
        self.link = Link::Waiting {
            until_ms: now_ms.saturating_add(self.reconnect.delay_ms(random)),
        };
        self.settle();
    }

    /// A body ended.
    pub(crate) fn handle_ended(&mut self, now_ms: u64, token: AttemptToken, end: BodyEnd) {
        self.handle_timeout(now_ms);
        self.ledger
            .ended(now_ms, token, end, &self.limits, &mut self.effects);
        self.settle();
    }

    /// The worker is asked to stop: drain, then end.
    pub(crate) fn handle_stop(&mut self, now_ms: u64) {
        self.handle_leave(now_ms, self.drain_grace_ms);
    }

    /// The worker is to drain this session, then to end it, within this grace or one that was given before and ends
    /// sooner.
    pub(crate) fn handle_leave(&mut self, now_ms: u64, grace_ms: u64) {
        let stop = Stop::new(now_ms, grace_ms);
        match &mut self.stop {
            Some(before) if before.is_within(&stop) => {}
            Some(before) => *before = stop,
            None => {
                self.stop = Some(stop);
                if let Some(live) = self.link.live_mut() {
                    live.drain_pending = true;
                }
            }
        }
        self.handle_timeout(now_ms);
    }

    /// A session that was to drain is wanted again: it goes on, on another stream.
    pub(crate) fn rejoin(&mut self) {
        self.stop = None;
        self.close("it is a peer again".to_owned());
    }

    /// Time has passed. Every other `handle_*` does this first, so that nothing is done in expired time.
    pub(crate) fn handle_timeout(&mut self, now_ms: u64) {
        if self.finished.is_some() {
            return;
        }
        if self.lease_ends_ms.is_some_and(|ends_ms| ends_ms <= now_ms) {
            self.lease_ends_ms = None;
            self.ledger
                .apply_to_all(now_ms, Input::LeaseExpired, &mut self.effects);
            if matches!(self.link, Link::Up { .. }) {
                self.close("no heartbeat was acknowledged within the lease".to_owned());
            }
        }
        self.ledger.handle_timeout(now_ms, &mut self.effects);
        while let Some(step) = self.stop.as_mut().and_then(|stop| stop.poll(now_ms)) {
            match step {
                Step::StopBodies => {
                    self.ledger
                        .apply_to_all(now_ms, Input::DrainOver, &mut self.effects);
                }
                Step::AbandonBodies => {
                    self.ledger
                        .apply_to_all(now_ms, Input::Abandoned, &mut self.effects);
                }
                Step::GiveUp => self.finish(match self.ledger.len() {
                    0 => Ok(()),
                    unsettled => Err(WorkerError::DrainIncomplete { unsettled }),
                }),
            }
        }
        self.handle_link_timeout(now_ms);
        self.settle();
    }

    /// When to call `handle_timeout`, at the latest.
    pub(crate) fn poll_timeout(&self) -> Option<u64> {
        let stop = self.stop.as_ref().and_then(Stop::next_wake_ms);
        [
            self.lease_ends_ms,
            self.ledger.next_wake_ms(),
            stop,
            self.link.next_wake_ms(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The next thing to do.
    pub(crate) fn poll_command(&mut self) -> Option<Command> {
        self.effects.poll_command()
    }

    /// How the worker ended, once.
    pub(crate) fn poll_finished(&mut self) -> Option<Result<(), WorkerError>> {
        self.finished.take()
    }

    /// Whether `poll_transmit` has a message.
    pub(crate) fn wants_to_transmit(&self, shared: &Shared) -> bool {
        match &self.link {
            Link::Greeting { stream, .. } => stream.hello_sent_at_ms.is_none(),
            Link::Up { live, .. } => {
                self.effects.has_acks()
                    || self.effects.has_outcomes()
                    || live.heartbeat_pending()
                    || self.has_news(live, shared)
                    || live.snapshot_wanted.is_some()
                    || live.drain_pending
                    || live.goodbye.is_some()
            }
            Link::Waiting { .. } | Link::Leaving { .. } | Link::Closing => false,
        }
    }

    /// The next message to send.
    pub(crate) fn poll_transmit(&mut self, now_ms: u64, shared: &mut Shared) -> Option<SessionRequest> {
        let message = match &mut self.link {
            Link::Greeting { stream, .. } if stream.hello_sent_at_ms.is_none() => {
                stream.hello_sent_at_ms = Some(now_ms);
                Request::Hello(self.greeting(shared))
            }
            Link::Up { .. } => self.next_request(now_ms, shared)?,
            Link::Greeting { .. } | Link::Waiting { .. } | Link::Leaving { .. } | Link::Closing => {
                return None;
            }
        };
        let (Link::Greeting { stream, .. } | Link::Up { stream, .. }) = &mut self.link else {
            unreachable!("only an open stream has a message")
        };
        let request = SessionRequest {
            seq: stream.next_seq(),
            message: Some(message),
        };
        if matches!(request.message, Some(Request::Goodbye(_))) {
            self.link = Link::Leaving {
                until_ms: now_ms + LEAVE_MS,
            };
            self.effects.command(Command::EndRequests);
        }
        Some(request)
    }

    /// In this order: what the orchestrator waits for, what keeps the lease, what is large, and the end.
    fn next_request(&mut self, now_ms: u64, shared: &Shared) -> Option<Request> {
        if let Some(acks) = self.effects.take_acks() {
            return Some(acks);
        }
        let live = self.link.live_mut()?;
        if let Some(n) = live.take_heartbeat(now_ms) {
            return Some(Request::Heartbeat(Heartbeat {
                n,
                in_flight: u32::try_from(self.ledger.len()).unwrap_or(u32::MAX),
                in_flight_hash: Bytes::copy_from_slice(&self.ledger.hash()),
            }));
        }
        // A worker that stops has said that it wants nothing; no level takes that back.
        if self.stop.is_none() && live.may_tell_news() {
            // The actions go first: they bring levels of their own, which the asked ones replace.
            if live.actions_told < shared.actions_revision() {
                live.actions_told = shared.actions_revision();
                if live.capacity_told == shared.capacity_revision() {
                    live.pause_news(now_ms);
                }
                return shared.actions().map(Request::RegisterActions);
            }
            if live.capacity_told < shared.capacity_revision() {
                live.capacity_told = shared.capacity_revision();
                live.pause_news(now_ms);
                return shared.capacity().map(Request::Capacity);
            }
        }
        if let Some(n) = live.snapshot_wanted.take() {
            let last_assignment_seq = live.last_assignment_seq;
            let in_flight = self.ledger.in_flight();
            return Some(Request::Snapshot(Snapshot {
                n,
                last_assignment_seq,
                in_flight,
            }));
        }
        if std::mem::take(&mut live.drain_pending) {
            let deadline_ms = self.stop.as_ref().map_or(0, |stop| stop.deadline_ms(now_ms));
            return Some(Request::Drain(Drain {
                deadline_ms,
                reason: "the worker stops".to_owned(),
            }));
        }
        if let Some(outcomes) = self.effects.take_outcomes(&mut self.ledger, &self.limits) {
            return Some(outcomes);
        }
        let reason = self.link.live_mut()?.goodbye.take()?;
        Some(Request::Goodbye(Goodbye {
            reason: reason.to_owned(),
        }))
    }

    /// Registration, and after a break everything that the worker still has.
    fn greeting(&self, shared: &mut Shared) -> Hello {
        let hello = shared.next_hello();
        let (session_id, boot_id) = self.previous.unzip();
        Hello {
            previous_session_id: session_id
                .map_or_else(Bytes::new, |id| Bytes::copy_from_slice(id.as_bytes())),
            boot_id_seen: boot_id.map_or_else(Bytes::new, |id| Bytes::copy_from_slice(id.as_bytes())),
            in_flight: self.ledger.in_flight(),
            max_in_flight: if self.stop.is_some() {
                0
            } else {
                hello.max_in_flight
            },
            ..hello
        }
    }

    /// The program has changed what the worker offers since this stream was told.
    fn has_news(&self, live: &link::Live, shared: &Shared) -> bool {
        self.stop.is_none()
            && live.may_tell_news()
            && (live.actions_told < shared.actions_revision()
                || live.capacity_told < shared.capacity_revision())
    }

    fn handle_link_timeout(&mut self, now_ms: u64) {
        match &mut self.link {
            Link::Waiting { until_ms } if *until_ms <= now_ms => {
                self.effects.clear_stream();
                self.effects.command(Command::Connect);
                self.link = Link::Greeting {
                    stream: Stream::default(),
                    deadline_ms: now_ms.saturating_add(HELLO_TIMEOUT_MS),
                };
            }
            Link::Greeting { deadline_ms, .. } if *deadline_ms <= now_ms => {
                self.close("the orchestrator did not answer Hello in time".to_owned());
            }
            Link::Leaving { until_ms } if *until_ms <= now_ms => {
                self.close("the worker said goodbye".to_owned());
                if self.stop.is_some() {
                    self.finish(Ok(()));
                }
            }
            Link::Up { live, .. } => {
                live.handle_timeout(now_ms);
                if live.leave_at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
                    live.leave_at_ms = None;
                    live.goodbye_when_idle = true;
                }
            }
            Link::Waiting { .. } | Link::Greeting { .. } | Link::Leaving { .. } | Link::Closing => {}
        }
    }

    /// Takes the last steps once nothing is in flight.
    fn settle(&mut self) {
        let idle = self.ledger.len() == 0;
        match &mut self.link {
            // An assignment came in the meantime: no goodbye with anything in flight.
            Link::Up { live, .. } if !idle => live.goodbye = None,
            Link::Up { live, .. } if live.goodbye.is_none() => {
                if self.stop.is_some() && live.drain_started {
                    live.goodbye = Some("drained");
                } else if live.goodbye_when_idle {
                    live.goodbye = Some("asked to reconnect");
                }
            }
            // Nobody has to be told anything.
            Link::Waiting { .. } | Link::Greeting { .. } if idle && self.stop.is_some() => {
                self.finish(Ok(()))
            }
            Link::Up { .. }
            | Link::Waiting { .. }
            | Link::Greeting { .. }
            | Link::Leaving { .. }
            | Link::Closing => {}
        }
    }

    /// Asks the shell to drop the stream.
    fn close(&mut self, reason: String) {
        if !matches!(self.link, Link::Closing | Link::Waiting { .. }) {
            self.link = Link::Closing;
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

/// From the cancellation of a body to its abortion, where the orchestrator names no other time.
const STOP_GRACE_MS: u64 = 500;
/// The same when the lease ran out: shorter than the margin that the orchestrator adds to the lease.
const LEASE_STOP_MS: u64 = escapement_model::limits::LEASE_MARGIN_MS / 2;
/// What the orchestrator may take to end the stream after `Goodbye`.
const LEAVE_MS: u64 = 1_000;
/// Attempts on one session, running or with an outcome that is not acknowledged. Bounds `Hello` as well.
const ATTEMPTS_MAX: usize = 16_384;
/// The longest limit that is told apart from none: a century.
const TIMEOUT_MS_MAX: u64 = 100 * 365 * 24 * 3_600_000;
