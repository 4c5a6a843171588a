//! What a run does, held against what could be told before it began.

use super::Desk;
use super::book::{Book, Stage};
use crate::journal::{Asked, Called, Event};

/// What a preview says of a run.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// Attempts at most.
    pub attempts: u64,
    /// Of them, turns of models.
    pub model_calls: u64,
    /// Of them, tools that models call.
    pub tool_calls: u64,
    /// Child runs at most.
    pub children: u64,
    /// Milliseconds of active time at most.
    pub active_ms: u64,
    /// True if the plan as a whole is approved first.
    pub plan_approval: bool,
    /// Keys of the steps that wait for an approval.
    pub gates: Vec<String>,
    /// Keys of the steps that ask a question.
    pub questions: Vec<String>,
}

/// What a run has done since something was promised.
#[derive(Debug, Default)]
pub(super) struct Doings {
    n_attempts: u64,
    n_model_calls: u64,
    n_tool_calls: u64,
    n_children: u64,
    active_ms: u64,
    promised: Option<Bounds>,
    /// Attempts that a preview does not count.
    pub(super) n_uncounted: u64,
    /// A person has added some.
    pub(super) are_open: bool,
    /// The run was taken up by another process.
    is_taken_up: bool,
    /// The run looks at artifacts, which takes time that no preview counts.
    pub(super) looks: bool,
}

impl Doings {
    /// With an entry that begins a plan there is another promise, and all is counted anew.
    pub(super) fn are_promised(&mut self, desk: &Desk<'_>) {
        *self = Self {
            promised: desk.promised.clone(),
            ..Self::default()
        };
    }

    /// What is promised and was not made more by a person.
    fn bounds(&self) -> Option<&Bounds> {
        self.promised.as_ref().filter(|_| !self.are_open)
    }

    // RI8
    fn check(&self, n: u64, what: &str, most: impl Fn(&Bounds) -> u64, desk: &mut Desk<'_>) {
        let Some(most) = self.bounds().map(most) else {
            return;
        };
        desk.count("doings within a certificate");
        let most = most + self.n_uncounted;
        if n > most {
            desk.finds("RI8", &format!("{what} {n} of {most} that were promised"));
        }
    }

    pub(super) fn makes_child(&mut self, desk: &mut Desk<'_>) {
        self.n_children += 1;
        self.check(self.n_children, "child", |bounds| bounds.children, desk);
    }
}

impl Book {
    // RI8
    /// An attempt is one of those that there may be.
    pub(super) fn check_bounds(&mut self, called: &Called, desk: &mut Desk<'_>) {
        let unit = called.unit;
        let doings = &mut self.doings;
        doings.n_attempts += 1;
        if doings.bounds().is_some() {
            desk.count("attempts within a certificate");
        }
        doings.check(doings.n_attempts, "attempt", |bounds| bounds.attempts, desk);
        let is_model = self
            .steps
            .get(unit.step as usize)
            .is_some_and(|step| step.kind == "llm_decision");
        if !is_model || unit.is_check() {
            return;
        }
        if unit.is_tool_call() {
            doings.n_tool_calls += 1;
            doings.check(doings.n_tool_calls, "tool call", |bounds| bounds.tool_calls, desk);
        } else {
            doings.n_model_calls += 1;
            doings.check(
                doings.n_model_calls,
                "model call",
                |bounds| bounds.model_calls,
                desk,
            );
        }
    }

    // RI8
    /// Who is asked is among those who were named. What a handler wants, and what went wrong, is not.
    pub(super) fn check_asked(&self, asked: &Asked, desk: &mut Desk<'_>) {
        let Some(bounds) = self.doings.bounds().filter(|_| !asked.has_error) else {
            return;
        };
        let step = asked.unit.and_then(|unit| self.steps.get(unit.step as usize));
        let is_promised = match (asked.kind, step) {
            (0, Some(step)) => bounds.questions.contains(&step.key),
            (1, Some(step)) => bounds.gates.contains(&step.key),
            (1, None) if self.fell_back => bounds.gates.iter().any(|key| key == FALLBACK),
            (1, None) => bounds.plan_approval,
            _ => return,
        };
        desk.count("questions within a certificate");
        if !is_promised {
            let key = step.map_or("the plan", |step| &step.key);
            desk.finds("RI8", &format!("{key} asks, which was not promised"));
        }
    }

    // RI8
    /// Active time passes until an entry. What a planner makes has other bounds, and a run that was taken up waited for that.
    pub(super) fn passes(&mut self, passed_ms: u64, event: &Event, desk: &mut Desk<'_>) {
        if matches!(event, Event::Recovered { .. }) {
            self.doings.is_taken_up = true;
            return;
        }
        if !self.is_active() {
            return;
        }
        self.doings.active_ms += passed_ms;
        let doings = &self.doings;
        let is_told = doings.n_uncounted == 0 && self.spec.generation_ms == 0;
        let is_bounded = is_told && !doings.is_taken_up && !doings.looks;
        let Some(bounds) = doings.bounds().filter(|_| is_bounded) else {
            return;
        };
        desk.count("times within a certificate");
        if doings.active_ms > bounds.active_ms + PATIENCE_MS {
            let (active_ms, most) = (doings.active_ms, bounds.active_ms);
            desk.finds(
                "RI8",
                &format!("is active for {active_ms} ms of {most} that were promised"),
            );
        }
    }

    fn is_active(&self) -> bool {
        let running = || self.steps.iter().filter(|step| step.stage == Stage::Running);
        let mut units = running().flat_map(|step| step.units.values());
        let is_under_way = !self.evaluations.is_empty()
            || units.any(|unit| unit.live.is_some() || unit.child.is_some() || unit.retry_at.is_some());
        let waits = self.requests.values().any(|request| request.open) && !is_under_way;
        self.is_under_way() && !waits
    }
}

/// The key of the step that calls a fallback.
const FALLBACK: &str = "fallback";
/// How much later than it is due something may come about, as processes are away and messages late.
const PATIENCE_MS: u64 = 10_000;
