//! What workers say, from the wire to the engine. Refuses what has no meaning; the engine decides everything
//! else.

use bytes::Bytes;
use escapement_contract::{Outcome, Reported};
use escapement_engine::{
    ActionSpec, AttemptReport, FromWorker, Hello, InFlight, InFlightPhase, RejectReason, ReleaseReason,
};
use escapement_model::limits::{LABEL_CHARS_MAX, MESSAGE_CHARS_MAX};
use escapement_model::{AttemptToken, InstanceId, SessionId, Severity};
use escapement_wire::v1::execution_error::Severity as WireSeverity;
use escapement_wire::worker::v1;
use escapement_wire::worker::v1::attempt_outcome::Outcome as WireOutcome;
use escapement_wire::worker::v1::session_request::Message;
use std::sync::Arc;

/// A message of a worker, as far as it can be read.
#[derive(Debug)]
pub struct Incoming {
    /// For the engine.
    pub message: FromWorker,
    /// Items other than outcomes that were dropped because their tokens are no tokens.
    pub dropped_items: usize,
}

/// What of a message is not passed on.
#[derive(Debug, Default)]
struct Dropped {
    items: usize,
    text_bytes: usize,
}

impl Dropped {
    /// Texts for people, which nothing is decided by: the beginning is worth more than a refusal.
    fn cut(&mut self, mut text: String, n_chars: usize) -> String {
        if let Some((end, _)) = text.char_indices().nth(n_chars) {
            self.text_bytes += text.len() - end;
            text.truncate(end);
            // What is kept for long must not hold the room of what was cut.
            text.shrink_to_fit();
        }
        text
    }
}

/// A message whose structure is wrong: the session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongStructure(
    /// A sentence for people.
    pub &'static str,
);

/// What stands in the place of an attempt token, and is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableToken(
    /// As given.
    pub Bytes,
);

/// Reads one message. An unknown arm is [`FromWorker::Unknown`].
///
/// # Errors
/// [`WrongStructure`] if the message as a whole makes no sense.
pub fn incoming(request: v1::SessionRequest) -> Result<Incoming, WrongStructure> {
    let mut dropped = Dropped::default();
    let message = match request.message {
        None => FromWorker::Unknown,
        Some(Message::Hello(message)) => FromWorker::Hello(hello(message, &mut dropped)?),
        Some(Message::RegisterActions(message)) => FromWorker::RegisterActions {
            revision: message.revision,
            actions: action_specs(message.actions, &mut dropped),
        },
        Some(Message::Capacity(message)) => FromWorker::Capacity {
            revision: message.revision,
            max_in_flight: message.max_in_flight,
            per_action: message.per_action,
        },
        Some(Message::Heartbeat(message)) => FromWorker::Heartbeat {
            n: message.n,
            in_flight_hash: message.in_flight_hash.as_ref().try_into().ok(),
        },
        Some(Message::AttemptAcks(message)) => FromWorker::AttemptAcks {
            started: tokens(&message.started, &mut dropped),
            rejected: rejected(&message.rejected, &mut dropped),
            stopped: tokens(&message.stopped, &mut dropped),
        },
        Some(Message::Outcomes(message)) => outcomes(message),
        Some(Message::Snapshot(message)) => FromWorker::Snapshot {
            n: message.n,
            last_assignment_seq: message.last_assignment_seq,
            in_flight: in_flight(&message.in_flight, &mut dropped),
        },
        Some(Message::Drain(message)) => {
            dropped.text_bytes += message.reason.len();
            FromWorker::Drain
        }
        Some(Message::Goodbye(message)) => {
            dropped.text_bytes += message.reason.len();
            FromWorker::Goodbye
        }
    };
    // A message costs a session by what the engine is given of it.
    if dropped.text_bytes > DROPPED_TEXT_BYTES_MAX {
        return Err(WrongStructure(
            "The texts of a message exceed their limits by more than 64 KiB.",
        ));
    }
    Ok(Incoming {
        message,
        dropped_items: dropped.items,
    })
}

fn hello(hello: v1::Hello, dropped: &mut Dropped) -> Result<Hello, WrongStructure> {
    let instance_id = InstanceId::from_slice(&hello.instance_id)
        .ok_or(WrongStructure("Hello.instance_id must have 16 bytes."))?;
    Ok(Hello {
        protocol_min: hello.protocol_min,
        protocol_max: hello.protocol_max,
        worker_id: hello.worker_id.into(),
        instance_id,
        actions: action_specs(hello.actions, dropped),
        max_in_flight: hello.max_in_flight,
        in_flight: in_flight(&hello.in_flight, dropped),
        labels: hello
            .labels
            .into_iter()
            .map(|(key, value)| {
                (
                    dropped.cut(key, LABEL_CHARS_MAX),
                    dropped.cut(value, LABEL_CHARS_MAX),
                )
            })
            .collect(),
        build: dropped.cut(hello.build, LABEL_CHARS_MAX),
        hello_number: hello.hello_number,
        // Known only where its credentials were judged.
        owner: Arc::default(),
        previous_session_id: SessionId::from_slice(&hello.previous_session_id),
    })
}

fn action_specs(specs: Vec<v1::ActionSpec>, dropped: &mut Dropped) -> Vec<ActionSpec> {
    let spec = |spec: v1::ActionSpec| ActionSpec {
        name: spec.name,
        max_in_flight: spec.max_in_flight,
        description: dropped.cut(spec.description, MESSAGE_CHARS_MAX),
        input_schema: spec.input_schema,
        waits: spec.waits,
        traits: crate::traits::kept(spec.traits.map(|traits| *traits)),
    };
    specs.into_iter().map(spec).collect()
}

