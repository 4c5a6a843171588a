//! Depth first through the states of plans, each state once: everything that may happen is tried in it, and
//! everything that may not. Judges by `lockstep`.

use crate::key;
use crate::moves::{FAR_MS, Kind, kind_of, place_in, that_do_not_fit, that_fit, waits};
use crate::plans::Case;
use crate::seen::{Seen, Signatures};
use crate::transitions::Transitions;
use escapement_contract::{AbstractState, Input, Phase, StepIndex, StepState};
use escapement_fuzz::lockstep::invariants::check_state;
use escapement_fuzz::lockstep::{Answer, Lockstep};
use escapement_tests::reference::decided::Command;
use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::hash::{Hash, Hasher};

/// What was looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) n_plans: u64,
    pub(crate) n_states: u64,
    /// Inputs that were accepted, and time that passed.
    pub(crate) n_transitions: u64,
    /// Inputs that were refused.
    pub(crate) n_refused: u64,
    /// Inputs that came when a timer was due.
    pub(crate) n_ties: u64,
    /// Executions that ended.
    pub(crate) n_endings: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.n_plans += other.n_plans;
        self.n_states += other.n_states;
        self.n_transitions += other.n_transitions;
        self.n_refused += other.n_refused;
        self.n_ties += other.n_ties;
        self.n_endings += other.n_endings;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} plans, {} states, {} transitions, {} refusals, {} inputs when a timer was due, {} endings",
            self.n_plans, self.n_states, self.n_transitions, self.n_refused, self.n_ties, self.n_endings
        )
    }
}

/// How states are told apart.
#[derive(Clone, Copy)]
pub(crate) enum Merging<'a> {
    /// By all of it, within one plan; what states that `key::rest` takes as one lead to is noted and compared.
    Whole(&'a Signatures),
    /// By what is left to do, among all plans.
    Rest(&'a Seen),
}

/// A walk through the states of a plan.
pub(crate) struct Explorer<'a> {
    pub(crate) case: Case,
    pub(crate) index: &'a [StepIndex],
    pub(crate) merging: Merging<'a>,
    pub(crate) counts: &'a mut Counts,
    pub(crate) transitions: &'a mut Transitions,
}

