//! The spans of one run, put together one after another and bounded. Knows no run.

use crate::limits::SPANS_MAX;
use crate::span::{Attribute, Kind, Parent, Span, number};
use escapement_codec::trace::{SpanId, Trace};
use escapement_otlp::Encoded;

/// Spans below one that is the first.
pub(crate) struct Drawing<'a> {
    trace: &'a Trace,
    /// Those that are open end at [`OPEN`].
    spans: Vec<Span<'static>>,
    n_missing: usize,
}

impl<'a> Drawing<'a> {
    /// Begins with the span that all others are below; it has the trace's parent.
    pub(crate) fn begin(trace: &'a Trace, first: Span<'static>) -> Self {
        Self {
            trace,
            spans: vec![first],
            n_missing: 0,
        }
    }

    /// Puts a span below the one at that place. Returns its place; `None` if there are too many.
    pub(crate) fn push(&mut self, parent: usize, span: Span<'static>) -> Option<usize> {
        // One is left for what says how many are missing.
        if self.spans.len() + 1 >= SPANS_MAX {
            self.n_missing += 1;
            return None;
        }
        let parent = Parent::Span(self.spans[parent].id);
        self.spans.push(Span { parent, ..span });
        Some(self.spans.len() - 1)
    }

    /// Returns the span at that place.
    pub(crate) fn at_mut(&mut self, place: usize) -> &mut Span<'static> {
        &mut self.spans[place]
    }

    /// Returns the spans in the bytes of OTLP; those that are open end now.
    pub(crate) fn finish(mut self, ended_at: i64, missing: SpanId) -> Vec<Encoded> {
        if self.n_missing > 0 {
            let attributes = vec![number("escapement.spans.missing", self.n_missing)];
            let parent = Parent::Span(self.spans[0].id);
            self.spans.push(Span {
                parent,
                ..span(missing, "missing", Kind::Internal, ended_at, attributes)
            });
        }
        for span in self.spans.iter_mut().filter(|span| span.time.end == OPEN) {
            end(span, ended_at);
        }
        self.spans.iter().map(|span| span.encode(self.trace)).collect()
    }
}

/// Returns a span that begins, in the place of the first one.
pub(crate) fn span(
    id: SpanId,
    name: &'static str,
    kind: Kind,
    at: i64,
    attributes: Vec<Attribute<'static>>,
) -> Span<'static> {
    Span {
        attributes,
        ..Span::new(id, Parent::Caller, name, kind, at..OPEN)
    }
}

/// Ends a span. A clock that was set back makes it short, not negative.
pub(crate) fn end(span: &mut Span<'static>, at: i64) {
    span.time.end = at.max(span.time.start);
}

/// No span ends then.
const OPEN: i64 = i64::MAX;
