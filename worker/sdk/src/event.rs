//! What the callbacks of a program hear about the sessions and the attempts of its worker.

use escapement_model::{BootId, SessionId};
use std::time::Duration;

/// What happens to a worker's session. Told to the callback of [`WorkerBuilder::on_session`](crate::WorkerBuilder::on_session).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SessionEvent {
    /// The orchestrator has taken the worker.
    #[non_exhaustive]
    Connected {
        /// Its address.
        orchestrator: String,
        /// This session.
        session_id: SessionId,
        /// This process lifetime of the orchestrator.
        boot_id: BootId,
        /// Actions that the orchestrator did not take, each with its reason.
        refused_actions: Vec<(String, String)>,
    },
    /// The session ended or did not come about; the worker connects again by itself unless it stops.
    #[non_exhaustive]
    Disconnected {
        /// Its address.
        orchestrator: String,
        /// Why, for people.
        reason: String,
        /// True if the worker has taken its leave: it stops, or the orchestrator asked it to reconnect.
        left: bool,
    },
    /// An operator drains this worker: it gets no new work from this orchestrator.
    /// What runs goes on, and the worker stays connected until it is asked to stop.
    #[non_exhaustive]
    Drained {
        /// Its address.
        orchestrator: String,
    },
    /// A handler still runs although it was cancelled and aborted. It keeps its slot until it ends.
    /// Told 10 s after the abortion, then at doubling distances up to 10 minutes.
    #[non_exhaustive]
    Stuck {
        /// The action.
        action: String,
        /// The execution.
        execution_id: String,
        /// The step.
        step_id: String,
        /// How long ago it was aborted.
        aborted_for: Duration,
    },
}

/// What becomes of an attempt in the worker. Told to the callback of [`WorkerBuilder::on_attempt`](crate::WorkerBuilder::on_attempt).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum AttemptEvent<'a> {
    /// A handler begins.
    #[non_exhaustive]
    Started {
        /// The action.
        action: &'a str,
    },
    /// It ended.
    #[non_exhaustive]
    Ended {
        /// The action.
        action: &'a str,
        /// How.
        end: AttemptEnd,
        /// How long it ran.
        took: Duration,
    },
}

/// How a handler ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttemptEnd {
    /// With an output.
    Success,
    /// With an error, or by a panic.
    Failure,
    /// After it was cancelled: whatever it ended with is not wanted any more.
    Cancelled,
}
