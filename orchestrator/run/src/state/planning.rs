//! How plans are made, as a part of the state, and what the entries about that change.

use super::{RunState, Stage, StepState};
use crate::journal::{
    CompletedStep, Event, FailedStep, Failure, GenerationEnded, RefusedPart, ReplanTriggered, Stored,
    ToolCalled, ToolOutput, Verdict,
};
use crate::spec::ActionProfile;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::planted::{self, Bug};
use prost::Message;

/// How plans are made.
#[derive(Clone, PartialEq, Message)]
pub struct Planning {
    /// Generations that were started.
    #[prost(uint32, tag = "1")]
    pub generation: u32,
    /// True while the newest one is under way.
    #[prost(bool, tag = "2")]
    pub is_open: bool,
    /// Active time at its beginning.
    #[prost(uint64, tag = "3")]
    pub began_ms: u64,
    /// Attempts of it.
    #[prost(uint32, tag = "4")]
    pub attempts: u32,
    /// The attempt that lives.
    #[prost(message, optional, tag = "5")]
    pub live: Option<ToolCalled>,
    /// What it may choose from: an encoded [`crate::catalogue::Catalogue`]. Absent until it is known.
    #[prost(message, optional, tag = "6")]
    pub catalogue: Option<Stored>,
    /// What became of the plans so far, the oldest first.
    #[prost(message, repeated, tag = "8")]
    pub previous: Vec<PreviousPlan>,
    /// Why the last plan came to its end; absent if none did, or a person wanted another one.
    #[prost(message, optional, tag = "9")]
    pub error: Option<Failure>,
    /// How often a further plan was wanted.
    #[prost(uint32, tag = "10")]
    pub replans: u32,
    /// The generation that made the plan at hand; 0 if no planner did.
    #[prost(uint32, tag = "11")]
    pub accepted: u32,
    /// What is known of actions that the run calls itself, sorted by name.
    #[prost(message, repeated, tag = "12")]
    pub own: Vec<ActionProfile>,
    /// True once a generation could not be paid for: no further one begins.
    #[prost(bool, tag = "13")]
    pub is_out_of_budget: bool,
    /// True once a generation ran out of its time: no further one begins, which would have the same.
    #[prost(bool, tag = "14")]
    pub took_too_long: bool,
}

impl Planning {
    /// True while a generation learns what it may choose from, or an attempt of it lives. One that is open and neither waits for its
    /// budget.
    pub fn is_in_flight(&self) -> bool {
        self.is_open && (self.live.is_some() || self.catalogue.is_none())
    }
}

/// What became of a plan, as the planner is told.
#[derive(Clone, PartialEq, Message)]
pub struct PreviousPlan {
    /// The generation that made it; 0 if no planner did.
    #[prost(uint32, tag = "1")]
    pub generation: u32,
    /// SHA-256 of the plan, 32 bytes; empty if it was none.
    #[prost(bytes = "bytes", tag = "2")]
    pub digest: Bytes,
    /// What is wrong with it.
    #[prost(message, repeated, tag = "3")]
    pub violations: Vec<RefusedPart>,
    /// Why there was no answer, or why the plan came to its end.
    #[prost(message, optional, tag = "4")]
    pub error: Option<Failure>,
    /// Steps that failed.
    #[prost(message, repeated, tag = "5")]
    pub failed: Vec<FailedStep>,
    /// Steps that completed.
    #[prost(message, repeated, tag = "6")]
    pub completed: Vec<CompletedStep>,
    /// What the person says who wanted another one.
    #[prost(string, tag = "7")]
    pub comment: String,
}

impl RunState {
    /// True as long as the run has no plan but the goal that one is to be made for.
    pub fn has_no_plan(&self) -> bool {
        self.revision_number == 0
    }

    /// True if the planner may be asked once more.
    pub fn has_generations_left(&self) -> bool {
        let planning = self.planning.as_ref();
        let started = planning.map_or(0, |planning| planning.generation);
        let is_out = |planning: &Planning| planning.is_out_of_budget || planning.took_too_long;
        let is_out = planning.is_some_and(is_out);
        let too_many = u32::from(planted::is_on(Bug::RunGenerationTooMany));
        let is_left = started < self.spec.limits.max_generations + too_many && !is_out;
        self.spec.planner.is_some() && is_left
    }

