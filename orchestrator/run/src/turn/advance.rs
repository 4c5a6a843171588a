//! Gives each step its turn: starts what may start, skips what a branch or a failure skips, until nothing changes.

use super::Turn;
use crate::journal::{Event, SkipReason, StepRef, StepSkipped};
use crate::plan::{Expression, OnDependencyFailure, OnFailure, Step, StepKind};
use crate::spec::DependencyDefault;
use crate::state::{Stage, StepStage, UnitStage};
use alloc::string::String;
use escapement_model::planted::{self, Bug};

/// What may happen to a pending step.
enum Turned {
    /// It runs.
    Start,
    /// It does not run any more.
    Skip(SkipReason),
    /// Not yet, or never.
    Left,
}

/// The steps under way, as far as they decide what may start beside them.
struct UnderWay {
    /// Those that wait for people not counted.
    n_active: u32,
    /// One of them runs alone, or all do.
    refuses_all: bool,
    /// There is one.
    refuses_exclusive: bool,
    /// The plan marks no step `async`, and all count as if it did.
    all_async: bool,
}

impl Turn<'_> {
    // RUN-3.2
    /// Goes on until no step changes, then looks whether the run ended.
    pub(super) fn advance(&mut self) {
        loop {
            let before = self.state.sequence;
            if self.starts_nothing() {
                break;
            }
            self.dispatch_ready();
            if !self.starts_nothing() {
                self.look_at_pending();
            }
            if self.state.sequence == before {
                break;
            }
        }
        if self.fails_as_too_large() {
            return;
        }
        self.conclude();
        self.plan_ahead();
    }

    /// True if nothing new is intended: the run is not executing, shall pause, or its revision ends.
    pub(super) fn starts_nothing(&self) -> bool {
        let ends = self.state.cause.is_some() && !self.state.drains;
        self.state.stage() != Stage::Executing
            || (self.state.pause_wanted && !planted::is_on(Bug::RunPauseLost))
            || ends
            || self.waits_for_plan_approval()
            || self.is_too_large()
    }

    /// Dispatches the units of running steps that are ready.
    fn dispatch_ready(&mut self) {
        for step in self.first_unsettled()..self.n_steps() {
            if self.step_state(step).stage() == StepStage::Running {
                self.dispatch_units(step);
            }
            if self.starts_nothing() {
                return;
            }
        }
    }

    fn look_at_pending(&mut self) {
        // Counted once, and again after each start: a look at a plan with many steps costs its steps, not their square.
        let all_async = self.plan.counts_all_async(&self.state.spec.policy);
        let mut under_way = self.under_way(all_async);
        for step in self.first_unsettled()..self.n_steps() {
            let stage = self.step_state(step).stage();
            if stage == StepStage::Pending {
                match self.turned(step) {
                    Turned::Start if self.may_overlap(step, &under_way) => {
                        self.emit(Event::StepStarted(StepRef { step }));
                        self.dispatch_units(step);
                        under_way = self.under_way(all_async);
                    }
                    Turned::Skip(reason) => {
                        self.emit(Event::StepSkipped(StepSkipped {
                            step,
                            reason: reason.into(),
                            comment: String::new(),
                        }));
                    }
                    Turned::Start | Turned::Left => {}
                }
            }
            // RUN-3.3
            if self.starts_nothing()
                || (is_barrier(self.step(step)) && !self.step_state(step).stage().is_settled())
            {
                return;
            }
        }
    }

    fn turned(&self, step: u32) -> Turned {
        let spec = self.step(step);
        // RUN-4.10
        if self
            .asked_result(spec)
            .is_some_and(|on| !self.state.steps[on].stage().is_settled())
        {
            return Turned::Left;
        }
        let (mut all_branch, mut failed, mut failed_required) = (!spec.depends_on.is_empty(), false, false);
        for dependency in &spec.depends_on {
            let index = u32::try_from(*dependency).expect("a plan has at most 1024 steps");
            let state = self.step_state(index);
            let by_branch = match state.stage() {
                // RUN-3.4
                StepStage::Pending | StepStage::Running => return Turned::Left,
                StepStage::Completed => false,
                StepStage::Skipped => match state.skip_reason() {
                    SkipReason::Branch | SkipReason::Override => true,
                    SkipReason::DependencyFailed | SkipReason::RunEnded => {
                        failed_required = true;
                        false
                    }
                },
                StepStage::Failed => {
                    failed = true;
                    failed_required |= self.is_required(self.step(index));
                    false
                }
                StepStage::Blocked => {
                    failed_required = true;
                    false
                }
            };
            all_branch &= by_branch;
        }
        // RUN-3.5
        if failed || failed_required {
            return match self.on_dependency_failure(spec, failed_required) {
                OnDependencyFailure::Skip => Turned::Skip(SkipReason::DependencyFailed),
                OnDependencyFailure::NullInput | OnDependencyFailure::Synthetic => Turned::Start,
                OnDependencyFailure::Block => Turned::Left,
            };
        }
        // RUN-3.6
        if all_branch {
            Turned::Skip(SkipReason::Branch)
        } else {
            Turned::Start
        }
    }

    /// The step whose result an expression of this one asks for.
    fn asked_result(&self, spec: &Step) -> Option<usize> {
        let expression = match &spec.kind {
            StepKind::Condition(condition) => Some(&condition.condition),
            StepKind::Loop(repeated) => repeated.loop_condition.as_ref(),
            _ => None,
        };
        match expression {
            Some(Expression::ResultOf(on)) => Some(*on),
            Some(Expression::Literal(_) | Expression::Text(_)) | None => None,
        }
    }

    // RUN-3.7
    fn under_way(&self, all_async: bool) -> UnderWay {
        let mut under_way = UnderWay {
            n_active: 0,
            refuses_all: false,
            refuses_exclusive: false,
            all_async,
        };
        for (index, state) in self.state.steps.iter().enumerate() {
            if state.stage() != StepStage::Running {
                continue;
            }
            under_way.refuses_exclusive = true;
            let is_async = under_way.all_async || self.plan.steps[index].is_async;
            under_way.refuses_all |= !self.plan.parallel || !is_async;
            let mut units = state.all_units();
            let waits = units.any(|(_, unit)| unit.stage() == UnitStage::Waiting);
            under_way.n_active += u32::from(!waits);
        }
        under_way
    }

    /// True if the step may start beside those that are under way.
    fn may_overlap(&self, step: u32, under_way: &UnderWay) -> bool {
        let is_async = under_way.all_async || self.step(step).is_async;
        let is_refused = under_way.refuses_all || (under_way.refuses_exclusive && !is_async);
        !is_refused && under_way.n_active < self.state.spec.limits.max_concurrency.max(1)
    }

    /// True if the failure of the step fails the revision.
    pub(super) fn is_required(&self, spec: &Step) -> bool {
        match self.on_failure(spec) {
            OnFailure::Abort | OnFailure::Drain => true,
            OnFailure::Skip | OnFailure::Jump(_) => false,
        }
    }

    /// What a final failure of the step leads to, by the step, its `required`, or the run's policy.
    pub(super) fn on_failure(&self, spec: &Step) -> OnFailure {
        use crate::spec::FailureDefault;
        if let Some(on_failure) = spec.on_failure {
            return on_failure;
        }
        let default = match self.state.spec.policy.on_failure() {
            FailureDefault::Abort => OnFailure::Abort,
            FailureDefault::Drain => OnFailure::Drain,
            FailureDefault::Skip => OnFailure::Skip,
        };
        match (spec.required, default) {
            (Some(false), _) => OnFailure::Skip,
            (Some(true), OnFailure::Skip) => OnFailure::Abort,
            (Some(true) | None, default) => default,
        }
    }

    fn on_dependency_failure(&self, spec: &Step, failed_required: bool) -> OnDependencyFailure {
        if let Some(on_dependency_failure) = spec.on_dependency_failure {
            return on_dependency_failure;
        }
        match self.state.spec.policy.on_dependency_failure() {
            DependencyDefault::Skip => OnDependencyFailure::Skip,
            DependencyDefault::NullIfOptional if failed_required => OnDependencyFailure::Skip,
            DependencyDefault::NullIfOptional | DependencyDefault::Null => OnDependencyFailure::NullInput,
            DependencyDefault::Synthetic => OnDependencyFailure::Synthetic,
            DependencyDefault::Block => OnDependencyFailure::Block,
        }
    }

    /// How references to a step that did not complete are rendered in this one.
    pub(super) fn renders_synthetic(&self, spec: &Step) -> bool {
        self.on_dependency_failure(spec, false) == OnDependencyFailure::Synthetic
    }

    /// The first step that has a turn to come, or behind the last one.
    fn first_unsettled(&self) -> u32 {
        let n_settled = self
            .state
            .steps
            .iter()
            .take_while(|step| step.stage().is_settled());
        u32::try_from(n_settled.count()).expect("a plan has at most 1024 steps")
    }

    pub(crate) fn n_steps(&self) -> u32 {
        u32::try_from(self.state.steps.len()).expect("a plan has at most 1024 steps")
    }
}

/// True for a step that decides which later ones run.
pub(crate) fn is_barrier(spec: &Step) -> bool {
    let jumps = spec.on_success.is_some() || matches!(spec.on_failure, Some(OnFailure::Jump(_)));
    jumps || matches!(spec.kind, StepKind::Condition(_))
}
