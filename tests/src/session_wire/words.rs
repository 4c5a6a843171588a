//! A message of a session in the words of the journal. Leaves out what has no meaning, as the protocol says.

use std::collections::BTreeMap;

use escapement_wire::worker::v1;
use escapement_wire::worker::v1::attempt_outcome::Outcome;
use escapement_wire::worker::v1::{session_request, session_response};

use crate::session_journal::{
    ActionLevel, AssignedItem, CancelReason, Capacity, FromWorker, Hello, Hex, OutcomeKind, Phase, Previous,
    RejectReason, Resumption, ToWorker, Uuid, Verdict,
};

/// What a worker says. `None` if a whole message has no meaning.
pub fn from_worker(request: &v1::SessionRequest) -> Option<FromWorker> {
    use session_request::Message;
    Some(match &request.message {
        None => FromWorker::Unknown {},
        Some(Message::Hello(hello)) => FromWorker::Hello(self::hello(hello)?),
        Some(Message::RegisterActions(message)) => FromWorker::RegisterActions {
            revision: message.revision,
            actions: actions(&message.actions),
        },
        Some(Message::Capacity(message)) => FromWorker::Capacity(Capacity {
            revision: message.revision,
            max_in_flight: message.max_in_flight,
            per_action: message.per_action.clone().into_iter().collect(),
        }),
        Some(Message::Heartbeat(message)) => FromWorker::Heartbeat {
            n: message.n,
            hash: sixteen(&message.in_flight_hash),
        },
        Some(Message::AttemptAcks(message)) => FromWorker::AttemptAcks {
            started: message
                .started
                .iter()
                .filter_map(|token| sixteen(token))
                .collect(),
            rejected: message
                .rejected
                .iter()
                .filter_map(|item| Some((sixteen(&item.attempt_token)?, reject_reason(item.reason()))))
                .collect(),
            stopped: message
                .stopped
                .iter()
                .filter_map(|token| sixteen(token))
                .collect(),
        },
        Some(Message::Outcomes(message)) => {
            let items: Vec<_> = message.items.iter().filter_map(outcome).collect();
            FromWorker::Outcomes {
                unreadable: (message.items.len() - items.len()) as u64,
                items,
            }
        }
        Some(Message::Snapshot(message)) => FromWorker::Snapshot {
            n: message.n,
            last_assignment_seq: message.last_assignment_seq,
            in_flight: in_flight(&message.in_flight),
        },
        Some(Message::Drain(_)) => FromWorker::Drain {},
        Some(Message::Goodbye(_)) => FromWorker::Goodbye {},
    })
}

/// What a worker is told. `None` if a token is none or an arm is not known: no orchestrator sends that.
pub fn to_worker(response: &v1::SessionResponse) -> Option<ToWorker> {
    use session_response::Message;
    Some(match response.message.as_ref()? {
        Message::Welcome(message) => ToWorker::Welcome {
            session: sixteen(&message.session_id)?,
            refused: message
                .refused_actions
                .iter()
                .map(|refusal| refusal.name.clone())
                .collect(),
            verdicts: all(&message.verdicts, |item| {
                let verdict = match item.verdict() {
                    v1::attempt_verdict::Verdict::Keep => Resumption::Keep,
                    v1::attempt_verdict::Verdict::Stop => Resumption::Stop,
                    v1::attempt_verdict::Verdict::Unspecified => return None,
                };
                Some((sixteen(&item.attempt_token)?, verdict))
            })?
            .into_iter()
            .collect(),
        },
        Message::HeartbeatAck(message) => ToWorker::HeartbeatAck { n: message.n },
        Message::Assignments(message) => ToWorker::Assignments {
            items: all(&message.items, assigned)?,
        },
        Message::OutcomeAcks(message) => {
            let answered =
                |item: &v1::OutcomeAck| Some((sixteen(&item.attempt_token)?, verdict(item.verdict())?));
            match all(&message.items, answered) {
                Some(items) => ToWorker::OutcomeAcks { items },
                None => ToWorker::UnknownOutcomes {
                    count: message.items.len() as u64,
                },
            }
        }
        Message::Cancels(message) => ToWorker::Cancels {
            items: all(&message.items, |item| {
                let reason = match item.reason() {
                    v1::cancel::Reason::StepTimeout => CancelReason::StepTimeout,
                    v1::cancel::Reason::ExecutionEnded => CancelReason::ExecutionEnded,
                    v1::cancel::Reason::Superseded => CancelReason::Superseded,
                    v1::cancel::Reason::Unspecified => return None,
                };
                Some((sixteen(&item.attempt_token)?, reason))
            })?,
        },
        Message::SnapshotRequest(message) => ToWorker::SnapshotRequest { n: message.n },
        Message::DrainStarted(message) => ToWorker::DrainStarted {
            last_assignment_seq: message.last_assignment_seq,
        },
        Message::Reconnect(message) => ToWorker::Reconnect {
            jitter_ms: message.jitter_ms,
            deadline_ms: message.deadline_ms,
        },
        Message::SessionError(message) => ToWorker::SessionError {
            code: message.code().as_str_name().to_owned(),
        },
    })
}

