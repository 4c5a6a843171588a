//! The contract crate and the second interpreter side by side: one state, one input, and everything that can be
//! seen of it compared. Chooses no input.

use crate::border;
use crate::invariants;
use crate::plans::{ACCEPTED, Case, EXECUTION_ID, place_of};
use crate::said;
use escapement_contract::{
    Delivery, Effect, Execution, Input, Interruption, Moment, Phase, Settlement, Standing, StepIndex,
    StepState,
};
use escapement_tests::reference::decided::Command;
use escapement_tests::reference::interpret::Interpreter;
use escapement_tests::reference::words;
use std::sync::Arc;

/// Both machines in one state.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) core: Execution,
    pub(crate) reference: Interpreter,
    /// Monotonic.
    pub(crate) now_ms: u64,
    /// By how much the wall clock differs from the monotonic one since the start was durable.
    wall_jump_ms: i64,
    /// Entries of the record that were compared.
    n_compared: usize,
    /// The result, from the wish that it be written.
    pub(crate) settlement: Option<Arc<Settlement>>,
}

/// What an input led to.
pub(crate) struct Answer {
    pub(crate) is_accepted: bool,
    /// What must be done.
    pub(crate) commands: Vec<Command>,
    /// Where it led.
    pub(crate) standing: Standing,
}

impl Pair {
    /// An execution that was accepted.
    pub(crate) fn accept(case: &Case) -> Self {
        let (request, rules) = case.build();
        let id = EXECUTION_ID.parse().unwrap();
        Self {
            core: Execution::accept(request, id, ACCEPTED.unix_ms, case.deadline_ms(), ACCEPTED),
            reference: Interpreter::accept(rules, border::moment(ACCEPTED)),
            now_ms: ACCEPTED.monotonic_ms,
            wall_jump_ms: 0,
            n_compared: 1,
            settlement: None,
        }
    }

    /// An execution that had started when the orchestrator went down.
    pub(crate) fn recover(case: &Case) -> Self {
        let mut pair = Self::accept(case);
        let request = Arc::clone(pair.core.request());
        let (id, at) = (EXECUTION_ID.parse().unwrap(), ACCEPTED.unix_ms);
        let restarted = Interruption::Restarted { started_at: at };
        pair.core = Execution::recover(request, id, at, case.deadline_ms(), restarted, ACCEPTED);
        let effects = std::iter::from_fn(|| pair.core.poll_effect());
        let Some(Effect::PersistResult(settlement)) = effects.last() else {
            panic!("R-9.6: it ends at once");
        };
        pair.reference.interrupted(border::moment(ACCEPTED));
        pair.reference.commands.clear();
        pair.reference.said.clear();
        invariants::check_result(&settlement, &pair.reference);
        pair.n_compared = settlement.audit.len();
        pair.settlement = Some(settlement);
        pair
    }

    /// The instant.
    pub(crate) fn now(&self) -> Moment {
        let since_ms = (self.now_ms - ACCEPTED.monotonic_ms) as i64;
        Moment {
            monotonic_ms: self.now_ms,
            unix_ms: ACCEPTED.unix_ms + since_ms + self.wall_jump_ms,
        }
    }

    /// Where both stand.
    pub(crate) fn standing(&self) -> Standing {
        self.core.standing(self.now())
    }

    /// Gives both the same input after so many milliseconds, and compares what they make of it.
    pub(crate) fn feed(&mut self, wait_ms: u64, input: &Input, index: &[StepIndex]) -> Answer {
        self.now_ms += wait_ms;
        let now = self.now();
        let is_accepted = self.core.handle(now, input.clone()).is_ok();
        let expected = self.reference.handle(border::moment(now), &border::input(input));
        assert_eq!(is_accepted, expected, "is {input:?} accepted after {wait_ms} ms?");
        let was_before_start = self.reference.phase < words::Phase::Running;
        let commands = self.take_commands();
        let wanted = std::mem::take(&mut self.reference.commands);
        assert_eq!(commands, wanted, "what must be done after {input:?}");
        self.compare_record(input);
        let standing = self.compare_standing(index);
        if *input == Input::StartPersisted && !was_before_start && self.wall_jump_ms == 0 {
            // from here on the wall clock is wrong, by more than the whole execution may take.
            let jumps_ahead = self.reference.states.len().is_multiple_of(2);
            self.wall_jump_ms = if jumps_ahead { HOUR_MS } else { -HOUR_MS };
        }
        Answer {
            is_accepted,
            commands,
            standing,
        }
    }

