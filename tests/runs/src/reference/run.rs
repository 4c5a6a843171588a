//! A run as a whole: what is known of it, and what each input makes of it.

use super::misreading::Misreading;
use super::plan::{Action, Kind, Limits, Plan};
use super::planning::Planning;
use super::words::{
    AttemptId, Code, Command, End, Input, Limit, Outcome, Reason, RequestKind, Responder, Shown, StepState,
    UnitId, Value,
};

/// A run.
#[derive(Clone, Debug)]
pub struct Run {
    /// What it executes.
    pub plan: Plan,
    /// Its limits and policies.
    pub limits: Limits,
    /// What is read wrong, to see that it is noticed.
    pub misreading: Option<Misreading>,
    /// Now, in milliseconds.
    pub now: u64,
    /// When it was made.
    pub created_at: u64,
    /// True once it left the queue.
    pub is_admitted: bool,
    /// False while the plan needs an approval.
    pub is_approved: bool,
    /// True from a pause to a resume.
    pub wants_pause: bool,
    /// The failure that is to end it, if there is one.
    pub failing: Option<Failing>,
    /// The end.
    pub end: Option<End>,
    /// The steps in canonical order.
    pub steps: Vec<Step>,
    /// All requests, the newest last.
    pub requests: Vec<Request>,
    /// Which steps had completed at the last checkpoint.
    pub checkpoint: Option<Vec<bool>>,
    /// True if they are those of an earlier revision.
    pub is_checkpoint_old: bool,
    /// Checkpoints that were made.
    pub n_checkpoints: u32,
    /// Bytes of their data.
    pub checkpoint_bytes: usize,
    /// Pauses, rewinds and rollbacks.
    pub n_interventions: u32,
    /// Who makes plans, and where that stands.
    pub planning: Planning,
    /// How many plans took the place of another one.
    pub n_revisions: u32,
    /// The epoch in which the steps of this plan began.
    pub first_epoch: u32,
    /// Why the fallback is called, once it is.
    pub first_failure: Option<Code>,
    /// Actions an attempt of which failed a unit for good.
    pub given_up: Vec<Action>,
    /// What calls of earlier revisions came to.
    pub results: Vec<(Action, Value)>,
    /// Milliseconds of activity before this revision.
    pub revision_began_ms: u64,
    /// Milliseconds of activity.
    pub active_ms: u64,
    /// Milliseconds of activity at the last progress.
    pub progress_ms: u64,
    /// Since when it shows as paused.
    pub paused_at: Option<u64>,
    /// Restarts in a row without progress after an unplanned stop.
    pub restarts: u32,
    /// False while it is not known what the actions of the plan are like.
    pub knows_actions: bool,
    /// What the last input commanded.
    pub commands: Vec<Command>,
}

/// A failure that is to end the run.
#[derive(Clone, Copy, Debug)]
pub struct Failing {
    /// True if what still can run does.
    pub drains: bool,
    /// The cause of the end.
    pub code: Code,
}

/// A step.
#[derive(Clone, Debug)]
pub struct Step {
    /// Never `Waiting`: that is how it shows.
    pub state: StepState,
    /// Why it did not run.
    pub reason: Option<Reason>,
    /// The step whose branch went past it.
    pub passed_by: Option<usize>,
    /// Why it failed.
    pub code: Option<Code>,
    /// How often it was set back.
    pub epoch: u32,
    /// What it came to.
    pub output: Option<Value>,
    /// Its units so far.
    pub units: Vec<Unit>,
    /// Where its expression is.
    pub question: Evaluation,
    /// True if an output asks for a pause.
    pub pauses: bool,
}

/// Where the expression of a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evaluation {
    /// Nothing is to be asked.
    None,
    /// It is to be asked.
    Needed,
    /// It is being evaluated.
    Asked,
}

