//! Reactions of the worker to each message of the orchestrator.

use crate::error::WorkerError;
use crate::event::SessionEvent;
use crate::session::attempts::Names;
use crate::session::stream::{StreamState, WelcomedStream};
use crate::session::worker_state::{Room, WorkerState};
use crate::session::{ATTEMPTS_MAX, Command, Session, TIMEOUT_MS_MAX, TaskStart, attempt, is_set};
use bytes::Bytes;
use escapement_model::limits::{
    OUTPUT_BYTES_MAX, SESSION_IN_FLIGHT_MAX, SESSION_MESSAGE_BYTES_MAX, WORKER_PROTOCOL,
};
use escapement_model::{AttemptToken, BootId, SessionId};
use escapement_wire::worker::v1::attempt_verdict::Verdict;
use escapement_wire::worker::v1::rejected_attempt::Reason;
use escapement_wire::worker::v1::session_response::Message as Response;
use escapement_wire::worker::v1::{
    Assignment, HeartbeatAck, SessionError, SessionLimits, SessionResponse, Welcome, session_error,
};

/// Reason why a stream has to end: what the other side did wrong.
pub(super) type Violation = String;

impl Session {
    /// Takes one message. An unknown arm is ignored and counted.
    pub(super) fn receive(
        &mut self,
        now_ms: u64,
        response: SessionResponse,
        worker_state: &mut WorkerState,
    ) -> Result<(), Violation> {
        let (StreamState::Greeting { sequence, .. } | StreamState::Up { sequence, .. }) = &mut self.stream
        else {
            // The stream is closing, so its further messages do not matter.
            return Ok(());
        };
        let seq = response.seq;
        sequence
            .received(seq)
            .map_err(|expected| format!("message {seq} came in place of {expected}"))?;
        let Some(message) = response.message else {
            self.ignored_messages += 1;
            return Ok(());
        };
        let welcomed = matches!(self.stream, StreamState::Up { .. });
        match (message, welcomed) {
            (Response::SessionError(error), _) => {
                self.session_error(now_ms, &error);
                Ok(())
            }
            (Response::Welcome(welcome), false) => self.welcome(now_ms, welcome),
            (Response::Welcome(_), true) => Err("a second Welcome".to_owned()),
            (_, false) => Err("a message before Welcome".to_owned()),
            (message, true) => self.receive_welcomed(now_ms, seq, message, worker_state),
        }
    }

    fn receive_welcomed(
        &mut self,
        now_ms: u64,
        seq: u64,
        message: Response,
        worker_state: &mut WorkerState,
    ) -> Result<(), Violation> {
        let welcomed = self
            .stream
            .welcomed_mut()
            .expect("only a welcomed stream comes here");
        match message {
            Response::Welcome(_) | Response::SessionError(_) => {
                unreachable!("both were handled before the others")
            }
            Response::HeartbeatAck(ack) => self.heartbeat_acknowledged(ack)?,
            Response::Assignments(assignments) => {
                welcomed.last_assignment_seq = seq;
                for assignment in assignments.items {
                    self.assign(now_ms, assignment, worker_state)?;
                }
            }
            Response::OutcomeAcks(acks) => {
                for ack in acks.items {
                    // Every verdict is final: the outcome is in the state of the execution, or never will be
                    // (I7).
                    self.attempts.acknowledged(token_of(&ack.attempt_token)?);
                }
            }
            Response::Cancels(cancels) => {
                for cancel in cancels.items {
                    let token = token_of(&cancel.attempt_token)?;
                    let grace_ms = u64::try_from(cancel.grace_ms).unwrap_or(0).min(TIMEOUT_MS_MAX);
                    if !self.attempts.unwanted(now_ms, token, grace_ms, &mut self.effects) {
                        // It does not run here, and the answer says so.
                        self.effects.stopped(token);
                    }
                }
            }
            Response::SnapshotRequest(request) => welcomed.snapshot_wanted = Some(request.n),
            // Messages are read in order, so all assignments before it have been answered.
            Response::DrainStarted(_) => {
                if !welcomed.drain_started && self.stop.is_none() {
                    let orchestrator = self.address.clone();
                    self.effects
                        .command(Command::Tell(SessionEvent::Drained { orchestrator }));
                }
                welcomed.drain_started = true;
            }
            Response::Reconnect(reconnect) => {
                // The orchestrator may need this worker until its last execution has ended: it decides when.
                self.reconnect.spread_over(reconnect.jitter_ms);
                let deadline_ms = u64::try_from(reconnect.deadline_ms)
                    .unwrap_or(0)
                    .min(TIMEOUT_MS_MAX);
                // A later one may only bring the end forward.
                let leave_at_ms = now_ms + deadline_ms;
                welcomed.leave_at_ms = Some(welcomed.leave_at_ms.unwrap_or(leave_at_ms).min(leave_at_ms));
            }
        }
        if self.effects.is_flooded() {
            return Err("more assignments and cancels than credits".to_owned());
        }
        Ok(())
    }

