//! Section 11: how a run comes to its plans. What a planner says is told by the number of a plan; whether that plan may run is
//! decided here.

use super::misreading::Misreading;
use super::plan::{Kind, Plan, Planner};
use super::run::{RequestState, Run, Step, UnitState};
use super::words::{Code, Command, End, Outcome, Reason, RequestKind, StepState, Value};

/// How a run stands with its planner.
#[derive(Clone, Debug, Default)]
pub struct Planning {
    /// True from when a plan is wanted until it is made.
    pub is_wanted: bool,
    /// Generations that began.
    pub n_generations: u32,
    /// The one under way.
    pub open: Option<Generation>,
    /// True once a generation had no time left.
    pub is_too_slow: bool,
    /// Why the last plan failed; none if there was none, or a person wanted another one.
    pub failure: Option<Code>,
    /// Which of the planner's plans is executed.
    pub made: Option<usize>,
    /// Which of them a person has approved.
    pub approved: Vec<usize>,
}

/// A question to the planner.
#[derive(Clone, Copy, Debug)]
pub struct Generation {
    /// Milliseconds of activity before it.
    pub began_ms: u64,
    /// What may be called is known.
    pub knows_actions: bool,
    /// Attempts so far.
    pub n_attempts: u32,
    /// True while the last of them lives.
    pub is_asked: bool,
}

impl Generation {
    fn is_in_flight(&self) -> bool {
        !self.knows_actions || self.is_asked
    }
}

impl Run {
    fn planner(&self) -> Option<&Planner> {
        self.limits.planner.as_ref()
    }

    /// RUN-11.2.
    pub(super) fn has_generation_left(&self) -> bool {
        let n_generations = self.planning.n_generations;
        self.planner()
            .is_some_and(|planner| n_generations < planner.max_generations && !self.planning.is_too_slow)
    }

    pub(super) fn plans(&self) -> bool {
        self.planning.open.is_some_and(|open| open.is_in_flight())
    }

    /// RUN-11.1, RUN-11.2: begins the next generation, or gives up. Returns whether anything changed.
    pub(super) fn plan_ahead(&mut self) -> bool {
        if let Some(open) = self.planning.open {
            if open.is_in_flight() {
                return false;
            }
            self.ask_planner();
            return true;
        }
        if !self.has_generation_left() {
            self.planning.is_wanted = false;
            // RUN-11.9
            let code = self.planning.failure.unwrap_or("PLANNING_ERROR");
            self.fall_back(code);
            return true;
        }
        if let Some(limit) = self.limit_that_is_near() {
            self.time_out(limit);
            return true;
        }
        self.planning.n_generations += 1;
        self.planning.open = Some(Generation {
            began_ms: self.active_ms,
            knows_actions: false,
            n_attempts: 0,
            is_asked: false,
        });
        self.commands
            .push(Command::ListActions(self.planning.n_generations));
        true
    }

    /// RUN-11.3.
    pub(super) fn listed(&mut self, generation: u32) {
        if generation == self.planning.n_generations
            && let Some(open) = self.planning.open.as_mut()
            && !open.knows_actions
        {
            open.knows_actions = true;
            self.ask_planner();
        }
    }

    fn ask_planner(&mut self) {
        let left_ms = self.generation_left_ms().unwrap_or(0);
        // RUN-7.4
        let is_too_late = left_ms < 50 || self.limit_that_is_near().is_some();
        let Some(open) = self.planning.open.as_mut() else {
            return;
        };
        // RUN-11.2
        if self.wants_pause {
            return;
        }
        if is_too_late {
            return self.generation_is_over();
        }
        open.n_attempts += 1;
        open.is_asked = true;
        let asked = Command::AskPlanner(self.planning.n_generations, open.n_attempts);
        self.commands.push(asked);
    }

    /// RUN-11.2: what is left of the time of the generation under way.
    pub(super) fn generation_left_ms(&self) -> Option<u64> {
        let (open, planner) = (self.planning.open?, self.planner()?);
        Some((open.began_ms + planner.limit_ms).saturating_sub(self.active_ms))
    }

    /// RUN-11.2: the time of the generation is over, and so would be that of another one.
    pub(super) fn generation_is_over(&mut self) {
        self.planning.open = None;
        self.planning.is_too_slow = true;
    }

