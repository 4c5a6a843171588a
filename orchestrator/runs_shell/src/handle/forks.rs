//! Runs that go on where other ones were, live or ended. Decides nothing of what they keep.

use escapement_model::RunId;
use escapement_run::spec::Spec;
use escapement_run::{EditedPlan, Keep, Run};
use escapement_runs::NewFork;
use escapement_runs_host::{NotForked, RunsHost};
use escapement_store::runs::ClientRequest;

use super::{Created, RunsHandle, attached, new};
use crate::children::in_doubt;
use crate::error::CallError;

/// A run that is to go on where another one was.
#[derive(Clone, Debug)]
pub struct Fork {
    /// The other run.
    pub from: RunId,
    /// The run.
    pub run_id: RunId,
    /// What it keeps.
    pub keep: KeepSteps,
    /// Plan, if it is another one.
    pub edited: Option<EditedPlan>,
    /// True if it may repeat effects of the other run.
    pub allow_repeat_effects: bool,
    /// What it is made from; `None` for what the other one is made from. No run waits for it in any case.
    pub spec: Option<Spec>,
    /// What its caller may repeat, and gets the same run for.
    pub request: Option<ClientRequest>,
}

/// What a fork keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeepSteps {
    /// Everything that completed, and what branches skipped.
    Completed,
    /// What ended before this step in canonical order, failures included.
    Before(String),
    /// Nothing: the fork begins anew, paused.
    Nothing,
    /// What completed up to this checkpoint; the fork is paused.
    Checkpoint(u32),
}

impl KeepSteps {
    fn as_keep(&self) -> Keep<'_> {
        match self {
            KeepSteps::Completed => Keep::Completed,
            KeepSteps::Before(key) => Keep::Before(key),
            KeepSteps::Nothing => Keep::Nothing,
            KeepSteps::Checkpoint(number) => Keep::Checkpoint(*number),
        }
    }
}

impl RunsHandle {
    // RUN-8.8
    /// Makes a run that goes on where another one was. It is durable when this answers.
    ///
    /// # Errors
    /// [`CallError`]; [`CallError::Refused`] with `UNKNOWN_STEP`, `NO_CHECKPOINT`, `KEPT_STEP_CHANGED`,
    /// `RUN_DISCARDED` or `EFFECTS_WOULD_REPEAT`.
    pub async fn fork(&self, fork: Fork) -> Result<Created, CallError> {
        let from = fork.from;
        match self.fork_of(fork.clone(), None).await? {
            Some(created) => Ok(created),
            None => {
                let ended = self.look_at_stored(from, |run, _| run.clone()).await?;
                let forked = self.fork_of(fork, Some(ended)).await?;
                forked.ok_or(CallError::NotFound)
            }
        }
    }

    /// `None` if the other run is neither given nor lives.
    async fn fork_of(&self, fork: Fork, ended: Option<Run>) -> Result<Option<Created>, CallError> {
        let edited = fork.edited.as_ref();
        let bytes = edited.map_or(0, |edited| edited.plan.document.len());
        let change = move |host: &mut RunsHost, now| {
            let other = ended.as_ref().or_else(|| host.run(fork.from).map(|(run, _)| run));
            let Some(other) = other else {
                return Ok(None);
            };
            let mut spec = fork.spec.unwrap_or_else(|| other.state().spec.clone());
            spec.parent_run_id.clear();
            let digest = fork.request.as_ref().map(|request| request.digest);
            let children = other.state().children().collect();
            let run = NewFork {
                run_id: fork.run_id,
                ended: ended.as_ref(),
                from: fork.from,
                spec,
                keep: fork.keep.as_keep(),
                edited: fork.edited,
                allow_repeat_effects: fork.allow_repeat_effects,
                doubts_of_children: in_doubt(children, host),
            };
            let request = fork.request;
            match host.fork(escapement_runs_host::Fork { run, request }, now) {
                Ok(run_id) => Ok(Some(new(run_id))),
                Err(NotForked::NotThere) => Ok(None),
                Err(NotForked::NotCreated(why)) => attached(why, digest).map(Some),
                Err(NotForked::Refused(refused)) => Err(refused.into()),
            }
        };
        self.change(bytes, change).await
    }
}