impl Explorer<'_> {
    /// Says of which plan a failure is.
    pub(crate) fn run_named(&mut self) {
        let case = self.case;
        let walk = std::panic::AssertUnwindSafe(|| self.run());
        if let Err(panic) = std::panic::catch_unwind(walk) {
            println!("in {case:?}");
            std::panic::resume_unwind(panic);
        }
    }

    /// From the acceptance, and from a restart, to every end.
    fn run(&mut self) {
        self.counts.n_plans += 1;
        let own = Seen::default();
        let mut stack = Vec::new();
        for first in [self.case.accept(), self.case.accept().restarted()] {
            if self.is_new(&own, &first, &first.abstract_state()) {
                stack.push(first);
            }
        }
        while let Some(pair) = stack.pop() {
            self.visit(pair, &own, &mut stack);
        }
    }

    fn is_new(&self, own: &Seen, pair: &Lockstep, state: &AbstractState) -> bool {
        match self.merging {
            Merging::Whole(_) => own.insert(key::whole(state)),
            Merging::Rest(seen) => seen.insert(self.rest(pair, state)),
        }
    }

    fn rest(&self, pair: &Lockstep, state: &AbstractState) -> u128 {
        let status = pair
            .settlement
            .as_ref()
            .map(|settlement| settlement.result.status);
        key::rest(&self.case, state, status)
    }

    fn visit(&mut self, mut pair: Lockstep, own: &Seen, stack: &mut Vec<Lockstep>) {
        self.counts.n_states += 1;
        let state = pair.abstract_state();
        check_state(&pair, &state);
        self.check_refusals(&mut pair, &state);
        let mut signature = DefaultHasher::new();
        let inputs = that_fit(&state, self.index);
        for input in &inputs {
            let next = self.step(&pair, &state, 0, input);
            self.sign(&mut signature, &state, (0, input), &next);
            if self.is_new(own, &next.pair, &next.answer.state) {
                stack.push(next.pair);
            }
        }
        for wait_ms in waits(&state) {
            let next = self.step(&pair, &state, wait_ms, &Input::Tick);
            self.sign(&mut signature, &state, (wait_ms, &Input::Tick), &next);
            self.check_time(&pair, &state, &next, wait_ms, &inputs);
            if self.is_new(own, &next.pair, &next.answer.state) {
                stack.push(next.pair);
            }
        }
        if let Merging::Whole(signatures) = self.merging {
            signatures.check(self.rest(&pair, &state), signature.finish());
        }
    }

    /// what does not fit is refused and changes nothing.
    fn check_refusals(&mut self, pair: &mut Lockstep, state: &AbstractState) {
        for input in that_do_not_fit(&self.case, state, self.index) {
            let answer = pair.feed_refused(&input);
            assert!(!answer, "{input:?} was accepted in {state:?}");
            self.transitions.refused(state, &input);
            self.counts.n_refused += 1;
        }
        let after = pair.compare_state();
        assert_eq!(after, *state, "a refused input changed something");
        pair.compare_nothing_happened();
    }

    fn step(&mut self, pair: &Lockstep, before: &AbstractState, wait_ms: u64, input: &Input) -> Next {
        self.counts.n_transitions += 1;
        let mut next = pair.clone();
        let answer = feed(&mut next, wait_ms, input);
        assert!(answer.is_accepted, "{input:?} was refused in {before:?}");
        let after = &answer.state;
        self.counts.n_endings += u64::from(before.phase < Phase::Settling && after.phase >= Phase::Settling);
        // It comes to an end: all that happens leads on, and time is bounded by the limit that is armed.
        let was = measure(before, pair.now.monotonic_ms);
        let is = measure(after, next.now.monotonic_ms);
        match kind_of(input) {
            Kind::Returned => self.check_returned(before, after, input),
            _ => assert!(is > was, "{input:?} leads nowhere: {before:?}"),
        }
        for step in &after.steps {
            assert!(
                attempts_of(step.state) <= self.case.options.attempts_max(),
                "R-2.9"
            );
        }
        self.transitions
            .accepted(&self.case, before, wait_ms, input, after);
        Next { pair: next, answer }
    }

    /// one hand-out is taken back, with its start if there was one, and all else stays as it was.
    fn check_returned(&self, before: &AbstractState, after: &AbstractState, input: &Input) {
        let step = place_in(input).expect("an attempt has a step");
        let (was, is) = (measure(before, 0), measure(after, 0));
        let n_back = match before.steps[step].state {
            StepState::Started { .. } => 2,
            _ => 1,
        };
        assert_eq!((is.0, is.1 + n_back), (was.0, was.1));
        let mut expected = before.clone();
        expected.steps[step] = after.steps[step];
        expected.timers.clone_from(&after.timers);
        assert_eq!(expected, *after);
    }

    /// time that passes before an input does what it does alone, and the limit ends everything.
    fn check_time(
        &mut self,
        pair: &Lockstep,
        before: &AbstractState,
        ticked: &Next,
        wait_ms: u64,
        inputs: &[Input],
    ) {
        let limit_is_over = before.limit_left_ms.is_some_and(|left_ms| left_ms <= wait_ms);
        let has_ended = ticked.answer.state.phase == Phase::Settling;
        assert!(!limit_is_over || has_ended, "R-3.3: the limit ends it");
        let first_ms = before.timers.first().map(|(left_ms, _)| *left_ms);
        // Later instants before the limit differ in what fires, not in what comes first.
        if !limit_is_over && first_ms != Some(wait_ms) {
            return;
        }
        let mut last = None;
        // One input of each step is enough: that it is late does not depend on what it says.
        for input in inputs.iter().filter(|input| kind_of(input) != Kind::Returned) {
            let place = place_in(input);
            if last.replace(place) == Some(place) {
                continue;
            }
            self.counts.n_ties += 1;
            let (mut at_once, mut after_tick) = (pair.clone(), ticked.pair.clone());
            let answer = feed(&mut at_once, wait_ms, input);
            let expected = feed(&mut after_tick, 0, input);
            assert_eq!(answer.is_accepted, expected.is_accepted, "{input:?}");
            assert_eq!(answer.state, expected.state, "{input:?}");
        }
    }

    /// What a state leads to, in the words of `key::rest`.
    fn sign(
        &self,
        signature: &mut DefaultHasher,
        before: &AbstractState,
        (wait_ms, input): (u64, &Input),
        after: &Next,
    ) {
        let Merging::Whole(_) = self.merging else { return };
        let place = |step: usize| live_place(before, step);
        // Long waits count from the limit.
        let before_limit_ms = before
            .limit_left_ms
            .filter(|_| wait_ms > FAR_MS)
            .map(|left_ms| left_ms + 9 - wait_ms);
        let wait_ms = before_limit_ms.map_or(wait_ms, |before_limit_ms| FAR_MS + before_limit_ms);
        (wait_ms, kind_of(input) as u8, place_in(input).map(place)).hash(signature);
        self.rest(&after.pair, &after.answer.state).hash(signature);
        for command in &after.answer.commands {
            match command {
                Command::Dispatch(step, attempt) => (1, place(*step), *attempt).hash(signature),
                Command::Withdraw(step, attempt, reason) => {
                    (2, place(*step), *attempt, *reason as u8).hash(signature);
                }
                Command::PersistStart(_) => 3.hash(signature),
                Command::PersistResult => 4.hash(signature),
                Command::EmitEvent
                | Command::UpdatePlanRegistry
                | Command::ReleaseResources
                | Command::NotifyErrorHandler
                | Command::ReturnResult => 5.hash(signature),
            }
        }
    }
}

