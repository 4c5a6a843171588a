//! Everything that was said on one stream, in order, with questions about it. Judges nothing.

use bytes::Bytes;
use escapement_wire::worker::v1::session_request::Message as FromWorker;
use escapement_wire::worker::v1::session_response::Message as ToWorker;
use escapement_wire::worker::v1::{AttemptOutcome, Heartbeat, Hello, InFlight, RejectedAttempt, Snapshot};
use tokio::time::Instant;

use crate::messages::is_success;

/// A message.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Time at which the kit read it, or queued it.
    pub(crate) at: Instant,
    /// Number.
    pub(crate) seq: u64,
    /// Bytes on the wire, without the frame.
    pub(crate) bytes: usize,
    /// Who said what.
    pub(crate) said: Said,
}

/// Who said what.
#[derive(Clone, Debug)]
pub(crate) enum Said {
    /// The worker; `None` for an arm that the kit does not know.
    Worker(Option<FromWorker>),
    /// The kit; `None` for bytes that are no message of the protocol.
    Kit(Option<ToWorker>),
}

/// How a stream ended.
#[derive(Clone, Debug)]
pub(crate) struct End {
    /// What the kit saw, for people.
    pub(crate) how: String,
}

/// A stream.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    /// Time at which the call arrived.
    pub(crate) opened: Instant,
    /// In the order in which the kit read and queued them.
    pub(crate) entries: Vec<Entry>,
    /// The end of what the worker says.
    pub(crate) end: Option<End>,
}

impl Log {
    pub(crate) fn new(opened: Instant) -> Self {
        let (entries, end) = (Vec::new(), None);
        Self { opened, entries, end }
    }

    /// What the worker said, with when.
    pub(crate) fn heard(&self) -> impl Iterator<Item = (Instant, &FromWorker)> {
        self.entries.iter().filter_map(|entry| match &entry.said {
            Said::Worker(Some(message)) => Some((entry.at, message)),
            Said::Worker(None) | Said::Kit(_) => None,
        })
    }

    /// What the kit said, with when and with its number.
    pub(crate) fn told(&self) -> impl Iterator<Item = (Instant, u64, &ToWorker)> {
        self.entries.iter().filter_map(|entry| match &entry.said {
            Said::Kit(Some(message)) => Some((entry.at, entry.seq, message)),
            Said::Worker(_) | Said::Kit(None) => None,
        })
    }

    pub(crate) fn hello(&self) -> Option<&Hello> {
        self.heard().find_map(|(_, message)| match message {
            FromWorker::Hello(hello) => Some(hello),
            _ => None,
        })
    }

    pub(crate) fn heartbeats(&self) -> impl Iterator<Item = (Instant, &Heartbeat)> {
        self.heard().filter_map(|(at, message)| match message {
            FromWorker::Heartbeat(heartbeat) => Some((at, heartbeat)),
            _ => None,
        })
    }

    pub(crate) fn snapshots(&self) -> impl Iterator<Item = &Snapshot> {
        self.heard().filter_map(|(_, message)| match message {
            FromWorker::Snapshot(snapshot) => Some(snapshot),
            _ => None,
        })
    }

    /// Returns every outcome, repeats too.
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = (Instant, &AttemptOutcome)> {
        self.heard().flat_map(|(at, message)| match message {
            FromWorker::Outcomes(outcomes) => outcomes.items.iter().map(|item| (at, item)).collect(),
            _ => Vec::new(),
        })
    }

    /// Returns every outcome of one attempt.
    pub(crate) fn outcomes_of(&self, token: &Bytes) -> impl Iterator<Item = (Instant, &AttemptOutcome)> {
        self.outcomes()
            .filter(move |(_, item)| item.attempt_token == *token)
    }

    /// Returns true if the worker reported a success of this attempt.
    pub(crate) fn succeeded(&self, token: &Bytes) -> bool {
        self.outcomes_of(token).any(|(_, item)| is_success(item))
    }

    /// Returns every rejection.
    pub(crate) fn rejections(&self) -> impl Iterator<Item = (Instant, &RejectedAttempt)> {
        self.heard().flat_map(|(at, message)| match message {
            FromWorker::AttemptAcks(acks) => acks.rejected.iter().map(|item| (at, item)).collect(),
            _ => Vec::new(),
        })
    }

    pub(crate) fn rejected(&self, token: &Bytes) -> Option<(Instant, &RejectedAttempt)> {
        self.rejections().find(|(_, item)| item.attempt_token == *token)
    }

    /// Tokens reported as started, each with when.
    pub(crate) fn starts(&self) -> impl Iterator<Item = (Instant, &Bytes)> {
        self.heard().flat_map(|(at, message)| match message {
            FromWorker::AttemptAcks(acks) => acks.started.iter().map(|token| (at, token)).collect(),
            _ => Vec::new(),
        })
    }

    pub(crate) fn started(&self, token: &Bytes) -> Option<Instant> {
        self.starts().find(|(_, other)| *other == token).map(|(at, _)| at)
    }

    /// Tokens reported as stopped, each with when.
    pub(crate) fn stops(&self) -> impl Iterator<Item = (Instant, &Bytes)> {
        self.heard().flat_map(|(at, message)| match message {
            FromWorker::AttemptAcks(acks) => acks.stopped.iter().map(|token| (at, token)).collect(),
            _ => Vec::new(),
        })
    }

    pub(crate) fn stopped(&self, token: &Bytes) -> Option<Instant> {
        self.stops().find(|(_, other)| *other == token).map(|(at, _)| at)
    }

    pub(crate) fn drain(&self) -> Option<(Instant, i64)> {
        self.heard().find_map(|(at, message)| match message {
            FromWorker::Drain(drain) => Some((at, drain.deadline_ms)),
            _ => None,
        })
    }

    pub(crate) fn goodbye(&self) -> Option<Instant> {
        self.heard().find_map(|(at, message)| match message {
            FromWorker::Goodbye(_) => Some(at),
            _ => None,
        })
    }
}

/// What stands in a list of attempts about one of them.
pub(crate) fn listed<'a>(in_flight: &'a [InFlight], token: &Bytes) -> Option<&'a InFlight> {
    in_flight.iter().find(|entry| entry.attempt_token == *token)
}
