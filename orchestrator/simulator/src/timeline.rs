//! What each step did when, as the record of an execution tells. Knows no more than the record.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use escapement_contract::{AUDIT_ENTRIES_MAX, AuditEntry, AuditKind, ExecutionError, Plan, StepIndex};
use escapement_model::StepId;

/// What each step did when.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// By their beginning, then in canonical order of their steps. At most as many as the record has entries.
    pub spans: Vec<Span>,
    /// True if the record left out single attempts, and so the spans end with it.
    pub is_cut: bool,
}

/// What a step did for a while.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The step.
    pub step: StepIndex,
    /// What it did.
    pub activity: Activity,
    /// 1 for the first; while backing off the attempt to come.
    pub attempt: u32,
    /// Milliseconds since the start.
    pub from_ms: u64,
    /// Milliseconds since the start.
    pub to_ms: u64,
    /// How it ended; `None` for all but running spans, and for one that is cut.
    pub ended: Option<Ended>,
}

/// What a step is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// Its turn has come; it waits for a worker.
    Waiting,
    /// A worker has it.
    Running,
    /// It sleeps before its next attempt.
    BackingOff,
}

/// How a running span ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// With an output.
    Completed,
    /// The worker gave the attempt back.
    Returned,
    /// The execution ended.
    Stopped,
    /// With this error, as classified.
    Failed(Arc<ExecutionError>),
}

impl Ended {
    /// Returns the same as in `escapement.v1.TimelineSpan.outcome`.
    pub fn as_str(&self) -> &str {
        match self {
            Ended::Completed => "completed",
            Ended::Returned => "returned",
            Ended::Stopped => "stopped",
            Ended::Failed(error) => &error.code,
        }
    }
}

/// Reads the record of an execution that is settled. Waits and sleeps of no time have no span.
pub fn timeline(plan: &Plan, started_at_unix_ms: i64, audit: &[AuditEntry]) -> Timeline {
    let is_settling = |entry: &AuditEntry| matches!(entry.kind, AuditKind::MandatoryAction { .. });
    let n_before_settling = audit.iter().position(is_settling).unwrap_or(audit.len());
    // if settling begins after so many entries, single attempts may have been left out.
    let is_cut = n_before_settling >= AUDIT_ENTRIES_MAX;
    let told = &audit[..n_before_settling.min(AUDIT_ENTRIES_MAX)];
    let steps = plan.canonical_order().iter();
    let mut drawing = Drawing {
        steps: steps.map(|step| (plan.step(*step).id(), *step)).collect(),
        started_at_unix_ms,
        open: BTreeMap::new(),
        spans: Vec::new(),
    };
    for entry in told {
        drawing.read(entry);
    }
    let (last, ended) = if is_cut {
        (told.last(), None)
    } else {
        (audit.last(), Some(Ended::Stopped))
    };
    if let Some(last) = last {
        drawing.close_all(last.at_unix_ms, ended);
    }
    let mut spans = drawing.spans;
    // The sort is stable: what one step does at one instant stays in order.
    spans.sort_by_key(|span| (span.from_ms, plan.position(span.step)));
    Timeline { spans, is_cut }
}

/// A timeline while the record is read.
struct Drawing {
    steps: BTreeMap<StepId, StepIndex>,
    started_at_unix_ms: i64,
    /// What each step is doing.
    open: BTreeMap<StepIndex, Open>,
    spans: Vec<Span>,
}

struct Open {
    activity: Activity,
    attempt: u32,
    from_ms: u64,
}

impl Drawing {
    fn read(&mut self, entry: &AuditEntry) {
        let at = entry.at_unix_ms;
        match &entry.kind {
            AuditKind::StepWaiting { step_id, attempt } => {
                self.change(at, step_id, Activity::Waiting, *attempt);
            }
            AuditKind::AttemptAssigned { step_id, attempt, .. } => {
                self.change(at, step_id, Activity::Running, *attempt);
            }
            // A `step_waiting` follows.
            AuditKind::AttemptReturned { step_id, .. } => self.close(at, step_id, Some(Ended::Returned)),
            AuditKind::AttemptFailed { step_id, error, .. } => {
                self.close(at, step_id, Some(Ended::Failed(Arc::clone(error))));
            }
            AuditKind::RetryScheduled {
                step_id,
                next_attempt,
                ..
            } => self.change(at, step_id, Activity::BackingOff, *next_attempt),
            AuditKind::StepCompleted { step_id, .. } => self.close(at, step_id, Some(Ended::Completed)),
            // The hand-out began the span.
            AuditKind::AttemptStarted { .. } => {}
            // The failure of its last attempt ended the span, or there was no attempt.
            AuditKind::StepNotCompleted { .. } => {}
            AuditKind::Accepted { .. }
            | AuditKind::Started { .. }
            | AuditKind::MandatoryAction { .. }
            | AuditKind::StepsIncomplete { .. }
            | AuditKind::Settled { .. } => {}
        }
    }

    /// Ends what a step does, and begins something else.
    fn change(&mut self, at_unix_ms: i64, step_id: &StepId, activity: Activity, attempt: u32) {
        self.close(at_unix_ms, step_id, None);
        let step = self.steps[step_id];
        let from_ms = self.since_start(at_unix_ms);
        self.open.insert(
            step,
            Open {
                activity,
                attempt,
                from_ms,
            },
        );
    }

    fn close(&mut self, at_unix_ms: i64, step_id: &StepId, ended: Option<Ended>) {
        let step = self.steps[step_id];
        if let Some(open) = self.open.remove(&step) {
            self.end(at_unix_ms, step, open, ended);
        }
    }

    fn close_all(&mut self, at_unix_ms: i64, ended: Option<Ended>) {
        for (step, open) in core::mem::take(&mut self.open) {
            self.end(at_unix_ms, step, open, ended.clone());
        }
    }

    fn end(&mut self, at_unix_ms: i64, step: StepIndex, open: Open, ended: Option<Ended>) {
        let to_ms = self.since_start(at_unix_ms);
        let is_running = open.activity == Activity::Running;
        if is_running || open.from_ms < to_ms {
            self.spans.push(Span {
                step,
                activity: open.activity,
                attempt: open.attempt,
                from_ms: open.from_ms,
                to_ms,
                ended: ended.filter(|_| is_running),
            });
        }
    }

    fn since_start(&self, at_unix_ms: i64) -> u64 {
        u64::try_from(at_unix_ms.saturating_sub(self.started_at_unix_ms)).unwrap_or(0)
    }
}