/// Gives both an input.: once the start is durable the wall clock is wrong, by more than the whole execution may take.
fn feed(both: &mut Lockstep, wait_ms: u64, input: &Input) -> Answer {
    let answer = both.feed(wait_ms, input);
    if *input == Input::StartPersisted && answer.state.phase == Phase::Running {
        let jumps_ahead = both.reference.states.len().is_multiple_of(2);
        both.now.unix_ms += if jumps_ahead { HOUR_MS } else { -HOUR_MS };
    }
    answer
}

const HOUR_MS: i64 = 3_600_000;

/// How far an execution has come. It grows with everything that happens, except that an attempt is returned.
fn measure(state: &AbstractState, now_ms: u64) -> (Phase, u64, bool, u64) {
    let of_step = |state: StepState| match state {
        StepState::Pending => 0,
        StepState::Waiting { attempt } => 4 * u64::from(attempt) - 3,
        StepState::Assigned { attempt } => 4 * u64::from(attempt) - 2,
        StepState::Started { attempt } => 4 * u64::from(attempt) - 1,
        StepState::BackingOff { next_attempt } => 4 * u64::from(next_attempt) - 4,
        StepState::Completed | StepState::NotCompleted | StepState::Stopped => 1_000,
    };
    let steps = state.steps.iter().map(|step| of_step(step.state)).sum();
    (state.phase, steps, !state.start_is_being_written, now_ms)
}

/// Where a transition led.
struct Next {
    pair: Lockstep,
    answer: Answer,
}

/// Returns the place of a step among those that have not ended.
fn live_place(state: &AbstractState, step: usize) -> usize {
    use escapement_contract::StepState::{Completed, NotCompleted};
    let is_live = |place: &usize| {
        let state = state.steps.get(*place).map(|step| step.state);
        !matches!(state, Some(Completed | NotCompleted))
    };
    (0..step).filter(is_live).count()
}

fn attempts_of(state: escapement_contract::StepState) -> u32 {
    use escapement_contract::StepState::{Assigned, BackingOff, Started, Waiting};
    match state {
        Waiting { attempt } | Assigned { attempt } | Started { attempt } => attempt,
        BackingOff { next_attempt } => next_attempt,
        _ => 0,
    }
}
