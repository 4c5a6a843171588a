//! The contract crate and the second interpreter in one state: one input to both, and everything that can be seen of
//! it compared. Chooses no input: the fuzz target and the exhaustive exploration do.

pub mod border;
pub mod ending;
pub mod invariants;
pub mod said;

use escapement_contract::{
    AbstractState, Delivery, Effect, Execution, Input, Interruption, Moment, Phase, Request, Settlement,
    StepIndex, StepState,
};
use escapement_model::{ExecutionId, StepId};
use escapement_tests::reference::decided::Command;
use escapement_tests::reference::interpret::Interpreter;
use escapement_tests::reference::rules::Rules;
use std::sync::Arc;

/// Both machines in one state.
#[derive(Clone, Debug)]
pub struct Lockstep {
    /// The contract crate's.
    pub core: Execution,
    /// The second interpreter.
    pub reference: Interpreter,
    /// The instant of the last input. The wall clock may be set to anything between two inputs.
    pub now: Moment,
    /// Entries of the audit trail that were compared.
    n_compared: usize,
    /// The result, from the wish that it be written.
    pub settlement: Option<Arc<Settlement>>,
}

/// What an input led to.
#[derive(Debug)]
pub struct Answer {
    /// Both took it.
    pub is_accepted: bool,
    /// What must be done.
    pub commands: Vec<Command>,
    /// Where it led.
    pub state: AbstractState,
}

impl Lockstep {
    /// Creates an execution that was accepted.
    ///
    /// # Panics
    /// Both have different canonical orders.
    pub fn accept(
        request: Arc<Request>,
        rules: Rules,
        id: ExecutionId,
        deadline_ms: i64,
        at: Moment,
    ) -> Self {
        let lockstep = Self {
            core: Execution::accept(request, id, at.unix_ms, deadline_ms, at),
            reference: Interpreter::accept(rules, border::moment(at)),
            now: at,
            n_compared: 1,
            settlement: None,
        };
        let order = lockstep.steps().map(StepIndex::as_usize);
        assert!(order.eq(lockstep.reference.order.iter().copied()), "R-2.1");
        lockstep
    }

    /// The same execution, if it had started when the orchestrator went down.
    ///
    /// # Panics
    /// The two differ.
    #[must_use]
    pub fn restarted(mut self) -> Self {
        let request = Arc::clone(self.core.request());
        let (id, at) = (self.core.execution_id(), self.core.accepted_at());
        let restarted = Interruption::Restarted { started_at: at };
        self.core = Execution::recover(request, id, at, self.core.deadline(), restarted, self.now);
        self.reference.interrupted(border::moment(self.now));
        // A restart has no attempts to withdraw, and says nothing but the result.
        self.reference.commands.clear();
        self.reference.said.clear();
        self.take_commands();
        let settlement = self.settlement.as_ref().expect("R-9.6: it ends at once");
        self.n_compared = settlement.audit.len();
        self
    }

    /// Steps in canonical order.
    pub fn steps(&self) -> impl Iterator<Item = StepIndex> {
        self.core.request().plan().canonical_order().iter().copied()
    }

    /// Returns the place of a step in the plan's list.
    ///
    /// # Panics
    /// The plan has no such step.
    pub fn place_of(&self, id: StepId) -> usize {
        let mut steps = self.core.request().plan().steps().iter();
        steps
            .position(|step| step.id() == id)
            .expect("a step of the plan")
    }

    /// Where the contract crate stands.
    pub fn abstract_state(&self) -> AbstractState {
        self.core.abstract_state(self.now)
    }

    /// Lets both clocks run.
    pub fn pass(&mut self, ms: u64) {
        self.now.monotonic_ms += ms;
        self.now.unix_ms += i64::try_from(ms).expect("limits of the plans are small");
    }

    /// Gives both the same input after that many milliseconds, and compares what they make of it.
    ///
    /// # Panics
    /// The two differ, or an invariant does not hold.
    pub fn feed(&mut self, wait_ms: u64, input: &Input) -> Answer {
        self.pass(wait_ms);
        let is_accepted = self.handle(input);
        let commands = self.take_commands();
        let wanted = std::mem::take(&mut self.reference.commands);
        assert_eq!(commands, wanted, "what must be done after {input:?}");
        self.compare_audit(input);
        Answer {
            is_accepted,
            commands,
            state: self.compare_state(),
        }
    }

    /// Gives both an input that neither is to accept. The caller looks afterwards that nothing happened.
    ///
    /// # Panics
    /// One accepts it and the other does not.
    pub fn feed_refused(&mut self, input: &Input) -> bool {
        self.handle(input)
    }

    fn handle(&mut self, input: &Input) -> bool {
        let answer = self.core.handle(self.now, input.clone());
        let expected = self
            .reference
            .handle(border::moment(self.now), &border::input(input));
        assert_eq!(
            answer.is_ok(),
            expected,
            "{input:?} was {answer:?} at {:?}",
            self.now
        );
        answer.is_ok()
    }

