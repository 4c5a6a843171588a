//! How a run comes to its plans: generations of the planner, one after another, until one gives a plan or none is left.

mod asking;
mod known;

use super::Turn;
use super::dispatch::DISPATCH_MS_MIN;
use crate::catalogue::Catalogue;
use crate::input::Effect;
use crate::journal::{
    CatalogueGiven, Event, Failure, GenerationEnded, GenerationStarted, OutcomeClass, PlanCreated,
    PlanSummary, RefusedPart, ToolCalled, ToolOutput, Verdict,
};
use crate::outcome::{AttemptOutcome, cut};
use crate::plan::{Plan, Step};
use crate::planner::{Allowed, bounded, bounded_parts, judged};
use crate::spec::{ActionProfile, Planner};
use crate::state::{Planning, Stage};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::planted::{self, Bug};
use known::{disabled_for, profiles_of, was_seen};
use prost::Message;

impl Turn<'_> {
    /// True if the run was given its plan, false if a planner makes the first one.
    pub(crate) fn is_given_plan(&self) -> bool {
        self.state.spec.is_given_plan()
    }

    pub(super) fn planning(&self) -> Planning {
        self.state.planning.clone().unwrap_or_default()
    }

    /// True if the planner may be asked once more.
    pub(super) fn has_generations_left(&self) -> bool {
        self.state.has_generations_left()
    }

    fn planner(&self) -> Planner {
        let planner = self.state.spec.planner.as_deref().cloned();
        planner.expect("only runs with a planner make plans")
    }

    // RUN-11.2
    /// Begins the next generation if a plan is wanted and none is under way, or gives up. One that waited for its budget is asked.
    pub(super) fn plan_ahead(&mut self) {
        if self.state.stage() != Stage::Planning || self.state.pause_wanted {
            return;
        }
        let planning = self.planning();
        if planning.is_open {
            // RUN-13.9
            if !planning.is_in_flight() && !self.state.has_open_request() {
                self.ask_planner();
            }
            return;
        }
        if !self.has_generations_left() {
            return self.no_further_plan();
        }
        // RUN-7.4
        if self.remaining_ms() < DISPATCH_MS_MIN {
            return self.outer_limit_is_over();
        }
        let generation = self.planning().generation + 1;
        let parent = match self.state.has_no_plan() {
            true => Bytes::new(),
            false => self.state.revision.clone(),
        };
        self.emit(Event::GenerationStarted(GenerationStarted { generation, parent }));
        self.ask_for_catalogue(generation);
    }

    /// Has the actions listed that a plan may call.
    fn ask_for_catalogue(&mut self, generation: u32) {
        let (planner, spec) = (self.planner(), &self.state.spec);
        let own = [&planner.action, &spec.llm_action, &spec.safety_action].map(String::as_str);
        let own = own.into_iter().chain([spec.fallback_action()]);
        let own = own.filter(|action| !action.is_empty()).map(String::from);
        let own = own.collect();
        self.effect(Effect::Catalogue {
            generation,
            allowed: planner.catalogue,
            own,
        });
    }

    // RUN-11.3
    /// The actions that a plan may call are known: the planner is asked.
    pub(super) fn catalogue_given(
        &mut self,
        generation: u32,
        catalogue: Catalogue,
        mut own: Vec<ActionProfile>,
    ) {
        let planning = self.planning();
        let is_waited_for =
            planning.is_open && planning.generation == generation && planning.catalogue.is_none();
        if self.state.stage() != Stage::Planning || !is_waited_for {
            return;
        }
        let catalogue = bounded(catalogue, &self.planner());
        let (n_actions, n_left_out) = (catalogue.actions.len(), catalogue.n_left_out);
        own.sort_by(|one, other| one.action.cmp(&other.action));
        own.dedup_by(|one, other| one.action == other.action);
        own.truncate(OWN_MAX);
        let catalogue = self.store(Bytes::from(catalogue.encode_to_vec()));
        self.emit(Event::CatalogueGiven(CatalogueGiven {
            generation,
            catalogue,
            n_actions: u32::try_from(n_actions).expect("256 KiB hold fewer"),
            n_left_out,
            own,
        }));
        self.ask_planner();
    }

    fn catalogue(&self) -> Catalogue {
        let stored = self.planning().catalogue;
        let bytes = stored.map(|stored| self.load(&stored)).unwrap_or_default();
        Catalogue::decode(bytes).expect("it was encoded here")
    }

    // RUN-11.5
    /// An attempt of the generation at hand ended.
    pub(super) fn planner_settled(&mut self, live: &ToolCalled, outcome: AttemptOutcome) {
        let outcome = super::judge::bounded(outcome, live);
        let failed = outcome.class != OutcomeClass::Completed;
        let given = outcome.output.clone().filter(|_| !failed);
        let output = given.clone().map(|output| self.store(output));
        let usage = self.used_by(live, &outcome);
        let mistakes = bounded_parts(outcome.mistakes);
        self.emit(Event::ToolOutput(ToolOutput {
            unit: live.unit,
            attempt: live.attempt,
            class: outcome.class.into(),
            output,
            error: failed.then(|| planner_failure(&outcome.code, &outcome.message)),
            usage,
            mistakes: mistakes.clone(),
            ..ToolOutput::default()
        }));
        self.warn_of_budget();
        let asks_again = planted::is_on(Bug::RunPlannerAskedAgain) && live.attempt < ATTEMPTS_MAX;
        match outcome.class {
            OutcomeClass::Completed if asks_again => self.ask_planner(),
            OutcomeClass::Completed => self.judge_answer(&given.unwrap_or_default(), &mistakes),
            OutcomeClass::TimedOut => self.generation_is_over(),
            // RUN-11.2
            OutcomeClass::NeverRan | OutcomeClass::Unknown if live.attempt < ATTEMPTS_MAX => {
                self.ask_planner()
            }
            OutcomeClass::NeverRan
            | OutcomeClass::Unknown
            | OutcomeClass::Failed
            | OutcomeClass::FailedForGood
            | OutcomeClass::ApprovalRequired => {
                self.generation_fails(Verdict::Failed, &outcome.code, &outcome.message);
            }
        }
    }

    // RUN-11.5, RUN-11.6
    fn judge_answer(&mut self, output: &Bytes, mistakes: &[RefusedPart]) {
        let (planning, catalogue) = (self.planning(), self.catalogue());
        let disabled = disabled_for(self.state, &catalogue);
        let names = catalogue
            .actions
            .iter()
            .map(|action| action.profile.action.as_str());
        let allowed = Allowed {
            actions: names.collect(),
            preset: &self.state.spec.preset,
            constraints: &self.state.spec.constraints,
            catalogue: &catalogue,
            disabled: &disabled,
        };
        match judged(output, mistakes, &allowed) {
            Ok(plan) => {
                self.emit(Event::GenerationEnded(GenerationEnded {
                    generation: planning.generation,
                    verdict: Verdict::Accepted.into(),
                    digest: Bytes::copy_from_slice(&plan.digest),
                    ..GenerationEnded::default()
                }));
                self.planned(plan, &planning, &catalogue);
            }
            Err(violations) => {
                self.emit(Event::GenerationEnded(GenerationEnded {
                    generation: planning.generation,
                    verdict: Verdict::Refused.into(),
                    violations,
                    ..GenerationEnded::default()
                }));
            }
        }
    }

    // RUN-11.7
    /// Makes the revision of an accepted plan.
    fn planned(&mut self, plan: Plan, planning: &Planning, catalogue: &Catalogue) {
        let document = self.store(plan.document.as_encoded().clone());
        // RUN-12.6
        let results = self.results_to_carry(&BTreeSet::new());
        let doubts = self.open_doubts(&BTreeSet::new());
        let replaced = planning.previous.last().filter(|_| planning.replans > 0);
        let failed = replaced.map(|previous| previous.failed.iter().map(|step| step.key.clone()).collect());
        let fits = self.emit_plan(PlanCreated {
            number: self.state.revision_number + 1,
            digest: Bytes::copy_from_slice(&plan.digest),
            cause: String::from("planner"),
            profiles: profiles_of(&plan, catalogue, &planning.own),
            n_steps: u32::try_from(plan.steps.len()).expect("a plan has at most 1024 steps"),
            document,
            generation: planning.generation,
            parent: self
                .parent_digest()
                .map_or_else(Bytes::new, |parent| Bytes::copy_from_slice(&parent)),
            failed_steps: failed.unwrap_or_default(),
            disabled: self.state.disabled_actions.clone(),
            results,
            doubts,
        });
        self.revised = fits.then(|| Arc::new(plan));
    }

    // RUN-11.7
    /// Tells what a plan that was made just now will do, and asks whether it may.
    pub(super) fn begin_planned(&mut self) {
        let told = self.plan.steps.iter().take(STEPS_TOLD_MAX).map(told);
        let steps = told.collect();
        self.emit(Event::PlanSummary(PlanSummary {
            number: self.state.revision_number,
            n_steps: self.n_steps(),
            name: self.plan.name.clone(),
            steps,
        }));
        self.begin_revision();
    }

    /// The generation at hand took too long.
    pub(super) fn generation_is_over(&mut self) {
        let limit_ms = self.planner().limit_ms;
        let message = format!("the planner took more than {limit_ms} ms, its limit (--planner-limit-ms)");
        self.generation_fails(Verdict::TimedOut, "TOOL_TIMEOUT", &message);
    }

    pub(super) fn generation_fails(&mut self, verdict: Verdict, code: &str, message: &str) {
        self.emit(Event::GenerationEnded(GenerationEnded {
            generation: self.planning().generation,
            verdict: verdict.into(),
            error: Some(planner_failure(code, message)),
            ..GenerationEnded::default()
        }));
    }

    // RUN-11.9
    /// No generation is left, and no plan has reached the goal.
    fn no_further_plan(&mut self) {
        let planning = self.planning();
        let error = planning.error.unwrap_or_else(|| {
            let last = planning.previous.last();
            let why = last.map_or_else(
                || "the planner was not asked".to_string(),
                |last| match (&last.error, last.violations.first()) {
                    (Some(error), _) => format!("{}: {}", error.code, error.message),
                    (None, Some(part)) => format!("{}: {}: {}", part.path, part.code, part.message),
                    (None, None) if !last.comment.is_empty() => {
                        format!("another plan was wanted: {}", last.comment)
                    }
                    (None, None) => String::from("no reason was given"),
                },
            );
            let message = format!(
                "{} generations gave no plan that may run; the last one: {why}",
                planning.generation
            );
            planner_failure("PLANNING_ERROR", &message)
        });
        self.fail_with_fallback(error);
    }
}

pub(super) fn planner_failure(code: &str, message: &str) -> Failure {
    Failure {
        step: None,
        ..Failure::of_step(0, code, message)
    }
}

/// A step as a summary tells it.
fn told(step: &Step) -> String {
    let text = if step.description.is_empty() {
        &step.name
    } else {
        &step.description
    };
    cut(text, STEP_CHARS_TOLD)
}

/// Actions that a run calls itself.
const OWN_MAX: usize = 8;
/// Attempts of one generation: those that never ran, or were lost, are followed by another one.
const ATTEMPTS_MAX: u32 = 4;
/// Steps that a summary tells.
const STEPS_TOLD_MAX: usize = 64;
/// Code points of each of them.
const STEP_CHARS_TOLD: usize = 60;