    /// Gives both an input that neither is to accept. The caller looks afterwards that nothing happened.
    pub(crate) fn feed_refused(&mut self, input: &Input) -> bool {
        let now = self.now();
        let is_accepted = self.core.handle(now, input.clone()).is_ok();
        let expected = self.reference.handle(border::moment(now), &border::input(input));
        assert_eq!(is_accepted, expected, "is {input:?} accepted?");
        is_accepted
    }

    /// nothing is to be done, nothing was recorded, and the result is the one that was written.
    pub(crate) fn compare_nothing_happened(&mut self) {
        assert_eq!(self.take_commands(), self.reference.commands);
        assert!(self.reference.commands.is_empty() && self.reference.said.is_empty());
        if self.settlement.is_none() {
            assert_eq!(self.core.audit().len(), self.n_compared);
        }
        if let Some(shown) = self.core.settlement() {
            let written = self
                .settlement
                .as_ref()
                .expect("R-9.1: written before it is shown");
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
                    invariants::check_result(&settlement, &self.reference);
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
        let written = self
            .settlement
            .as_ref()
            .expect("R-9.1: written before it is told");
        assert!(
            Arc::ptr_eq(&persisted.into_settlement(), written),
            "R-6.9: as it was written"
        );
        command
    }

    /// Each step of an execution appends the same to both records; so do all of them together.
    fn compare_record(&mut self, input: &Input) {
        let said = std::mem::take(&mut self.reference.said);
        let entries = match &self.settlement {
            Some(settlement) => &settlement.audit[..],
            None => self.core.audit(),
        };
        assert!(
            entries.len() >= self.n_compared,
            "the record lost what it said before"
        );
        let added = entries[self.n_compared..]
            .iter()
            .map(|entry| said::of(&entry.kind));
        assert!(
            said::is_the_same(&added.collect::<Vec<_>>(), &said),
            "the record of {input:?}: {:?}, expected {said:?}",
            &entries[self.n_compared..]
        );
        for (number, entry) in (self.n_compared + 1..).zip(&entries[self.n_compared..]) {
            assert_eq!(entry.sequence, number as u64, "R-6.10");
        }
        self.n_compared = entries.len();
    }

    /// Everything that the future depends on is the same, field by field.
    pub(crate) fn compare_standing(&self, index: &[StepIndex]) -> Standing {
        let (standing, reference) = (self.standing(), &self.reference);
        let left = |due_ms: u64| due_ms.saturating_sub(self.now_ms);
        assert_eq!(border::phase(standing.phase), reference.phase);
        assert_eq!(
            standing.start_is_being_written,
            reference.start_is_being_written()
        );
        assert_eq!(self.core.next_due_ms(), reference.next_due_ms(), "the next timer");
        let limit = match standing.phase {
            Phase::Queued => reference.next_due_ms(),
            _ => reference.plan_due_ms(),
        };
        assert_eq!(standing.limit_left_ms, limit.map(left), "the limit");
        for (step, state) in reference.states.iter().enumerate() {
            let found = border::state(self.core.step_state(index[step]));
            assert_eq!(found, *state, "steps[{step}]");
        }
        for (step, of_core) in standing.steps.iter().enumerate() {
            let severity = reference.error_of(step).map(|error| error.severity);
            assert_eq!(of_core.severity, severity, "the error of steps[{step}]");
            assert_eq!(of_core.has_output, reference.outputs.contains_key(&step));
            if standing.phase == Phase::Running {
                assert_eq!(
                    of_core.timer_left_ms,
                    reference.step_due_ms(step).map(left),
                    "timer of steps[{step}]"
                );
            }
        }
        if standing.phase == Phase::Running {
            invariants::check_derived(&standing, self.core.request());
        }
        self.check_time_left(&standing, index);
        standing
    }

    fn check_time_left(&self, standing: &Standing, index: &[StepIndex]) {
        for (step, of_core) in standing.steps.iter().enumerate() {
            if let StepState::Waiting { .. } | StepState::Assigned { .. } = of_core.state {
                let left = self.core.attempt_time_left_ms(index[step], self.now());
                let expected = self.reference.time_left_ms(step, border::moment(self.now()));
                assert_eq!(left, expected, "R-3.5: time left of steps[{step}]");
            }
        }
    }
}

const HOUR_MS: i64 = 3_600_000;

/// Places of steps, as an error chain names them.
pub(crate) fn chain_of(error: &escapement_contract::ExecutionError) -> Vec<said::Link> {
    let chain = std::iter::successors(Some(error), |error| error.cause.as_deref());
    chain
        .map(|error| {
            (
                error.code.clone(),
                error.step_id.as_ref().map(place_of),
                error.severity,
            )
        })
        .collect()
}
