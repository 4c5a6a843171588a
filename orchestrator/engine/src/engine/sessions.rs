//! What workers say: which message goes where, and how sessions begin and end.

use super::Engine;
use crate::answer::Losses;
use crate::fleet::{Greeted, TakeOver};
use crate::keys::SessionKey;
use crate::worker::{FromWorker, Hello, InFlight, InFlightPhase};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use escapement_contract::Evidence;
use escapement_model::AttemptToken;

impl Engine {
    pub(super) fn session_message(&mut self, key: SessionKey, seq: u64, message: FromWorker) {
        if !self.fleet.admit_message(key, seq, &message, &mut self.turn) {
            return;
        }
        match message {
            FromWorker::Hello(hello) => self.hello(key, hello),
            FromWorker::RegisterActions { revision, actions } => {
                self.fleet.register_again(key, revision, actions, &mut self.turn);
            }
            FromWorker::Capacity {
                revision,
                max_in_flight,
                per_action,
            } => self.fleet.set_capacity(key, revision, max_in_flight, &per_action),
            FromWorker::Heartbeat { n, in_flight_hash } => {
                self.fleet.heartbeat(key, n, in_flight_hash, &mut self.turn);
            }
            FromWorker::AttemptAcks {
                started,
                rejected,
                stopped,
            } => {
                for token in started {
                    self.attempt_started(key, token);
                }
                for (token, reason) in rejected {
                    self.attempt_rejected(key, token, reason);
                }
                for token in stopped {
                    self.attempt_stopped(key, token);
                }
            }
            FromWorker::Outcomes { items, unreadable } => {
                for (token, report) in items {
                    self.outcome(key, token, report);
                }
                self.fleet.answer_unreadable(key, unreadable, &mut self.turn);
            }
            FromWorker::Snapshot {
                n,
                last_assignment_seq,
                in_flight,
            } => self.snapshot(key, n, last_assignment_seq, &in_flight),
            FromWorker::Drain => self.fleet.worker_drain(key, &mut self.turn),
            FromWorker::Goodbye => {
                self.fleet.goodbye(key, &mut self.turn);
                self.lose_session(key, Evidence::Goodbye);
            }
            FromWorker::Unknown => {}
        }
    }

    fn hello(&mut self, key: SessionKey, hello: Hello) {
        let Some((greeted, in_flight)) = self.fleet.greet(key, hello, &mut self.turn) else {
            return;
        };
        let Greeted {
            previous,
            refused_actions,
        } = greeted;
        if let Some(previous) = previous {
            self.take_over(previous, key, &in_flight);
        }
        let mut verdicts = Vec::with_capacity(in_flight.len());
        for item in &in_flight {
            let (verdict, told) = self.fleet.verdict_of(key, item);
            verdicts.push((item.token, verdict));
            self.tell(told);
        }
        let reconnect_within_ms = self.drain.left_ms(self.turn.now_ms());
        self.fleet.welcome(
            key,
            refused_actions,
            verdicts,
            reconnect_within_ms,
            &mut self.turn,
        );
    }

    /// The same instance is back: what it still has moves to the new session, what it does not have is settled.
    fn take_over(&mut self, previous: SessionKey, key: SessionKey, in_flight: &[InFlight]) {
        for (token, fate) in self.fleet.take_over(previous, key, in_flight, &self.turn) {
            match fate {
                TakeOver::Move => self.fleet.move_attempt(token, key, &self.turn),
                TakeOver::Omitted => {
                    self.settle_gone(token, Evidence::ResumeOmits);
                }
                TakeOver::Unheard { has_ended } => {
                    if has_ended {
                        self.attempt_started(previous, token);
                    }
                    self.settle_gone(token, Evidence::LeaseExpired);
                }
            }
        }
        self.fleet.forget_session(previous, &self.turn);
    }

    //
    /// What the worker should have and does not is settled; what it has and should not is cancelled.
    fn snapshot(&mut self, key: SessionKey, n: u64, last_assignment_seq: u64, in_flight: &[InFlight]) {
        let Some(covered_seq) = self.fleet.take_snapshot(key, n, last_assignment_seq) else {
            return;
        };
        let listed: BTreeMap<AttemptToken, InFlightPhase> =
            in_flight.iter().map(|item| (item.token, item.phase)).collect();
        for (token, phase) in &listed {
            let told = self.fleet.listed(key, *token, *phase);
            self.tell(told);
        }
        for token in self.fleet.missing(key, covered_seq, &listed) {
            self.settle_gone(token, Evidence::SnapshotOmits);
        }
        self.fleet.snapshot_due(key, &mut self.turn);
    }

    /// Settles what a session that is over has.
    pub(super) fn lose_session(&mut self, key: SessionKey, evidence: Evidence) -> Losses {
        let mut losses = Losses::default();
        for token in self.fleet.begin_loss(key, &self.turn) {
            losses.count(self.settle_gone(token, evidence));
        }
        self.fleet.end_loss(key, evidence, losses, &mut self.turn);
        losses
    }
}