    /// nothing is to be done, nothing was recorded, and the result is the one that was written.
    ///
    /// # Panics
    /// Something happened.
    pub fn compare_nothing_happened(&mut self) {
        assert_eq!(self.take_commands(), self.reference.commands);
        assert!(self.reference.commands.is_empty() && self.reference.said.is_empty());
        if self.settlement.is_none() {
            assert_eq!(self.core.audit().len(), self.n_compared);
        }
        if let Some(shown) = self.core.settlement() {
            let written = self.settlement.as_ref();
            let written = written.expect("R-9.1: written before it is shown");
            assert!(Arc::ptr_eq(shown, written));
        }
    }

    fn take_commands(&mut self) -> Vec<Command> {
        let mut commands = Vec::new();
        while let Some(effect) = self.core.poll_effect() {
            commands.push(match effect {
                Effect::PersistStart { started_at_unix_ms } => Command::PersistStart(started_at_unix_ms),
                Effect::Dispatch { step, attempt } => {
                    invariants::check_dispatch(&self.core, step, self.settlement.is_some());
                    Command::Dispatch(step.as_usize(), attempt)
                }
                Effect::Withdraw {
                    step,
                    attempt,
                    reason,
                } => Command::Withdraw(step.as_usize(), attempt, border::withdraw_reason(reason)),
                Effect::PersistResult(settlement) => {
                    assert!(self.settlement.is_none(), "R-9.8: one result");
                    ending::check(&settlement, self);
                    self.settlement = Some(settlement);
                    Command::PersistResult
                }
                Effect::Deliver(delivery) => self.check_delivery(delivery),
            });
        }
        commands
    }

    fn check_delivery(&self, delivery: Delivery) -> Command {
        let (persisted, command) = match delivery {
            Delivery::EmitEvent(persisted) => (persisted, Command::EmitEvent),
            Delivery::UpdatePlanRegistry(persisted) => (persisted, Command::UpdatePlanRegistry),
            Delivery::ReleaseResources(persisted) => (persisted, Command::ReleaseResources),
            Delivery::NotifyErrorHandler(persisted) => (persisted, Command::NotifyErrorHandler),
            Delivery::ReturnResult(persisted) => (persisted, Command::ReturnResult),
        };
        let written = self.settlement.as_ref();
        let written = written.expect("R-9.1: written before it is told");
        let is_the_same = Arc::ptr_eq(&persisted.into_settlement(), written);
        assert!(is_the_same, "R-6.9: as it was written");
        command
    }

    /// Each input appends the same to both audit trails; so do all of them together.
    fn compare_audit(&mut self, input: &Input) {
        let said = std::mem::take(&mut self.reference.said);
        let entries = match &self.settlement {
            Some(settlement) => &settlement.audit[..],
            None => self.core.audit(),
        };
        assert!(entries.len() >= self.n_compared, "R-6.10: the trail shrinks");
        let added = entries[self.n_compared..]
            .iter()
            .map(|entry| said::of(&entry.kind, self));
        assert!(
            said::is_the_same(&added.collect::<Vec<_>>(), &said),
            "the entries of {input:?}: {:?}, expected {said:?}",
            &entries[self.n_compared..]
        );
        for (number, entry) in (self.n_compared + 1..).zip(&entries[self.n_compared..]) {
            assert_eq!(entry.sequence, number as u64, "R-6.10");
        }
        self.n_compared = entries.len();
    }

    /// Returns everything that the future depends on is the same, field by field.
    ///
    /// # Panics
    /// The two differ.
    pub fn compare_state(&self) -> AbstractState {
        let (state, reference) = (self.abstract_state(), &self.reference);
        let left = |due_ms: u64| due_ms.saturating_sub(self.now.monotonic_ms);
        assert_eq!(border::phase(state.phase), reference.phase);
        assert_eq!(state.start_is_being_written, reference.start_is_being_written());
        assert_eq!(self.core.next_due_ms(), reference.next_due_ms(), "the next timer");
        assert_eq!(
            self.core.limit_due_ms(),
            reference.plan_due_ms(),
            "the plan's timer"
        );
        let limit = match state.phase {
            Phase::Queued => reference.next_due_ms(),
            _ => reference.plan_due_ms(),
        };
        assert_eq!(state.limit_left_ms, limit.map(left), "the limit");
        for index in self.steps() {
            let step = index.as_usize();
            let found = border::state(self.core.step_state(index));
            assert_eq!(found, reference.states[step], "steps[{step}]");
        }
        for (step, of_core) in state.steps.iter().enumerate() {
            let severity = reference.error_of(step).map(|error| error.severity);
            assert_eq!(of_core.severity, severity, "the error of steps[{step}]");
            assert_eq!(of_core.has_output, reference.outputs.contains_key(&step));
            if state.phase == Phase::Running {
                let due = reference.step_due_ms(step).map(left);
                assert_eq!(of_core.timer_left_ms, due, "timer of steps[{step}]");
            }
        }
        if state.phase == Phase::Running {
            invariants::check_derived(&state, self.core.request());
        }
        self.check_time_left(&state);
        state
    }

    fn check_time_left(&self, state: &AbstractState) {
        for index in self.steps() {
            let step = index.as_usize();
            let state = state.steps.get(step).map(|step| step.state);
            if let Some(StepState::Waiting { .. } | StepState::Assigned { .. }) = state {
                let left = self.core.attempt_time_left_ms(index, self.now);
                let expected = self.reference.time_left_ms(step, border::moment(self.now));
                assert_eq!(left, expected, "R-3.5: time left of steps[{step}]");
            }
        }
    }
}
