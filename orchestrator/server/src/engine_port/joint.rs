//! Commits batches of runs through the engine, which accepts their attempts in the same commit.

use super::within;
use crate::grpc::Edge;
use crate::host::handle::FromRuns;
use escapement_engine::{Submission, Submitter};
use escapement_host::RunsCommit;
use escapement_runs_shell::{Joined, JointWay, Leaving, LinkedAttempt, WaitingBatch};
use escapement_store::StoreFault;
use escapement_store::runs::RunBatch;
use std::pin::pin;
use std::sync::mpsc::sync_channel;
use std::task::{Context, Poll, Waker};

/// Link to the engine.
pub(super) struct EngineWay(Edge);

impl EngineWay {
    pub(super) fn new(edge: Edge) -> Self {
        Self(edge)
    }

    /// Checks a request like that of any caller. Returns `None` if the request is refused or the check has to wait. The attempt is
    /// then submitted after its intent is durable.
    fn submission(&self, leaving: Leaving) -> Option<(Submission, LinkedAttempt)> {
        let Leaving { request, attempt } = leaving;
        let (trace, caller) = within(&request, attempt.origin()).ok()?;
        let handing_in = pin!(self.0.hand_in(request, trace, &caller));
        let polled = handing_in.poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(Ok(hand_in)) = polled else {
            return None;
        };
        // The outcome of the commit replaces this reply.
        let submitter = Submitter::ForAccept(self.0.engine.new_caller().into());
        Some((hand_in.submission(submitter), attempt))
    }
}

impl JointWay for EngineWay {
    fn commit(
        &mut self,
        batch: &RunBatch,
        n_received: u64,
        attempts: Vec<Leaving>,
    ) -> Result<Joined, StoreFault> {
        let ended = || StoreFault::Fatal("the engine has ended".into());
        let (answer, answered) = sync_channel(1);
        let batch = batch.clone();
        let attempts = attempts
            .into_iter()
            .filter_map(|leaving| self.submission(leaving));
        let commit = RunsCommit {
            batch: WaitingBatch { batch, answer },
            n_received,
            attempts: attempts.collect(),
        };
        let sent = self.0.engine.send_of_runs(FromRuns::Commit(commit));
        sent.map_err(|_| ended())?;
        answered.recv().unwrap_or_else(|_| Err(ended()))
    }

    fn received(&mut self, n_received: u64) {
        // The engine may have ended; then nothing is held back.
        let _ended = self.0.engine.send_of_runs(FromRuns::Received(n_received));
    }
}
