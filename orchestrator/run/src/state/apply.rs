//! What each entry of the journal changes. Total: an entry that was decided can always be applied.

use super::units::memoized;
use super::{ArtifactState, End, PendingEvaluation, RunState, Stage, StepStage, StepState, UnitStage};
use crate::journal::{Entry, Event, Failure, OutcomeClass, PlanCreated, ToolCalled, ToolOutput};
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::planted::{self, Bug};

impl RunState {
    // RUN-9.2
    /// Changes the state as the entry says.
    ///
    /// # Panics
    /// If the entry is not the next one of this run.
    pub fn apply(&mut self, entry: &Entry) {
        assert_eq!(entry.sequence, self.sequence + 1, "entries are applied in order");
        let event = entry.event.as_ref().expect("an entry says what happened");
        self.pass_time(entry.at, event);
        self.sequence = entry.sequence;
        match event {
            Event::RunCreated(_)
            | Event::PlanCreated(_)
            | Event::ActionsKnown(_)
            | Event::RunStarted(_)
            | Event::RunPaused(_)
            | Event::PauseRequested(_)
            | Event::RunResumed(_)
            | Event::RunRecovered(_)
            | Event::RunStalled(_)
            | Event::RevisionFailing(_)
            | Event::ReplanTriggered(_)
            | Event::ArtifactCreated(_)
            | Event::RunVerifying(_)
            | Event::ArtifactVerified(_)
            | Event::CheckpointCreated(_)
            | Event::RunRolledBack(_)
            | Event::TimeoutError(_) => self.apply_to_run(event, entry.at),
            Event::RunCompleted(_) | Event::RunFailed(_) | Event::RunCancelled(_) => {
                self.end(event, entry.at)
            }
            Event::BudgetWarning(_) | Event::BudgetAwaited(_) => self.apply_to_budget(event),
            Event::InputRequested(_)
            | Event::DecisionRecorded(_)
            | Event::InputReceived(_)
            | Event::InputExpired(_)
            | Event::InputClosed(_) => self.apply_to_requests(event, entry.at),
            Event::StepStarted(_)
            | Event::StepCompleted(_)
            | Event::StepFailed(_)
            | Event::StepSkipped(_)
            | Event::StepBlocked(_)
            | Event::StepReset(_)
            | Event::StepMemoized(_) => self.apply_to_steps(event, entry.at),
            Event::GenerationStarted(_)
            | Event::CatalogueGiven(_)
            | Event::GenerationEnded(_)
            | Event::PlanSummary(_)
            | Event::FallbackUsed(_) => self.apply_to_planning(event),
            Event::ToolCalled(called) if called.unit.is_generation() => self.planner_called(called),
            Event::ToolOutput(output) if output.unit.is_generation() => self.planner_answered(output),
            Event::SessionRead(_) | Event::StatePatched(_) | Event::SkillHealthChanged(_) => {
                self.apply_to_session(event);
            }
            Event::EvaluationRequested(_)
            | Event::Evaluated(_)
            | Event::UnitMemoized(_)
            | Event::ToolCalled(_)
            | Event::ToolOutput(_)
            | Event::StepRetrying(_)
            | Event::UnitFailed(_)
            | Event::ToolsAsked(_)
            | Event::ChildRunStarted(_)
            | Event::ChildRunEnded(_) => self.apply_to_units(event),
        }
    }