    /// RUN-11.2, RUN-11.6: an attempt of a generation ended.
    pub(super) fn planner_settled(&mut self, generation: u32, attempt: u32, outcome: &Outcome) {
        let Some(open) = self.planning.open.filter(|open| open.is_asked) else {
            return;
        };
        if (generation, attempt) != (self.planning.n_generations, open.n_attempts) {
            return;
        }
        let asks_again = match outcome {
            Outcome::NeverRan(_) | Outcome::Unknown { .. } => open.n_attempts < ATTEMPTS_MAX,
            _ => false,
        };
        if asks_again && !self.reads(Misreading::LostGenerationsAreOver) {
            self.planning.open = Some(Generation {
                is_asked: false,
                ..open
            });
            return self.ask_planner();
        }
        self.planning.open = None;
        if let Outcome::Completed(Value::Number(number)) = outcome
            && let Some(plan) = usize::try_from(*number)
                .ok()
                .and_then(|number| self.may_run(number))
        {
            self.begin_plan(plan);
        }
    }

    /// RUN-11.6: nothing in it is disabled.
    fn may_run(&self, number: usize) -> Option<usize> {
        let plan = self.planner()?.plans.get(number)?;
        let is_out = |step: &super::plan::Step| match &step.kind {
            Kind::Call(action) => self.given_up.contains(action),
            _ => false,
        };
        let is_misread = self.reads(Misreading::DisabledActionsArePlanned);
        (is_misread || !plan.steps.iter().any(is_out)).then_some(number)
    }

    /// RUN-11.7: it is the next revision.
    fn begin_plan(&mut self, number: usize) {
        let plan = self.planner().expect("somebody made it").plans[number].clone();
        self.planning.is_wanted = false;
        self.planning.made = Some(number);
        self.begin_revision(plan);
        // RUN-6.1, RUN-12.2
        if self.limits.autonomy == 1 && !self.planning.approved.contains(&number) {
            self.is_approved = false;
            self.ask(RequestKind::PlanApproval, None);
        }
    }

    /// RUN-12.1, RUN-12.6: the steps of another plan, in a later epoch, with what the one before came to.
    pub(super) fn begin_revision(&mut self, plan: Plan) {
        self.close_all();
        for step in 0..self.steps.len() {
            if let (Kind::Call(action), [unit]) = (&self.plan.steps[step].kind, &self.steps[step].units[..])
                && let UnitState::Completed(output) = &unit.state
            {
                self.results.push((*action, output.clone()));
            }
        }
        let epoch = self.steps.iter().map(|step| step.epoch + 1).max().unwrap_or(0);
        self.steps = plan.steps.iter().map(|_| Step::pending(epoch)).collect();
        self.first_epoch = epoch;
        self.plan = plan;
        self.n_revisions += 1;
        self.failing = None;
        self.is_checkpoint_old = true;
        if !self.reads(Misreading::FallbackKeepsTheClock) {
            self.revision_began_ms = self.active_ms;
        }
        self.progress();
    }

    /// RUN-11.8: another plan is wanted. What is open of this one is closed.
    pub(super) fn replan(&mut self, failure: Option<Code>) {
        self.close_all();
        self.planning.is_wanted = true;
        self.planning.failure = failure;
        self.is_approved = true;
        self.failing = None;
        self.progress();
    }

    /// RUN-10.3: what has not ended is skipped, and nobody is asked any more.
    pub(super) fn close_all(&mut self) {
        for step in 0..self.steps.len() {
            if self.steps[step].has_ended() {
                continue;
            }
            self.cancel_children(step);
            let step = &mut self.steps[step];
            step.state = StepState::Skipped;
            step.reason = Some(Reason::RunEnded);
        }
        for request in &mut self.requests {
            if request.state == RequestState::Open {
                request.state = RequestState::Closed;
            }
        }
    }

    /// RUN-11.8, RUN-11.9: what follows once a revision has failed. Returns whether the run goes on.
    pub(super) fn revision_failed(&mut self, code: Code) -> bool {
        let gives_up = self.reads(Misreading::FailedPlansAreFinal);
        if self.has_generation_left() && !gives_up {
            self.replan(Some(code));
            return true;
        }
        self.fall_back(code)
    }

    /// RUN-6.8, RUN-11.8: a person wants another plan than the one that waits.
    pub(super) fn sent_back(&mut self) {
        match self.has_generation_left() {
            true => self.replan(None),
            false => self.end_with(End::Cancelled("plan_rejected")),
        }
    }
}

/// RUN-11.2.
const ATTEMPTS_MAX: u32 = 4;
