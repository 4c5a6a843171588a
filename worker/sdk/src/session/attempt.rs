//! States of one attempt and the table of its changes.

use escapement_wire::worker::v1::released;

/// State of an attempt at the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The handler task runs and its outcome is needed.
    Running,
    /// The handler task was cancelled; its result is discarded.
    Stopping(Why),
    /// The handler task ended past its limit. The orchestrator settles it on its own timer and sends `Cancels`.
    Overdue,
    /// The outcome is recorded and waits for its acknowledgement.
    Finished,
}

/// Reason why a handler task was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The orchestrator no longer needs it.
    Unwanted,
    /// The attempt's time is up.
    Overdue,
    /// The worker's lease ran out.
    LeaseExpired,
    /// The drain grace is over.
    Drain,
}

/// Event of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// The handler task ended, with any result.
    Ended,
    /// The orchestrator cancelled it, or no longer knows it.
    Unwanted,
    /// The attempt's own limit ran out.
    TimeUp,
    /// The worker's lease ran out.
    LeaseExpired,
    /// The drain grace is over.
    DrainOver,
    /// The handler task did not end in time although it was aborted, and the worker is about to exit.
    Abandoned,
}

/// Reaction to an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Do nothing.
    Stay,
    /// Cancel the handler task, or record a stronger reason.
    Stop(Why),
    /// Wait for the orchestrator to cancel it.
    Wait,
    /// Record what the handler task returned.
    Report,
    /// Record that it was abandoned.
    Release(released::Reason),
    /// Answer `stopped` and forget it.
    Forget,
}

/// Returns the table.
pub(super) fn next(state: State, input: Input) -> Next {
    use Input as I;
    use State as S;
    use released::Reason as R;
    match (state, input) {
        (S::Running, I::Ended) => Next::Report,
        (S::Running, I::Unwanted) => Next::Stop(Why::Unwanted),
        (S::Running, I::TimeUp) => Next::Stop(Why::Overdue),
        (S::Running, I::LeaseExpired) => Next::Stop(Why::LeaseExpired),
        (S::Running, I::DrainOver) => Next::Stop(Why::Drain),
        (S::Running, I::Abandoned) => Next::Release(R::Drain),

        (S::Stopping(Why::Unwanted), I::Ended | I::Abandoned) => Next::Forget,
        // Nothing is stronger than the orchestrator's own word.
        (S::Stopping(Why::Unwanted), I::Unwanted | I::TimeUp | I::LeaseExpired | I::DrainOver) => Next::Stay,

        (S::Stopping(Why::Overdue), I::Ended) => Next::Wait,
        (S::Stopping(Why::Overdue), I::Unwanted) => Next::Stop(Why::Unwanted),
        // It has stopped already, for this reason.
        (S::Stopping(Why::Overdue), I::TimeUp) => Next::Stay,
        // The orchestrator's cancel may never come: the release gets an answer in any case.
        (S::Stopping(Why::Overdue), I::LeaseExpired) => Next::Stop(Why::LeaseExpired),
        (S::Stopping(Why::Overdue), I::DrainOver) => Next::Stop(Why::Drain),
        (S::Stopping(Why::Overdue), I::Abandoned) => Next::Release(R::Drain),

        (S::Stopping(Why::LeaseExpired), I::Ended | I::Abandoned) => Next::Release(R::LeaseExpired),
        (S::Stopping(Why::Drain), I::Ended | I::Abandoned) => Next::Release(R::Drain),
        (S::Stopping(Why::LeaseExpired | Why::Drain), I::Unwanted) => Next::Stop(Why::Unwanted),
        // It is being released; a second reason changes nothing.
        (S::Stopping(Why::LeaseExpired | Why::Drain), I::TimeUp | I::LeaseExpired | I::DrainOver) => {
            Next::Stay
        }

        (S::Overdue, I::Unwanted) => Next::Forget,
        (S::Overdue, I::LeaseExpired) => Next::Release(R::LeaseExpired),
        (S::Overdue, I::DrainOver | I::Abandoned) => Next::Release(R::Drain),
        // Its handler task has ended and its limit has come already.
        (S::Overdue, I::Ended | I::TimeUp) => Next::Stay,

        // A recorded outcome stays until it is acknowledged, after any event (I7).
        (S::Finished, I::Unwanted | I::LeaseExpired | I::DrainOver | I::Abandoned) => Next::Stay,
        // An abandoned handler task may still end; its timer may have been due in the same instant.
        (S::Finished, I::Ended | I::TimeUp) => Next::Stay,
    }
}