fn in_flight(items: &[v1::InFlight], dropped: &mut Dropped) -> Vec<InFlight> {
    let parsed: Vec<InFlight> = items.iter().filter_map(in_flight_item).collect();
    dropped.items += items.len() - parsed.len();
    parsed
}

fn in_flight_item(item: &v1::InFlight) -> Option<InFlight> {
    let phase = match item.phase() {
        v1::in_flight::Phase::Unspecified | v1::in_flight::Phase::Received => InFlightPhase::Received,
        v1::in_flight::Phase::Running => InFlightPhase::Running,
        v1::in_flight::Phase::Finished => InFlightPhase::Finished,
    };
    Some(InFlight {
        token: AttemptToken::from_slice(&item.attempt_token)?,
        phase,
    })
}

fn tokens(items: &[Bytes], dropped: &mut Dropped) -> Vec<AttemptToken> {
    let parsed: Vec<AttemptToken> = items
        .iter()
        .filter_map(|bytes| AttemptToken::from_slice(bytes))
        .collect();
    dropped.items += items.len() - parsed.len();
    parsed
}

fn rejected(items: &[v1::RejectedAttempt], dropped: &mut Dropped) -> Vec<(AttemptToken, RejectReason)> {
    use v1::rejected_attempt::Reason;
    let parse = |item: &v1::RejectedAttempt| {
        let reason = match item.reason() {
            Reason::Unspecified => RejectReason::Unspecified,
            Reason::Draining => RejectReason::Draining,
            Reason::NoCapacity => RejectReason::NoCapacity,
            Reason::UnknownAction => RejectReason::UnknownAction,
            Reason::Cancelled => RejectReason::Cancelled,
            Reason::LeaseExpired => RejectReason::LeaseExpired,
        };
        Some((AttemptToken::from_slice(&item.attempt_token)?, reason))
    };
    let parsed: Vec<_> = items.iter().filter_map(parse).collect();
    dropped.items += items.len() - parsed.len();
    parsed
}

fn outcomes(message: v1::Outcomes) -> FromWorker {
    let mut items = Vec::with_capacity(message.items.len());
    let mut unreadable: Vec<Bytes> = Vec::new();
    for item in message.items {
        match attempt_outcome(item) {
            Ok(item) => items.push(item),
            Err(UnreadableToken(token)) => unreadable.push(token),
        }
    }
    FromWorker::Outcomes { items, unreadable }
}

/// How one attempt ended.
///
/// # Errors
/// [`UnreadableToken`] if it does not say which attempt is meant.
pub fn attempt_outcome(item: v1::AttemptOutcome) -> Result<(AttemptToken, AttemptReport), UnreadableToken> {
    match AttemptToken::from_slice(&item.attempt_token) {
        Some(token) => Ok((token, report(item.outcome))),
        None => Err(UnreadableToken(item.attempt_token)),
    }
}

fn report(outcome: Option<WireOutcome>) -> AttemptReport {
    let outcome = match outcome {
        Some(WireOutcome::Released(released)) => return AttemptReport::Released(release_reason(&released)),
        Some(WireOutcome::Success(success)) => completed(success),
        Some(WireOutcome::Failure(failure)) if failure.not_here => {
            return AttemptReport::Refused(reported(failure));
        }
        Some(WireOutcome::Failure(failure)) => Outcome::Failed(reported(failure)),
        None => undecodable("The outcome says neither success nor failure nor released."),
    };
    AttemptReport::Outcome(outcome)
}

fn release_reason(released: &v1::Released) -> ReleaseReason {
    match released.reason() {
        v1::released::Reason::LeaseExpired => ReleaseReason::LeaseExpired,
        v1::released::Reason::Unspecified | v1::released::Reason::Drain => ReleaseReason::Drain,
    }
}

fn completed(success: v1::Success) -> Outcome {
    let output = success.output.unwrap_or_default();
    if let Err(malformed) = output.check() {
        return undecodable(&format!("The output {malformed}."));
    }
    Outcome::Completed {
        output,
        warnings: success.warnings.into_iter().map(reported).collect(),
    }
}

/// A context that cannot be read is the contract's to drop: the code is worth more than its diagnostics.
fn reported(failure: v1::Failure) -> Reported {
    let severity = match failure.severity() {
        WireSeverity::Unspecified => None,
        WireSeverity::Warn => Some(Severity::Warn),
        WireSeverity::Error => Some(Severity::Error),
        WireSeverity::Fatal => Some(Severity::Fatal),
    };
    let v1::Failure {
        code,
        message,
        severity: _,
        context,
        // The caller has looked at it.
        not_here: _,
    } = failure;
    Reported {
        code,
        message,
        severity,
        context: context.unwrap_or_default(),
    }
}

fn undecodable(detail: &str) -> Outcome {
    Outcome::Undecodable {
        detail: detail.to_owned(),
    }
}

/// Returns the id of the directory that a worker's handlers see, of one that says it and offers its files.
pub fn root_of(first: &v1::SessionRequest) -> Option<&str> {
    let Some(v1::session_request::Message::Hello(hello)) = &first.message else {
        return None;
    };
    let offers_files = hello.actions.iter().any(|action| action.name == FILE_ACTION);
    let root = hello.labels.get(ROOT_LABEL)?;
    (offers_files && (1..=ROOT_BYTES_MAX).contains(&root.len())).then_some(root.as_str())
}

/// Bytes of texts that one message may hold beyond what is kept of them.
pub const DROPPED_TEXT_BYTES_MAX: usize = 64 << 10;

/// The label of `Hello` with the id of a worker's directory.
const ROOT_LABEL: &str = "root";
/// The action by which a worker offers its files.
const FILE_ACTION: &str = "file.read";
/// Bytes of such an id.
const ROOT_BYTES_MAX: usize = 64;
