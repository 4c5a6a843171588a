//! Reason why a call to runs has no answer. Knows no status of an API.

use std::error::Error;
use std::fmt;

use escapement_model::RunId;
use escapement_run::{Refused, RefusedReason};
use escapement_store::runs::RemovedRun;

/// Reason why a call to runs has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The run refused the input; nothing changed.
    Refused(RefusedReason, String),
    /// There is no such run.
    NotFound,
    /// The run has ended and was removed; what is left of it.
    Removed(Box<RemovedRun>),
    /// The run cannot be read: what is wrong with it.
    Damaged(String),
    /// There are as many runs as there may be; nothing changed.
    Full,
    /// The store does not hold what is that large: by how much; nothing changed.
    TooLarge(String),
    /// This run of the same saved plan has not ended; nothing changed.
    AlreadyRunning(RunId),
    /// Another request has this id; nothing changed.
    RequestIdReused,
    /// The run has gone on since the caller saw it; nothing changed.
    EtagMismatch,
    /// Others changed what the call rests on, as often as it was tried; nothing changed.
    Contended,
    /// Too many calls wait; nothing changed.
    Overloaded,
    /// The process stops. Whether something changed is not known to a call that waited for its answer.
    Stopping,
    /// The store has no space; nothing changed.
    StoreFull,
    /// The store could not be read, or could not take the change yet: it is not known whether it will.
    Store,
}

impl From<Refused> for CallError {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused.reason, refused.message)
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused(_, message) => message,
            Self::NotFound => "no run has this id",
            Self::Removed(_) => "the run has ended and was removed",
            Self::Damaged(why) => return write!(f, "the run is damaged: {why}"),
            Self::TooLarge(why) => why,
            Self::Full => "there are as many runs as there may be",
            Self::AlreadyRunning(run_id) => {
                return write!(f, "run {run_id} of the plan has not ended");
            }
            Self::RequestIdReused => "the request id was used for another request",
            Self::EtagMismatch => "the run has gone on since its etag was read",
            Self::Contended => "others changed the same each time that it was tried",
            Self::Overloaded => "too many calls wait for runs",
            Self::Stopping => "the orchestrator stops",
            Self::StoreFull => "the store has no space",
            Self::Store => "the store could not be read, or has not taken the change yet",
        })
    }
}

impl Error for CallError {}
