//! The span that a handler runs in, as a part of the trace of its attempt. Exports nothing.

use escapement_wire::worker::v1::Assignment;
use tracing::Span;

/// Returns the span of a handler, and the `traceparent` that names it; no span without the feature `traces`, or if the attempt is not
/// traced. It holds what the spans of the orchestrator hold: no payload, no environment, no output, no text of an error.
#[cfg(feature = "traces")]
pub(crate) fn of(assignment: &Assignment) -> (Span, Option<String>) {
    let headers = &assignment.headers;
    let traceparent = headers.get("traceparent");
    let traceparent = traceparent.and_then(|header| escapement_model::Traceparent::parse(header));
    let Some(parent) = traceparent.filter(|parent| parent.is_sampled) else {
        return (Span::none(), None);
    };
    let span = tracing::info_span!(
        parent: None,
        "handler",
        "otel.kind" = "server",
        "escapement.execution.id" = assignment.execution_id,
        "escapement.step.id" = assignment.step_id,
        "escapement.step.action" = assignment.action,
        // Unsigned numbers would be exported as texts.
        "escapement.attempt" = i64::from(assignment.attempt),
        "error.type" = tracing::field::Empty,
        "otel.status_code" = tracing::field::Empty,
    );
    // So it is unless something exports it: `escapement_process::telemetry` names it by the path of this module.
    if span.is_disabled() {
        return (span, None);
    }
    let tracestate = headers.get("tracestate").map(String::as_str);
    let own = escapement_otlp::live::continue_trace(&span, parent, tracestate);
    (span, own)
}

/// Returns no span.
#[cfg(not(feature = "traces"))]
pub(crate) fn of(_assignment: &Assignment) -> (Span, Option<String>) {
    (Span::none(), None)
}
