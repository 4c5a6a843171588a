//! An execution as a state machine: inputs and time go in, effects come out.
//! Performs no effect itself and does not know that other executions exist.
//!
//! Four kinds of methods: getters, `handle` (what happened), `poll_effect` (what must be done now) and
//! `next_due_ms` (when to come back).

#[cfg(feature = "explore")]
mod abstract_state;
mod attempt;
mod compose;
mod effect;
mod explain;
mod input;
mod interruption;
mod settle;
mod start;
mod steps;
mod timers;
mod turn;

#[cfg(feature = "explore")]
pub use abstract_state::{AbstractState, AbstractStep};
pub use effect::{Delivery, Effect, Persisted, WithdrawReason};
pub use input::{Evidence, Input, Refused};
pub use interruption::Interruption;
pub(crate) use start::MISSING_KEYS_BYTES_MAX;
pub use steps::{Progress, StepState};

use crate::audit::{Audit, AuditEntry, AuditKind};
use crate::chain::{chain_seed, provenance_digest};
use crate::input_log::InputLog;
use crate::plan::{Plan, StepIndex};
use crate::request::Request;
use crate::result::{PlanResult, Settlement};
use crate::time::{Moment, due_at_unix};
use crate::trace::Trace;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use escapement_model::ExecutionId;
use settle::Ending;
use steps::Steps;

/// Where an execution stands. It only ever moves downwards in this list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Accepted, waiting for admission.
    Queued,
    /// Started; the start is not durable yet.
    Starting,
    /// Steps run.
    Running,
    /// Ended; the result is not durable yet.
    Settling,
    /// Ended for good.
    Settled,
}

/// An accepted request on its way to its result.
// nothing in it leads to another execution.
#[derive(Clone, Debug)]
pub struct Execution {
    /// shared and never written to.
    request: Arc<Request>,
    execution_id: ExecutionId,
    accepted_at_unix_ms: i64,
    deadline_unix_ms: i64,
    phase: Phase,
    started_at_unix_ms: Option<i64>,
    /// True from `PersistStart` until its answer.
    start_is_being_written: bool,
    /// While queued the deadline, then the plan's limit; monotonic.
    limit_due_ms: u64,
    /// Allocated when the first step may run, so that a queued execution stays small.
    steps: Option<Box<Steps>>,
    trace: Trace,
    audit: Audit,
    /// What it was told, until it ends.
    inputs: InputLog,
    settlement: Option<Arc<Settlement>>,
    /// How many entries of the settlement's record may be shown before it is durable.
    n_entries_before_settling: usize,
    effects: VecDeque<Effect>,
}

impl Execution {
    /// Creates a queued execution. After a restart give the `accepted_at` and the deadline of the first acceptance
    /// again.
    pub fn accept(
        request: Arc<Request>,
        execution_id: ExecutionId,
        accepted_at_unix_ms: i64,
        deadline_unix_ms: i64,
        now: Moment,
    ) -> Self {
        // nothing here tells a first acceptance from one after a restart.
        // Accepted and Started: most executions need room for these two long before the rest.
        let seed = chain_seed(execution_id, request.digest());
        let mut audit = Audit::new(seed, 2);
        audit.record(
            accepted_at_unix_ms,
            AuditKind::Accepted {
                deadline_ms: deadline_unix_ms,
                provenance_digest: provenance_digest(request.provenance()),
            },
        );
        Self {
            request,
            execution_id,
            accepted_at_unix_ms,
            deadline_unix_ms,
            phase: Phase::Queued,
            started_at_unix_ms: None,
            start_is_being_written: false,
            limit_due_ms: due_at_unix(deadline_unix_ms, now),
            steps: None,
            trace: Trace::default(),
            audit,
            inputs: InputLog::new(now),
            settlement: None,
            n_entries_before_settling: 0,
            effects: VecDeque::new(),
        }
    }

    /// Creates an execution that an earlier process accepted and that must not run any more. It settles at once.
    pub fn recover(
        request: Arc<Request>,
        execution_id: ExecutionId,
        accepted_at_unix_ms: i64,
        deadline_unix_ms: i64,
        interruption: Interruption,
        now: Moment,
    ) -> Self {
        let mut execution = Self::accept(request, execution_id, accepted_at_unix_ms, deadline_unix_ms, now);
        execution.inputs.interruption = Some(interruption);
        execution.settle_interrupted(interruption, now);
        execution
    }

    /// Takes in what happened. First every timer that is due by `now` fires.
    ///
    /// # Errors
    /// [`Refused`] if the input does not fit; it changed nothing.
    pub fn handle(&mut self, now: Moment, input: Input) -> Result<(), Refused> {
        // everything below depends on the state, the input and `now` alone.
        // an outcome that comes at the instant of expiry is late.
        if self
            .next_due_ms()
            .is_some_and(|due_ms| due_ms <= now.monotonic_ms)
        {
            // what time does, it does whether the input fits or not.
            self.inputs.note(now, &Input::Tick);
        }
        self.fire_due_timers(now);
        let refused = Refused {
            phase: self.phase,
            input: input.name(),
            step: self.state_of(input.step()),
        };
        let is_logged = self.settlement.is_none() && !matches!(input, Input::Tick);
        let noted = is_logged.then(|| self.inputs.note(now, &input));
        let fits = self.apply(now, input);
        if let Some(noted) = noted.filter(|_| !fits) {
            self.inputs.take_back(noted);
        }
        // A retry without delay is due at once.
        self.fire_due_timers(now);
        //
        if fits { Ok(()) } else { Err(refused) }
    }

