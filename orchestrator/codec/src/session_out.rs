//! What workers are told, from the engine to the wire. Payloads and environments stay the bytes that came in.

use crate::repeats;
use crate::trace::{self, Sampling, Trace};
use bytes::Bytes;
use escapement_access::Denial;
use escapement_engine::{
    AckVerdict, Assignment, Cancel, CancelReason, KeepOrStop, SessionErrorCode, ToWorker, Welcome,
};
use escapement_model::{AttemptToken, BootId, limits};
use escapement_wire::worker::v1;
use escapement_wire::worker::v1::session_response::Message;
use std::sync::Arc;

/// What workers are told beside what the engine decides.
#[derive(Clone, Debug)]
pub struct WelcomeDefaults {
    /// This process lifetime.
    pub boot_id: BootId,
    /// Milliseconds between heartbeats.
    pub heartbeat_interval_ms: u64,
    /// Milliseconds of the lease.
    pub lease_ms: u64,
    /// Addresses of the other orchestrators.
    pub peers: Arc<[String]>,
    /// Present if traces are exported: then each attempt is told the span that it will have. Without it each attempt is told
    /// what the caller said.
    pub traces: Option<Sampling>,
}

/// One message; the engine sees to its size.
pub fn message(message: ToWorker, greeting: &WelcomeDefaults) -> Message {
    match message {
        ToWorker::Assignments(items) => Message::Assignments(v1::Assignments {
            items: items
                .iter()
                .map(|item| assignment(item, greeting.traces))
                .collect(),
        }),
        ToWorker::Welcome(welcome) => Message::Welcome(self::welcome(welcome, greeting)),
        ToWorker::HeartbeatAck { n } => Message::HeartbeatAck(v1::HeartbeatAck { n, peers: Vec::new() }),
        ToWorker::OutcomeAcks(items) => Message::OutcomeAcks(v1::OutcomeAcks {
            items: items
                .into_iter()
                .map(|(token, verdict)| outcome_ack(token, verdict))
                .collect(),
        }),
        ToWorker::UnknownOutcomes(tokens) => unknown_outcomes(tokens),
        ToWorker::SnapshotRequest { n } => Message::SnapshotRequest(v1::SnapshotRequest { n }),
        ToWorker::Cancels(items) => Message::Cancels(v1::Cancels {
            items: items.into_iter().map(cancel).collect(),
        }),
        ToWorker::DrainStarted { last_assignment_seq } => {
            Message::DrainStarted(v1::DrainStarted { last_assignment_seq })
        }
        ToWorker::Reconnect {
            jitter_ms,
            deadline_ms,
        } => Message::Reconnect(v1::Reconnect {
            reason: "The orchestrator stops.".to_owned(),
            jitter_ms: milliseconds(jitter_ms),
            deadline_ms: milliseconds(deadline_ms),
        }),
        ToWorker::SessionError {
            code,
            detail,
            retry_after_ms,
        } => session_error(session_error_code(code), detail, retry_after_ms),
    }
}

/// The end of a session for a reason that the engine cannot see.
pub fn error(code: SessionErrorCode, detail: String) -> Message {
    session_error(session_error_code(code), detail, RETRY_AFTER_MS)
}

/// The end of a session that the credentials do not allow. A worker that only finds no place may come again: others leave, and what
/// it runs must not end meanwhile.
pub fn denied(denial: &Denial) -> Message {
    use v1::session_error::Code;
    let detail = format!("{}: {denial}", denial.reason());
    match denial {
        Denial::TooManySessions { .. } => session_error(Code::Unavailable, detail, RETRY_AFTER_MS),
        // Other credentials than before: it may come at once, as another instance.
        Denial::InstanceOfAnother => Message::SessionError(v1::SessionError {
            code: Code::Unauthorized as i32,
            detail,
            retry_after_ms: 0,
            new_instance: true,
        }),
        _ => session_error(Code::Unauthorized, detail, DENIED_RETRY_AFTER_MS),
    }
}

/// The end of a session of which other rules, or the end of its credentials, have taken something away. With other credentials, or
/// with fewer actions, the worker may go on.
pub fn taken_away(denial: &Denial) -> Message {
    let reason = match denial {
        Denial::CredentialsExpired => CREDENTIALS_EXPIRED.to_owned(),
        Denial::ActionNotPermitted { .. } => format!("{}: {denial}", denial.reason()),
        denial => return denied(denial),
    };
    Message::Reconnect(v1::Reconnect {
        reason,
        jitter_ms: CREDENTIALS_JITTER_MS,
        deadline_ms: 0,
    })
}

fn session_error(code: v1::session_error::Code, detail: String, retry_after_ms: u64) -> Message {
    Message::SessionError(v1::SessionError {
        code: code as i32,
        detail,
        retry_after_ms: milliseconds(retry_after_ms),
        new_instance: false,
    })
}

/// One attempt for a worker.
fn assignment(assignment: &Assignment, traces: Option<Sampling>) -> v1::Assignment {
    // the step itself and nothing of any other.
    let request = &assignment.request;
    let step = request.plan().step(assignment.step);
    let mut headers = request.correlation_context().clone();
    match traces {
        Some(sampling) => {
            let execution_id = assignment.execution_id;
            let span = trace::attempt_span(execution_id, step.id(), assignment.attempt);
            Trace::of(execution_id, request, sampling).write_headers(span, &mut headers);
        }
        None => trace::write_callers_headers(request, &mut headers),
    }
    repeats::write_headers(assignment, &mut headers);
    v1::Assignment {
        attempt_token: token(assignment.token),
        execution_id: assignment.execution_id.to_string(),
        plan_id: request.plan().id().to_string(),
        step_id: step.id().to_string(),
        attempt: assignment.attempt,
        action: step.action().to_owned(),
        payload: Some(step.payload().clone()),
        environment: Some(request.environment().clone()),
        timeout_ms: milliseconds(assignment.timeout_ms),
        headers,
    }
}

