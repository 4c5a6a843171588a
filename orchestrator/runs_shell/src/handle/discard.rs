//! The end of a run that is damaged and cannot go on: it is removed, and what is known of it is told. Touches no run that lives.

use escapement_model::RunId;
use escapement_run::{DISCARDED, Input, RefusedReason, ShownState};
use escapement_runs_host::{Remains, state_byte};
use escapement_store::StoreFault;
use escapement_store::runs::{RunBatch, RunReader, RunRemoved, RunStore, RunSummary};
use escapement_wire::v1::SubmitPlanRequest;
use prost::Message;
use tracing::warn;

use super::{RunsHandle, is_removed};
use crate::children::ChildEnd;
use crate::error::CallError;
use crate::message::Returned;
use crate::readers::of_fault;

/// What was known of a damaged run when it was discarded.
#[derive(Debug)]
pub struct Discarded {
    /// What could be read of it.
    pub remains: Remains,
    /// Executions that may still run although nothing waits for them, as far as the journal could be read.
    pub executions: Vec<String>,
    /// Unix milliseconds: when it was removed.
    pub at: i64,
}

impl RunsHandle {
    // RUN-8.9
    /// Removes a run that has not ended and cannot go on because it is damaged. Its id stays used; its user is told if that is
    /// still known, its children are cancelled, and the run that waits for it is told that it is damaged.
    ///
    /// # Errors
    /// [`CallError::Damaged`] if the run lives after all; [`CallError::EtagMismatch`] if `last_sequence` is not its last entry, as
    /// far as that is known; [`CallError::Refused`] with `RUN_ENDED`; [`CallError::NotFound`] and [`CallError::Removed`].
    pub async fn discard_damaged(
        &self,
        run_id: RunId,
        last_sequence: Option<u64>,
    ) -> Result<Discarded, CallError> {
        let (remains, executions) = self.remains_of(run_id).await?;
        let has_ended = |summary: &RunSummary| summary.progress.ended_at.is_some();
        if remains.summary.as_ref().is_some_and(has_ended) {
            let message = "the run has ended".to_owned();
            return Err(CallError::Refused(RefusedReason::RunEnded, message));
        }
        let last = remains.summary.as_ref().map(|summary| summary.next_seq - 1);
        if last_sequence.is_some() && last_sequence != last {
            return Err(CallError::EtagMismatch);
        }
        let live = self.0.live.clone();
        let removed = self.with_store(move |store, _reader, now| {
            if live.contains(run_id) {
                return Ok((RunRemoved::Live, remains, now));
            }
            tell(store, &remains, now)?;
            let removed = store.discard_run(run_id, state_byte(ShownState::Cancelled), now)?;
            Ok((removed, remains, now))
        });
        let (removed, remains, at) = removed.await?;
        match removed {
            RunRemoved::Done => {}
            RunRemoved::Live => return Err(CallError::Damaged(remains.why)),
            RunRemoved::NotFound => return Err(self.why_not_live(run_id).await?),
        }
        warn!(%run_id, why = remains.why, ?executions, "damaged run was discarded");
        self.0.follows.requests_moved();
        self.0.follows.notices_moved();
        self.tell_relatives(run_id, &remains).await?;
        Ok(Discarded {
            remains,
            executions,
            at,
        })
    }

    async fn remains_of(&self, run_id: RunId) -> Result<(Remains, Vec<String>), CallError> {
        let read = move |reader: &dyn RunReader| {
            let remains = Remains::read(reader, run_id).map_err(|fault| of_fault(&fault))?;
            let Some(remains) = remains else {
                return Err(is_removed(reader, run_id)?);
            };
            let executions = remains
                .in_flight(reader)
                .filter_map(|request| SubmitPlanRequest::decode(request).ok()?.execution_id);
            let executions = executions.collect();
            Ok((remains, executions))
        };
        self.0.readers.with_reader(read).await
    }

    /// What would follow if it had ended.
    async fn tell_relatives(&self, run_id: RunId, remains: &Remains) -> Result<(), CallError> {
        let children = self.change(0, move |host, _| {
            let children = host.runs().children();
            let own = children.filter(|(_, parent)| *parent == run_id);
            Ok(own.map(|(child, _)| child).collect::<Vec<_>>())
        });
        for child in children.await? {
            let reason = "parent".to_owned();
            self.returned(Returned::Input(child, Input::Cancel { reason }));
        }
        let parent = remains
            .summary
            .as_ref()
            .and_then(|summary| summary.created.parent);
        if let Some(parent) = parent {
            let end = ChildEnd::unreadable(format!("the child run is damaged, and was {DISCARDED}"));
            self.returned(Returned::Input(parent, end.of_child(run_id)));
        }
        Ok(())
    }
}

/// Tells the run's user, unless the store cannot write to it any more.
fn tell(store: &mut dyn RunStore, remains: &Remains, now: i64) -> Result<(), StoreFault> {
    let Some(word) = remains.last_word(now) else {
        return Ok(());
    };
    let mut batch = RunBatch::new();
    batch.add(word);
    match store.commit(&batch) {
        Ok(_) | Err(StoreFault::CorruptRun { .. }) => Ok(()),
        Err(fault) => Err(fault),
    }
}
