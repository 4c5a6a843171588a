//! Short constructors for messages of orchestrators and results of handler tasks.

use crate::Opaque;
use crate::session::TaskEnd;
use bytes::Bytes;
use escapement_model::AttemptToken;
use escapement_wire::worker::v1::session_response::Message as Response;
use escapement_wire::worker::v1::{
    ActionSpec, Assignment, Assignments, Cancel, Cancels, DrainStarted, HeartbeatAck, OutcomeAck,
    OutcomeAcks, SessionLimits, SessionResponse, SnapshotRequest, Welcome,
};

pub(crate) const LEASE_MS: u64 = 10_000;
pub(crate) const HEARTBEAT_MS: u64 = 3_000;

pub(crate) fn token(name: u8) -> AttemptToken {
    AttemptToken::new([name; 16])
}

pub(crate) fn token_bytes(name: u8) -> Bytes {
    Bytes::from(vec![name; 16])
}

pub(crate) fn action(name: &str, max_in_flight: u32, waits: bool) -> ActionSpec {
    ActionSpec {
        name: name.to_owned(),
        max_in_flight,
        waits,
        ..ActionSpec::default()
    }
}

/// Returns the next message of a stream that has come to this number.
pub(crate) fn numbered(seq: &mut u64, message: Response) -> SessionResponse {
    *seq += 1;
    SessionResponse {
        seq: *seq,
        message: Some(message),
    }
}

pub(crate) fn welcome(session: u8, boot: u8) -> Welcome {
    Welcome {
        protocol: 1,
        session_id: token_bytes(session),
        boot_id: token_bytes(boot),
        heartbeat_interval_ms: i64::try_from(HEARTBEAT_MS).unwrap(),
        lease_ms: i64::try_from(LEASE_MS).unwrap(),
        limits: Some(SessionLimits::default()),
        ..Welcome::default()
    }
}

pub(crate) fn assignment(attempt_token: Bytes, action: &str, timeout_ms: i64) -> Assignment {
    Assignment {
        attempt_token,
        action: action.to_owned(),
        timeout_ms,
        ..Assignment::default()
    }
}

pub(crate) fn assignments(items: impl IntoIterator<Item = Assignment>) -> Response {
    let items = items.into_iter().collect();
    Response::Assignments(Assignments { items })
}

pub(crate) fn cancels(tokens: impl IntoIterator<Item = Bytes>, grace_ms: i64) -> Response {
    let item = |attempt_token| Cancel {
        attempt_token,
        grace_ms,
        ..Cancel::default()
    };
    let items = tokens.into_iter().map(item).collect();
    Response::Cancels(Cancels { items })
}

/// Returns the acknowledgement of an accepted outcome.
pub(crate) fn acknowledged(attempt_token: Bytes) -> Response {
    let item = OutcomeAck {
        attempt_token,
        verdict: 1,
    };
    Response::OutcomeAcks(OutcomeAcks { items: vec![item] })
}

pub(crate) fn heartbeat_ack(n: u64, peers: &[&str]) -> Response {
    let peers = peers.iter().map(|&peer| peer.to_owned()).collect();
    Response::HeartbeatAck(HeartbeatAck { n, peers })
}

pub(crate) fn snapshot_request(n: u64) -> Response {
    Response::SnapshotRequest(SnapshotRequest { n })
}

pub(crate) fn drain_started() -> Response {
    let last_assignment_seq = 0;
    Response::DrainStarted(DrainStarted { last_assignment_seq })
}

pub(crate) fn success() -> TaskEnd {
    success_with(Opaque::default())
}

pub(crate) fn success_with(output: Opaque) -> TaskEnd {
    TaskEnd::Success {
        output,
        warnings: Vec::new(),
    }
}

/// xorshift64: a seed, which is not 0, is a whole run.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// Returns a number below `bound`.
    pub(crate) fn roll(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
