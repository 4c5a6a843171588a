//! A run that goes on where another one was: with its plan, and the results that it keeps. The other run stays as it is.

use crate::ids::RunId;
use crate::input::{Blobs, Commit, Refused, RefusedReason};
use crate::journal::{
    Event, PlanCreated, RunCreated, SkipReason, StepFailed, StepMemoized, StepSkipped, UnitResult,
};
use crate::run::Run;
use crate::spec::Spec;
use crate::state::{RunState, StepStage, StepState};
use crate::turn::{INLINE_BYTES_MAX, Turn};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use bytes::Bytes;
use escapement_model::Opaque;
use escapement_model::chain::chain_begin;
use escapement_model::planted::{self, Bug};
use prost::Message;

/// What a fork keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep<'a> {
    /// Everything that completed, and what branches skipped.
    Completed,
    /// What ended before this step in canonical order, failures included.
    Before(&'a str),
}

impl Run {
    // RUN-8.8
    /// Makes a run of the plan of another one. It is queued. Input and environment are those of the other one,
    /// and `spec.forked_from` is set here.
    ///
    /// # Errors
    /// [`Refused`] with [`RefusedReason::UnknownStep`].
    pub fn fork(
        other: &Run,
        run_id: RunId,
        spec: Spec,
        keep: Keep<'_>,
        now: i64,
        blobs: &dyn Blobs,
    ) -> Result<(Self, Commit), Refused> {
        let (from, plan) = (other.state(), Arc::clone(other.plan()));
        let n_kept = match keep {
            Keep::Completed => plan.steps.len(),
            Keep::Before(key) => {
                let found = plan.steps.iter().position(|step| step.key == key);
                found.ok_or_else(|| Refused {
                    reason: RefusedReason::UnknownStep,
                    message: format!("the plan has no step {key:?}"),
                })?
            }
        };
        let mut state = RunState {
            chain: Bytes::copy_from_slice(&chain_begin(&run_id)),
            updated_at: now,
            ..RunState::default()
        };
        let mut turn = Turn::new(&mut state, &plan, now, blobs);
        turn.emit(Event::RunCreated(RunCreated {
            run_id: Bytes::copy_from_slice(run_id.as_bytes()),
            spec: Spec {
                forked_from: from.run_id.clone(),
                input: Opaque::default(),
                environment: Opaque::default(),
                ..spec
            },
            input: from.input.clone(),
            environment: from.environment.clone(),
        }));
        turn.emit(Event::PlanCreated(PlanCreated {
            number: 1,
            digest: from.revision.clone(),
            cause: String::from("fork"),
            profiles: from.profiles.clone(),
            n_steps: u32::try_from(plan.steps.len()).expect("a plan has at most 1024 steps"),
            document: from.document.clone(),
        }));
        for (step, state) in (0..).zip(&from.steps[..n_kept]) {
            if let Some(mut event) = kept(step, state, keep, from.sequence) {
                put_units_away(&mut turn, &mut event);
                turn.emit(event);
            }
        }
        let commit = turn.into_commit();
        Ok((Self::from_snapshot(state, plan), commit))
    }
}

/// Keeps the outputs of many units by their hashes, so that the entry stays small.
fn put_units_away(turn: &mut Turn<'_>, event: &mut Event) {
    let Event::StepMemoized(memo) = event else {
        return;
    };
    if memo.encoded_len() <= INLINE_BYTES_MAX {
        return;
    }
    for output in memo.units.iter_mut().filter_map(|unit| unit.output.as_mut()) {
        if output.inline.len() > DIGEST_BYTES {
            *output = turn.put_away(core::mem::take(&mut output.inline));
        }
    }
}

/// Bytes of a hash.
const DIGEST_BYTES: usize = 32;

/// What a step takes with it, if anything.
fn kept(step: u32, state: &StepState, keep: Keep<'_>, as_of: u64) -> Option<Event> {
    match state.stage() {
        StepStage::Completed if planted::is_on(Bug::RunForkForgets) => None,
        StepStage::Completed => Some(Event::StepMemoized(StepMemoized {
            step,
            output: state.output.clone(),
            units: state
                .units
                .iter()
                .map(|unit| UnitResult {
                    output: unit.output.clone(),
                })
                .collect(),
            as_of,
        })),
        StepStage::Skipped => match state.skip_reason() {
            SkipReason::Branch | SkipReason::Override => {
                let reason = state.skip_reason().into();
                Some(Event::StepSkipped(StepSkipped {
                    step,
                    reason,
                    comment: String::new(),
                }))
            }
            SkipReason::DependencyFailed | SkipReason::RunEnded => None,
        },
        StepStage::Failed if keep != Keep::Completed => {
            let error = state.error.clone().expect("a step that failed says why");
            Some(Event::StepFailed(StepFailed { step, error }))
        }
        StepStage::Failed | StepStage::Pending | StepStage::Running | StepStage::Blocked => None,
    }
}
