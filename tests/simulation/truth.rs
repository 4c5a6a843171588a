//! What really happened to every attempt, as only somebody sees who stands outside of both processes, and what must hold
//! of it. Knows nothing of the engine's books or of a worker's. What messages and records show is the session checker's.
//!
//! A violation is a panic.

use crate::last_restart::Final;
use crate::tally::Tally;
use escapement_contract::{AuditEntry, AuditKind, Evidence};
use escapement_engine::{AckVerdict, Assignment};
use escapement_model::limits::{LEASE_MARGIN_MS, LEASE_MS};
use escapement_model::{AttemptToken, ExecutionId, StepId};
use escapement_wire::worker::v1::attempt_outcome::Outcome as WireOutcome;
use std::collections::{BTreeMap, BTreeSet};

/// A process of one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProcessKey {
    pub(crate) seat: usize,
    pub(crate) process: u64,
}

/// Everything that was handed out, and what became of it.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    attempts: BTreeMap<AttemptToken, Attempt>,
    steps: BTreeMap<(ExecutionId, StepId), Step>,
    processes: BTreeMap<ProcessKey, Process>,
    /// Entries that watchers got in this batch; what was handed out in it is known only at its end.
    entries: Vec<(ExecutionId, AuditEntry)>,
    pub(crate) tally: Tally,
}

#[derive(Debug)]
struct Attempt {
    execution: ExecutionId,
    number: u32,
    by: ProcessKey,
    /// The number of the orchestrator's process.
    boot: u64,
    started_at_ms: Option<u64>,
    ended_at_ms: Option<u64>,
    /// Its body does not end when it is told to.
    is_stubborn: bool,
    /// It was handed out again since, as one that never ran.
    returned: Option<(u64, Evidence)>,
    /// What its worker said of it, and what somebody else did.
    reported: Option<Report>,
    is_called: bool,
    accepted: Option<Report>,
}

#[derive(Debug, Default)]
struct Step {
    tokens: Vec<AttemptToken>,
    /// Hand-outs that watchers were told of.
    n_told: usize,
}

#[derive(Debug, Default)]
struct Process {
    /// Outcomes that it sent and that no answer has reached it for.
    unanswered: BTreeSet<AttemptToken>,
    stood_still_until_ms: Option<u64>,
    declared_dead_at_ms: Option<u64>,
    is_stopping: bool,
}

/// How an attempt ended, as somebody said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    Success,
    Failure(String),
    /// A failure that is `not_here`.
    Refused(String),
    Released,
}

impl Report {
    pub(crate) fn of(outcome: &WireOutcome) -> Self {
        match outcome {
            WireOutcome::Success(_) => Self::Success,
            WireOutcome::Failure(failure) if failure.not_here => Self::Refused(failure.code.clone()),
            WireOutcome::Failure(failure) => Self::Failure(failure.code.clone()),
            WireOutcome::Released(_) => Self::Released,
        }
    }
}

impl Truth {
    // ---- what the orchestrator does ----

    pub(crate) fn handed_out(&mut self, by: ProcessKey, boot: u64, assignment: &Assignment) {
        self.tally.count("assignments");
        let step = assignment.request.plan().step(assignment.step).id();
        let attempt = Attempt {
            execution: assignment.execution_id,
            number: assignment.attempt,
            by,
            boot,
            started_at_ms: None,
            ended_at_ms: None,
            is_stubborn: false,
            returned: None,
            reported: None,
            is_called: false,
            accepted: None,
        };
        let tokens = self
            .steps
            .get(&(attempt.execution, step))
            .map_or(&[][..], |of_step| &of_step.tokens);
        let is_refused = |token: &AttemptToken| {
            let earlier = &self.attempts[token];
            (earlier.by, earlier.number) == (by, attempt.number) && self.is_refused(*token)
        };
        assert!(
            !tokens.iter().any(is_refused),
            "{by:?} has refused {step} before, and gets it again"
        );
        let before = self.attempts.insert(assignment.token, attempt);
        assert!(
            before.is_none(),
            "token {:?} is handed out twice",
            assignment.token
        );
        self.steps
            .entry((assignment.execution_id, step))
            .or_default()
            .tokens
            .push(assignment.token);
    }

    pub(crate) fn told(&mut self, execution: ExecutionId, entries: Vec<AuditEntry>) {
        self.entries
            .extend(entries.into_iter().map(|entry| (execution, entry)));
    }

