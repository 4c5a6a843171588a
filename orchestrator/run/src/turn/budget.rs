//! What a run may still spend: whether an attempt is intended, waits, or asks for more.

use super::Turn;
use super::contract::Rendered;
use super::planning::planner_failure;
use crate::budget::{Budget, BudgetKind, Exhausted};
use crate::fields::field;
use crate::journal::{
    BudgetAwaited, BudgetWarning, Event, Extension, Failure, InputRequest, OutcomeClass, RequestKind,
    ToolCalled, UnitRef, Usage, Verdict,
};
use crate::outcome::{AttemptOutcome, cut};
use crate::spec::EffectClass;
use crate::state::{RunState, StepStage, StepState, UnitStage};
use alloc::format;
use alloc::string::String;
use escapement_model::limits::LABEL_CHARS_MAX;
use escapement_model::opaque::ValueView;
use escapement_model::planted::{self, Bug};

/// Whether there is enough for an attempt.
enum Enough {
    Yes,
    /// Attempts in flight may give back what they reserved.
    Perhaps(BudgetKind),
    No(BudgetKind),
}

impl RunState {
    // RUN-13.7
    /// The limit of this kind as it is now, with what people gave in addition.
    pub fn budget_limit(&self, kind: BudgetKind) -> Option<u64> {
        let limit = self.spec.budget.as_ref()?.limit(kind)?;
        let extensions = self.budget_extensions.get(kind.place()).copied().unwrap_or(0);
        Some(limit.saturating_mul(u64::from(extensions) + 1))
    }

    /// What all attempts used; of those in flight what they reserved.
    pub fn used(&self) -> Usage {
        self.usage.unwrap_or_default()
    }

    /// True if an attempt in flight may give something of this kind back.
    fn gives_back(&self, kind: BudgetKind) -> bool {
        let running = self
            .steps
            .iter()
            .filter(|step| step.stage() == StepStage::Running);
        let mut live = running
            .flat_map(StepState::all_units)
            .filter_map(|(_, unit)| unit.live.as_ref());
        live.any(|live| live.reservation().of(kind) > 0) || self.given_to_children().of(kind) > 0
    }

    // RUN-13.11
    /// What child runs that live may spend.
    fn given_to_children(&self) -> Usage {
        let running = self
            .steps
            .iter()
            .filter(|step| step.stage() == StepStage::Running);
        let given = running
            .flat_map(|step| &step.units)
            .filter_map(|unit| unit.child_reserved);
        given.fold(Usage::default(), |all, one| all.plus(&one))
    }
}

impl ToolCalled {
    /// What the attempt is taken to use until it ends.
    pub fn reservation(&self) -> Usage {
        self.reserved.unwrap_or(Usage {
            tool_calls: 1,
            ..Usage::default()
        })
    }
}

