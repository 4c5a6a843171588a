//! The records of executions against the journal. Judges I3, I6, I8 and I10 where they show there.

use std::collections::BTreeMap;

use escapement_wire::v1::audit_entry::Event as Entry;
use escapement_wire::v1::{AttemptFailed, AuditEntry};

use crate::session_journal::{CancelReason, Hex, OutcomeKind, Uuid};

use super::Records;
use super::attempt::{Attempt, Evidence, State, Why};
use super::books::Books;
use super::report::{Count, Invariant};

/// Judges every record.
pub(super) fn judge(books: &mut Books, records: &Records) {
    for (id, entries) in records {
        match Uuid::parse(id) {
            Ok(execution) => Judge::of(books, execution, entries).judge(),
            Err(error) => {
                let token = Hex::of_bytes(&[]);
                books.violate_at(Invariant::Journal, 0, 0, token, format!("a record: {error}"));
            }
        }
    }
}

/// A step and the number of an attempt.
type Key = (Uuid, u32);

struct Judge<'a> {
    books: &'a mut Books,
    execution: Uuid,
    entries: &'a [AuditEntry],
    /// What the journal knows of each attempt, by its hand-outs.
    handed_out: BTreeMap<Key, Vec<(Hex, Attempt)>>,
    /// What the record says.
    assigned: BTreeMap<Key, usize>,
    returned: BTreeMap<Key, Vec<String>>,
    failed: BTreeMap<Key, Vec<String>>,
    /// By step, with the attempts it took.
    completed: BTreeMap<Uuid, u32>,
    not_completed: BTreeMap<Uuid, u32>,
}

impl<'a> Judge<'a> {
    fn of(books: &'a mut Books, execution: Uuid, entries: &'a [AuditEntry]) -> Self {
        let mut handed_out: BTreeMap<Key, Vec<(Hex, Attempt)>> = BTreeMap::new();
        let first = (execution, Uuid::new(0));
        let last = (execution, Uuid::new(u128::MAX));
        for ((_, step), tokens) in books.steps.range(first..=last) {
            for token in tokens {
                let attempt = books.attempts[token].clone();
                let key = (*step, attempt.number);
                handed_out.entry(key).or_default().push((*token, attempt));
            }
        }
        Self {
            books,
            execution,
            entries,
            handed_out,
            assigned: BTreeMap::new(),
            returned: BTreeMap::new(),
            failed: BTreeMap::new(),
            completed: BTreeMap::new(),
            not_completed: BTreeMap::new(),
        }
    }

    fn judge(mut self) {
        let is_settled = matches!(
            self.entries.last().map(|entry| &entry.event),
            Some(Some(Entry::Settled(_)))
        );
        let names_attempts = |entry: &AuditEntry| matches!(entry.event, Some(Entry::AttemptAssigned(_)));
        let last_boot = self.books.boot;
        let ran_before = self
            .handed_out
            .values()
            .flatten()
            .any(|(_, attempt)| attempt.boot < last_boot);
        if is_settled && ran_before && !self.entries.iter().any(names_attempts) {
            self.books.report.add(Count::RestartedRecords, 1);
            return;
        }
        self.books.report.add(Count::Records, 1);
        self.read();
        self.judge_hand_outs(is_settled);
        if is_settled {
            self.judge_accepted();
        }
        self.judge_failures();
        self.judge_completions();
        self.judge_waits();
    }

    fn violate(&mut self, invariant: Invariant, key: Key, text: &str) {
        let hand_out = self.handed_out.get(&key).and_then(|tokens| tokens.last());
        let (token, line, session) = match hand_out {
            Some((token, attempt)) => (*token, attempt.line, attempt.holder),
            None => (Hex::of_bytes(&[]), 0, 0),
        };
        let text = format!(
            "record of {}, step {}, attempt {}: {text}",
            self.execution, key.0, key.1
        );
        self.books.violate_at(invariant, line, session, token, text);
    }

    /// Collects what the record says; I6: no hand-out follows another without a return between.
    fn read(&mut self) {
        let mut is_out: BTreeMap<Key, bool> = BTreeMap::new();
        for entry in self.entries {
            match &entry.event {
                Some(Entry::AttemptAssigned(entry)) => {
                    let key = key(&entry.step_id, entry.attempt);
                    *self.assigned.entry(key).or_default() += 1;
                    if is_out.insert(key, true) == Some(true) {
                        self.violate(Invariant::I6, key, "handed out again without `AttemptReturned`");
                    }
                }
                Some(Entry::AttemptReturned(entry)) => {
                    let key = key(&entry.step_id, entry.attempt);
                    is_out.insert(key, false);
                    self.returned.entry(key).or_default().push(entry.evidence.clone());
                }
                Some(Entry::AttemptFailed(entry)) => {
                    let key = key(&entry.step_id, entry.attempt);
                    self.failed.entry(key).or_default().push(code(entry));
                }
                Some(Entry::StepCompleted(entry)) => {
                    let (step, attempts) = key(&entry.step_id, entry.attempts);
                    self.completed.insert(step, attempts);
                }
                Some(Entry::StepNotCompleted(entry)) => {
                    let (step, attempts) = key(&entry.step_id, entry.attempts);
                    self.not_completed.insert(step, attempts);
                }
                _ => {}
            }
        }
    }

