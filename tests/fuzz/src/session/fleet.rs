//! The workers of a run: what they say and what they are told, stream by stream. Keeps no promise of a worker.

use super::known;
use crate::seeds;
use crate::source::Source;
use bytes::Bytes;
use escapement_codec::session_in::{attempt_outcome, incoming};
use escapement_codec::session_out::{WelcomeDefaults, message as to_wire};
use escapement_engine::{AttemptReport, Input, SessionKey, ToWorker, WorkerView};
use escapement_model::{AttemptToken, BootId, SessionId, limits};
use escapement_wire::worker::v1;
use escapement_wire::worker::v1::session_request::Message;
use prost::Message as _;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Streams that are open at a time.
const STREAMS_MAX: usize = 4;

/// All streams, and every token that was handed out.
#[derive(Default)]
pub(crate) struct Fleet {
    last_session: u64,
    streams: BTreeMap<SessionKey, Stream>,
    tokens: Vec<AttemptToken>,
    all_tokens: BTreeSet<AttemptToken>,
}

/// A stream.
#[derive(Default)]
struct Stream {
    seq_in: u64,
    seq_out: u64,
    is_welcome: bool,
    is_over: bool,
    is_drained: bool,
    last_assignment_seq: u64,
    n_snapshots: u64,
    /// The largest level that it ever gave.
    level_max: u32,
    /// It gave an action whose attempts only wait: these have slots of their own.
    waits: bool,
    /// It said something that may settle attempts without naming them.
    is_unclear: bool,
    /// Attempts handed to it that it has never named since.
    untouched: BTreeSet<AttemptToken>,
}

impl Fleet {
    pub(crate) fn open(&mut self, source: &mut Source<'_>) -> Vec<Input> {
        if self.streams.len() >= STREAMS_MAX {
            return Vec::new();
        }
        self.last_session += 1;
        let session = SessionKey(self.last_session);
        self.streams.insert(session, Stream::default());
        let mut inputs = vec![Input::SessionOpened {
            session,
            session_id: session_id(session),
        }];
        if source.byte() < 230 {
            let hello = self.hello(source);
            inputs.extend(self.frame(session, 1, Some(Message::Hello(hello))));
        }
        inputs
    }

    fn pick(&self, source: &mut Source<'_>) -> Option<SessionKey> {
        let n = self.streams.len();
        self.streams
            .keys()
            .nth(usize::from(source.byte()) % n.max(1))
            .copied()
    }

    pub(crate) fn close(&mut self, source: &mut Source<'_>) -> Option<Input> {
        let session = self.pick(source)?;
        self.streams.remove(&session);
        Some(Input::SessionClosed(session))
    }

    pub(crate) fn close_all(&mut self) -> Vec<Input> {
        let streams = std::mem::take(&mut self.streams);
        streams.into_keys().map(Input::SessionClosed).collect()
    }

    /// One frame on one stream.
    pub(crate) fn say(&mut self, source: &mut Source<'_>) -> Option<Input> {
        let session = self.pick(source)?;
        let kind = source.byte();
        let message = match kind {
            0..=79 => Message::AttemptAcks(v1::AttemptAcks {
                started: self.token_list(source),
                ..v1::AttemptAcks::default()
            }),
            80..=149 => Message::Outcomes(v1::Outcomes {
                items: self.wire_outcomes(source),
            }),
            150..=179 => Message::Heartbeat(v1::Heartbeat {
                n: u64::from(source.byte()),
                in_flight: 0,
                in_flight_hash: if source.once_in(3) {
                    Bytes::from_static(&[0; 16])
                } else {
                    Bytes::new()
                },
            }),
            180..=189 => Message::AttemptAcks(v1::AttemptAcks {
                rejected: self.rejected(source),
                stopped: self.token_list(source),
                ..v1::AttemptAcks::default()
            }),
            190..=199 => Message::AttemptAcks(v1::AttemptAcks {
                stopped: self.token_list(source),
                ..v1::AttemptAcks::default()
            }),
            200..=207 => Message::Capacity(v1::Capacity {
                revision: u64::from(source.byte() % 8),
                max_in_flight: u32::from(source.byte() % 5),
                per_action: (0..source.below(3))
                    .map(|_| (action(source), u32::from(source.byte() % 3)))
                    .collect(),
            }),
            208..=215 => Message::RegisterActions(v1::RegisterActions {
                revision: u64::from(source.byte() % 8),
                actions: self.actions(source),
            }),
            216..=223 => Message::Snapshot(v1::Snapshot {
                n: u64::from(source.byte() % 4),
                last_assignment_seq: u64::from(source.byte() % 16),
                in_flight: self.in_flight(source),
            }),
            224..=226 => Message::Drain(v1::Drain::default()),
            227..=228 => Message::Goodbye(v1::Goodbye::default()),
            229..=231 => Message::Hello(self.hello(source)),
            _ => return self.raw(session, source),
        };
        let seq = self.streams[&session].seq_in + 1;
        self.frame(session, seq, Some(message))
    }