    fn apply_to_run(&mut self, event: &Event, at: i64) {
        match event {
            Event::RunCreated(created) => {
                self.run_id = created.run_id.clone();
                self.spec = created.spec.clone();
                self.input = created.input.clone();
                self.environment = created.environment.clone();
                self.created_at = at;
            }
            Event::PlanCreated(plan) => self.plan_created(plan),
            Event::ActionsKnown(known) => self.profiles = known.profiles.clone(),
            Event::RunStarted(_) => {
                self.set_stage(if self.has_no_plan() {
                    Stage::Planning
                } else {
                    Stage::Executing
                });
                self.started_at = at;
            }
            Event::RunPaused(_) => self.paused_at = at,
            Event::PauseRequested(_) => {
                self.pause_wanted = true;
                self.n_interventions += 1;
            }
            Event::RunResumed(_) => {
                self.pause_wanted = false;
                self.paused_at = 0;
                self.progress();
            }
            // RUN-9.5
            Event::RunRecovered(found) => {
                let counts = self.is_in_flight() && !found.orderly && !found.children_alone;
                self.recoveries += u32::from(counts);
                self.ahead_ms = found.ahead_ms;
            }
            Event::RevisionFailing(failing) => {
                // The first cause counts; one that stops everything still does.
                self.cause.get_or_insert_with(|| failing.error.clone());
                self.drains = failing.drains;
            }
            Event::ReplanTriggered(replan) => {
                self.replanned(replan);
                self.disabled_actions.extend(replan.disabled.iter().cloned());
                self.disabled_actions.sort();
                self.disabled_actions.dedup();
                self.substitutions.extend(replan.substituted.clone());
                self.plan_wanted(replan);
            }
            Event::ArtifactCreated(artifact) => {
                self.n_artifacts = artifact.number;
                self.artifacts.push(ArtifactState {
                    created: artifact.clone(),
                    created_at: at,
                    ..ArtifactState::default()
                });
            }
            Event::RunVerifying(_) => self.is_verifying = true,
            Event::ArtifactVerified(verified) => self.artifact_verified(verified),
            Event::CheckpointCreated(checkpoint) => self.checkpoint_created(checkpoint, at),
            // The steps that are set back and the end say so themselves.
            Event::RunRolledBack(_) => self.n_interventions += 1,
            Event::TimeoutError(_) | Event::RunStalled(_) => {}
            _ => unreachable!("{event:?} is not about the run as a whole"),
        }
    }

    fn end(&mut self, event: &Event, at: i64) {
        let (stage, end) = match event {
            Event::RunCompleted(end) => {
                let output = end.output.clone();
                (
                    Stage::Completed,
                    End {
                        error: None,
                        partial: end.partial,
                        output,
                    },
                )
            }
            Event::RunFailed(end) => {
                let stage = if end.timed_out {
                    Stage::TimedOut
                } else {
                    Stage::Failed
                };
                (
                    stage,
                    End {
                        error: Some(end.error.clone()),
                        output: end.output.clone(),
                        ..End::default()
                    },
                )
            }
            Event::RunCancelled(reason) => {
                let (code, message) = (String::from("CANCELLED"), reason.reason.clone());
                let error = Failure {
                    code,
                    message,
                    step: None,
                };
                (
                    Stage::Cancelled,
                    End {
                        error: Some(error),
                        ..End::default()
                    },
                )
            }
            _ => unreachable!("{event:?} is no end"),
        };
        self.set_stage(stage);
        self.ended_at = at;
        self.end = Some(end);
        self.evaluations.clear();
    }

    // RUN-7.2
    /// Active time passes while the run is active; time in which the orchestrator was down or stood still is none.
    fn pass_time(&mut self, at: i64, event: &Event) {
        let passed = at
            .checked_sub(self.updated_at)
            .and_then(|passed| u64::try_from(passed).ok());
        let passed = passed.expect("time does not go back");
        let read_ms = core::mem::take(&mut self.read_ms);
        let counted = match event {
            Event::RunRecovered(_) => {
                self.active_ms -= read_ms;
                0
            }
            Event::RunStalled(_) if planted::is_on(Bug::RunStallIgnored) => passed,
            Event::RunStalled(stalled) => passed.saturating_sub(stalled.stalled_ms),
            _ => passed,
        };
        if self.is_active() {
            self.active_ms += counted;
            self.read_ms = match event {
                Event::SessionRead(_) => counted,
                _ => 0,
            };
        }
        self.updated_at = at;
    }

