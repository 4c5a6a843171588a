//! Feeds one script to the contract crate and to the second interpreter, and compares them after every input.
//! Decides nothing itself.

use crate::documents::{CONCURRENCY_LIMIT, EXECUTION_ID, UNIX_MS};
use crate::generate::{Act, Event, Finish, Pause, Scenario};
use crate::reference::border;
use escapement_contract::{
    AuditEntry, Delivery, Effect, Evidence, Execution, Input, Moment, Outcome, Phase, PlanResult, Refused,
    Reported, Request, Settlement, StepIndex, StepState, chain_seed, replay, validate_request,
};
use escapement_model::Opaque;
use escapement_tests::reference::decided::Command;
use escapement_tests::reference::interpret::Interpreter;
use escapement_tests::reference::words;
use std::sync::Arc;

/// Inputs after which a scenario that does not end is given up.
const INPUTS_MAX: usize = 5_000;

/// An input with its time.
pub(crate) type Fed = (Moment, Input);

/// Both machines on one script.
pub(crate) struct Driver {
    pub(crate) core: Execution,
    pub(crate) reference: Interpreter,
    pub(crate) request: Arc<Request>,
    pub(crate) fed: Vec<Fed>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) now: Moment,
    /// Inputs that were refused.
    pub(crate) n_refused: u32,
    /// Inputs other than ticks that came at the instant at which a timer was due.
    pub(crate) n_ties: u32,
    /// The most steps that held a slot at a time.
    pub(crate) under_way_max: u32,
    seen_audit: Vec<AuditEntry>,
    seen_result: Option<PlanResult>,
    /// Steps of the largest plan, to name steps that the plan has and that it does not have.
    indices: Vec<StepIndex>,
}

/// The instant at which executions are accepted.
pub(crate) const ACCEPTED: Moment = Moment {
    monotonic_ms: 7_000,
    unix_ms: UNIX_MS,
};

/// Accepts the request as an execution of the contract crate.
pub(crate) fn accept(request: &Arc<Request>, deadline_ms: i64) -> Execution {
    Execution::accept(
        request.clone(),
        EXECUTION_ID.parse().unwrap(),
        ACCEPTED.unix_ms,
        deadline_ms,
        ACCEPTED,
    )
}

/// Indices of steps 0 to 1023, whatever plan they come from.
pub(crate) fn step_indices() -> Vec<StepIndex> {
    let mut draft = crate::documents::request();
    draft.plan.as_mut().unwrap().steps = (0..1024).map(crate::documents::step).collect();
    let request = validate_request(draft, CONCURRENCY_LIMIT).unwrap();
    let mut indices = request.plan().canonical_order().to_vec();
    indices.sort();
    indices
}

impl Driver {
    pub(crate) fn new(scenario: &Scenario, indices: &[StepIndex]) -> Self {
        let request = Arc::new(validate_request(scenario.request.clone(), CONCURRENCY_LIMIT).unwrap());
        let rules = border::rules(&scenario.request, scenario.deadline_ms);
        let driver = Self {
            core: accept(&request, scenario.deadline_ms),
            reference: Interpreter::accept(rules, border::moment(ACCEPTED)),
            request,
            fed: Vec::new(),
            effects: Vec::new(),
            now: ACCEPTED,
            n_refused: 0,
            n_ties: 0,
            under_way_max: 0,
            seen_audit: Vec::new(),
            seen_result: None,
            indices: indices.to_vec(),
        };
        let order: Vec<usize> = driver
            .request
            .plan()
            .canonical_order()
            .iter()
            .map(|step| step.as_usize())
            .collect();
        assert_eq!(order, driver.reference.order, "the canonical order differs");
        driver
    }

    /// Plays the whole scenario until the execution is settled.
    pub(crate) fn play(&mut self, scenario: &Scenario) {
        for event in &scenario.script {
            self.pass_time(event, scenario.dawdles);
            if let Some(input) = self.input_for(&event.act) {
                self.feed(input);
            }
        }
        while self.reference.phase != words::Phase::Settled {
            assert!(self.fed.len() < INPUTS_MAX, "the execution does not end");
            let outcome = match scenario.finish {
                Finish::Trouble => Outcome::Failed(Reported {
                    code: "BUSY".into(),
                    ..Reported::default()
                }),
                Finish::Silence | Finish::Diligence => Outcome::Completed {
                    output: Opaque::default(),
                    warnings: vec![],
                },
            };
            let done = Act::Advance {
                pick: 0,
                skips_started: false,
                outcome,
            };
            let is_silent =
                scenario.finish == Finish::Silence && self.reference.phase == words::Phase::Running;
            if let Some(input) = self.input_for(&done).filter(|_| !is_silent) {
                self.feed(input);
            } else {
                let due = self
                    .core
                    .next_due_ms()
                    .expect("what waits for nothing has a timer");
                self.advance_to(due);
                self.feed(Input::Tick);
            }
        }
    }

