//! Traces of executions and runs over OTLP. Delays none of them, and keeps no state of one.
//!
//! Spans are made of the record when it is durable, so a trace tells what the store holds. [`spans`] is pure: the same record
//! gives the same bytes. [`Traces`] hands records to the thread that exports them, and that one reads the journals of runs.

mod drawing;
mod flags;
mod limits;
mod run_ids;
mod run_spans;
mod run_traces;
mod span;
mod spans;
mod timeline;
mod traces;

pub use self::flags::{ParentRule, TraceFlags};
pub use self::limits::SPANS_MAX;
pub use self::spans::spans;
pub use self::traces::{SERVICE_NAME, Traces};
pub use escapement_otlp::{CannotStart, Flush};
