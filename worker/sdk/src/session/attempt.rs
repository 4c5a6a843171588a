//! The states of one attempt and the table of its changes. Holds no attempt and sends nothing.

use escapement_wire::worker::v1::released;

/// What the worker is doing with an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Its handler task runs and its outcome is wanted.
    Running,
    /// Its handler task was told to end; whatever it still returns is discarded.
    Stopping(Why),
    /// Its handler task ended past its limit. The orchestrator settles it on its own timer and sends `Cancels`.
    Overdue,
    /// Its outcome is recorded and waits for its acknowledgement.
    Finished,
}

/// Why a handler task was told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The orchestrator does not want it any more.
    Unwanted,
    /// Its time is up.
    Overdue,
    /// The worker's lease ran out.
    LeaseExpired,
    /// The drain grace is over.
    Drain,
}

/// What happens to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// Its handler task ended, in whatever way.
    Ended,
    /// The orchestrator cancelled it, or does not know it any more.
    Unwanted,
    /// Its own limit came.
    TimeUp,
    /// The worker's lease ran out.
    LeaseExpired,
    /// The drain grace is over.
    DrainOver,
    /// Its handler task did not end in time although it was aborted, and the worker is about to go.
    Abandoned,
}

/// What is to be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing.
    Stay,
    /// Tell the handler task to end, or remember a stronger reason.
    Stop(Why),
    /// Wait for the orchestrator to cancel it.
    Wait,
    /// Record what the handler task returned.
    Report,
    /// Record that it was given up.
    Release(released::Reason),
    /// Answer `stopped` and forget it.
    Forget,
}

/// The table.
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

        // A recorded outcome stands until it is acknowledged, whatever comes (I7).
        (S::Finished, I::Unwanted | I::LeaseExpired | I::DrainOver | I::Abandoned) => Next::Stay,
        // An abandoned handler task may still end; its timer may have been due in the same instant.
        (S::Finished, I::Ended | I::TimeUp) => Next::Stay,
    }
}