fn hello(hello: &v1::Hello) -> Option<Hello> {
    Some(Hello {
        worker: hello.worker_id.clone(),
        instance: sixteen(&hello.instance_id)?,
        hello_number: hello.hello_number,
        previous: sixteen(&hello.previous_session_id).map_or(Previous::Nothing, Previous::Session),
        max_in_flight: hello.max_in_flight,
        actions: actions(&hello.actions),
        in_flight: in_flight(&hello.in_flight),
    })
}

fn actions(specs: &[v1::ActionSpec]) -> BTreeMap<String, ActionLevel> {
    let level = |spec: &v1::ActionSpec| ActionLevel {
        max: spec.max_in_flight,
        waits: spec.waits,
    };
    specs
        .iter()
        .map(|spec| (spec.name.clone(), level(spec)))
        .collect()
}

fn in_flight(items: &[v1::InFlight]) -> BTreeMap<Hex, Phase> {
    let phase = |item: &v1::InFlight| match item.phase() {
        v1::in_flight::Phase::Unspecified | v1::in_flight::Phase::Received => Phase::Received,
        v1::in_flight::Phase::Running => Phase::Running,
        v1::in_flight::Phase::Finished => Phase::Finished,
    };
    let known = items
        .iter()
        .filter_map(|item| Some((sixteen(&item.attempt_token)?, phase(item))));
    known.collect()
}

fn reject_reason(reason: v1::rejected_attempt::Reason) -> RejectReason {
    use v1::rejected_attempt::Reason;
    match reason {
        Reason::Unspecified => RejectReason::Unspecified,
        Reason::Draining => RejectReason::Draining,
        Reason::NoCapacity => RejectReason::NoCapacity,
        Reason::UnknownAction => RejectReason::UnknownAction,
        Reason::Cancelled => RejectReason::Cancelled,
        Reason::LeaseExpired => RejectReason::LeaseExpired,
    }
}

fn outcome(item: &v1::AttemptOutcome) -> Option<(Hex, OutcomeKind)> {
    let kind = match &item.outcome {
        Some(Outcome::Success(success)) => match &success.output {
            // Whether the bytes of an output are an object is the parser's to say, and told by its own tests.
            Some(output) if output.check().is_err() => OutcomeKind::Invalid,
            _ => OutcomeKind::Success,
        },
        Some(Outcome::Failure(failure)) if failure.not_here => OutcomeKind::Refused,
        Some(Outcome::Failure(_)) => OutcomeKind::Failure,
        Some(Outcome::Released(_)) => OutcomeKind::Released,
        None => OutcomeKind::Invalid,
    };
    Some((sixteen(&item.attempt_token)?, kind))
}

fn assigned(item: &v1::Assignment) -> Option<AssignedItem> {
    Some(AssignedItem {
        token: sixteen(&item.attempt_token)?,
        execution: Uuid::parse(&item.execution_id).ok()?,
        step: Uuid::parse(&item.step_id).ok()?,
        attempt: item.attempt,
        action: item.action.clone(),
        timeout_ms: item.timeout_ms,
    })
}

fn verdict(verdict: v1::outcome_ack::Verdict) -> Option<Verdict> {
    Some(match verdict {
        v1::outcome_ack::Verdict::Accepted => Verdict::Accepted,
        v1::outcome_ack::Verdict::Duplicate => Verdict::Duplicate,
        v1::outcome_ack::Verdict::Stale => Verdict::Stale,
        v1::outcome_ack::Verdict::AlreadyEnded => Verdict::AlreadyEnded,
        v1::outcome_ack::Verdict::Unknown => Verdict::Unknown,
        v1::outcome_ack::Verdict::Invalid => Verdict::Invalid,
        v1::outcome_ack::Verdict::Unspecified => return None,
    })
}

/// Returns all, or nothing where one has no meaning.
fn all<T, U>(items: &[T], read: impl FnMut(&T) -> Option<U>) -> Option<Vec<U>> {
    items.iter().map(read).collect()
}

fn sixteen(bytes: &[u8]) -> Option<Hex> {
    (bytes.len() == 16).then(|| Hex::of_bytes(bytes))
}