    fn plan_created(&mut self, plan: &PlanCreated) {
        self.revision = plan.digest.clone();
        self.revision_number = plan.number;
        self.document = plan.document.clone();
        self.profiles = plan.profiles.clone();
        self.steps_begin(plan.n_steps);
        self.revision_begins();
        let forgets = planted::is_on(Bug::RunUploadForgotten);
        self.artifacts
            .retain(|artifact| artifact.created.unit.is_none() && !forgets);
        self.is_verifying = false;
        self.takes_over(plan);
        if let Some(planning) = &mut self.planning {
            planning.accepted = plan.generation;
            planning.error = None;
        }
        if self.stage() == Stage::Planning {
            self.set_stage(Stage::Executing);
        }
        self.revision_ms = self.active_ms;
        self.cause = None;
        self.drains = false;
        self.progress();
    }

    pub(super) fn progress(&mut self) {
        self.progress_ms = self.active_ms;
        self.recoveries = 0;
    }

    pub(super) fn steps_in(&self, stage: StepStage) -> Vec<u32> {
        let steps = (0..).zip(&self.steps);
        steps
            .filter(|(_, step)| step.stage() == stage)
            .map(|(index, _)| index)
            .collect()
    }

    fn apply_to_steps(&mut self, event: &Event, at: i64) {
        match event {
            Event::StepStarted(started) => {
                let step = &mut self.steps[started.step as usize];
                step.set_stage(StepStage::Running);
                step.started_at = at;
            }
            Event::StepCompleted(completed) => {
                let step = &mut self.steps[completed.step as usize];
                step.set_stage(StepStage::Completed);
                step.ended_at = at;
                step.output = completed.output.clone();
                self.progress();
            }
            Event::StepFailed(failed) => {
                let step = &mut self.steps[failed.step as usize];
                step.set_stage(StepStage::Failed);
                step.ended_at = at;
                step.error = Some(failed.error.clone());
                self.progress();
            }
            Event::StepSkipped(skipped) => {
                let step = &mut self.steps[skipped.step as usize];
                step.set_stage(StepStage::Skipped);
                step.set_skip_reason(skipped.reason());
                step.ended_at = at;
            }
            Event::StepBlocked(blocked) => {
                let step = &mut self.steps[blocked.step as usize];
                step.set_stage(StepStage::Blocked);
                step.ended_at = at;
            }
            Event::StepReset(reset) => {
                if self
                    .cause
                    .as_ref()
                    .is_some_and(|cause| cause.step == Some(reset.step))
                {
                    self.cause = None;
                    self.drains = false;
                }
                let epoch = self.steps[reset.step as usize].epoch + 1;
                self.steps[reset.step as usize] = StepState {
                    epoch,
                    ..StepState::default()
                };
                self.evaluations
                    .retain(|evaluation| evaluation.step != reset.step);
                self.artifacts
                    .retain(|artifact| artifact.created.unit.is_none_or(|unit| unit.step != reset.step));
                self.is_verifying = false;
            }
            Event::StepMemoized(memo) => {
                let step = &mut self.steps[memo.step as usize];
                step.set_stage(StepStage::Completed);
                step.ended_at = at;
                step.output = memo.output.clone();
                step.units = memo.units.iter().map(memoized).collect();
            }
            _ => unreachable!("{event:?} is not about a step"),
        }
    }

