//! A worker process of the random runs: what it believes, and how it answers what it reads. Decides nothing at random.

use crate::world::{World, action, hello_of};
use escapement_contract::Outcome;
use escapement_engine::{
    AckVerdict, AttemptReport, FromWorker, InFlight, InFlightPhase, KeepOrStop, RejectReason,
    SessionErrorCode, ToWorker,
};
use escapement_model::{AttemptToken, SessionId};
use std::collections::{BTreeMap, VecDeque};

pub const CAPACITY: u32 = 3;

#[derive(Default)]
pub struct Puppet {
    pub instance: u8,
    pub session: Option<u64>,
    /// Sent by the engine and not read yet: what is on its way.
    pub inbox: VecDeque<ToWorker>,
    pub has: BTreeMap<AttemptToken, Held>,
    pub is_welcome: bool,
    /// It said that it wants to stop.
    pub is_leaving: bool,
    /// It was told that nothing is assigned any more.
    pub is_drained: bool,
    pub n_hellos: u64,
    /// That of the last welcome that it read.
    previous: Option<SessionId>,
    n_heartbeats: u64,
    last_assignment_seq: u64,
}

/// An attempt that the puppet has not been released from.
#[derive(Clone)]
pub enum Held {
    Received,
    Running,
    Finished(Outcome),
}

/// How willingly a message is answered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    Willing,
    /// Requests and cancels get no answer.
    Deaf,
}

impl Puppet {
    pub fn of(instance: u8) -> Self {
        Self {
            instance,
            ..Self::default()
        }
    }

    pub fn connect(&mut self, world: &mut World, session: u64, is_numbered: bool) {
        self.n_hellos += 1;
        self.session = Some(session);
        self.inbox.clear();
        (self.is_welcome, self.is_drained, self.last_assignment_seq) = (false, false, 0);
        let mut hello = hello_of(self.instance, "puppet");
        (hello.actions, hello.max_in_flight) = (vec![action("a")], CAPACITY);
        hello.in_flight = self.in_flight();
        hello.hello_number = if is_numbered { self.n_hellos } else { 0 };
        hello.previous_session_id = self.previous;
        world.open_unheard(session, hello);
    }

    /// A hello that was held up on its way.
    pub fn late_hello(&self, world: &mut World, session: u64) {
        let mut hello = hello_of(self.instance, "puppet");
        (hello.actions, hello.max_in_flight) = (vec![action("a")], CAPACITY);
        hello.hello_number = self.n_hellos - 1;
        hello.previous_session_id = self.previous;
        world.open_unheard(session, hello);
    }

    /// Its lease is over: what ran has ended, and is told when somebody hears it.
    pub fn expire(&mut self, outcome: &Outcome) {
        for held in self.has.values_mut().filter(|held| matches!(held, Held::Running)) {
            *held = Held::Finished(outcome.clone());
        }
    }

    fn in_flight(&self) -> Vec<InFlight> {
        let item = |(token, held): (&AttemptToken, &Held)| InFlight {
            token: *token,
            phase: match held {
                Held::Received => InFlightPhase::Received,
                Held::Running => InFlightPhase::Running,
                Held::Finished(_) => InFlightPhase::Finished,
            },
        };
        self.has.iter().map(item).collect()
    }

    pub fn heartbeat(&mut self, world: &mut World, has_hash: bool) {
        // The first one follows the welcome.
        let Some(session) = self.session.filter(|_| self.is_welcome) else {
            return;
        };
        self.n_heartbeats += 1;
        let hash = self
            .has
            .keys()
            .fold(0, |hash, token| hash ^ u128::from_be_bytes(*token.as_bytes()));
        world.say(
            session,
            FromWorker::Heartbeat {
                n: self.n_heartbeats,
                in_flight_hash: has_hash.then(|| hash.to_be_bytes()),
            },
        );
    }

    pub fn start(&mut self, world: &mut World, token: AttemptToken) {
        let Some(session) = self.session else { return };
        self.has.insert(token, Held::Running);
        world.started(session, token);
    }