    fn welcome(&mut self, now_ms: u64, welcome: Welcome) -> Result<(), Violation> {
        if welcome.protocol != WORKER_PROTOCOL {
            return Err(format!(
                "revision {} of the protocol was not offered",
                welcome.protocol
            ));
        }
        let session_id = SessionId::from_slice(&welcome.session_id).ok_or("a session id is not 16 bytes")?;
        let boot_id = BootId::from_slice(&welcome.boot_id).ok_or("a boot id is not 16 bytes")?;
        let StreamState::Greeting { sequence, .. } = &self.stream else {
            unreachable!("only a greeting stream is welcomed")
        };
        let sequence = *sequence;
        let hello_sent_at_ms = sequence.hello_sent_at_ms.ok_or("Welcome before Hello")?;
        let mut welcomed = WelcomedStream::new(now_ms, &welcome);
        welcomed.drain_pending = self.stop.is_some();
        self.lease_ends_ms = Some(welcomed.lease_end_ms(hello_sent_at_ms));
        self.limits = limits_of(welcome.limits.as_ref());
        self.stream = StreamState::Up { sequence, welcomed };
        let rebooted = self.previous.is_some_and(|(_, before)| before != boot_id);
        self.previous = Some((session_id, boot_id));
        if rebooted {
            self.attempts
                .apply_to_all(now_ms, attempt::Input::Unwanted, &mut self.effects);
        }
        for verdict in &welcome.verdicts {
            if verdict.verdict() == Verdict::Stop {
                let token = token_of(&verdict.attempt_token)?;
                self.attempts
                    .unwanted(now_ms, token, crate::session::STOP_GRACE_MS, &mut self.effects);
            }
        }
        self.effects.resend(self.attempts.finished());
        self.peers = Some(welcome.peers);
        let refused_actions = welcome
            .refused_actions
            .into_iter()
            .map(|refusal| (refusal.name, refusal.reason))
            .collect();
        self.effects.command(Command::Tell(SessionEvent::Connected {
            orchestrator: self.address.clone(),
            session_id,
            boot_id,
            refused_actions,
        }));
        Ok(())
    }

    fn heartbeat_acknowledged(&mut self, ack: HeartbeatAck) -> Result<(), Violation> {
        let n = ack.n;
        // None says that nothing changed.
        if !ack.peers.is_empty() {
            self.peers = Some(ack.peers);
        }
        let welcomed = self
            .stream
            .welcomed_mut()
            .expect("only a welcomed stream comes here");
        let sent_at_ms = welcomed
            .acknowledged(n)
            .map_err(|last| format!("heartbeat {n} was acknowledged after {last}"))?;
        if let Some(sent_at_ms) = sent_at_ms {
            self.lease_ends_ms = Some(welcomed.lease_end_ms(sent_at_ms));
            self.reconnect.succeeded();
        }
        Ok(())
    }

