//! How much there may be of one execution.

/// Spans of one execution. If there are more, the last one says how many are missing.
pub const SPANS_MAX: usize = 2_048;
/// Events of one span. Of more their number alone is told.
pub(crate) const EVENTS_MAX: usize = 32;