    /// The end of a batch: what watchers were told is compared with what is so.
    pub(crate) fn judge_entries(&mut self, now_ms: u64) {
        for (execution, entry) in std::mem::take(&mut self.entries) {
            match entry.kind {
                AuditKind::AttemptAssigned { step_id, .. } => {
                    let step = self
                        .steps
                        .get_mut(&(execution, step_id))
                        .expect("what is told was sent");
                    step.n_told += 1;
                    assert!(
                        step.n_told <= step.tokens.len(),
                        "a hand-out of {step_id} is told and was not sent"
                    );
                }
                AuditKind::AttemptReturned {
                    step_id,
                    attempt,
                    evidence,
                } => {
                    self.returned(now_ms, (execution, step_id), attempt, evidence);
                }
                AuditKind::AttemptFailed {
                    step_id,
                    attempt,
                    error,
                } if error.code == "WORKER_LOST" => {
                    self.tally.count("losses");
                    self.must_not_run(now_ms, (execution, step_id), attempt, "lost");
                }
                _ => {}
            }
        }
    }

    fn returned(&mut self, now_ms: u64, step: (ExecutionId, StepId), attempt: u32, evidence: Evidence) {
        self.tally
            .count(&format!("handed out again: {}", evidence.as_str()));
        let token = self.must_not_run(now_ms, step, attempt, evidence.as_str());
        let attempt = self.attempts.get_mut(&token).expect("it was handed out");
        attempt.returned = Some((now_ms, evidence));
        let may_have_run = matches!(
            evidence,
            Evidence::LeaseExpired | Evidence::DeclaredDead | Evidence::Refused
        );
        assert!(
            may_have_run || attempt.started_at_ms.is_none(),
            "{token:?} is handed out again uncounted for {}, and its body has run",
            evidence.as_str()
        );
    }

    /// The orchestrator says that a worker has lost an attempt, so nothing of it may run there any more.
    fn must_not_run(&self, now_ms: u64, step: (ExecutionId, StepId), number: u32, why: &str) -> AttemptToken {
        let of_step = &self.steps[&step];
        let token = of_step.tokens[of_step.n_told - 1];
        let attempt = &self.attempts[&token];
        assert_eq!(
            attempt.number, number,
            "the last attempt of {} is told to be {why}",
            step.1
        );
        let runs = attempt.started_at_ms.is_some() && attempt.ended_at_ms.is_none();
        assert!(
            !runs || attempt.is_stubborn || attempt.is_called || self.is_excused(now_ms, attempt.by),
            "the body of {token:?} runs, and it is {why}"
        );
        token
    }

    /// Returns a process that stood still cannot stop what it runs, nor one that is only said to be dead.
    fn is_excused(&self, now_ms: u64, by: ProcessKey) -> bool {
        let Some(process) = self.processes.get(&by) else {
            return false;
        };
        let recently =
            |at_ms: Option<u64>| at_ms.is_some_and(|at_ms| now_ms <= at_ms + LEASE_MS + LEASE_MARGIN_MS);
        recently(process.stood_still_until_ms) || recently(process.declared_dead_at_ms) || process.is_stopping
    }

    pub(crate) fn declared_dead(&mut self, now_ms: u64, by: ProcessKey) {
        self.processes.entry(by).or_default().declared_dead_at_ms = Some(now_ms);
    }

    /// The engine answers an outcome: its worker's, or that of a call.
    pub(crate) fn verdict(&mut self, token: AttemptToken, verdict: AckVerdict, called: Option<Report>) {
        let of_call = if called.is_some() { " of a call" } else { "" };
        self.tally.count(&format!("verdict {verdict:?}{of_call}"));
        if verdict != AckVerdict::Accepted {
            return;
        }
        let attempt = self
            .attempts
            .get_mut(&token)
            .expect("only what was handed out is accepted");
        let report = called.or_else(|| attempt.reported.clone());
        let before = attempt
            .accepted
            .replace(report.expect("only what was reported is accepted"));
        assert!(before.is_none(), "two outcomes of {token:?} are accepted");
    }

    /// Its worker said that it may not do it, and that was accepted.
    pub(crate) fn is_refused(&self, token: AttemptToken) -> bool {
        matches!(self.attempts[&token].accepted, Some(Report::Refused(_)))
    }

    // ---- what a worker does ----

