//! Events for a program's callbacks, about the sessions and the attempts of its worker.

use escapement_model::{BootId, SessionId};
use std::time::Duration;

/// Event of a worker's session, for the callback of [`WorkerBuilder::on_session`](crate::WorkerBuilder::on_session).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SessionEvent {
    /// The orchestrator has taken the worker.
    #[non_exhaustive]
    Connected {
        /// Address.
        orchestrator: String,
        /// This session.
        session_id: SessionId,
        /// This process lifetime of the orchestrator.
        boot_id: BootId,
        /// Actions that the orchestrator did not take, each with its reason.
        refused_actions: Vec<(String, String)>,
    },
    /// The session ended or did not begin; the worker reconnects automatically unless it stops.
    #[non_exhaustive]
    Disconnected {
        /// Address.
        orchestrator: String,
        /// Reason, for people.
        reason: String,
        /// True if the worker has taken its leave: it stops, or the orchestrator asked it to reconnect.
        left: bool,
    },
    /// An operator drains this worker: it gets no new work from this orchestrator.
    /// Running attempts continue, and the worker stays connected until it is asked to stop.
    #[non_exhaustive]
    Drained {
        /// Address.
        orchestrator: String,
    },
    /// A handler still runs although it was cancelled and aborted. It keeps its slot until it ends.
    /// Reported 10 s after the abortion, then at doubling intervals up to 10 minutes.
    #[non_exhaustive]
    Stuck {
        /// The action.
        action: String,
        /// The execution.
        execution_id: String,
        /// The step.
        step_id: String,
        /// Time since it was aborted.
        aborted_for: Duration,
    },
}

/// Event of an attempt in the worker, for the callback of [`WorkerBuilder::on_attempt`](crate::WorkerBuilder::on_attempt).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum AttemptEvent<'a> {
    /// A handler begins.
    #[non_exhaustive]
    Started {
        /// The action.
        action: &'a str,
    },
    /// The handler ended.
    #[non_exhaustive]
    Ended {
        /// The action.
        action: &'a str,
        /// End of the handler.
        end: AttemptEnd,
        /// Duration of the handler.
        took: Duration,
    },
}

/// End of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttemptEnd {
    /// With an output.
    Success,
    /// With an error, or by a panic.
    Failure,
    /// Ended after it was cancelled: the result is discarded.
    Cancelled,
}
