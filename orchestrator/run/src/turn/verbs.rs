//! What callers and operators do to a run as a whole: pause, resume, rewind, roll back, override, checkpoint, recover.

use super::{Turn, refused, refused_because};
use crate::branches::stale;
use crate::input::{CRASH_LOOP, DISCARDED, OverrideWord, Refused, RefusedReason, RewindScope, Rollback};
use crate::journal::{
    CheckpointCreated, Event, Failure, Reason, RunRecovered, RunRolledBack, SkipReason, StepRef, StepSkipped,
};
use crate::outcome::cut;
use crate::plan::{OnFailure, StepKind};
use crate::run::ShownState;
use crate::spec::ResumePolicy;
use crate::state::{StepStage, StepState};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::Opaque;
use escapement_model::limits::MESSAGE_CHARS_MAX;
use escapement_model::opaque::ValueView;
use escapement_model::planted::{self, Bug};

impl Turn<'_> {
    // RUN-8.1
    pub(super) fn pause(&mut self, reason: String) -> Result<(), Refused> {
        if self.state.pause_wanted {
            return Err(refused(
                RefusedReason::AlreadyPaused,
                "the run is pausing or paused already",
            ));
        }
        self.may_intervene()?;
        let reason = cut(&reason, MESSAGE_CHARS_MAX);
        self.emit(Event::PauseRequested(Reason { reason }));
        Ok(())
    }

    // RUN-8.2
    pub(super) fn resume(&mut self, reason: String) -> Result<(), Refused> {
        if !self.state.pause_wanted {
            let open = self.state.open_requests().count();
            return Err(refused_because(
                RefusedReason::NotPaused,
                match open {
                    0 => String::from("the run is not paused"),
                    open => format!("the run is not paused; {open} of its requests wait for an answer"),
                },
            ));
        }
        let reason = cut(&reason, MESSAGE_CHARS_MAX);
        self.emit(Event::RunResumed(Reason { reason }));
        Ok(())
    }

    // RUN-8.4
    pub(super) fn rewind(&mut self, key: &str, scope: RewindScope, allow: bool) -> Result<(), Refused> {
        let first = self.step_named(key)?;
        if !self.executes() {
            return Err(refused(
                RefusedReason::NotPaused,
                "no plan of the run is being carried out",
            ));
        }
        let changed: BTreeSet<u32> = match scope {
            RewindScope::Later => (first..self.n_steps()).collect(),
            RewindScope::Dependents => [first].into(),
        };
        let set = stale(self.plan, &self.state.steps, &changed, Some(first as usize));
        self.may_intervene()?;
        self.may_repeat(&set, allow)?;
        self.emit(Event::RunRolledBack(RunRolledBack {
            mode: "rewind".to_string(),
            checkpoint: 0,
            step: Some(first),
            dependents: scope == RewindScope::Dependents,
            data: None,
        }));
        self.reset(set);
        Ok(())
    }

    // RUN-8.10
    fn may_intervene(&self) -> Result<(), Refused> {
        if self.state.n_interventions < INTERVENTIONS_MAX {
            return Ok(());
        }
        Err(refused_because(
            RefusedReason::RunTooLarge,
            format!("the run was paused and set back {INTERVENTIONS_MAX} times; fork it to go on"),
        ))
    }

    // RUN-8.4, RUN-8.5
    fn may_repeat(&self, set: &BTreeSet<u32>, allow: bool) -> Result<(), Refused> {
        let allow = allow || planted::is_on(Bug::RunRewindRepeats);
        match self.would_repeat(set.iter().copied()).filter(|_| !allow) {
            Some(steps) => Err(would_repeat(&steps)),
            None => Ok(()),
        }
    }

    fn reset(&mut self, set: BTreeSet<u32>) {
        for step in set {
            let state = self.step_state(step);
            if state.stage() != StepStage::Pending || !state.units.is_empty() {
                self.let_go_of_units(step);
                self.emit(Event::StepReset(StepRef { step }));
            }
        }
        // RUN-5.6: another failure that ends the revision may be left.
        if self.state.cause.is_none() {
            for step in 0..self.n_steps() {
                if let (StepStage::Failed, Some(error)) =
                    (self.step_state(step).stage(), self.step_state(step).error.clone())
                {
                    match self.on_failure(self.step(step)) {
                        OnFailure::Abort => self.revision_fails(error, false),
                        OnFailure::Drain => self.revision_fails(error, true),
                        OnFailure::Skip | OnFailure::Jump(_) => {}
                    }
                }
            }
        }
    }

    // RUN-8.5
    pub(super) fn rollback(&mut self, rollback: Rollback, allow: bool) -> Result<(), Refused> {
        self.must_rest()?;
        let named = match rollback {
            Rollback::Reset | Rollback::Restore(None) => self.state.checkpoints.last(),
            Rollback::Restore(Some(number)) => self
                .state
                .checkpoints
                .iter()
                .find(|checkpoint| checkpoint.number == number),
        };
        // The steps of another revision are others.
        let restores = matches!(rollback, Rollback::Restore(_));
        let revision = self.state.revision_number;
        let named = named.filter(|checkpoint| !restores || checkpoint.revision_number == revision);
        let checkpoint =
            named.ok_or_else(|| refused(RefusedReason::NoCheckpoint, "the run has no such checkpoint"))?;
        let (number, completed) = (checkpoint.number, checkpoint.completed.clone());
        let data = checkpoint.data.clone();
        let session = checkpoint.session.clone();
        let (mode, kept): (&str, BTreeSet<u32>) = match rollback {
            Rollback::Reset => ("reset", BTreeSet::new()),
            Rollback::Restore(_) => ("restore", completed.into_iter().collect()),
        };
        let changed = (0..self.n_steps()).filter(|step| !kept.contains(step)).collect();
        let set = stale(self.plan, &self.state.steps, &changed, None);
        self.may_intervene()?;
        self.may_repeat(&set, allow)?;
        self.emit(Event::RunRolledBack(RunRolledBack {
            mode: mode.to_string(),
            checkpoint: number,
            step: None,
            dependents: false,
            data: Some(data),
        }));
        // What runs share is not set back for one of them.
        if restores && self.state.spec.session_id.is_empty() && self.state.session.is_some() {
            let state = session.unwrap_or_else(|| self.store(Opaque::default().as_encoded().clone()));
            self.own_session_is(&state);
        }
        self.reset(set);
        if !self.state.pause_wanted {
            self.emit(Event::PauseRequested(Reason {
                reason: String::from("rollback"),
            }));
        }
        Ok(())
    }

    // RUN-8.6
    pub(super) fn override_step(
        &mut self,
        key: &str,
        word: OverrideWord,
        reason: String,
    ) -> Result<(), Refused> {
        let step = self.step_named(key)?;
        self.must_rest()?;
        if self.step_state(step).stage().is_settled() {
            return Err(refused(
                RefusedReason::StepSettled,
                "the step has ended; rewind to it first",
            ));
        }
        let comment = cut(&reason, MESSAGE_CHARS_MAX);
        let reason = format!("override: {comment}");
        match word {
            OverrideWord::Complete(output) => self.override_complete(step, output, &reason)?,
            OverrideWord::Fail { code, message } => {
                let message = format!("{message} ({reason})");
                self.fail_step(step, Failure::of_step(step, &code, &message));
            }
            OverrideWord::Skip => {
                self.let_go_of_units(step);
                self.emit(Event::StepSkipped(StepSkipped {
                    step,
                    reason: SkipReason::Override.into(),
                    comment,
                }));
            }
        }
        Ok(())
    }

    fn override_complete(&mut self, step: u32, output: Bytes, reason: &str) -> Result<(), Refused> {
        let StepKind::Condition(condition) = &self.step(step).kind else {
            let output = self.store(output);
            self.complete_step(step, Some(output), reason);
            return Ok(());
        };
        let Some(ValueView::Bool(value)) = super::values::view(&output) else {
            return Err(refused(
                RefusedReason::AnswerInvalid,
                "output: that of a condition is true or false",
            ));
        };
        let output = self.store(output);
        self.complete_step(step, Some(output), reason);
        self.take_side(step, condition, value);
        Ok(())
    }

    // RUN-8.7
    pub(super) fn checkpoint(&mut self, data: Opaque) -> Result<(), Refused> {
        if data.len() > CHECKPOINT_BYTES_MAX {
            return Err(refused(
                RefusedReason::DataTooLarge,
                "data: has more than 512,000 bytes",
            ));
        }
        let number = self
            .state
            .checkpoints
            .last()
            .map_or(0, |checkpoint| checkpoint.number)
            + 1;
        // RUN-8.10
        if number > CHECKPOINTS_MAX {
            return Err(refused_because(
                RefusedReason::RunTooLarge,
                format!("the run has {CHECKPOINTS_MAX} checkpoints; fork it to make more"),
            ));
        }
        if self.state.checkpoint_bytes + data.len() as u64 > CHECKPOINTS_BYTES_MAX {
            let most = CHECKPOINTS_BYTES_MAX >> 20;
            return Err(refused_because(
                RefusedReason::RunTooLarge,
                format!("the checkpoints of the run have {most} MiB of data; fork it to make more"),
            ));
        }
        let data = self.store(data.as_encoded().clone());
        self.emit(Event::CheckpointCreated(CheckpointCreated { number, data }));
        Ok(())
    }

    // RUN-9.4, RUN-9.5
    /// The process was started anew. `orderly`: the stop before it was asked for.
    pub(super) fn recovered(&mut self, orderly: bool) {
        let n_in = |stage| {
            let steps = self.state.steps.iter().filter(|step| step.stage() == stage);
            u32::try_from(steps.count()).expect("a plan has at most 1024 steps")
        };
        let running = self
            .state
            .steps
            .iter()
            .filter(|step| step.stage() == StepStage::Running);
        let units: Vec<_> = running
            .flat_map(StepState::all_units)
            .map(|(_, unit)| unit)
            .collect();
        let live = || units.iter().filter_map(|unit| unit.live.as_ref());
        let count = |n: usize| u32::try_from(n).expect("units are few");
        let recovered = RunRecovered {
            pending: n_in(StepStage::Pending),
            completed: n_in(StepStage::Completed),
            failed: n_in(StepStage::Failed),
            interrupted_with_child: count(units.iter().filter(|unit| !unit.child.is_empty()).count()),
            ambiguous: count(live().filter(|live| live.effect().is_effect()).count()),
            resubmitted: count(live().count()),
            orderly,
            children_alone: self.state.has_children_alone_in_flight(),
            ahead_ms: self.ahead_ms,
        };
        self.emit(Event::RunRecovered(recovered));
        if self.state.spec.policy.resume() == ResumePolicy::Discard {
            return self.cancel(String::from(DISCARDED));
        }
        if self.state.recoveries >= RECOVERIES_MAX && !self.state.pause_wanted {
            let reason =
                format!("{CRASH_LOOP}: the process ended {RECOVERIES_MAX} times in a row without progress");
            self.emit(Event::PauseRequested(Reason { reason }));
        }
        let mut again = self.state.clone();
        let outstanding = Turn::new(&mut again, self.plan, self.now, self.blobs).outstanding();
        self.commit.effects.extend(outstanding);
    }

    fn must_rest(&self) -> Result<(), Refused> {
        match self.state.shown() {
            ShownState::Paused | ShownState::Waiting if !self.executes() => Err(refused(
                RefusedReason::NotPaused,
                "a plan is being made; until then there are no steps to change",
            )),
            ShownState::Paused | ShownState::Waiting => Ok(()),
            _ => Err(refused(
                RefusedReason::NotPaused,
                "the run is neither paused nor waiting",
            )),
        }
    }

    fn step_named(&self, key: &str) -> Result<u32, Refused> {
        let found = self.plan.steps.iter().position(|step| step.key == key);
        found
            .map(|at| u32::try_from(at).expect("a plan has at most 1024 steps"))
            .ok_or_else(|| {
                let keys: Vec<&str> = self.plan.steps.iter().map(|step| step.key.as_str()).collect();
                let message = format!("the plan has no step {key:?}; it has {}", keys.join(", "));
                refused_because(RefusedReason::UnknownStep, cut(&message, 8 * MESSAGE_CHARS_MAX))
            })
    }
}

/// Steps that did something begin anew, and nobody has allowed that.
pub(crate) fn would_repeat(steps: &str) -> Refused {
    let message =
        format!("effects of these steps would be repeated, which allow_repeat_effects allows: {steps}");
    refused_because(
        RefusedReason::EffectsWouldRepeat,
        cut(&message, 8 * MESSAGE_CHARS_MAX),
    )
}

/// Checkpoints of a run, ever.
const CHECKPOINTS_MAX: u32 = 1_000;
/// Pauses, rewinds and rollbacks of a run, ever.
const INTERVENTIONS_MAX: u32 = 10_000;
/// Bytes of a checkpoint's data.
const CHECKPOINT_BYTES_MAX: usize = 512_000;
/// Bytes of the data of all checkpoints: 64 MiB.
const CHECKPOINTS_BYTES_MAX: u64 = 64 << 20;
/// Ends of the process in a row without progress that pause a run.
const RECOVERIES_MAX: u32 = 10;