/// A unit.
#[derive(Clone, Debug)]
pub struct Unit {
    /// Where it is.
    pub state: UnitState,
    /// Attempts in this epoch.
    pub n_attempts: u32,
    /// Counted retries.
    pub n_retries: u32,
    /// How many it may have.
    pub max_retries: u32,
    /// Uncounted tries in a row.
    pub n_uncounted: u32,
    /// True if a person has approved this subject.
    pub is_approved: bool,
    /// True if a person has approved what its handler asked for.
    pub handler_is_approved: bool,
    /// Safety checks in this epoch.
    pub n_checks: u32,
    /// True if its attempt had less time than its own limit.
    pub is_cut: bool,
    /// True while what is in flight is its safety check.
    pub is_checked_now: bool,
    /// What the check said.
    pub verdict: Option<bool>,
    /// What it failed with last.
    pub last: Code,
}

/// Where a unit is.
#[derive(Clone, Debug, PartialEq)]
pub enum UnitState {
    /// To be dispatched at once.
    Due,
    /// To be dispatched then.
    BackingOff(u64),
    /// An execution or a child run is under way.
    InFlight,
    /// A person is asked, by the request's number.
    Asking(usize),
    /// Done.
    Completed(Value),
    /// Failed for good.
    Failed(Code),
}

/// What a person is asked.
#[derive(Clone, Debug)]
pub struct Request {
    /// What kind it is.
    pub kind: RequestKind,
    /// Whom it is about; none for the plan.
    pub unit: Option<UnitId>,
    /// When it ends.
    pub until: u64,
    /// Where it stands.
    pub state: RequestState,
    /// Who has approved.
    pub approvals: Vec<Responder>,
}

/// Where a request stands.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestState {
    /// The request is open.
    Open,
    /// This is the answer, and this is who gave it.
    Answered(super::words::Answer, Responder),
    /// The time for an answer is over.
    Expired,
    /// An answer is not needed any more.
    Closed,
}

/// Why an input is refused: a code, or empty if the law names none.
pub type Refusal = &'static str;

impl Run {
    /// A run in the queue.
    #[must_use]
    pub fn new(plan: Plan, limits: Limits, now: u64) -> Self {
        let works =
            |step: &super::plan::Step| !matches!(step.kind, Kind::Condition { .. } | Kind::Question { .. });
        let is_approved = limits.autonomy != 1 || !plan.steps.iter().any(works);
        let is_wanted = limits.planner.as_ref().is_some_and(|planner| planner.is_goal);
        let planning = Planning {
            is_wanted,
            ..Planning::default()
        };
        let learns = limits.learns;
        Self {
            planning,
            n_revisions: 0,
            first_epoch: 0,
            steps: plan.steps.iter().map(|_| Step::pending(0)).collect(),
            is_approved,
            plan,
            limits,
            misreading: None,
            now,
            created_at: now,
            is_admitted: false,
            wants_pause: false,
            failing: None,
            end: None,
            requests: Vec::new(),
            checkpoint: None,
            is_checkpoint_old: false,
            n_checkpoints: 0,
            checkpoint_bytes: 0,
            n_interventions: 0,
            first_failure: None,
            given_up: Vec::new(),
            results: Vec::new(),
            revision_began_ms: 0,
            active_ms: 0,
            progress_ms: 0,
            paused_at: None,
            restarts: 0,
            knows_actions: !learns,
            commands: Vec::new(),
        }
    }

    /// What an input at this time makes of the run. Time is to be handed in before: RUN-7.5.
    ///
    /// # Errors
    /// The refusal; nothing has changed then: RUN-2.1.
    pub fn feed(&mut self, now: u64, input: &Input) -> Result<(), Refusal> {
        let before = self.clone();
        self.commands.clear();
        if let Input::StoodStill(ms) = input {
            self.time_stands_still(now, *ms);
        }
        self.pass_time(now);
        match self.apply(input) {
            Ok(()) => {
                self.go_on();
                Ok(())
            }
            Err(refusal) => {
                *self = before;
                self.commands.clear();
                Err(refusal)
            }
        }
    }