impl Turn<'_> {
    /// True if the action asks a language model.
    fn is_model(&self, action: &str) -> bool {
        *action == self.state.spec.llm_action || self.effect_of(action) == EffectClass::Llm
    }

    // RUN-13.8
    /// What an attempt that asks a model reserves; `None` for any other, which reserves one call of a tool.
    pub(super) fn reserved(&self, rendered: &Rendered) -> Option<Usage> {
        self.is_model(&rendered.action)
            .then(|| self.reserved_by_model(rendered))
    }

    fn reserved_by_model(&self, rendered: &Rendered) -> Usage {
        match &self.state.spec.budget {
            Some(_) if planted::is_on(Bug::RunReservationSmall) => Budget::default().reserved("", 0),
            Some(budget) => budget.reserved(model_of(rendered.payload.as_encoded()), rendered.payload.len()),
            None => Budget::default().reserved("", 0),
        }
    }

    /// The model that the attempt asks; empty if it asks none or names none.
    pub(super) fn model_asked(&self, rendered: &Rendered) -> String {
        match self.is_model(&rendered.action) {
            true => cut(model_of(rendered.payload.as_encoded()), LABEL_CHARS_MAX),
            false => String::new(),
        }
    }

    // RUN-13.7
    /// True if the attempt may be intended now. If not, the unit waits, asks for more, or fails.
    pub(super) fn has_budget(&mut self, unit: UnitRef, rendered: &Rendered) -> bool {
        let needed = self.reserved(rendered).unwrap_or(Usage {
            tool_calls: 1,
            ..Usage::default()
        });
        self.has_budget_for(unit, &needed)
    }

    /// True if so much may be used now. If not, the unit waits, asks for more, or fails.
    pub(super) fn has_budget_for(&mut self, unit: UnitRef, needed: &Usage) -> bool {
        match self.enough(needed) {
            Enough::Yes => true,
            Enough::Perhaps(kind) => {
                self.await_budget(unit, kind);
                false
            }
            Enough::No(kind) => {
                self.ask_for_budget(unit, kind);
                false
            }
        }
    }

    fn enough(&self, needed: &Usage) -> Enough {
        if self.state.spec.budget.is_none() || planted::is_on(Bug::RunBudgetIgnored) {
            return Enough::Yes;
        }
        let with = self.state.used().plus(needed);
        let lacks = |kind: &BudgetKind| {
            let limit = self.state.budget_limit(*kind);
            needed.of(*kind) > 0 && limit.is_some_and(|limit| with.of(*kind) > limit)
        };
        match BudgetKind::ALL.into_iter().find(lacks) {
            None => Enough::Yes,
            Some(kind) if self.state.gives_back(kind) => Enough::Perhaps(kind),
            Some(kind) => Enough::No(kind),
        }
    }

    /// Writes down once that the unit waits; it is looked at again whenever the run goes on. A retry that is due waits anew,
    /// whatever an earlier attempt waited for.
    fn await_budget(&mut self, unit: UnitRef, kind: BudgetKind) {
        let state = self.unit(unit);
        if !state.awaits_budget || state.stage() == UnitStage::BackingOff {
            let kind = kind.into();
            self.emit(Event::BudgetAwaited(BudgetAwaited { unit, kind }));
        }
    }

    // RUN-13.9
    fn ask_for_budget(&mut self, unit: UnitRef, kind: BudgetKind) {
        let message = self.is_used_up(kind);
        if !self.may_ask_for_budget() {
            return self.unit_fails(unit, BUDGET_EXHAUSTED, &message);
        }
        let is_of_budget = |request: &InputRequest| request.kind() == RequestKind::BudgetExtension;
        if self.state.open_requests().any(is_of_budget) {
            return self.await_budget(unit, kind);
        }
        let error = Failure::of_step(unit.step, BUDGET_EXHAUSTED, &message);
        self.request_budget(Some(unit), kind, error);
    }

    fn may_ask_for_budget(&self) -> bool {
        let budget = self.state.spec.budget.as_ref();
        let asks = budget.is_some_and(|budget| budget.exhausted() == Exhausted::Ask);
        asks && !self.state.budget_denied
    }

    fn is_used_up(&self, kind: BudgetKind) -> String {
        let (used, limit) = self.used_of(kind);
        let what = kind.as_str();
        format!("{used} of {limit} {what} are used, and the next attempt needs more than is left")
    }

    fn used_of(&self, kind: BudgetKind) -> (u64, u64) {
        let limit = self.state.budget_limit(kind).unwrap_or(0);
        (self.state.used().of(kind), limit)
    }

    /// Asks whether the run may have as much again. Without a unit it is the planner that needs it.
    fn request_budget(&mut self, unit: Option<UnitRef>, kind: BudgetKind, error: Failure) {
        let ((used, limit), what) = (self.used_of(kind), kind.as_str());
        let limit_ms = self.state.spec.limits.question_ms;
        let extensions = self.state.budget_extensions.get(kind.place()).copied();
        let given = u64::from(extensions.unwrap_or(0)) + 1;
        let extension = Extension {
            used,
            limit,
            extended: (limit / given).saturating_add(limit),
        };
        let request = InputRequest {
            action: unit.map_or_else(String::new, |unit| self.action_of(unit)),
            question: format!(
                "The run has used up its budget of {what} ({used} of {limit}). May it have as much again?"
            ),
            error: Some(error),
            budget: Some(kind.into()),
            ..self.request_of(RequestKind::BudgetExtension, unit, limit_ms)
        };
        let request = self.extending(request, extension);
        self.emit(Event::InputRequested(request));
    }

    // RUN-13.8
    /// What an attempt of the planner reserves, and the model that it asks.
    pub(super) fn reserved_for_plan(&self, called: &Rendered) -> (Usage, String) {
        let model = cut(model_of(called.payload.as_encoded()), LABEL_CHARS_MAX);
        (self.reserved_by_model(called), model)
    }

    // RUN-13.7, RUN-13.9
    /// True if the planner may be asked now. If not, a person is asked, or the generation fails. Nothing else is in flight.
    pub(super) fn has_budget_for_plan(&mut self, needed: &Usage) -> bool {
        if planted::is_on(Bug::RunPlannerUnbudgeted) {
            return true;
        }
        let kind = match self.enough(needed) {
            Enough::Yes => return true,
            Enough::Perhaps(kind) | Enough::No(kind) => kind,
        };
        let message = self.is_used_up(kind);
        match self.may_ask_for_budget() {
            true => self.request_budget(None, kind, planner_failure(BUDGET_EXHAUSTED, &message)),
            false => self.generation_fails(Verdict::OutOfBudget, BUDGET_EXHAUSTED, &message),
        }
        false
    }

    // RUN-13.9
    /// The budget is not extended for the planner.
    pub(super) fn planner_goes_without(&mut self, request: &InputRequest) {
        let error = request.error.clone().expect("it was asked about what is used up");
        self.generation_fails(Verdict::OutOfBudget, &error.code, &error.message);
    }

    // RUN-13.8
    /// What an attempt that asked a model used: what its output says. If it says nothing, or nobody knows how it ended, what it
    /// reserved; nothing of one that never ran or failed, but the call.
    pub(super) fn used_by(&self, live: &ToolCalled, outcome: &AttemptOutcome) -> Option<Usage> {
        let reserved = live.reserved?;
        let call = Usage {
            llm_calls: 1,
            ..Usage::default()
        };
        Some(match outcome.class {
            OutcomeClass::Completed => {
                let said = outcome.output.as_ref().and_then(Usage::said_in);
                let price = |said| match &self.state.spec.budget {
                    Some(_) if planted::is_on(Bug::RunCostForgotten) => Budget::default().priced("", said),
                    Some(budget) => budget.priced(&live.model, said),
                    None => Budget::default().priced("", said),
                };
                said.map_or(reserved, price)
            }
            OutcomeClass::TimedOut | OutcomeClass::Unknown => reserved,
            OutcomeClass::FailedForGood if outcome.code == OUTPUT_INVALID => reserved,
            OutcomeClass::Failed | OutcomeClass::FailedForGood | OutcomeClass::ApprovalRequired => call,
            OutcomeClass::NeverRan => Usage::default(),
        })
    }

    // RUN-13.11
    /// One of each part that has a limit: a child run is not started for less.
    pub(super) fn needed_by_child(&self) -> Usage {
        self.of_limited_parts(|limit, _| limit.min(1))
    }

    // RUN-13.11
    /// What a child run that starts now may spend: all that is left of each part that has a limit.
    pub(super) fn left_for_child(&self) -> Option<Usage> {
        self.state.spec.budget.as_ref()?;
        Some(self.of_limited_parts(u64::saturating_sub))
    }

    /// What follows from the limit and from what is used, for each part that has a limit.
    fn of_limited_parts(&self, amount: fn(u64, u64) -> u64) -> Usage {
        let used = self.state.used();
        let part = |kind| match self.state.budget_limit(kind) {
            Some(limit) => amount(limit, used.of(kind)),
            None => 0,
        };
        Usage {
            llm_calls: part(BudgetKind::LlmCalls),
            tool_calls: part(BudgetKind::ToolCalls),
            total_tokens: part(BudgetKind::Tokens),
            cost_micros: part(BudgetKind::Cost),
            ..Usage::default()
        }
    }

    // RUN-13.11
    /// The budget of the child run of a unit.
    pub(super) fn budget_of_child(&self, unit: UnitRef) -> Option<Budget> {
        if planted::is_on(Bug::RunChildUnbudgeted) {
            return None;
        }
        let reserved = self.unit(unit).child_reserved?;
        let budget = self.state.spec.budget.as_ref()?;
        Some(budget.of_child(&reserved))
    }

    // RUN-13.11
    /// What is written down of what a child run used.
    pub(super) fn settled_by_child(&self, unit: UnitRef, used: Option<Usage>) -> Option<Usage> {
        self.unit(unit).child_reserved?;
        match planted::is_on(Bug::RunChildFree) {
            true => Some(Usage::default()),
            false => used,
        }
    }

    // RUN-13.11
    /// What the entry of the end of a child run says that it used.
    pub(super) fn spent_with(&self, event: &Event) -> Option<Usage> {
        let spec = &self.state.spec;
        let is_told = event.is_end() && !spec.parent_run_id.is_empty() && spec.budget.is_some();
        is_told.then(|| self.state.used())
    }

    // RUN-13.10
    /// Warns once of each limit that is nearly reached.
    pub(super) fn warn_of_budget(&mut self) {
        let Some(percent) = self.state.spec.budget.as_ref().map(|budget| budget.warn_percent) else {
            return;
        };
        for kind in BudgetKind::ALL {
            let Some(limit) = self.state.budget_limit(kind) else {
                continue;
            };
            // RUN-13.11: what a child may spend, it has not used yet.
            let given = self.state.given_to_children().of(kind);
            let used = self.state.used().of(kind).saturating_sub(given);
            let is_near = u128::from(used) * 100 >= u128::from(limit) * u128::from(percent);
            if is_near && self.state.budget_warned & (1 << kind.place()) == 0 {
                let kind = kind.into();
                self.emit(Event::BudgetWarning(BudgetWarning { kind, used, limit }));
            }
        }
    }
}

/// The model that a payload names; empty if it names none.
pub(super) fn model_of(payload: &[u8]) -> &str {
    match field(payload, "model") {
        Some(ValueView::Text(model)) => model,
        _ => "",
    }
}

/// The code of an answer that is too large to be looked at.
const OUTPUT_INVALID: &str = "OUTPUT_INVALID";
const BUDGET_EXHAUSTED: &str = "BUDGET_EXHAUSTED";