/// Returns the answer to outcomes whose tokens are no tokens, with the bytes as given.
fn unknown_outcomes(tokens: Vec<Bytes>) -> Message {
    let verdict = v1::outcome_ack::Verdict::Unknown as i32;
    let items = tokens
        .into_iter()
        .map(|attempt_token| v1::OutcomeAck {
            attempt_token,
            verdict,
        })
        .collect();
    Message::OutcomeAcks(v1::OutcomeAcks { items })
}

fn welcome(welcome: Welcome, greeting: &WelcomeDefaults) -> v1::Welcome {
    let refused = welcome.refused_actions.into_iter();
    v1::Welcome {
        protocol: limits::WORKER_PROTOCOL,
        session_id: Bytes::copy_from_slice(welcome.session_id.as_bytes()),
        boot_id: Bytes::copy_from_slice(greeting.boot_id.as_bytes()),
        heartbeat_interval_ms: milliseconds(greeting.heartbeat_interval_ms),
        lease_ms: milliseconds(greeting.lease_ms),
        limits: Some(v1::SessionLimits {
            message_bytes_max: limits::SESSION_MESSAGE_BYTES_MAX as i64,
            output_bytes_max: limits::OUTPUT_BYTES_MAX as i64,
            in_flight_max: limits::SESSION_IN_FLIGHT_MAX,
            actions_max: limits::SESSION_ACTIONS_MAX as u32,
        }),
        refused_actions: refused
            .map(|refusal| v1::ActionRefusal {
                name: refusal.name,
                reason: refusal.reason.to_owned(),
            })
            .collect(),
        verdicts: welcome
            .verdicts
            .into_iter()
            .map(|(token, verdict)| attempt_verdict(token, verdict))
            .collect(),
        peers: greeting.peers.to_vec(),
    }
}

fn attempt_verdict(token: AttemptToken, verdict: KeepOrStop) -> v1::AttemptVerdict {
    let verdict = match verdict {
        KeepOrStop::Keep => v1::attempt_verdict::Verdict::Keep,
        KeepOrStop::Stop => v1::attempt_verdict::Verdict::Stop,
    };
    v1::AttemptVerdict {
        attempt_token: self::token(token),
        verdict: verdict as i32,
    }
}

fn outcome_ack(token: AttemptToken, verdict: AckVerdict) -> v1::OutcomeAck {
    v1::OutcomeAck {
        attempt_token: self::token(token),
        verdict: ack_verdict(verdict) as i32,
    }
}

/// What became of one outcome.
pub fn ack_verdict(verdict: AckVerdict) -> v1::outcome_ack::Verdict {
    use v1::outcome_ack::Verdict;
    match verdict {
        AckVerdict::Accepted => Verdict::Accepted,
        AckVerdict::Duplicate => Verdict::Duplicate,
        AckVerdict::Stale => Verdict::Stale,
        AckVerdict::AlreadyEnded => Verdict::AlreadyEnded,
        AckVerdict::Unknown => Verdict::Unknown,
        AckVerdict::Invalid => Verdict::Invalid,
    }
}

fn cancel(cancel: Cancel) -> v1::Cancel {
    v1::Cancel {
        attempt_token: token(cancel.token),
        reason: cancel_reason(cancel.reason) as i32,
        grace_ms: milliseconds(cancel.grace_ms),
    }
}

/// Returns the reason why an attempt is not wanted any more.
pub fn cancel_reason(reason: CancelReason) -> v1::cancel::Reason {
    match reason {
        CancelReason::StepTimeout => v1::cancel::Reason::StepTimeout,
        CancelReason::ExecutionEnded => v1::cancel::Reason::ExecutionEnded,
        CancelReason::Superseded => v1::cancel::Reason::Superseded,
    }
}

/// Returns the reason why a stream ends on account of the worker.
pub fn session_error_code(code: SessionErrorCode) -> v1::session_error::Code {
    use v1::session_error::Code;
    match code {
        SessionErrorCode::ProtocolViolation => Code::ProtocolViolation,
        SessionErrorCode::UnsupportedProtocol => Code::UnsupportedProtocol,
        SessionErrorCode::Superseded => Code::Superseded,
        SessionErrorCode::LimitExceeded => Code::LimitExceeded,
        SessionErrorCode::Unavailable => Code::Unavailable,
        SessionErrorCode::LeaseExpired => Code::LeaseExpired,
        SessionErrorCode::DeclaredDead => Code::DeclaredDead,
    }
}

fn token(token: AttemptToken) -> Bytes {
    Bytes::copy_from_slice(token.as_bytes())
}

fn milliseconds(duration_ms: u64) -> i64 {
    i64::try_from(duration_ms).unwrap_or(i64::MAX)
}

/// `Reconnect.reason` of a session whose credentials have ended.
const CREDENTIALS_EXPIRED: &str = "credentials_expired";
/// Workers with one token are told at the same moment; their leases are longer by far.
const CREDENTIALS_JITTER_MS: i64 = 500;
/// Credentials are changed by people.
const DENIED_RETRY_AFTER_MS: u64 = 10_000;
/// For a session that ended for no reason of the engine's: it will hardly do better at once.
const RETRY_AFTER_MS: u64 = 1_000;