    /// Returns a frame as it comes, decoded as at the edge.
    fn raw(&mut self, session: SessionKey, source: &mut Source<'_>) -> Option<Input> {
        let frame = v1::SessionRequest::decode(source.chunk()).ok()?;
        let next = self.streams[&session].seq_in + 1;
        let seq = if frame.seq == 0 { next } else { frame.seq };
        self.frame(session, seq, frame.message)
    }

    fn frame(&mut self, session: SessionKey, seq: u64, message: Option<Message>) -> Option<Input> {
        let stream = self.streams.get_mut(&session)?;
        if seq == stream.seq_in + 1 {
            stream.seq_in = seq;
        }
        stream.said(message.as_ref());
        // A frame whose structure is wrong ends the stream at the edge.
        let Ok(read) = incoming(v1::SessionRequest { seq, message }) else {
            self.streams.remove(&session);
            return Some(Input::SessionClosed(session));
        };
        Some(Input::SessionMessage {
            session,
            seq,
            message: read.message,
        })
    }

    fn hello(&self, source: &mut Source<'_>) -> v1::Hello {
        let instance = source.byte() % 4;
        v1::Hello {
            protocol_min: 1,
            protocol_max: if source.once_in(64) { 0 } else { 1 },
            worker_id: "worker".to_owned(),
            instance_id: Bytes::copy_from_slice(&[instance; 16]),
            previous_session_id: match source.byte() {
                0..=99 => Bytes::new(),
                byte => {
                    let session = self.last_session.saturating_sub(u64::from(byte % 4));
                    Bytes::copy_from_slice(session_id(SessionKey(session)).as_bytes())
                }
            },
            actions: self.actions(source),
            max_in_flight: u32::from(source.byte() % 5),
            in_flight: self.in_flight(source),
            hello_number: u64::from(source.byte() % 6),
            ..v1::Hello::default()
        }
    }

    fn actions(&self, source: &mut Source<'_>) -> Vec<v1::ActionSpec> {
        let byte = source.byte();
        let offered = (0..3u8).filter(|n| byte >> n & 1 == 1);
        let spec = |n: u8| v1::ActionSpec {
            name: ["a", "b", "c"][usize::from(n)].to_owned(),
            max_in_flight: u32::from(byte >> 3 & 3),
            waits: byte >> 5 == 7,
            ..v1::ActionSpec::default()
        };
        let mut actions: Vec<v1::ActionSpec> = offered.map(spec).collect();
        if byte == 255 {
            actions.push(v1::ActionSpec {
                name: source.text(),
                ..v1::ActionSpec::default()
            });
        }
        actions
    }