    /// I6: the hand-outs of the record are those of the journal, and each return has its evidence there.
    fn judge_hand_outs(&mut self, is_settled: bool) {
        let in_journal = self
            .handed_out
            .iter()
            .map(|(key, hand_outs)| (*key, hand_outs.len()));
        let mut counts: BTreeMap<Key, (usize, usize)> = in_journal.map(|(key, n)| (key, (n, 0))).collect();
        for (key, n) in &self.assigned {
            counts.entry(*key).or_default().1 = *n;
        }
        for (key, (journal, record)) in counts {
            if record > journal || is_settled && record != journal {
                let text = format!("{record} hand-outs, and {journal} in the journal");
                self.violate(Invariant::I6, key, &text);
            }
        }
        let mut unexplained = Vec::new();
        for (key, evidences) in &self.returned {
            for (at, name) in evidences.iter().enumerate() {
                let hand_out = self.handed_out.get(key).and_then(|hand_outs| hand_outs.get(at));
                let is_explained = hand_out.is_some_and(|(_, attempt)| match name.as_str() {
                    "refused" => attempt.may_have_ended_with(&[OutcomeKind::Refused]),
                    name => attempt.evidence.allows(name),
                });
                if !is_explained {
                    unexplained.push((
                        *key,
                        format!("returned by `{name}`, which the journal does not explain"),
                    ));
                }
            }
        }
        for (key, text) in unexplained {
            self.violate(Invariant::I6, key, &text);
        }
    }

    /// I3: what was accepted stands in the record.
    fn judge_accepted(&mut self) {
        let mut lost = Vec::new();
        for (key, hand_outs) in &self.handed_out {
            for (_, attempt) in hand_outs {
                let failed = self.failed.get(key);
                let failed_with =
                    |wanted: &str| failed.is_some_and(|codes| codes.iter().any(|code| code == wanted));
                let returned = self.returned.get(key);
                let was_returned =
                    |wanted: &str| returned.is_some_and(|names| names.iter().any(|name| name == wanted));
                let State::Accepted(kind) = attempt.state else {
                    continue;
                };
                let stands = match kind {
                    OutcomeKind::Success => {
                        self.completed.get(&key.0) == Some(&key.1) || failed_with("RESOURCE_EXHAUSTED")
                    }
                    OutcomeKind::Failure | OutcomeKind::Invalid => {
                        failed.is_some() || self.not_completed.get(&key.0) == Some(&key.1)
                    }
                    OutcomeKind::Refused => failed.is_some() || was_returned("refused"),
                    OutcomeKind::Released => failed_with("WORKER_LOST") || was_returned("released"),
                };
                if !stands {
                    lost.push((
                        *key,
                        format!("the accepted outcome ({kind:?}) is not in the record"),
                    ));
                }
            }
        }
        for (key, text) in lost {
            self.violate(Invariant::I3, key, &text);
        }
    }

    /// I8: every failure has its reason.
    fn judge_failures(&mut self) {
        let mut made_up = Vec::new();
        for (key, codes) in &self.failed {
            let hand_outs: Vec<&Attempt> = self.handed_out.get(key).map_or(Vec::new(), |hand_outs| {
                hand_outs.iter().map(|(_, attempt)| attempt).collect()
            });
            for code in codes.iter().filter(|code| !is_explained(code, &hand_outs)) {
                made_up.push((*key, format!("failed with {code}, which nothing explains")));
            }
        }
        for (key, text) in made_up {
            self.violate(Invariant::I8, key, &text);
        }
    }

    /// I8: every completion has its outcome.
    fn judge_completions(&mut self) {
        let is_success = |(_, attempt): &(Hex, Attempt)| attempt.may_have_ended_with(&[OutcomeKind::Success]);
        let made_up: Vec<Key> = self
            .completed
            .iter()
            .map(|(step, attempts)| (*step, *attempts))
            .filter(|key| {
                !self
                    .handed_out
                    .get(key)
                    .is_some_and(|hand_outs| hand_outs.iter().any(is_success))
            })
            .collect();
        for key in made_up {
            self.violate(Invariant::I8, key, "completed, and no success of it was accepted");
        }
    }

