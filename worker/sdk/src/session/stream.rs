//! Stream to the orchestrator, from the request for one to its end.

use crate::session::TIMEOUT_MS_MAX;
use escapement_model::limits::{HEARTBEAT_INTERVAL_MS, LEASE_MS};
use escapement_wire::worker::v1::Welcome;
use std::collections::VecDeque;

/// State of the stream.
#[derive(Debug)]
pub(super) enum StreamState {
    /// No stream, until the time to connect.
    Waiting { until_ms: u64 },
    /// The stream is being opened: `Hello` goes out, `Welcome` is awaited.
    Greeting { sequence: Sequence, deadline_ms: u64 },
    /// `Welcome` was read.
    Up {
        sequence: Sequence,
        welcomed: WelcomedStream,
    },
    /// `Goodbye` was sent: the other side ends the stream.
    Leaving { until_ms: u64 },
    /// The shell has the command to close it.
    Closing,
}

impl StreamState {
    pub(super) fn welcomed_mut(&mut self) -> Option<&mut WelcomedStream> {
        match self {
            StreamState::Up { welcomed, .. } => Some(welcomed),
            StreamState::Waiting { .. }
            | StreamState::Greeting { .. }
            | StreamState::Leaving { .. }
            | StreamState::Closing => None,
        }
    }

    pub(super) fn next_wake_ms(&self) -> Option<u64> {
        match self {
            StreamState::Waiting { until_ms } | StreamState::Leaving { until_ms } => Some(*until_ms),
            StreamState::Greeting { deadline_ms, .. } => Some(*deadline_ms),
            StreamState::Up { welcomed, .. } => Some(welcomed.next_wake_ms()),
            StreamState::Closing => None,
        }
    }
}

/// The numbers of both directions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sequence {
    sent: u64,
    received: u64,
    /// Time at which `Hello` was passed to the transport. It counts as the heartbeat that `Welcome` acknowledges.
    pub(super) hello_sent_at_ms: Option<u64>,
}

impl Sequence {
    pub(super) fn next_seq(&mut self) -> u64 {
        self.sent += 1;
        self.sent
    }

    /// Takes the number of a message that was read.
    ///
    /// # Errors
    /// The expected number, if this is another.
    pub(super) fn received(&mut self, seq: u64) -> Result<(), u64> {
        let expected = self.received + 1;
        if seq != expected {
            return Err(expected);
        }
        self.received = seq;
        Ok(())
    }
}

/// State of a welcomed stream, and its heartbeats.
#[derive(Debug)]
pub(super) struct WelcomedStream {
    heartbeat_interval_ms: u64,
    lease_ms: u64,
    heartbeat_at_ms: u64,
    heartbeat_pending: bool,
    heartbeats_sent: u64,
    /// Number and time of sending, oldest first.
    unacknowledged: VecDeque<(u64, u64)>,
    /// The revision of the levels that were sent last; 0 is what `Hello` said.
    pub(super) capacity_told: u64,
    /// The same of the actions.
    pub(super) actions_told: u64,
    /// A program may change its levels at any rate; the stream carries the last ones now and then.
    update_after_ms: Option<u64>,
    /// `seq` of the last `Assignments`.
    pub(super) last_assignment_seq: u64,
    pub(super) snapshot_wanted: Option<u64>,
    pub(super) drain_pending: bool,
    /// No assignment follows.
    pub(super) drain_started: bool,
    /// Time at which the orchestrator that sent `Reconnect` means to be gone.
    pub(super) leave_at_ms: Option<u64>,
    /// That time has come: the worker leaves as soon as nothing is in flight.
    pub(super) goodbye_when_idle: bool,
    /// `Goodbye` follows once nothing else is to be said.
    pub(super) goodbye: Option<&'static str>,
}

