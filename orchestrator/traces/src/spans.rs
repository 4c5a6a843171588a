//! The spans of a settled execution. Reads no clock: every time is the record's, and so has a resolution of 1 ms.

use crate::limits::SPANS_MAX;
use crate::span::{Attribute, Events, Kind, Parent, Span, number, text};
use crate::timeline::{self, AttemptLine, StepLine};
use escapement_codec::provenance::Provenance;
use escapement_codec::trace::{self, SpanId, Trace};
use escapement_contract::{AuditKind, ExecutionError, Request, Settlement, Status as Ending, Step};
use escapement_model::{ExecutionId, Severity};
use escapement_otlp::Encoded;
use std::ops::Range;

/// Returns the spans of an execution in the bytes of OTLP, the execution's first, each behind its parent. At most [`SPANS_MAX`].
///
/// They hold ids, the plan's name, actions, labels of workers, error codes and times. They never hold payloads, environments,
/// outputs or texts of errors.
pub fn spans(settlement: &Settlement, request: &Request, trace: &Trace) -> Vec<Encoded> {
    let execution_id = settlement.result.execution_id;
    let times = settlement.audit.iter().map(|entry| entry.at_unix_ms);
    let began = times.clone().next().unwrap_or(settlement.started_at_unix_ms);
    let ended = times.fold(settlement.result.completed_at, i64::max).max(began);
    let mut drawing = Drawing {
        execution_id,
        root: trace::execution_span(execution_id),
        trace,
        time: began..ended,
        spans: Vec::with_capacity(SPANS_MAX.min(2 + request.plan().steps().len())),
        n_missing: 0,
    };
    drawing.execution(settlement, request);
    let mut steps = timeline::steps(&settlement.audit);
    for index in request.plan().canonical_order() {
        let step = request.plan().step(*index);
        if let Some(line) = steps.remove(&step.id()) {
            drawing.step(step, line);
        }
    }
    drawing.finish()
}

struct Drawing<'a> {
    execution_id: ExecutionId,
    /// The span of the execution.
    root: SpanId,
    trace: &'a Trace,
    /// Unix milliseconds of the execution; nothing of it lies outside.
    time: Range<i64>,
    spans: Vec<Encoded>,
    n_missing: usize,
}

impl Drawing<'_> {
    fn execution(&mut self, settlement: &Settlement, request: &Request) {
        let result = &settlement.result;
        let started_at = settlement.audit.iter().find_map(|entry| match entry.kind {
            AuditKind::Started { started_at } => Some(started_at),
            _ => None,
        });
        let queued = self.time.start..started_at.unwrap_or(self.time.end);
        let namespace = Provenance::decode(&settlement.provenance)
            .unwrap_or_default()
            .namespace;
        let mut attributes = vec![
            text("escapement.execution.id", self.execution_id.to_string()),
            text("escapement.plan.id", result.plan_id.to_string()),
            text("escapement.plan.name", request.plan().name()),
            text("escapement.namespace", namespace.as_str()),
            text("escapement.execution.status", result.status.as_str()),
            number("escapement.queue.wait_ms", (queued.end - queued.start).max(0)),
        ];
        if let Some(error) = &result.error {
            let interruption = settlement.inputs.interruption;
            let kind = interruption.map_or(error.code.as_str(), |interruption| interruption.reason());
            attributes.push(text("error.type", kind));
        }
        self.push(Span {
            attributes,
            is_error: result.status == Ending::Failure,
            ..self.span(
                self.root,
                Parent::Caller,
                "execution",
                Kind::Server,
                self.time.clone(),
            )
        });
        let id = trace::queued_span(self.execution_id);
        let span = self.span(id, Parent::Span(self.root), "queued", Kind::Internal, queued);
        self.push(span);
    }

    fn step(&mut self, step: &Step, mut line: StepLine<'_>) {
        let ended_at = line.ended_at.unwrap_or(self.time.end);
        let time = line.time(ended_at);
        let parent = Parent::Span(self.root);
        let mut attributes = Vec::with_capacity(STEP_ATTRIBUTES_MAX);
        attributes.push(text("escapement.step.id", step.id().to_string()));
        attributes.push(text("escapement.step.action", step.action()));
        attributes.extend(line.reason.map(|reason| text("escapement.step.reason", reason)));
        let mut attempts = std::mem::take(&mut line.attempts);
        if let [attempt] = attempts.as_mut_slice() {
            // The span that the worker was told of.
            let id = trace::attempt_span(self.execution_id, step.id(), attempt.number);
            let span = self.span(id, parent, "step", Kind::Client, time);
            attributes.extend(of_attempt(attempt));
            let mut events = std::mem::take(&mut attempt.events);
            events.append(line.events);
            self.push_ended(span, attributes, events, line.error.or(attempt.error));
            return;
        }
        let id = trace::step_span(self.execution_id, step.id());
        let span = self.span(id, parent, "step", Kind::Internal, time);
        self.push_ended(span, attributes, line.events, line.error);
        for attempt in attempts {
            self.attempt(step, id, ended_at, attempt);
        }
    }

    fn attempt(&mut self, step: &Step, parent: SpanId, step_ended_at: i64, attempt: AttemptLine<'_>) {
        let id = trace::attempt_span(self.execution_id, step.id(), attempt.number);
        let time = attempt.assigned_at..attempt.ended_at.unwrap_or(step_ended_at);
        let span = self.span(id, Parent::Span(parent), "attempt", Kind::Client, time);
        let mut attributes = vec![text("escapement.step.action", step.action())];
        attributes.extend(of_attempt(&attempt));
        self.push_ended(span, attributes, attempt.events, attempt.error);
    }

    /// Returns a span within the time of the execution; a clock that was set back makes it short, not negative.
    fn span<'s>(
        &self,
        id: SpanId,
        parent: Parent,
        name: &'static str,
        kind: Kind,
        time: Range<i64>,
    ) -> Span<'s> {
        let start = time.start.clamp(self.time.start, self.time.end);
        let end = time.end.clamp(start, self.time.end);
        Span::new(id, parent, name, kind, start..end)
    }

    fn push_ended<'s>(
        &mut self,
        span: Span<'s>,
        mut attributes: Vec<Attribute<'s>>,
        events: Events<'s>,
        error: Option<&'s ExecutionError>,
    ) {
        attributes.extend(error.map(|error| text("error.type", error.code.as_str())));
        self.push(Span {
            attributes,
            events,
            is_error: error.is_some_and(|error| error.severity == Severity::Fatal),
            ..span
        });
    }

    fn push(&mut self, span: Span<'_>) {
        if self.spans.len() < SPANS_MAX {
            self.spans.push(span.encode(self.trace));
        } else {
            self.n_missing += 1;
        }
    }

    fn finish(mut self) -> Vec<Encoded> {
        if self.n_missing > 0 {
            // The one that gives way is missing, too.
            self.spans.pop();
            let id = trace::missing_span(self.execution_id);
            let end = self.time.end..self.time.end;
            let span = Span {
                attributes: vec![number("escapement.spans.missing", self.n_missing + 1)],
                ..self.span(id, Parent::Span(self.root), "missing", Kind::Internal, end)
            };
            self.spans.push(span.encode(self.trace));
        }
        self.spans
    }
}

fn of_attempt<'a>(attempt: &AttemptLine<'a>) -> [Attribute<'a>; 2] {
    [
        number("escapement.attempt", attempt.number),
        text("escapement.worker.id", attempt.worker),
    ]
}

/// All that a step with one attempt can have.
const STEP_ATTRIBUTES_MAX: usize = 6;

#[cfg(test)]
mod tests;
