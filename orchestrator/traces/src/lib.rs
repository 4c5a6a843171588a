//! Traces of executions over OTLP. Delays no execution, and keeps no state of one.
//!
//! Spans are made of the record when it is durable, so a trace tells what the store holds. [`spans`] is pure: the same record
//! gives the same bytes. [`Traces`] hands records to a thread of its own that exports them; what it has no room for, or what
//! the collector does not take, is dropped as whole executions, counted and logged.

mod attributes;
mod exporter;
mod flags;
mod limits;
mod losses;
mod spans;
mod timeline;
mod traces;
mod waiting;

pub use self::flags::{ParentRule, TraceFlags};
pub use self::limits::SPANS_MAX;
pub use self::spans::spans;
pub use self::traces::{CannotStart, Flush, Traces};