    /// Returns the table of phases and inputs. False if the input does not fit.
    fn apply(&mut self, now: Moment, input: Input) -> bool {
        match (self.phase, input) {
            (Phase::Queued, Input::Start) => self.start(now),
            (Phase::Starting, Input::StartPersisted) => self.start_persisted(now),
            // The limit ran out while the start was being written: nothing follows from it any more.
            (Phase::Settling | Phase::Settled, Input::StartPersisted) => self.start_persisted_late(),
            (
                Phase::Running,
                Input::Assigned {
                    step,
                    attempt,
                    worker,
                },
            ) => self.assigned(now, step, attempt, worker),
            (Phase::Running, Input::AttemptStarted { step, attempt }) => {
                self.attempt_started(now, step, attempt)
            }
            (
                Phase::Running,
                Input::AttemptReturned {
                    step,
                    attempt,
                    evidence,
                },
            ) => self.attempt_returned(now, step, attempt, evidence),
            (
                Phase::Running,
                Input::AttemptEnded {
                    step,
                    attempt,
                    outcome,
                },
            ) => self.attempt_ended(now, step, attempt, outcome),
            (Phase::Running, Input::ActionNotFound { step, attempt }) => {
                self.action_not_found(now, step, attempt)
            }
            (Phase::Settling, Input::SettlePersisted) => self.deliver(),
            // Time has been dealt with above.
            (
                Phase::Queued | Phase::Starting | Phase::Running | Phase::Settling | Phase::Settled,
                Input::Tick,
            ) => true,
            // it starts once, and nothing stops it but its end.
            (Phase::Starting | Phase::Running | Phase::Settling | Phase::Settled, Input::Start) => false,
            (Phase::Queued | Phase::Running, Input::StartPersisted) => false,
            // no attempt exists before the start is durable, and none lives on after
            // the end.
            (
                Phase::Queued | Phase::Starting | Phase::Settling | Phase::Settled,
                Input::Assigned { .. }
                | Input::AttemptStarted { .. }
                | Input::AttemptReturned { .. }
                | Input::AttemptEnded { .. }
                | Input::ActionNotFound { .. },
            ) => false,
            // what was not handed out to be written cannot have become durable.
            (Phase::Queued | Phase::Starting | Phase::Running | Phase::Settled, Input::SettlePersisted) => {
                false
            }
        }
    }

    /// The next thing to do, or `None` until something happens.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Returns the request that is executed.
    pub fn request(&self) -> &Arc<Request> {
        &self.request
    }

    /// Names this execution.
    pub fn execution_id(&self) -> ExecutionId {
        self.execution_id
    }

    /// Where it stands.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns the unix milliseconds.
    pub fn accepted_at(&self) -> i64 {
        self.accepted_at_unix_ms
    }

    /// Returns the unix milliseconds.
    pub fn deadline(&self) -> i64 {
        self.deadline_unix_ms
    }

    /// Returns the unix milliseconds; `None` while queued, and for an execution that never started.
    pub fn started_at(&self) -> Option<i64> {
        self.started_at_unix_ms
    }

    /// Returns the plan's limit on the monotonic clock; `None` unless the execution has started and not ended.
    pub fn limit_due_ms(&self) -> Option<u64> {
        match self.phase {
            Phase::Starting | Phase::Running => Some(self.limit_due_ms),
            Phase::Queued | Phase::Settling | Phase::Settled => None,
        }
    }

    /// Returns the record so far. What the settlement adds shows only once it is durable.
    pub fn audit(&self) -> &[AuditEntry] {
        match (&self.settlement, self.phase) {
            (Some(settlement), Phase::Settled) => &settlement.audit,
            //
            (Some(settlement), _) => &settlement.audit[..self.n_entries_before_settling],
            (None, _) => self.audit.entries(),
        }
    }

    /// The result, once it is durable.
    pub fn result(&self) -> Option<&PlanResult> {
        self.settlement().map(|settlement| &settlement.result)
    }

    /// The settlement, once it is durable.
    pub fn settlement(&self) -> Option<&Arc<Settlement>> {
        //
        self.settlement.as_ref().filter(|_| self.phase == Phase::Settled)
    }

    /// Returns the milliseconds to give a worker for this attempt: the step's limit or what is left of the plan's, at
    /// least 1.
    pub fn attempt_time_left_ms(&self, step: StepIndex, now: Moment) -> u64 {
        //
        let plan_left = self.limit_due_ms.saturating_sub(now.monotonic_ms);
        let step_left = self
            .step_timer_left_ms(step, now)
            .or(self.plan().step(step).timeout_ms());
        step_left.unwrap_or(plan_left).min(plan_left).max(1)
    }

    /// Returns the settlement, durable or not.
    pub(crate) fn settlement_to_persist(&self) -> Option<&Arc<Settlement>> {
        self.settlement.as_ref()
    }

    /// What was decided so far, chained.
    pub(crate) fn decisions(&self) -> &[u8; 32] {
        &self.inputs.decisions
    }

    /// Wants something done.
    fn want(&mut self, effect: Effect) {
        self.inputs.decided(&effect);
        self.effects.push_back(effect);
    }

    fn plan(&self) -> &Plan {
        self.request.plan()
    }

    /// Appends to the record. No timestamp lies before the start.
    fn record(&mut self, now: Moment, kind: AuditKind) {
        self.audit.record(self.timestamp(now), kind);
    }

    fn timestamp(&self, now: Moment) -> i64 {
        //
        now.unix_ms.max(self.started_at().unwrap_or(now.unix_ms))
    }
}
