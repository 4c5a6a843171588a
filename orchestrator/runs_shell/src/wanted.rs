//! True if a run still goes on by what an attempt comes to. Decides nothing about it.

use escapement_model::{ExecutionId, RunId};

use crate::handle::RunsHandle;

/// Asks for one attempt.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) runs: RunsHandle,
    pub(crate) run_id: RunId,
    pub(crate) execution_id: ExecutionId,
    /// True if it did not leave at once.
    pub(crate) has_waited: bool,
}

impl Wanted {
    pub(crate) fn run_lives(&self) -> bool {
        self.runs.is_live(self.run_id)
    }

    // RUN-4.13
    /// True unless the attempt was fenced, durably. What cannot be asked about is awaited.
    pub(crate) async fn is_awaited(&self) -> bool {
        let execution_id = self.execution_id;
        let awaits = self
            .runs
            .look(self.run_id, move |run, blobs| run.awaits(execution_id, blobs));
        awaits.await.unwrap_or(true)
    }
}