    fn assign(
        &mut self,
        now_ms: u64,
        assignment: Assignment,
        worker_state: &mut WorkerState,
    ) -> Result<(), Violation> {
        let token = token_of(&assignment.attempt_token)?;
        if self.attempts.contains(token) {
            // It is never started twice; the answer is the same.
            self.effects.started(token);
            return Ok(());
        }
        let leaves = self
            .stream
            .welcomed_mut()
            .is_some_and(|welcomed| welcomed.goodbye_when_idle);
        let refusal = if self.stop.is_some() || leaves {
            Some(Reason::Draining)
        } else if self.lease_ends_ms.is_none() {
            Some(Reason::LeaseExpired)
        } else if worker_state.runs(token) || self.attempts.len() >= ATTEMPTS_MAX {
            // Another orchestrator's attempt has the same token, or too many outcomes are not acknowledged.
            Some(Reason::NoCapacity)
        } else {
            match worker_state.room(&assignment.action, self.limits.in_flight_max) {
                Room::Free => None,
                Room::Full => Some(Reason::NoCapacity),
                Room::NoHandler => Some(Reason::UnknownAction),
            }
        };
        if let Some(reason) = refusal {
            self.effects.rejected(token, reason);
            return Ok(());
        }
        let timeout_ms = u64::try_from(assignment.timeout_ms)
            .unwrap_or(0)
            .clamp(1, TIMEOUT_MS_MAX);
        let deadline_at_ms = now_ms + timeout_ms;
        worker_state.take(token, &assignment.action);
        let names = Names::new(&assignment.action, &assignment.execution_id, &assignment.step_id);
        self.attempts.start(now_ms, token, names, deadline_at_ms);
        self.effects.started(token);
        self.effects.command(Command::Start(Box::new(TaskStart {
            token,
            deadline_at_ms,
            assignment,
        })));
        Ok(())
    }

    fn session_error(&mut self, now_ms: u64, error: &SessionError) {
        use session_error::Code;
        let code = error.code();
        let reason = format!("{}: {}", code.as_str_name(), error.detail);
        match code {
            Code::Superseded => self.finish(Err(WorkerError::Superseded)),
            Code::Unauthorized if error.new_instance => {
                // The orchestrator takes no outcome of attempts that other credentials got.
                self.attempts
                    .apply_to_all(now_ms, attempt::Input::Unwanted, &mut self.effects);
                (self.previous, self.is_another) = (None, true);
                self.reconnect.retry_after(error.retry_after_ms);
                self.close(reason);
            }
            Code::UnsupportedProtocol | Code::Unauthorized => self.finish(Err(WorkerError::Refused(reason))),
            Code::Unspecified
            | Code::ProtocolViolation
            | Code::LimitExceeded
            | Code::Unavailable
            | Code::LeaseExpired
            | Code::DeclaredDead => {
                self.reconnect.retry_after(error.retry_after_ms);
                self.close(reason);
            }
        }
    }
}

/// Returns a token that cannot be read cannot be answered, so it ends the stream.
fn token_of(bytes: &Bytes) -> Result<AttemptToken, Violation> {
    AttemptToken::from_slice(bytes).ok_or_else(|| format!("an attempt token of {} bytes", bytes.len()))
}

/// Returns the limits of the orchestrator, with the defaults for unset ones,
/// and within the abilities of this side.
pub(super) fn limits_of(limits: Option<&SessionLimits>) -> SessionLimits {
    let limits = limits.copied().unwrap_or_default();
    let bytes = |bytes: usize| i64::try_from(bytes).expect("limits are small");
    let message_bytes_max = is_set(limits.message_bytes_max)
        .unwrap_or(i64::MAX)
        .clamp(MESSAGE_BYTES_LEAST, bytes(SESSION_MESSAGE_BYTES_MAX));
    SessionLimits {
        message_bytes_max,
        output_bytes_max: is_set(limits.output_bytes_max)
            .unwrap_or_else(|| bytes(OUTPUT_BYTES_MAX))
            .min(message_bytes_max),
        in_flight_max: if limits.in_flight_max == 0 {
            SESSION_IN_FLIGHT_MAX
        } else {
            limits.in_flight_max
        },
        actions_max: limits.actions_max,
    }
}

/// Bytes for a failure that explains why an outcome was replaced. A lower limit of a message is ignored.
const MESSAGE_BYTES_LEAST: i64 = 1_024;
