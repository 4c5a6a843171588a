//! The spans of a settled execution. Reads no clock: every time is the record's, and so has a resolution of 1 ms.

use crate::drawing::{PARENT_IS_REMOTE, SAMPLED, SAYS_IF_PARENT_IS_REMOTE, link, status};
use crate::limits::SPANS_MAX;
use crate::timeline::{self, AttemptLine, Events, StepLine};
use escapement_codec::provenance::Provenance;
use escapement_codec::trace::{self, SpanId, Trace};
use escapement_contract::{AuditKind, ExecutionError, Request, Settlement, Status as Ending, Step};
use escapement_model::{ExecutionId, Severity};
use escapement_otlp::attributes::{nanoseconds, number, text};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use std::ops::Range;

/// The spans of an execution, the execution's first, each behind its parent. At most [`SPANS_MAX`].
///
/// They hold ids, the plan's name, actions, labels of workers, error codes and times. They never hold payloads, environments,
/// outputs or texts of errors.
pub fn spans(settlement: &Settlement, request: &Request, trace: &Trace) -> Vec<Span> {
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
    spans: Vec<Span>,
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
        let mut root = self.span(self.root, None, "execution", SpanKind::Server, self.time.clone());
        root.attributes = attributes;
        root.status = status(result.status == Ending::Failure);
        if let Some(parent) = &self.trace.parent {
            root.parent_span_id = parent.span_id.to_vec();
            root.flags |= PARENT_IS_REMOTE;
        }
        root.links = self.trace.ignored.iter().map(link).collect();
        self.push(root);
        let id = trace::queued_span(self.execution_id);
        let span = self.span(id, Some(self.root), "queued", SpanKind::Internal, queued);
        self.push(span);
    }

    fn step(&mut self, step: &Step, mut line: StepLine) {
        let ended_at = line.ended_at.unwrap_or(self.time.end);
        let time = line.time(ended_at);
        let mut attributes = Vec::with_capacity(STEP_ATTRIBUTES_MAX);
        attributes.push(text("escapement.step.id", step.id().to_string()));
        attributes.push(text("escapement.step.action", step.action()));
        attributes.extend(line.reason.map(|reason| text("escapement.step.reason", reason)));
        let mut attempts = std::mem::take(&mut line.attempts);
        if let [attempt] = attempts.as_mut_slice() {
            // The span that the worker was told of.
            let id = trace::attempt_span(self.execution_id, step.id(), attempt.number);
            let mut span = self.span(id, Some(self.root), "step", SpanKind::Client, time);
            attributes.extend(of_attempt(attempt));
            let error = line.error.as_deref().or(attempt.error.as_deref());
            end(&mut span, attributes, error);
            let mut events = std::mem::take(&mut attempt.events);
            events.append(line.events);
            put_events(&mut span, events);
            self.push(span);
            return;
        }
        let id = trace::step_span(self.execution_id, step.id());
        let mut span = self.span(id, Some(self.root), "step", SpanKind::Internal, time);
        end(&mut span, attributes, line.error.as_deref());
        put_events(&mut span, line.events);
        self.push(span);
        for attempt in attempts {
            self.attempt(step, id, ended_at, attempt);
        }
    }

    fn attempt(&mut self, step: &Step, parent: SpanId, step_ended_at: i64, attempt: AttemptLine) {
        let id = trace::attempt_span(self.execution_id, step.id(), attempt.number);
        let time = attempt.assigned_at..attempt.ended_at.unwrap_or(step_ended_at);
        let mut span = self.span(id, Some(parent), "attempt", SpanKind::Client, time);
        let mut attributes = vec![text("escapement.step.action", step.action())];
        attributes.extend(of_attempt(&attempt));
        end(&mut span, attributes, attempt.error.as_deref());
        put_events(&mut span, attempt.events);
        self.push(span);
    }

    /// A span within the time of the execution; a clock that was set back makes it short, not negative.
    fn span(&self, id: SpanId, parent: Option<SpanId>, name: &str, kind: SpanKind, time: Range<i64>) -> Span {
        let start = time.start.clamp(self.time.start, self.time.end);
        let end = time.end.clamp(start, self.time.end);
        let parent_context = self.trace.parent.as_ref();
        Span {
            trace_id: self.trace.trace_id.to_vec(),
            span_id: id.to_vec(),
            trace_state: parent_context.map_or_else(String::new, |parent| parent.tracestate.clone()),
            parent_span_id: parent.map_or_else(Vec::new, |parent| parent.to_vec()),
            flags: SAMPLED | SAYS_IF_PARENT_IS_REMOTE,
            name: name.to_owned(),
            kind: kind as i32,
            start_time_unix_nano: nanoseconds(start),
            end_time_unix_nano: nanoseconds(end),
            ..Span::default()
        }
    }

    fn push(&mut self, span: Span) {
        if self.spans.len() < SPANS_MAX {
            self.spans.push(span);
        } else {
            self.n_missing += 1;
        }
    }

    fn finish(mut self) -> Vec<Span> {
        if self.n_missing > 0 {
            // The one that gives way is missing, too.
            self.spans.pop();
            let id = trace::missing_span(self.execution_id);
            let end = self.time.end..self.time.end;
            let mut span = self.span(id, Some(self.root), "missing", SpanKind::Internal, end);
            span.attributes = vec![number("escapement.spans.missing", self.n_missing + 1)];
            self.spans.push(span);
        }
        self.spans
    }
}

fn of_attempt(attempt: &AttemptLine) -> [KeyValue; 2] {
    [
        number("escapement.attempt", attempt.number),
        text("escapement.worker.id", attempt.worker.as_ref()),
    ]
}

fn end(span: &mut Span, mut attributes: Vec<KeyValue>, error: Option<&ExecutionError>) {
    attributes.extend(error.map(|error| text("error.type", error.code.as_str())));
    span.attributes = attributes;
    span.status = status(error.is_some_and(|error| error.severity == Severity::Fatal));
}

fn put_events(span: &mut Span, events: Events) {
    span.events = events.kept;
    span.dropped_events_count = events.n_more;
}

/// All that a step with one attempt can have.
const STEP_ATTRIBUTES_MAX: usize = 6;

#[cfg(test)]
mod tests;