    // RUN-11.10
    /// True if another plan may follow if the one at hand fails: of the planner, or with an alternative of an action.
    pub fn can_replan(&self) -> bool {
        let substitutes = self.substitutions.len() < self.spec.limits.max_substitutions as usize;
        let is_left = |action: &String| self.disabled_actions.binary_search(action).is_err();
        let mut profiles = self.profiles.iter();
        let has_alternatives = profiles.any(|profile| profile.alternatives.iter().any(is_left));
        !self.stage().is_end() && (self.has_generations_left() || (substitutes && has_alternatives))
    }

    pub(super) fn apply_to_planning(&mut self, event: &Event) {
        let active_ms = self.active_ms;
        match event {
            Event::GenerationStarted(started) => {
                let planning = self.planning.get_or_insert_default();
                planning.generation = started.generation;
                planning.is_open = true;
                planning.began_ms = active_ms;
                planning.attempts = 0;
                planning.catalogue = None;
            }
            Event::CatalogueGiven(given) => {
                let planning = self.planning.get_or_insert_default();
                planning.catalogue = Some(given.catalogue.clone());
                planning.own.clone_from(&given.own);
            }
            Event::GenerationEnded(ended) => self.generation_ended(ended),
            // They only tell.
            Event::PlanSummary(_) | Event::FallbackUsed(_) => {}
            _ => unreachable!("{event:?} is not about planning"),
        }
    }

    fn generation_ended(&mut self, ended: &GenerationEnded) {
        let repeats = self.spec.asks_slow_planners_again();
        let planning = self.planning.get_or_insert_default();
        planning.is_open = false;
        planning.live = None;
        planning.is_out_of_budget |= ended.verdict() == Verdict::OutOfBudget;
        planning.took_too_long |= ended.verdict() == Verdict::TimedOut && !repeats;
        if ended.verdict() != Verdict::Accepted {
            planning.catalogue = None;
            planning.previous.push(PreviousPlan {
                generation: ended.generation,
                violations: ended.violations.clone(),
                error: ended.error.clone(),
                ..PreviousPlan::default()
            });
        }
    }

    // RUN-11.8
    /// A planner is asked for another plan, unless what takes its place is known already.
    pub(super) fn plan_wanted(&mut self, replan: &ReplanTriggered) {
        match replan.cause.as_str() {
            "substitution" => return,
            // RUN-11.11
            "fallback" => {
                self.fallback_of = Some(replan.error.clone());
                return;
            }
            _ => {}
        }
        let digest = self.revision.clone();
        let planning = self.planning.get_or_insert_default();
        planning.error = Some(replan.error.clone()).filter(|_| replan.cause == "planner");
        planning.replans += 1;
        planning.previous.push(PreviousPlan {
            generation: replan.generation,
            digest,
            violations: Vec::new(),
            error: Some(replan.error.clone()),
            failed: replan.failed.clone(),
            completed: replan.completed.clone(),
            comment: replan.comment.clone(),
        });
        self.cause = None;
        self.drains = false;
        self.set_stage(Stage::Planning);
        self.progress();
    }

    /// An attempt of a generation is intended.
    pub(super) fn planner_called(&mut self, called: &ToolCalled) {
        self.reserve(called);
        let planning = self.planning.get_or_insert_default();
        planning.attempts = called.attempt;
        planning.live = Some(called.clone());
    }

    /// An attempt of a generation ended; what it says is judged next.
    pub(super) fn planner_answered(&mut self, output: &ToolOutput) {
        if let Some(live) = self.planning.get_or_insert_default().live.take() {
            self.settle_usage(&live, output);
        }
    }

    // RUN-12.1
    /// The steps of a new revision. Their epochs go on behind those of the steps before, so that no attempt has the name of
    /// an earlier one.
    pub(super) fn steps_begin(&mut self, n_steps: u32) {
        let behind = |step: &StepState| {
            let untouched = StepState {
                epoch: step.epoch,
                ..StepState::default()
            };
            step.epoch + u32::from(*step != untouched)
        };
        let floor = self.steps.iter().map(behind).max().unwrap_or(0);
        self.epoch_floor = self.epoch_floor.max(floor);
        let step = StepState {
            epoch: self.epoch_floor,
            ..StepState::default()
        };
        self.steps = alloc::vec![step; n_steps as usize];
    }
}