    fn pass_time(&mut self, event: &Event, dawdles: bool) {
        if !dawdles && self.reference.phase < words::Phase::Running {
            return;
        }
        self.now.unix_ms += event.wall_jump_ms;
        let due = if dawdles {
            self.reference.next_due_ms()
        } else {
            self.reference.next_step_due_ms()
        };
        let target = match event.pause {
            Pause::Ms(ms) => Some(self.now.monotonic_ms + ms),
            Pause::UntilDue => due,
            Pause::UntilJustBeforeDue => due.map(|due| due - 1),
            Pause::UntilJustAfterDue => due.map(|due| due + 1),
            Pause::UntilPlanLimit => self.reference.plan_due_ms(),
        };
        if let Some(target) = target {
            self.advance_to(target);
        }
    }

    fn advance_to(&mut self, monotonic_ms: u64) {
        let ms = monotonic_ms.saturating_sub(self.now.monotonic_ms);
        self.now.monotonic_ms += ms;
        self.now.unix_ms += i64::try_from(ms).unwrap();
    }

    fn under_way(&self) -> Vec<(usize, words::StepState)> {
        let states = self
            .reference
            .order
            .iter()
            .map(|step| (*step, self.reference.states[*step]));
        states
            .filter(|(_, state)| {
                matches!(
                    state,
                    words::StepState::Waiting { .. }
                        | words::StepState::Assigned { .. }
                        | words::StepState::Started { .. }
                )
            })
            .collect()
    }

    fn input_for(&self, act: &Act) -> Option<Input> {
        match act {
            Act::Tick => Some(Input::Tick),
            Act::Repeat => self.fed.last().map(|(_, input)| input.clone()),
            Act::Stray {
                step,
                attempt,
                kind,
                outcome,
            } => Some(self.stray(*step, *attempt, *kind, outcome)),
            Act::Advance {
                pick,
                skips_started,
                outcome,
            } => match self.reference.phase {
                words::Phase::Queued => Some(Input::Start),
                words::Phase::Starting => Some(Input::StartPersisted),
                words::Phase::Running => self.next_stage(*pick, *skips_started, outcome),
                words::Phase::Settling => Some(Input::SettlePersisted),
                words::Phase::Settled => None,
            },
            Act::Return { pick } => {
                let (step, state) = self.pick(*pick)?;
                let attempt = attempt_of(state)?;
                let evidence = Evidence::Rejected;
                Some(Input::AttemptReturned {
                    step: self.indices[step],
                    attempt,
                    evidence,
                })
            }
            Act::NotFound { pick } => {
                let (step, state) = self.pick(*pick)?;
                Some(Input::ActionNotFound {
                    step: self.indices[step],
                    attempt: attempt_of(state)?,
                })
            }
        }
    }

    fn pick(&self, pick: usize) -> Option<(usize, words::StepState)> {
        let under_way = self.under_way();
        under_way.get(pick % under_way.len().max(1)).copied()
    }

    fn next_stage(&self, pick: usize, skips_started: bool, outcome: &Outcome) -> Option<Input> {
        let (step, state) = self.pick(pick)?;
        let step = self.indices[step];
        let ended = |attempt| Input::AttemptEnded {
            step,
            attempt,
            outcome: outcome.clone(),
        };
        match state {
            words::StepState::Waiting { attempt } => Some(Input::Assigned {
                step,
                attempt,
                worker: "worker-1".into(),
            }),
            // Only what has started can be lost; `endings` looks at what has not.
            words::StepState::Assigned { attempt } if skips_started && *outcome != Outcome::Lost => {
                Some(ended(attempt))
            }
            words::StepState::Assigned { attempt } => Some(Input::AttemptStarted { step, attempt }),
            words::StepState::Started { attempt } => Some(ended(attempt)),
            _ => None,
        }
    }

