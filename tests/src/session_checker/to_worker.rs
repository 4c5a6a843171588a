//! What the orchestrator says. Judges I1, I4, I5, I6 and I9 at each hand-out.

use crate::session_journal::{AssignedItem, CancelReason, Event, Hex, OutcomeKind, ToWorker};

use super::attempt::{Attempt, Evidence, State, Why};
use super::books::Books;
use super::from_worker::ENTRIES_PER_MESSAGE;
use super::report::{Count, Invariant};
use super::session::Stage;

impl Books {
    /// A message to a worker.
    pub(super) fn say(&mut self, event: &Event, seq: u64, message: &ToWorker) {
        let Some(session) = self.sessions.get_mut(&event.session) else {
            return;
        };
        let expected = session.last_out_seq + 1;
        session.last_out_seq = seq;
        if seq != expected {
            let text = format!("the message has number {seq} instead of {expected}");
            self.violate(Invariant::Journal, event, None, text);
        }
        match message {
            ToWorker::Welcome {
                session,
                refused,
                verdicts,
            } => self.welcome(event, *session, refused, verdicts),
            ToWorker::Assignments { items } => self.assignments(event, seq, items),
            ToWorker::OutcomeAcks { items } => {
                for (token, verdict) in items {
                    self.acknowledge(event, *token, *verdict);
                }
            }
            ToWorker::Cancels { items } => {
                for (token, reason) in items {
                    self.report.add(Count::Cancels, 1);
                    self.cancel(*token, *reason, event.session);
                }
            }
            ToWorker::SnapshotRequest { n } => self.snapshot_request(event, *n),
            ToWorker::DrainStarted { last_assignment_seq } => self.drain_started(event, *last_assignment_seq),
            ToWorker::SessionError { code } => self.session_error(event, code),
            ToWorker::UnknownOutcomes { .. } | ToWorker::HeartbeatAck { .. } | ToWorker::Reconnect { .. } => {
            }
        }
    }

    fn assignments(&mut self, event: &Event, seq: u64, items: &[AssignedItem]) {
        if let Some(session) = self.sessions.get_mut(&event.session) {
            session.last_assignment_seq = seq;
            session.allow(ALLOWED_PER_ASSIGNMENT * items.len() as u64);
        }
        for item in items {
            self.report.add(Count::Assignments, 1);
            let action = self.actions.id(&item.action);
            self.actions.handed_out(action, self.clock());
            let mut attempt = Attempt::new(item, action, self.boot, event);
            attempt.seq = seq;
            if self.judge_stage(event, item.token) {
                self.judge_credit(event, item, &mut attempt);
            }
            self.judge_step(event, item);
            let earlier = self.attempts.insert(item.token, attempt);
            if earlier.is_some() {
                let text = "the token was used before".to_owned();
                self.violate(Invariant::I1, event, Some(item.token), text);
            } else {
                let step = (item.execution, item.step);
                self.steps.entry(step).or_default().push(item.token);
            }
            self.refresh_free(event.session);
        }
    }

    /// I5; true if nothing is wrong.
    fn judge_stage(&mut self, event: &Event, token: Hex) -> bool {
        let Some(session) = self.sessions.get(&event.session) else {
            return false;
        };
        let text = match session.stage {
            Stage::Opened => "an assignment before `Welcome`",
            Stage::Suspect | Stage::Over => "an assignment on a stream that is over",
            Stage::Welcomed if session.drain_started => "an assignment after `DrainStarted`",
            Stage::Welcomed if session.must_drain => "an assignment to an instance that was drained",
            Stage::Welcomed if session.deaf_since.is_some() => {
                "an assignment to an instance that is deaf, before its heartbeat"
            }
            Stage::Welcomed => return true,
        };
        self.violate(Invariant::I5, event, Some(token), text.to_owned());
        false
    }

    /// I4 and I9.
    fn judge_credit(&mut self, event: &Event, item: &AssignedItem, attempt: &mut Attempt) {
        let Some(session) = self.sessions.get_mut(&event.session) else {
            return;
        };
        let refusal = session.refusal(attempt.action);
        let level = session.actions.get(&attempt.action);
        attempt.waits = level.is_some_and(|level| level.waits);
        attempt.credit = true;
        attempt.instance = session.instance();
        session.take_credit(item.token, attempt.action, attempt.waits);
        let n_held = session.held.len();
        if let Some(text) = refusal {
            self.violate(
                Invariant::I4,
                event,
                Some(item.token),
                format!("{text}: `{}`", item.action),
            );
        } else if n_held > HELD_MAX {
            let text = format!("{n_held} attempts on one session");
            self.violate(Invariant::I9, event, Some(item.token), text);
        }
    }