    fn apply_to_units(&mut self, event: &Event) {
        match event {
            Event::EvaluationRequested(requested) => {
                self.n_evaluations = requested.evaluation;
                self.evaluations.push(PendingEvaluation {
                    evaluation: requested.evaluation,
                    step: requested.unit.step,
                    index: requested.unit.index,
                    expression: requested.expression.clone(),
                });
                // An iteration that completed stays so while its condition is asked.
                let unit = self.unit_mut(requested.unit);
                if unit.stage() == UnitStage::Ready {
                    unit.set_stage(UnitStage::Live);
                }
            }
            Event::Evaluated(evaluated) => {
                let at = self
                    .evaluations
                    .iter()
                    .position(|one| one.evaluation == evaluated.evaluation);
                let pending = self.evaluations.remove(at.expect("it was asked for"));
                let unit = &mut self.steps[pending.step as usize].units[pending.index as usize];
                if unit.stage() == UnitStage::Live {
                    unit.set_stage(UnitStage::Judged);
                }
                if evaluated.error.is_empty() {
                    unit.goes_on = Some(evaluated.value);
                }
            }
            Event::ToolsAsked(asked) => self.tools_asked(asked),
            Event::UnitMemoized(memo) => self.unit_memoized(memo),
            Event::ToolCalled(called) => self.tool_called(called),
            Event::ToolOutput(output) => self.tool_output(output),
            Event::StepRetrying(retrying) => self.unit_retries(retrying),
            Event::UnitFailed(failed) => {
                let unit = self.unit_mut(failed.unit);
                unit.set_stage(UnitStage::Failed);
                unit.error = Some(failed.error.clone());
                self.progress();
            }
            Event::ChildRunStarted(started) => {
                let unit = self.unit_mut(started.unit);
                unit.set_stage(UnitStage::Live);
                unit.attempts += 1;
                unit.child = started.run_id.clone();
                unit.child_input = Some(started.input.clone());
                self.give_to_child(started);
            }
            Event::ChildRunEnded(ended) => self.child_ended(ended),
            _ => unreachable!("{event:?} is not about a unit"),
        }
    }

    fn tool_called(&mut self, called: &ToolCalled) {
        if called.unit.is_verification() {
            if let Some(artifact) = self.looked_at(called.unit) {
                artifact.attempts = called.attempt;
                artifact.again_at = 0;
                artifact.live = Some(called.clone());
            }
            return;
        }
        let unit = self.unit_mut(called.unit.of_step());
        unit.set_stage(UnitStage::Live);
        match called.unit.is_safety_check() {
            true => unit.checks = called.attempt,
            false => unit.attempts = called.attempt,
        }
        if !called.unit.is_safety_check() {
            unit.result_key = called.result_key.clone();
            unit.memo_of = Bytes::new();
        }
        unit.live = Some(called.clone());
        unit.awaits_budget = false;
        self.reserve(called);
    }

    fn tool_output(&mut self, output: &ToolOutput) {
        if output.unit.is_verification() {
            if let Some(artifact) = self.looked_at(output.unit) {
                artifact.live = None;
            }
            return;
        }
        let runs = self.steps[output.unit.step as usize].stage() == StepStage::Running;
        let live = self.unit_mut(output.unit.of_step()).live.take();
        if let Some(live) = &live {
            self.settle_usage(live, output);
        }
        let is_effect = live.as_ref().is_some_and(|live| live.effect().is_effect());
        let unit = self.unit_mut(output.unit.of_step());
        if output.unit.is_safety_check() {
            unit.checked_digest = live.map_or_else(Bytes::new, |live| live.subject_digest);
            unit.is_cleared = output.is_safe;
            unit.set_stage(UnitStage::Ready);
            return self.progress();
        }
        unit.set_class(output.class());
        unit.error = output.error.clone();
        if output.class() == OutcomeClass::Completed {
            unit.set_stage(UnitStage::Completed);
            // RUN-3.1, RUN-4.8: what comes after the step's end changes its result no more.
            if runs || planted::is_on(Bug::RunLateItemCounts) {
                unit.output = output.output.clone();
                unit.pause = output.pause;
                unit.patches = output.patches;
            } else if is_effect {
                // RUN-12.14
                unit.late_output = output.output.clone();
            }
            self.progress();
        } else {
            unit.set_stage(UnitStage::Judged);
        }
    }
}