    fn stray(&self, step: usize, attempt: u32, kind: u8, outcome: &Outcome) -> Input {
        let step = self.indices[if step == 13 { 1023 } else { step }];
        match kind % 8 {
            0 => Input::Start,
            1 => Input::StartPersisted,
            2 => Input::SettlePersisted,
            3 => Input::Assigned {
                step,
                attempt,
                worker: "worker-2".into(),
            },
            4 => Input::AttemptStarted { step, attempt },
            5 => Input::AttemptReturned {
                step,
                attempt,
                evidence: Evidence::Goodbye,
            },
            6 if *outcome != Outcome::Lost => Input::AttemptEnded {
                step,
                attempt,
                outcome: outcome.clone(),
            },
            _ => Input::ActionNotFound { step, attempt },
        }
    }

    /// Gives one input to both and compares everything that can be seen.
    pub(crate) fn feed(&mut self, input: Input) {
        let now = self.now;
        self.n_ties += u32::from(self.core.next_due_ms() == Some(now.monotonic_ms) && input != Input::Tick);
        let mut with_a_tick_before = None;
        if self.core.next_due_ms().is_some_and(|due| due <= now.monotonic_ms) {
            // timers that are due belong to the time, not to the input.
            let mut twin = self.core.clone();
            assert_eq!(twin.handle(now, Input::Tick), Ok(()));
            with_a_tick_before = Some(twin);
        }
        let before = with_a_tick_before.clone().unwrap_or_else(|| self.core.clone());
        let answer = self.core.handle(now, input.clone());
        if let Some(mut twin) = with_a_tick_before {
            assert_eq!(twin.handle(now, input.clone()), answer, "{input:?} after a tick");
            assert_eq!(
                format!("{twin:?}"),
                format!("{:?}", self.core),
                "{input:?} after a tick"
            );
        }
        self.check_refusal(&before, &input, &answer);
        self.n_refused += u32::from(answer.is_err());
        let is_accepted = self.reference.handle(border::moment(now), &border::input(&input));
        assert_eq!(
            answer.is_ok(),
            is_accepted,
            "{input:?} was {answer:?} by the contract crate at {now:?}"
        );
        self.fed.push((now, input.clone()));
        self.compare(&input);
        self.check_invariants();
    }

    /// a refused input changes nothing.
    fn check_refusal(&self, before: &Execution, input: &Input, answer: &Result<(), Refused>) {
        let Err(refused) = answer else { return };
        assert_eq!(refused.input, input.name());
        assert_eq!(refused.phase, before.phase());
        assert_eq!(before.audit(), self.core.audit(), "{input:?} was refused");
        assert_eq!(
            before.next_due_ms(),
            self.core.next_due_ms(),
            "{input:?} was refused"
        );
        assert_eq!(before.progress(), self.core.progress(), "{input:?} was refused");
        assert_eq!(before.result(), self.core.result(), "{input:?} was refused");
        assert_eq!(
            format!("{before:?}"),
            format!("{:?}", self.core),
            "{input:?} was refused"
        );
    }

    fn compare(&mut self, input: &Input) {
        let commands = self.take_commands();
        let expected = std::mem::take(&mut self.reference.commands);
        assert_eq!(commands, expected, "what must be done after {input:?}");
        assert_eq!(
            border::phase(self.core.phase()),
            self.reference.phase,
            "the phase after {input:?}"
        );
        for (step, state) in self.reference.states.iter().enumerate() {
            assert_eq!(
                border::state(self.core.step_state(self.indices[step])),
                *state,
                "steps[{step}] after {input:?}"
            );
        }
        assert_eq!(
            self.core.next_due_ms(),
            self.reference.next_due_ms(),
            "the next timer after {input:?}"
        );
        assert_eq!(
            self.core.limit_due_ms(),
            self.reference.plan_due_ms(),
            "the plan's timer after {input:?}"
        );
        if let Input::Assigned { step, attempt, .. } = input
            && step.as_usize() < self.reference.states.len()
            && self.core.step_state(*step) == (StepState::Assigned { attempt: *attempt })
        {
            let expected = self
                .reference
                .time_left_ms(step.as_usize(), border::moment(self.now));
            assert_eq!(
                self.core.attempt_time_left_ms(*step, self.now),
                expected,
                "time left after {input:?}"
            );
        }
    }