    fn apply(&mut self, input: &Input) -> Result<(), Refusal> {
        if self.end.is_some() {
            // RUN-2.3: late outcomes change nothing, and everything that is asked is refused.
            return match input {
                Input::Tick
                | Input::StoodStill(_)
                | Input::Recovered
                | Input::Restarted
                | Input::Known
                | Input::Settled(..)
                | Input::Listed(_)
                | Input::Planned(..)
                | Input::ChildEnded(..)
                | Input::Evaluated { .. } => Ok(()),
                _ => Err("RUN_ENDED"),
            };
        }
        match input {
            Input::Tick | Input::StoodStill(_) => Ok(()),
            Input::Admit => self.admit(),
            Input::Settled(attempt, outcome) => {
                self.settle(*attempt, outcome);
                Ok(())
            }
            Input::Listed(generation) => {
                self.listed(*generation);
                Ok(())
            }
            Input::Planned(generation, attempt, outcome) => {
                self.planner_settled(*generation, *attempt, outcome);
                Ok(())
            }
            Input::ChildEnded(attempt, output) => {
                if self.waits_for(*attempt) {
                    self.progress(); // RUN-7.3: the watchdog did not watch the child.
                }
                let failed = Outcome::Failed("CHILD_FAILED");
                self.settle(*attempt, &output.clone().map_or(failed, Outcome::Completed));
                Ok(())
            }
            Input::Evaluated { step, epoch, value } => {
                self.evaluated(*step, *epoch, *value);
                Ok(())
            }
            Input::Answered(request, answer, responder) => self.answer(*request, answer, *responder),
            Input::Pause => self.pause(),
            Input::Resume => self.resume(),
            Input::Cancel => {
                self.end_with(End::Cancelled("user")); // RUN-8.3
                Ok(())
            }
            Input::Rewind { step, scope, repeats } => self.rewind(*step, *scope, *repeats),
            Input::Rollback { restores, repeats } => self.roll_back(*restores, *repeats),
            Input::Override(step, word) => self.override_step(*step, word),
            Input::Checkpoint(n_bytes) => self.keep_checkpoint(*n_bytes),
            Input::Recovered | Input::Restarted => {
                self.recovered(*input == Input::Restarted);
                Ok(())
            }
            Input::Known => {
                self.knows_actions = true;
                Ok(())
            }
        }
    }

    /// Returns true if the run waits for its actions (RUN-2.6).
    pub(super) fn waits_for_actions(&self) -> bool {
        !self.is_admitted && !self.knows_actions
    }

    /// RUN-2.4: once, and not if it shall pause.
    fn admit(&mut self) -> Result<(), Refusal> {
        let pause_counts = self.wants_pause && !self.reads(Misreading::PausedRunsAreAdmitted);
        if self.is_admitted || pause_counts || self.waits_for_actions() {
            return Err("");
        }
        self.is_admitted = true;
        if !self.is_approved {
            self.ask(RequestKind::PlanApproval, None); // RUN-6.1
        }
        Ok(())
    }

    /// What follows from the state: steps have their turn, and the run ends if it is to.
    pub fn go_on(&mut self) {
        while self.end.is_none() && !self.wants_pause {
            if !self.is_admitted || !self.is_approved {
                break;
            }
            let goes_on = match self.planning.is_wanted {
                true => self.plan_ahead(),
                false => self.turn() || self.end_if_done(),
            };
            if !goes_on {
                break;
            }
        }
        let is_paused = self.shown() == Shown::Paused;
        self.paused_at = is_paused.then(|| self.paused_at.unwrap_or(self.now));
    }

    /// RUN-2.2.
    #[must_use]
    pub fn shown(&self) -> Shown {
        match &self.end {
            Some(End::Completed { .. }) => return Shown::Completed,
            Some(End::Failed(_) | End::FellBack { .. }) => return Shown::Failed,
            Some(End::Timeout(_)) => return Shown::Timeout,
            Some(End::Cancelled(_)) => return Shown::Cancelled,
            None => {}
        }
        let is_asked = self
            .requests
            .iter()
            .any(|request| request.state == RequestState::Open);
        if !self.is_admitted {
            Shown::Queued
        } else if self.wants_pause && !self.has_in_flight() {
            Shown::Paused
        } else if self.wants_pause {
            Shown::Pausing
        } else if self.planning.is_wanted {
            Shown::Planning
        } else if is_asked && !self.has_in_flight() && !self.backs_off() {
            Shown::Waiting
        } else {
            Shown::Running
        }
    }