    /// I1, I2 and I6: what may follow the earlier attempt of the step.
    fn judge_step(&mut self, event: &Event, item: &AssignedItem) {
        let step = (item.execution, item.step);
        let Some(before) = self.steps.get(&step).and_then(|tokens| tokens.last().copied()) else {
            if item.attempt != 1 {
                let text = format!("the first hand-out of the step is attempt {}", item.attempt);
                self.violate(Invariant::I6, event, Some(item.token), text);
            }
            return;
        };
        self.settle_unseen(before);
        let boot = self.boot;
        let Some(earlier) = self.attempts.get(&before) else {
            return;
        };
        let same = item.attempt == earlier.number;
        let next = item.attempt == earlier.number + 1;
        self.report.add(Count::HandedOutAgain, u64::from(same));
        let number = earlier.number;
        let wrong_number = || format!("attempt {} after attempt {number} ({before})", item.attempt);
        let (invariant, text) = match earlier.state {
            _ if earlier.boot != boot => (
                Invariant::I6,
                format!("the execution ran in an earlier process ({before})"),
            ),
            State::Live => return self.conflict(before, event, item.token),
            State::Accepted(OutcomeKind::Success) => {
                (Invariant::I2, format!("the step completed ({before})"))
            }
            State::Ended(Why::Cancelled(CancelReason::ExecutionEnded)) => {
                (Invariant::I2, format!("the execution ended ({before})"))
            }
            State::Gone if earlier.started && same => (
                Invariant::I6,
                format!("the attempt with this number had started ({before})"),
            ),
            State::Gone if !earlier.started && !earlier.released && next => (
                Invariant::I6,
                format!("the attempt before never ran and is counted ({before})"),
            ),
            State::Accepted(OutcomeKind::Failure | OutcomeKind::Invalid) if same => (
                Invariant::I6,
                format!("the attempt with this number had an outcome ({before})"),
            ),
            State::Ended(Why::Stopped) if same && !earlier.evidence.is_some() => (
                Invariant::I6,
                format!("nothing shows that the attempt with this number never ran ({before})"),
            ),
            State::Ended(Why::Cancelled(CancelReason::StepTimeout) | Why::TimedOut) if same => (
                Invariant::I6,
                format!("the attempt with this number timed out ({before})"),
            ),
            _ if same || next => return,
            _ => (Invariant::I6, wrong_number()),
        };
        self.violate(invariant, event, Some(item.token), text);
    }

    fn cancel(&mut self, token: Hex, reason: CancelReason, session: u64) {
        if let Some(session) = self.sessions.get_mut(&session) {
            session.allow(ALLOWED_PER_CANCEL);
        }
        let is_held = self.held_attempt(token, session);
        // What a call reports is cancelled with its holder; the verdict may stand in a later line.
        if is_held.is_some_and(|attempt| !(attempt.called && reason == CancelReason::Superseded)) {
            self.settle(token, State::Ended(Why::Cancelled(reason)));
        }
    }

    fn snapshot_request(&mut self, event: &Event, n: u64) {
        self.report.add(Count::SnapshotRequests, 1);
        let patience =
            self.settings.snapshot_repeat_ms - SNAPSHOT_SLACK_MS.min(self.settings.snapshot_repeat_ms);
        let Some(session) = self.sessions.get_mut(&event.session) else {
            return;
        };
        let expected = session.snapshot_n + 1;
        let asked = session.snapshot_asked.replace(event.t);
        session.snapshot_n = n;
        let n_listed = session.held.len() + session.stopping.len();
        session.allow(1 + (n_listed / ENTRIES_PER_MESSAGE) as u64);
        if n != expected {
            let text = format!("snapshot request {n} instead of {expected}");
            self.violate(Invariant::I9, event, None, text);
        } else if let Some(asked) = asked.filter(|asked| event.t < asked + patience) {
            let waited = event.t - asked;
            let text = format!("another snapshot request {waited} ms after one that was not answered");
            self.violate(Invariant::I9, event, None, text);
        }
    }

    fn drain_started(&mut self, event: &Event, last_assignment_seq: u64) {
        self.report.add(Count::Drains, 1);
        let Some(session) = self.sessions.get_mut(&event.session) else {
            return;
        };
        session.drain_started = true;
        let last = session.last_assignment_seq;
        if last != last_assignment_seq {
            let text = format!(
                "the last assignments had number {last}, and `DrainStarted` says {last_assignment_seq}"
            );
            self.violate(Invariant::I5, event, None, text);
        }
    }

    fn session_error(&mut self, event: &Event, code: &str) {
        let Some(session) = self.sessions.get(&event.session) else {
            return;
        };
        let (stage, heard, instance) = (session.stage, session.heard, session.instance());
        match code {
            "lease_expired" => {
                let patience = self.settings.lease_ms + self.settings.lease_margin_ms;
                if stage == Stage::Welcomed && event.t + 1 < heard + patience {
                    let text = format!("declared lost {} ms after it was heard", event.t - heard);
                    self.violate(Invariant::I8, event, None, text);
                }
                self.lose(event.session, Evidence::LEASE_EXPIRED);
            }
            "declared_dead" => {
                if !instance.is_some_and(|instance| self.declared.contains(&instance)) {
                    let text = "declared dead, and no operator said so".to_owned();
                    self.violate(Invariant::I8, event, None, text);
                }
                self.lose(event.session, Evidence::DECLARED_DEAD);
            }
            _ => self.over(event.session),
        }
    }

    /// The stream gets no more work; what the session holds stays until a resume or the end of the lease.
    fn over(&mut self, session: u64) {
        if let Some(session) = self.sessions.get_mut(&session)
            && session.stage == Stage::Welcomed
        {
            session.stage = Stage::Suspect;
        }
    }
}

/// Messages that each item sent allows the worker.
pub(super) const ALLOWED_PER_ASSIGNMENT: u64 = 8;
const ALLOWED_PER_CANCEL: u64 = 4;
const HELD_MAX: usize = 16_384;
const SNAPSHOT_SLACK_MS: u64 = 100;