    fn in_flight(&self, source: &mut Source<'_>) -> Vec<v1::InFlight> {
        let item = |source: &mut Source<'_>| v1::InFlight {
            attempt_token: self.token(source),
            phase: i32::from(source.byte() % 5),
        };
        (0..source.below(5)).map(|_| item(source)).collect()
    }

    fn token_list(&self, source: &mut Source<'_>) -> Vec<Bytes> {
        (0..=source.below(3)).map(|_| self.token(source)).collect()
    }

    fn rejected(&self, source: &mut Source<'_>) -> Vec<v1::RejectedAttempt> {
        let item = |source: &mut Source<'_>| v1::RejectedAttempt {
            attempt_token: self.token(source),
            reason: i32::from(source.byte() % 7),
        };
        (0..=source.below(2)).map(|_| item(source)).collect()
    }

    fn token(&self, source: &mut Source<'_>) -> Bytes {
        match source.byte() {
            255 => Bytes::copy_from_slice(source.chunk()),
            byte => Bytes::copy_from_slice(known(&self.tokens, byte).as_bytes()),
        }
    }

    fn wire_outcomes(&self, source: &mut Source<'_>) -> Vec<v1::AttemptOutcome> {
        (0..=source.below(3)).map(|_| self.wire_outcome(source)).collect()
    }

    fn wire_outcome(&self, source: &mut Source<'_>) -> v1::AttemptOutcome {
        use v1::attempt_outcome::Outcome;
        let attempt_token = self.token(source);
        let failure = |code: &str| v1::Failure {
            code: code.to_owned(),
            ..v1::Failure::default()
        };
        let outcome = match source.byte() {
            0..=119 => Some(Outcome::Success(v1::Success {
                output: Some(seeds::environment()),
                warnings: Vec::new(),
            })),
            120..=199 => Some(Outcome::Failure(failure("BUSY"))),
            200..=219 => Some(Outcome::Failure(failure(&source.text()))),
            220..=239 => Some(Outcome::Released(v1::Released {
                reason: i32::from(source.byte() % 4),
            })),
            240..=249 => Some(Outcome::Success(v1::Success {
                output: Some(escapement_model::Opaque::from_encoded(Bytes::copy_from_slice(
                    source.chunk(),
                ))),
                warnings: vec![failure("SLOW")],
            })),
            _ => None,
        };
        v1::AttemptOutcome {
            attempt_token,
            run_time_ms: 1,
            outcome,
        }
    }

    /// Outcomes for a report without a session.
    pub(crate) fn outcomes(&self, source: &mut Source<'_>) -> Vec<(AttemptToken, AttemptReport)> {
        let items = self.wire_outcomes(source).into_iter();
        items.filter_map(|item| attempt_outcome(item).ok()).collect()
    }

    #[cfg(test)]
    pub(crate) fn n_assigned(&self) -> usize {
        self.tokens.len()
    }

    /// Judges a message to a worker.
    pub(crate) fn sent(&mut self, session: SessionKey, seq: u64, message: ToWorker) {
        let Some(stream) = self.streams.get_mut(&session) else {
            // It was closed in this batch.
            return;
        };
        assert_eq!(seq, stream.seq_out + 1, "messages are numbered without gaps");
        stream.seq_out = seq;
        assert!(
            !stream.is_over,
            "nothing follows the end of a stream: {message:?}"
        );
        match &message {
            ToWorker::Welcome(_) => {
                assert!(!stream.is_welcome, "one welcome");
                stream.is_welcome = true;
            }
            ToWorker::SessionError { .. } => stream.is_over = true,
            _ => assert!(stream.is_welcome, "nothing comes before welcome: {message:?}"),
        }
        match &message {
            ToWorker::Assignments(items) => {
                assert!(!items.is_empty() && !stream.is_drained, "work for who takes it");
                stream.last_assignment_seq = seq;
                for item in items {
                    assert!(item.timeout_ms >= 1, "an attempt has time");
                    assert!(
                        self.all_tokens.insert(item.token),
                        "each token is handed out once"
                    );
                    self.tokens.push(item.token);
                    stream.untouched.insert(item.token);
                }
            }
            ToWorker::DrainStarted { last_assignment_seq } => {
                assert_eq!(*last_assignment_seq, stream.last_assignment_seq);
                stream.is_drained = true;
            }
            ToWorker::SnapshotRequest { n } => {
                stream.n_snapshots += 1;
                assert_eq!(*n, stream.n_snapshots, "requests are numbered without gaps");
            }
            _ => {}
        }
        let greeting = WelcomeDefaults {
            boot_id: BootId::new([7; 16]),
            heartbeat_interval_ms: limits::HEARTBEAT_INTERVAL_MS,
            lease_ms: limits::LEASE_MS,
            peers: Arc::new([]),
            traces: None,
        };
        let wire = v1::SessionResponse {
            seq,
            message: Some(to_wire(message, &greeting)),
        };
        assert!(wire.encoded_len() <= limits::SESSION_MESSAGE_BYTES_MAX);
    }

    pub(crate) fn closed(&mut self, session: SessionKey) {
        if let Some(stream) = self.streams.get_mut(&session) {
            stream.is_over = true;
        }
    }

    /// Who was just handed work keeps within its levels, by the engine's books and by its own.
    pub(crate) fn check_credits(&self, session: SessionKey, views: &BTreeMap<SessionId, WorkerView>) {
        let Some(stream) = self.streams.get(&session).filter(|stream| !stream.waits) else {
            return;
        };
        if let Some(view) = views.get(&session_id(session)) {
            assert!(
                view.in_flight <= view.max_in_flight,
                "{view:?} has more than its level"
            );
        }
        let n_untouched = u32::try_from(stream.untouched.len()).expect("attempts are few");
        assert!(
            stream.is_unclear || n_untouched <= stream.level_max,
            "{n_untouched} attempts on a level of {}",
            stream.level_max
        );
    }
}

impl Stream {
    /// Keeps in mind what the engine may conclude from a frame.
    fn said(&mut self, message: Option<&Message>) {
        let mut touch = |token: &Bytes| {
            if let Some(token) = AttemptToken::from_slice(token) {
                self.untouched.remove(&token);
            }
        };
        match message {
            Some(Message::AttemptAcks(acks)) => {
                acks.stopped.iter().for_each(&mut touch);
                acks.rejected
                    .iter()
                    .map(|item| &item.attempt_token)
                    .for_each(touch);
            }
            Some(Message::Outcomes(outcomes)) => {
                outcomes
                    .items
                    .iter()
                    .map(|item| &item.attempt_token)
                    .for_each(touch);
            }
            Some(Message::Hello(hello)) => {
                self.level_max = self.level_max.max(hello.max_in_flight);
                self.waits |= hello.actions.iter().any(|action| action.waits);
            }
            Some(Message::RegisterActions(message)) => {
                self.waits |= message.actions.iter().any(|action| action.waits);
            }
            Some(Message::Capacity(capacity)) => {
                self.level_max = self.level_max.max(capacity.max_in_flight);
            }
            Some(Message::Snapshot(_) | Message::Goodbye(_)) => self.is_unclear = true,
            Some(Message::Heartbeat(_) | Message::Drain(_)) | None => {}
        }
    }
}

fn action(source: &mut Source<'_>) -> String {
    source.pick(&["a", "b", "c", "d"]).to_owned()
}

fn session_id(session: SessionKey) -> SessionId {
    SessionId::new(u128::from(session.0).to_be_bytes())
}