    /// RUN-3.1: how a step shows.
    #[must_use]
    pub fn shown_step(&self, step: usize) -> StepState {
        let step = &self.steps[step];
        if step.state != StepState::Running {
            return step.state;
        }
        let live: Vec<&Unit> = step.units.iter().filter(|unit| !unit.has_ended()).collect();
        if live.iter().any(|unit| matches!(unit.state, UnitState::Asking(_))) {
            StepState::Waiting
        } else if !live.is_empty()
            && live
                .iter()
                .all(|unit| matches!(unit.state, UnitState::BackingOff(_)))
        {
            StepState::Pending
        } else {
            StepState::Running
        }
    }

    /// RUN-2.2: attempts, evaluations and child runs.
    #[must_use]
    pub fn has_in_flight(&self) -> bool {
        self.plans() || self.steps.iter().any(Step::has_in_flight)
    }

    /// Returns true if work other than child runs is in flight (RUN-9.5).
    pub(super) fn has_own_in_flight(&self) -> bool {
        let mut steps = self.steps.iter().zip(&self.plan.steps);
        self.plans() || steps.any(|(step, spec)| spec.kind != Kind::Child && step.has_in_flight())
    }

    pub(super) fn backs_off(&self) -> bool {
        let backs_off = |unit: &Unit| matches!(unit.state, UnitState::BackingOff(_));
        let mut running = self.steps.iter().filter(|step| step.state == StepState::Running);
        running.any(|step| step.units.iter().any(backs_off))
    }

    pub(super) fn reads(&self, misreading: Misreading) -> bool {
        self.misreading == Some(misreading)
    }

    /// RUN-7.3.
    pub(super) fn progress(&mut self) {
        self.progress_ms = self.active_ms;
        self.restarts = 0;
    }

    pub(super) fn unit(&mut self, (step, index): UnitId) -> &mut Unit {
        &mut self.steps[step].units[index]
    }

    /// The one live attempt of this name, if there is one: RUN-4.4.
    pub(super) fn waits_for(&self, attempt: AttemptId) -> bool {
        let (step, index) = attempt.unit;
        let Some(step) = self.steps.get(step) else {
            return false;
        };
        let Some(unit) = step.units.get(index) else {
            return false;
        };
        let is_live = step.state == StepState::Running && unit.state == UnitState::InFlight;
        let is_live = is_live && !unit.is_checked_now;
        is_live && (step.epoch, unit.n_attempts) == (attempt.epoch, attempt.number)
    }

    /// RUN-10.3.
    pub(super) fn end_with(&mut self, end: End) {
        self.close_all();
        self.end = Some(end);
    }

    /// RUN-7.6.
    pub(super) fn time_out(&mut self, limit: Limit) {
        // RUN-11.8
        if limit == Limit::Revision && self.has_generation_left() {
            return self.replan(Some("REVISION_TIMEOUT"));
        }
        self.end_with(End::Timeout(limit));
    }
}

impl Step {
    /// A step that waits for its turn.
    #[must_use]
    pub fn pending(epoch: u32) -> Self {
        Self {
            state: StepState::Pending,
            reason: None,
            passed_by: None,
            code: None,
            epoch,
            output: None,
            units: Vec::new(),
            question: Evaluation::None,
            pauses: false,
        }
    }

    pub(super) fn has_in_flight(&self) -> bool {
        let is_running = self.state == StepState::Running;
        let has_attempt = self.units.iter().any(|unit| unit.state == UnitState::InFlight);
        is_running && (has_attempt || self.question == Evaluation::Asked)
    }

    pub(super) fn has_ended(&self) -> bool {
        !matches!(self.state, StepState::Pending | StepState::Running)
    }
}

impl Unit {
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.state, UnitState::Completed(_) | UnitState::Failed(_))
    }
}