    fn take_commands(&mut self) -> Vec<Command> {
        let mut commands = Vec::new();
        while let Some(effect) = self.core.poll_effect() {
            commands.push(match &effect {
                Effect::PersistStart { started_at_unix_ms } => Command::PersistStart(*started_at_unix_ms),
                Effect::Dispatch { step, attempt } => {
                    self.check_dispatch(*step);
                    Command::Dispatch(step.as_usize(), *attempt)
                }
                Effect::Withdraw {
                    step,
                    attempt,
                    reason,
                } => Command::Withdraw(step.as_usize(), *attempt, border::withdraw_reason(*reason)),
                Effect::PersistResult(settlement) => {
                    self.check_replay(settlement);
                    Command::PersistResult
                }
                Effect::Deliver(Delivery::EmitEvent(_)) => Command::EmitEvent,
                Effect::Deliver(Delivery::UpdatePlanRegistry(_)) => Command::UpdatePlanRegistry,
                Effect::Deliver(Delivery::ReleaseResources(_)) => Command::ReleaseResources,
                Effect::Deliver(Delivery::NotifyErrorHandler(_)) => Command::NotifyErrorHandler,
                Effect::Deliver(Delivery::ReturnResult(_)) => Command::ReturnResult,
            });
            self.effects.push(effect);
        }
        commands
    }

    /// told what was logged, the core ends in the same way.: its entries are chained.
    fn check_replay(&self, settlement: &Settlement) {
        let (request, id) = (Arc::clone(&self.request), self.core.execution_id());
        let (accepted_at, deadline) = (self.core.accepted_at(), self.core.deadline());
        let replayed = replay(request, id, accepted_at, deadline, &settlement.inputs);
        let replayed = replayed.expect("the core takes what it took before");
        assert!(settlement.inputs.is_complete);
        assert_eq!(replayed.settlement().map(Arc::as_ref), Some(settlement));
        let mut head = chain_seed(id, self.request.digest());
        for entry in &settlement.audit {
            head = entry.link(&head);
            assert_eq!(entry.hash, head, "entry {}", entry.sequence);
        }
    }

    /// No step starts before its dependencies completed, nor once the result is made.
    fn check_dispatch(&self, step: StepIndex) {
        let was_ended = self
            .effects
            .iter()
            .any(|effect| matches!(effect, Effect::PersistResult(_)));
        assert!(!was_ended, "{step} is dispatched after the end");
        let start_is_durable = self.fed.iter().any(|(_, input)| *input == Input::StartPersisted)
            || matches!(self.core.phase(), Phase::Running | Phase::Settling);
        assert!(
            start_is_durable,
            "{step} is dispatched before the start is durable"
        );
        for other in self.request.plan().step(step).depends_on() {
            assert_eq!(
                self.core.step_state(*other),
                StepState::Completed,
                "{step} is dispatched, it needs {other}"
            );
        }
    }

    fn check_invariants(&mut self) {
        let progress = self.core.progress();
        let under_way = progress.steps_waiting + progress.steps_running + progress.steps_backing_off;
        self.under_way_max = self.under_way_max.max(under_way);
        let ended = progress.steps_completed + progress.steps_not_completed;
        assert_eq!(progress.steps_pending + under_way + ended, progress.steps_total);
        assert_eq!(progress.steps_total as usize, self.reference.states.len());
        assert!(
            under_way <= self.request.max_concurrent_steps(),
            "{under_way} steps hold a slot"
        );
        // numbered without gaps, only appended to.
        let audit = self.core.audit();
        assert!(
            audit.starts_with(&self.seen_audit),
            "the record lost what it said before"
        );
        for (n, entry) in audit.iter().enumerate() {
            assert_eq!(entry.sequence, n as u64 + 1);
        }
        self.seen_audit = audit.to_vec();
        //
        let result = self.core.result();
        assert_eq!(result.is_some(), self.core.phase() == Phase::Settled);
        assert_eq!(result.is_some(), self.core.settlement().is_some());
        if self.seen_result.is_some() {
            assert_eq!(result, self.seen_result.as_ref(), "the result changed");
        }
        self.seen_result = result.cloned();
        // Every plan ends: somebody has to do something, or a timer runs.
        let somebody_must_act =
            self.reference.waits_for_a_write() || progress.steps_waiting + progress.steps_running > 0;
        let settled = self.core.phase() == Phase::Settled;
        assert!(
            settled || somebody_must_act || self.core.next_due_ms().is_some(),
            "nothing would ever happen"
        );
        let has_limit = matches!(
            self.core.phase(),
            Phase::Queued | Phase::Starting | Phase::Running
        );
        assert_eq!(
            self.core.next_due_ms().is_some(),
            has_limit,
            "the execution is bounded until it ends"
        );
    }
}

fn attempt_of(state: words::StepState) -> Option<u32> {
    match state {
        words::StepState::Waiting { attempt }
        | words::StepState::Assigned { attempt }
        | words::StepState::Started { attempt } => Some(attempt),
        _ => None,
    }
}
