//! What a record says of each step, put in the order of time. Makes no span.

use crate::span::{Events, number, text};
use escapement_contract::{AuditEntry, AuditKind, ExecutionError};
use escapement_model::StepId;
use std::collections::BTreeMap;
use std::ops::Range;

/// What became of a step that the record speaks of.
#[derive(Debug, Default)]
pub(crate) struct StepLine<'a> {
    /// Unix milliseconds of its turn; `None` if its turn never came.
    pub(crate) ready_at: Option<i64>,
    /// Unix milliseconds; `None` if the execution ended first.
    pub(crate) ended_at: Option<i64>,
    /// Reason why it did not complete.
    pub(crate) error: Option<&'a ExecutionError>,
    /// How it did not complete.
    pub(crate) reason: Option<&'static str>,
    /// In order.
    pub(crate) attempts: Vec<AttemptLine<'a>>,
    pub(crate) events: Events<'a>,
}

/// What became of an attempt that was handed to a worker.
#[derive(Debug)]
pub(crate) struct AttemptLine<'a> {
    /// 1 for the first.
    pub(crate) number: u32,
    /// The last worker that had it.
    pub(crate) worker: &'a str,
    /// Unix milliseconds.
    pub(crate) assigned_at: i64,
    /// Unix milliseconds; `None` if the execution ended first.
    pub(crate) ended_at: Option<i64>,
    pub(crate) error: Option<&'a ExecutionError>,
    pub(crate) events: Events<'a>,
}

/// Returns the steps that the record speaks of.
pub(crate) fn steps(audit: &[AuditEntry]) -> BTreeMap<StepId, StepLine<'_>> {
    let mut steps: BTreeMap<StepId, StepLine<'_>> = BTreeMap::new();
    for AuditEntry {
        at_unix_ms: at, kind, ..
    } in audit
    {
        let at = *at;
        match kind {
            AuditKind::StepWaiting { step_id, .. } => {
                steps.entry(*step_id).or_default().ready_at.get_or_insert(at);
            }
            AuditKind::AttemptAssigned {
                step_id,
                attempt,
                worker,
            } => {
                steps.entry(*step_id).or_default().assigned(*attempt, worker, at);
            }
            AuditKind::AttemptStarted { step_id, .. } => {
                if let Some(attempt) = open_attempt(&mut steps, step_id) {
                    attempt.events.push("started", at, Vec::new());
                }
            }
            AuditKind::AttemptReturned {
                step_id, evidence, ..
            } => {
                if let Some(attempt) = open_attempt(&mut steps, step_id) {
                    let evidence = text("escapement.evidence", evidence.as_str());
                    attempt.events.push("returned", at, vec![evidence]);
                }
            }
            AuditKind::AttemptFailed { step_id, error, .. } => {
                if let Some(attempt) = open_attempt(&mut steps, step_id) {
                    attempt.end(at, Some(error));
                }
            }
            AuditKind::RetryScheduled {
                step_id,
                next_attempt,
                delay_ms,
            } => {
                let attributes = vec![
                    number("escapement.attempt", *next_attempt),
                    number("escapement.delay_ms", *delay_ms),
                ];
                let step = steps.entry(*step_id).or_default();
                step.events.push("retry_scheduled", at, attributes);
            }
            AuditKind::StepCompleted { step_id, .. } => {
                steps.entry(*step_id).or_default().end(at, None);
            }
            AuditKind::StepNotCompleted {
                step_id,
                reason,
                error,
                ..
            } => {
                let step = steps.entry(*step_id).or_default();
                step.reason = Some(reason.as_str());
                step.end(at, Some(error));
            }
            // They are of the execution, and stand in its own span where it tells them.
            AuditKind::Accepted { .. }
            | AuditKind::Started { .. }
            | AuditKind::MandatoryAction { .. }
            | AuditKind::StepsIncomplete { .. }
            | AuditKind::Settled { .. } => {}
        }
    }
    steps
}

fn open_attempt<'s, 'a>(
    steps: &'s mut BTreeMap<StepId, StepLine<'a>>,
    step_id: &StepId,
) -> Option<&'s mut AttemptLine<'a>> {
    let last = steps.get_mut(step_id)?.attempts.last_mut()?;
    last.ended_at.is_none().then_some(last)
}

impl<'a> StepLine<'a> {
    /// Returns the unix milliseconds of the step with all its attempts, also if a clock was set back meanwhile.
    pub(crate) fn time(&self, ended_at: i64) -> Range<i64> {
        let attempts = self.attempts.iter();
        let assigned = attempts.clone().map(|attempt| attempt.assigned_at);
        let ended = attempts.filter_map(|attempt| attempt.ended_at);
        let start = self.ready_at.into_iter().chain(assigned.clone()).min();
        let end = assigned.chain(ended).fold(ended_at, i64::max);
        start.unwrap_or(ended_at)..end
    }

    /// An attempt that provably never ran is handed out again, and is the same one.
    fn assigned(&mut self, number: u32, worker: &'a str, at: i64) {
        match self.attempts.last_mut() {
            Some(last) if last.number == number => {
                last.worker = worker;
                last.events.push("assigned_again", at, Vec::new());
            }
            Some(_) | None => self.attempts.push(AttemptLine {
                number,
                worker,
                assigned_at: at,
                ended_at: None,
                error: None,
                events: Events::default(),
            }),
        }
    }

    fn end(&mut self, at: i64, error: Option<&'a ExecutionError>) {
        self.ended_at = Some(at);
        self.error = error;
        if let Some(last) = self.attempts.last_mut()
            && last.ended_at.is_none()
        {
            last.end(at, error);
        }
    }
}

impl<'a> AttemptLine<'a> {
    fn end(&mut self, at: i64, error: Option<&'a ExecutionError>) {
        self.ended_at = Some(at);
        self.error = error;
    }
}
