//! What the record of a settled execution says in figures.

use crate::catalogue;
use crate::figures::Metrics;
use crate::kinds::TraceLabel;
use crate::label::{self, Value};
use escapement_codec::trace::Trace;
use escapement_contract::{AuditKind, Request, Settlement};
use escapement_model::{StepId, codes, hex};
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// How an attempt ended.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    Success,
    Failure,
    Timeout,
    Lost,
    Cancelled,
    Returned,
}

/// Where a step stands while its record is read.
#[derive(Debug)]
struct Standing {
    action: Arc<str>,
    /// Unix milliseconds.
    waits_since: Option<i64>,
    /// Unix milliseconds; a worker has the attempt.
    assigned_at: Option<i64>,
}

impl Metrics {
    /// Counts what the record says.
    pub(crate) fn settled(&self, settlement: &Settlement, request: &Request) {
        let families = &self.0.families;
        let result = &settlement.result;
        let (namespace, status) = (self.namespace(&settlement.provenance), result.status.as_str());
        let labels = [Value::from(Arc::clone(&namespace)), status.into()];
        let settled = catalogue::EXECUTIONS_SETTLED.with(labels);
        families.executions_settled.get_or_create(&settled).inc();
        if let Some(error) = &result.error {
            let code = catalogue::EXECUTION_ERRORS.with([code_label(&error.code)]);
            families.execution_errors.get_or_create(&code).inc();
        }
        let trace = self.trace_of(settlement, request);
        let trace = trace.as_ref();
        let accepted_at = settlement.audit.first().map(|entry| entry.at_unix_ms);
        let started_at = settlement.audit.iter().find_map(|entry| match entry.kind {
            AuditKind::Started { started_at } => Some(started_at),
            _ => None,
        });
        if let (Some(accepted_at), Some(started_at)) = (accepted_at, started_at) {
            let waited = catalogue::EXECUTION_QUEUE_WAIT.with([namespace]);
            families
                .execution_queue_wait
                .get_or_create(&waited)
                .observe(seconds(accepted_at, started_at));
            let duration = families.execution_duration.get_or_create(&settled);
            observe(&duration, trace, started_at..result.completed_at);
        }
        self.steps_settled(settlement, request, trace);
    }

    /// What names the trace of an execution in an exemplar; `None` if it is not exported.
    fn trace_of(&self, settlement: &Settlement, request: &Request) -> Option<TraceLabel> {
        let trace = Trace::of(settlement.result.execution_id, request, self.0.sampling?);
        trace
            .is_sampled
            .then(|| [("trace_id", hex::text(&trace.trace_id))])
    }

    fn steps_settled(&self, settlement: &Settlement, request: &Request, trace: Option<&TraceLabel>) {
        let mut steps: BTreeMap<StepId, Standing> = BTreeMap::new();
        let actions = request.plan().steps().iter();
        for step in actions {
            let standing = Standing {
                action: self.0.actions.label(step.action()),
                waits_since: None,
                assigned_at: None,
            };
            steps.insert(step.id(), standing);
        }
        for entry in &settlement.audit {
            let at = entry.at_unix_ms;
            let (step_id, outcome) = match &entry.kind {
                AuditKind::StepWaiting { step_id, .. } => {
                    if let Some(step) = steps.get_mut(step_id) {
                        step.waits_since = Some(at);
                    }
                    continue;
                }
                AuditKind::AttemptAssigned { step_id, .. } => {
                    if let Some(step) = steps.get_mut(step_id) {
                        self.assigned(step, at);
                    }
                    continue;
                }
                AuditKind::AttemptReturned { step_id, .. } => (step_id, Outcome::Returned),
                AuditKind::StepCompleted { step_id, .. } => (step_id, Outcome::Success),
                AuditKind::AttemptFailed { step_id, error, .. }
                | AuditKind::StepNotCompleted { step_id, error, .. } => {
                    if steps.get(step_id).is_some_and(|step| step.assigned_at.is_some()) {
                        let code = catalogue::ATTEMPT_ERRORS.with([code_label(&error.code)]);
                        self.0.families.attempt_errors.get_or_create(&code).inc();
                    }
                    (step_id, Outcome::of_error(&error.code))
                }
                AuditKind::Accepted { .. }
                | AuditKind::Started { .. }
                | AuditKind::AttemptStarted { .. }
                | AuditKind::RetryScheduled { .. }
                | AuditKind::MandatoryAction { .. }
                | AuditKind::StepsIncomplete { .. }
                | AuditKind::Settled { .. } => continue,
            };
            if let Some(step) = steps.get_mut(step_id) {
                self.ended(step, at, outcome, trace);
            }
        }
        for step in steps.values_mut() {
            self.ended(step, settlement.result.completed_at, Outcome::Cancelled, trace);
        }
    }

    fn assigned(&self, step: &mut Standing, at: i64) {
        step.assigned_at = Some(at);
        if let Some(since) = step.waits_since.take() {
            let waited = catalogue::STEP_WAIT.with([Arc::clone(&step.action)]);
            let wait = self.0.families.step_wait.get_or_create(&waited);
            wait.observe(seconds(since, at));
        }
    }

    /// An attempt ended, if there was one.
    fn ended(&self, step: &mut Standing, at: i64, outcome: Outcome, trace: Option<&TraceLabel>) {
        let Some(assigned_at) = step.assigned_at.take() else {
            return;
        };
        let families = &self.0.families;
        let action = Value::from(Arc::clone(&step.action));
        let ended = catalogue::ATTEMPTS.with([action, outcome.as_str().into()]);
        families.attempts.get_or_create(&ended).inc();
        let took = catalogue::ATTEMPT_DURATION.with([Arc::clone(&step.action)]);
        let duration = families.attempt_duration.get_or_create(&took);
        observe(&duration, trace, assigned_at..at);
    }
}

impl Outcome {
    fn of_error(code: &str) -> Self {
        match code {
            codes::STEP_TIMEOUT => Self::Timeout,
            codes::WORKER_LOST => Self::Lost,
            codes::EXECUTION_HALTED => Self::Cancelled,
            _ => Self::Failure,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Timeout => "timeout",
            Self::Lost => "lost",
            Self::Cancelled => "cancelled",
            Self::Returned => "returned",
        }
    }
}

/// Codes of the contract have labels of their own. Handlers choose others, as many as they like.
fn code_label(code: &str) -> &'static str {
    let reserved = codes::RESERVED.iter().map(|(reserved, _)| *reserved);
    reserved
        .chain([codes::WORKER_LOST])
        .find(|reserved| *reserved == code)
        .unwrap_or(label::OTHER)
}

/// Counts a time, in Unix milliseconds.
fn observe(histogram: &HistogramWithExemplars<TraceLabel>, trace: Option<&TraceLabel>, time: Range<i64>) {
    let since_1970 = Duration::from_millis(u64::try_from(time.end).unwrap_or_default());
    let ended = trace.map(|_| UNIX_EPOCH + since_1970);
    histogram.observe(seconds(time.start, time.end), trace.cloned(), ended);
}

fn seconds(from_ms: i64, to_ms: i64) -> f64 {
    (to_ms - from_ms).max(0) as f64 / 1_000.0
}