    /// I10: nobody waits beside a free slot.
    fn judge_waits(&mut self) {
        let mut waiting: BTreeMap<Key, i64> = BTreeMap::new();
        let mut waits: Vec<(Key, i64, i64)> = Vec::new();
        let was_refused = |key: Key| {
            let returned = self.returned.get(&key);
            returned.is_some_and(|names| names.iter().any(|name| name == "refused"))
        };
        for entry in self.entries {
            match &entry.event {
                // A free slot of a worker that has refused is none for it.
                Some(Entry::StepWaiting(step)) if was_refused(key(&step.step_id, step.attempt)) => {}
                Some(Entry::StepWaiting(step)) => {
                    waiting.insert(key(&step.step_id, step.attempt), entry.at);
                }
                Some(Entry::AttemptReturned(step)) if was_refused(key(&step.step_id, step.attempt)) => {}
                Some(Entry::AttemptReturned(step)) => {
                    waiting.insert(key(&step.step_id, step.attempt), entry.at);
                }
                Some(Entry::AttemptAssigned(step)) => {
                    let key = key(&step.step_id, step.attempt);
                    waits.extend(waiting.remove(&key).map(|from| (key, from, entry.at)));
                }
                Some(Entry::AttemptFailed(step)) => {
                    let key = key(&step.step_id, step.attempt);
                    waits.extend(waiting.remove(&key).map(|from| (key, from, entry.at)));
                }
                Some(Entry::Settled(_)) => {
                    let all = std::mem::take(&mut waiting).into_iter();
                    waits.extend(all.map(|(key, from)| (key, from, entry.at)));
                }
                _ => {}
            }
        }
        for (key, from, to) in waits {
            self.judge_wait(key, from, to);
        }
    }

    fn judge_wait(&mut self, key: Key, from: i64, to: i64) {
        // The action of a step that was never handed out is not known.
        let first = self.handed_out.range((key.0, 0)..=(key.0, u32::MAX)).next();
        let Some(action) = first
            .and_then(|(_, hand_outs)| hand_outs.first())
            .map(|(_, attempt)| attempt.action)
        else {
            return;
        };
        self.books.report.add(Count::JudgedWaits, 1);
        let longest = self.books.actions.longest_idle(action, from, to);
        let patience = i64::try_from(self.books.settings.free_slot_ms).unwrap_or(i64::MAX);
        if longest > patience.saturating_add(CLOCK_SLACK_MS) {
            let text = format!("it waited while a slot was free for {longest} ms");
            self.violate(Invariant::I10, key, &text);
        }
    }
}

/// Returns true if the journal holds a reason for an attempt to fail with this code.
fn is_explained(code: &str, hand_outs: &[&Attempt]) -> bool {
    let failures = [OutcomeKind::Failure, OutcomeKind::Refused, OutcomeKind::Invalid];
    let is_failure = |attempt: &&Attempt| attempt.may_have_ended_with(&failures);
    if hand_outs.iter().any(is_failure) {
        return true;
    }
    let last = hand_outs.last();
    let completed = last.is_some_and(|attempt| attempt.state == State::Accepted(OutcomeKind::Success));
    match code {
        "WORKER_LOST" => last.is_some_and(|attempt| {
            let is_gone = attempt.evidence.is_some() || attempt.state == State::Ended(Why::Unseen);
            is_gone && (attempt.started || attempt.released || attempt.evidence.allows("released"))
        }),
        "STEP_TIMEOUT" => last.is_some_and(|attempt| match attempt.state {
            // On a stream that is over nobody can be told; the end of the boot has told where that is so.
            State::Live => attempt.evidence.is_some(),
            State::Gone => attempt.evidence != Evidence::REJECTED,
            State::Accepted(_) => false,
            State::Ended(Why::Cancelled(reason)) => reason != CancelReason::ExecutionEnded,
            State::Ended(Why::TimedOut | Why::Unseen | Why::Stopped) => true,
        }),
        "PLAN_TIMEOUT" | "DEADLINE_EXCEEDED" | "EXECUTION_HALTED" => !completed,
        // The outcome was too large for the record.
        "RESOURCE_EXHAUSTED" => last.is_none() || completed,
        "ACTION_NOT_FOUND" | "DEPENDENCY_UNRESOLVED" | "STEP_SKIPPED" => {
            last.is_none_or(|attempt| match attempt.state {
                State::Gone | State::Ended(Why::Unseen | Why::Stopped) => true,
                // Its worker never came back; the end of the boot has told so.
                State::Live => attempt.evidence.is_some(),
                State::Accepted(_) | State::Ended(Why::Cancelled(_) | Why::TimedOut) => false,
            })
        }
        _ => false,
    }
}

fn key(step_id: &str, attempt: i32) -> Key {
    let step = Uuid::parse(step_id).unwrap_or(Uuid::new(0));
    (step, u32::try_from(attempt).unwrap_or(0))
}

fn code(entry: &AttemptFailed) -> String {
    let error = entry.error.as_ref();
    error.map_or_else(String::new, |error| error.error_code.clone())
}

/// Both clocks are read apart, in whole milliseconds.
const CLOCK_SLACK_MS: i64 = 50;
