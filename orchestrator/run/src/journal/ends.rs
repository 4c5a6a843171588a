//! Ends of runs, as the journal has them.

use super::{Failure, Stored};
use prost::{Enumeration, Message};

/// The limit that ran out.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct TimeoutError {
    /// Which one.
    #[prost(enumeration = "Limit", tag = "1")]
    pub limit: i32,
    /// Its milliseconds.
    #[prost(uint64, tag = "2")]
    pub limit_ms: u64,
}

/// A limit of the run as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum Limit {
    /// Everything, waits and downtime included.
    Lifetime = 0,
    /// Active time.
    Run = 1,
    /// Active time without progress.
    Watchdog = 2,
    /// Active time of the revision.
    Revision = 3,
    /// One pause.
    Pause = 4,
}

impl Limit {
    /// As events and figures spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Limit::Lifetime => "lifetime",
            Limit::Run => "run",
            Limit::Watchdog => "watchdog",
            Limit::Revision => "revision",
            Limit::Pause => "pause",
        }
    }
}

/// A run that ended well.
#[derive(Clone, PartialEq, Message)]
pub struct RunCompleted {
    /// True if a step failed on the way.
    #[prost(bool, tag = "1")]
    pub partial: bool,
    /// An encoded `google.protobuf.Value`; absent if there is none.
    #[prost(message, optional, tag = "2")]
    pub output: Option<Stored>,
}

/// A run that did not end well.
#[derive(Clone, PartialEq, Message)]
pub struct RunFailed {
    /// The first cause that was final.
    #[prost(message, required, tag = "1")]
    pub error: Failure,
    /// True if a limit of the run ran out.
    #[prost(bool, tag = "2")]
    pub timed_out: bool,
    /// What the fallback says: an encoded `google.protobuf.Value`; absent if there is none.
    #[prost(message, optional, tag = "3")]
    pub output: Option<Stored>,
}