    pub fn reject(&mut self, world: &mut World, token: AttemptToken, reason: RejectReason) {
        self.has.remove(&token);
        self.ack(world, vec![(token, reason)], vec![]);
    }

    pub fn finish(&mut self, world: &mut World, token: AttemptToken, outcome: Outcome) {
        let Some(session) = self.session else { return };
        self.has.insert(token, Held::Finished(outcome.clone()));
        world.report(session, token, outcome);
    }

    fn ack(
        &self,
        world: &mut World,
        rejected: Vec<(AttemptToken, RejectReason)>,
        stopped: Vec<AttemptToken>,
    ) {
        if let Some(session) = self.session {
            let started = vec![];
            let acks = FromWorker::AttemptAcks {
                started,
                rejected,
                stopped,
            };
            world.say(session, acks);
        }
    }

    /// Reads one message; gives back the verdicts on outcomes.
    pub fn read(&mut self, world: &mut World, mood: Mood) -> Vec<(AttemptToken, AckVerdict)> {
        let (Some(session), Some(message)) = (self.session, self.inbox.pop_front()) else {
            return Vec::new();
        };
        match message {
            ToWorker::Welcome(welcome) => {
                self.is_welcome = true;
                self.previous = Some(welcome.session_id);
                for (token, verdict) in welcome.verdicts {
                    match (verdict, self.has.get(&token)) {
                        (KeepOrStop::Stop, _) => self.stop(world, token),
                        // Sent again, unchanged, on every new session until it is answered.
                        (KeepOrStop::Keep, Some(Held::Finished(outcome))) => {
                            world.report(session, token, outcome.clone());
                        }
                        (KeepOrStop::Keep, _) => {}
                    }
                }
            }
            ToWorker::Assignments(items) => {
                for item in items {
                    self.last_assignment_seq = world.auditor.seq_of[&item.token];
                    self.has.insert(item.token, Held::Received);
                }
                assert!(
                    self.has.len() <= CAPACITY as usize,
                    "in flight never exceeds the credits"
                );
            }
            ToWorker::OutcomeAcks(items) => {
                for (token, _) in &items {
                    self.has.remove(token);
                }
                return items;
            }
            ToWorker::Cancels(items) if mood == Mood::Willing => {
                for item in items {
                    // The answer to an outcome that was sent releases it.
                    if !matches!(self.has.get(&item.token), Some(Held::Finished(_))) {
                        self.stop(world, item.token);
                    }
                }
            }
            ToWorker::SnapshotRequest { n } if mood == Mood::Willing => {
                let snapshot = FromWorker::Snapshot {
                    n,
                    last_assignment_seq: self.last_assignment_seq,
                    in_flight: self.in_flight(),
                };
                world.say(session, snapshot);
            }
            ToWorker::DrainStarted { .. } => self.is_drained = true,
            ToWorker::SessionError { code, .. } => {
                (self.session, self.is_welcome) = (None, false);
                // Its own lease ran out before.
                if code == SessionErrorCode::LeaseExpired {
                    self.has.clear();
                }
            }
            ToWorker::Cancels(_)
            | ToWorker::SnapshotRequest { .. }
            | ToWorker::HeartbeatAck { .. }
            | ToWorker::UnknownOutcomes(_)
            | ToWorker::Reconnect { .. } => {}
        }
        Vec::new()
    }

    fn stop(&mut self, world: &mut World, token: AttemptToken) {
        match self.has.remove(&token) {
            Some(Held::Received) => self.ack(world, vec![(token, RejectReason::Cancelled)], vec![]),
            Some(Held::Running | Held::Finished(_)) | None => self.ack(world, vec![], vec![token]),
        }
    }

    /// Leaves for good once it has nothing; true if it did.
    pub fn leave(&mut self, world: &mut World) -> bool {
        let Some(session) = self.session.filter(|_| self.is_leaving && self.is_drained) else {
            return false;
        };
        if !self.has.is_empty() {
            return false;
        }
        world.say(session, FromWorker::Goodbye);
        true
    }

    pub fn report_of(outcome: Outcome) -> AttemptReport {
        AttemptReport::Outcome(outcome)
    }
}
