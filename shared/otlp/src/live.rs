//! Spans that code makes with `tracing` while it runs, below a span of another process. Exports no others, and no events.
//!
//! What runs below one such span is handed in together once the last of it has ended, so a trace has all of it or nothing.

mod encoding;

use self::encoding::encode;
use crate::export::Export;
use crate::limits::{TREE_BYTES_MAX, TREE_SPANS_MAX};
use crate::span::{Value, add_attribute};
use crate::waiting::Encoded;
use escapement_model::Traceparent;
use opentelemetry::Context;
use opentelemetry::trace::{
    Span as _, SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TracerProvider,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    Sampler, SdkTracerProvider, Span as LiveSpan, SpanData, SpanLimits, SpanProcessor,
};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tracing::{Level, Metadata, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::registry::LookupSpan;

/// Exports the spans of level `info` and above whose trace is [continued](continue_trace) from another process, as a part of a
/// subscriber. The spans of the libraries that speak HTTP are left out.
///
/// A span has the fields that the code gives it, texts beyond 1,024 bytes cut. Events are for the log, and are in no trace.
pub fn layer<S>(export: &Export) -> impl Layer<S> + Send + Sync + use<S>
where
    S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
{
    let trees = Trees {
        export: export.clone(),
        open: Mutex::default(),
    };
    let provider = SdkTracerProvider::builder()
        // The process that began the trace decides whether it is exported.
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::AlwaysOff)))
        .with_resource(Resource::builder_empty().build())
        // Not those of the environment: what is kept of a span is bounded.
        .with_span_limits(SpanLimits::default())
        .with_span_processor(trees)
        .build();
    tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("escapement"))
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        .with_error_fields_to_exceptions(false)
        .with_error_records_to_exceptions(false)
        .with_filter(filter_fn(is_exported).with_max_level_hint(LevelFilter::INFO))
}

fn is_exported(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && *metadata.level() <= Level::INFO && !crate::is_foreign(metadata.target())
}

/// Makes a `tracing` span, which nothing has entered, a child of a span of another process, whose `tracestate` goes on.
/// Returns the header that names the span itself; `None` if it is not exported.
pub fn continue_trace(span: &tracing::Span, parent: Traceparent, tracestate: Option<&str>) -> Option<String> {
    let parent = SpanContext::new(
        TraceId::from_bytes(parent.trace_id),
        SpanId::from_bytes(parent.span_id),
        TraceFlags::default().with_sampled(parent.is_sampled),
        true,
        tracestate.and_then(|said| said.parse().ok()).unwrap_or_default(),
    );
    span.set_parent(Context::new().with_remote_span_context(parent))
        .ok()?;
    let context = span.context();
    let span = context.span();
    let own = span.span_context();
    let named = Traceparent {
        trace_id: own.trace_id().to_bytes(),
        span_id: own.span_id().to_bytes(),
        is_sampled: own.is_sampled(),
    };
    named.is_sampled.then(|| named.header())
}

/// The spans that are open, each with all that is handed in together with it.
struct Trees {
    export: Export,
    open: Mutex<HashMap<(TraceId, SpanId), Arc<Tree>>>,
}

impl Trees {
    fn open(&self) -> MutexGuard<'_, HashMap<(TraceId, SpanId), Arc<Tree>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Trees {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trees").finish_non_exhaustive()
    }
}

impl SpanProcessor for Trees {
    fn on_start(&self, span: &mut LiveSpan, parent: &Context) {
        let own = span.span_context();
        let parent = (own.trace_id(), parent.span().span_context().span_id());
        let mut open = self.open();
        let tree = open.get(&parent).cloned();
        let tree = tree.unwrap_or_else(|| Arc::new(Tree::new(self.export.clone())));
        open.insert((own.trace_id(), own.span_id()), tree);
    }

    fn on_end(&self, span: SpanData) {
        let own = &span.span_context;
        let tree = self.open().remove(&(own.trace_id(), own.span_id()));
        // The last one to have the tree hands it in.
        if let Some(tree) = tree {
            tree.push(encode(&span));
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Spans that are handed in together: when it is dropped.
struct Tree {
    export: Export,
    ended: Mutex<Ended>,
}

#[derive(Default)]
struct Ended {
    spans: Vec<Encoded>,
    /// What they hold in memory.
    bytes: usize,
    n_missing: usize,
}

impl Tree {
    fn new(export: Export) -> Self {
        Self {
            export,
            ended: Mutex::default(),
        }
    }

    fn push(&self, span: Encoded) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.spans.len() == TREE_SPANS_MAX || ended.bytes + held(&span) > TREE_BYTES_MAX {
            // The span at the top ends last, and says how many there were below.
            ended.n_missing += ended.spans.len();
            (ended.spans, ended.bytes) = (Vec::new(), 0);
        }
        ended.bytes += held(&span);
        ended.spans.push(span);
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Ended {
            mut spans, n_missing, ..
        } = std::mem::take(ended);
        if n_missing > 0 {
            let n_below = spans.len().saturating_sub(1);
            spans.drain(..n_below);
            let missing = i64::try_from(n_missing + n_below).unwrap_or(i64::MAX);
            for top in &mut spans {
                add_attribute(top, "escapement.spans.missing", &Value::Number(missing));
            }
        }
        let bytes = spans.iter().map(held).sum();
        self.export.hand_in(bytes, move || Ok(spans));
    }
}

/// Returns the bytes that a span takes in memory.
fn held(span: &Encoded) -> usize {
    size_of::<Encoded>() + span.capacity()
}

#[cfg(test)]
mod tests;