    pub(crate) fn body_starts(
        &mut self,
        now_ms: u64,
        by: ProcessKey,
        token: AttemptToken,
        is_stubborn: bool,
    ) {
        self.tally.count("bodies");
        let attempt = self
            .attempts
            .get_mut(&token)
            .expect("only what was handed out starts");
        assert_eq!(
            attempt.by, by,
            "{token:?} starts with another worker than it was handed to"
        );
        assert!(attempt.started_at_ms.is_none(), "{token:?} starts twice");
        (attempt.started_at_ms, attempt.is_stubborn) = (Some(now_ms), is_stubborn);
        if let Some((at_ms, evidence)) = attempt.returned {
            // The operator may be wrong, and the worker learns of it only when its stream tells it so.
            let may_not_know = evidence == Evidence::DeclaredDead && now_ms <= at_ms + LEASE_MS;
            assert!(
                may_not_know,
                "{token:?} starts at {now_ms}, and was handed out again at {at_ms} for {evidence:?}"
            );
        }
    }

    pub(crate) fn body_ends(&mut self, now_ms: u64, token: AttemptToken) {
        let attempt = self
            .attempts
            .get_mut(&token)
            .expect("only what was handed out ends");
        attempt.ended_at_ms = Some(now_ms);
    }

    pub(crate) fn stood_still(&mut self, by: ProcessKey, until_ms: u64) {
        self.processes.entry(by).or_default().stood_still_until_ms = Some(until_ms);
    }

    /// A worker that is asked to stop leaves bodies behind that do not end.
    pub(crate) fn stops(&mut self, by: ProcessKey) {
        self.processes.entry(by).or_default().is_stopping = true;
    }

    pub(crate) fn reports(&mut self, by: ProcessKey, token: AttemptToken, report: Report) {
        let attempt = self
            .attempts
            .get_mut(&token)
            .expect("only what was handed out is reported");
        assert!(
            attempt.reported.as_ref().is_none_or(|before| *before == report),
            "the outcome of {token:?} changes"
        );
        attempt.reported = Some(report);
        self.processes.entry(by).or_default().unanswered.insert(token);
    }

    /// Somebody calls with an outcome, of an attempt or of nobody's.
    pub(crate) fn calls(&mut self, token: AttemptToken) {
        if let Some(attempt) = self.attempts.get_mut(&token) {
            attempt.is_called = true;
        }
    }

    pub(crate) fn is_answered(&mut self, by: ProcessKey, token: AttemptToken) {
        self.processes.entry(by).or_default().unanswered.remove(&token);
    }

    pub(crate) fn unanswered(&self, by: ProcessKey) -> usize {
        self.processes
            .get(&by)
            .map_or(0, |process| process.unanswered.len())
    }

    // ---- after the run ----

    /// The output of every outcome that was acknowledged as accepted is in the execution's result, and no other is.
    pub(crate) fn judge_accepted(&mut self, finals: &BTreeMap<ExecutionId, Final>) {
        let accepted = self
            .attempts
            .iter()
            .filter_map(|(token, attempt)| Some((token, attempt, attempt.accepted.as_ref()?)));
        let mut n_judged = 0;
        for (token, attempt, report) in accepted {
            let last = finals
                .get(&attempt.execution)
                .expect("what was handed out was accepted");
            // A restart has settled it, and has none of its attempts.
            if last.settled_by != Some(attempt.boot) {
                continue;
            }
            n_judged += 1;
            let output = token.to_hex();
            let payload = last.result.result_payload.as_ref().expect("a result has one");
            let mut windows = payload.as_encoded().windows(output.len());
            assert_eq!(
                windows.any(|window| window == output.as_bytes()),
                *report == Report::Success,
                "the output of {token:?} in the result"
            );
        }
        self.tally
            .add("accepted outcomes looked for in results", n_judged);
    }

    /// An attempt that somebody may know of, the later ones first.
    pub(crate) fn known_token(&self, nth: usize) -> Option<AttemptToken> {
        let newest: Vec<AttemptToken> = self
            .steps
            .values()
            .filter_map(|step| step.tokens.last().copied())
            .collect();
        let open: Vec<AttemptToken> = newest
            .iter()
            .copied()
            .filter(|token| self.attempts[token].accepted.is_none())
            .collect();
        let from = if open.is_empty() || nth.is_multiple_of(7) {
            newest
        } else {
            open
        };
        (!from.is_empty()).then(|| from[nth % from.len()])
    }
}