impl WelcomedStream {
    /// Creates the state of a stream. Its first heartbeat is due at once, to make up for the part of the lease that the greeting took.
    pub(super) fn new(now_ms: u64, welcome: &Welcome) -> Self {
        let given = |asked_ms: i64, default_ms: u64| match u64::try_from(asked_ms) {
            Ok(asked_ms) if asked_ms > 0 => asked_ms,
            Ok(_) | Err(_) => default_ms,
        };
        let lease_ms = given(welcome.lease_ms, LEASE_MS).min(TIMEOUT_MS_MAX);
        // An interval that the lease does not outlast would end every session.
        let interval_ms = given(welcome.heartbeat_interval_ms, HEARTBEAT_INTERVAL_MS).min(lease_ms / 2);
        Self {
            heartbeat_interval_ms: interval_ms.max(HEARTBEAT_INTERVAL_MS_MIN),
            lease_ms,
            heartbeat_at_ms: now_ms,
            heartbeat_pending: false,
            heartbeats_sent: 0,
            unacknowledged: VecDeque::new(),
            capacity_told: 0,
            actions_told: 0,
            update_after_ms: None,
            last_assignment_seq: 0,
            snapshot_wanted: None,
            drain_pending: false,
            drain_started: false,
            leave_at_ms: None,
            goodbye_when_idle: false,
            goodbye: None,
        }
    }

    /// Returns the end of a lease that was renewed by something sent at this time.
    pub(super) fn lease_end_ms(&self, sent_at_ms: u64) -> u64 {
        sent_at_ms.saturating_add(self.lease_ms)
    }

    pub(super) fn handle_timeout(&mut self, now_ms: u64) {
        self.update_after_ms = self.update_after_ms.filter(|until_ms| now_ms < *until_ms);
        if self.heartbeat_at_ms <= now_ms {
            // One that could not be sent in time is not sent twice.
            self.heartbeat_pending = true;
            self.heartbeat_at_ms = now_ms + self.heartbeat_interval_ms;
        }
    }

    fn next_wake_ms(&self) -> u64 {
        [self.leave_at_ms, self.update_after_ms]
            .into_iter()
            .flatten()
            .fold(self.heartbeat_at_ms, u64::min)
    }

    pub(super) fn may_send_update(&self) -> bool {
        self.update_after_ms.is_none()
    }

    pub(super) fn pause_updates(&mut self, now_ms: u64) {
        self.update_after_ms = Some(now_ms + UPDATE_PAUSE_MS);
    }

    pub(super) fn heartbeat_pending(&self) -> bool {
        self.heartbeat_pending
    }

    /// Returns the number of the heartbeat that is sent now, if one is due.
    pub(super) fn take_heartbeat(&mut self, now_ms: u64) -> Option<u64> {
        if !std::mem::take(&mut self.heartbeat_pending) {
            return None;
        }
        self.heartbeats_sent += 1;
        if self.unacknowledged.len() == UNACKNOWLEDGED_MAX {
            self.unacknowledged.pop_front();
        }
        self.unacknowledged.push_back((self.heartbeats_sent, now_ms));
        Some(self.heartbeats_sent)
    }

    /// Returns the time at which the acknowledged heartbeat was sent; `None` for one that says nothing new.
    ///
    /// # Errors
    /// The last number that was sent, if the acknowledgement is of a later one.
    pub(super) fn acknowledged(&mut self, n: u64) -> Result<Option<u64>, u64> {
        if n > self.heartbeats_sent {
            return Err(self.heartbeats_sent);
        }
        let mut sent_at_ms = None;
        while let Some(&(sent_n, at_ms)) = self.unacknowledged.front()
            && sent_n <= n
        {
            sent_at_ms = Some(at_ms);
            self.unacknowledged.pop_front();
        }
        Ok(sent_at_ms)
    }
}

/// The shortest interval that an orchestrator may ask for.
const HEARTBEAT_INTERVAL_MS_MIN: u64 = 10;
/// Heartbeats whose time of sending is remembered.
const UNACKNOWLEDGED_MAX: usize = 64;
/// Milliseconds between two messages about levels and actions.
const UPDATE_PAUSE_MS: u64 = 100;
