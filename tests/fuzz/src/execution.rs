//! One execution: a small plan and whatever may happen to it, beside the second interpreter. Nothing here is a rule.

mod made;

use crate::reference::border;
use crate::seeds;
use crate::source::Source;
use escapement_codec::stored::{decode_audit, decode_result, encode_audit, encode_result};
use escapement_contract::{
    Delivery, Effect, Evidence, Execution, Input, Moment, Outcome, Phase, PlanResult, Request, RequestDraft,
    Status, StepIndex, StepState, chain_seed, replay, validate_request,
};
use escapement_model::Severity;
use escapement_tests::reference::decided::Command;
use escapement_tests::reference::interpret::Interpreter;
use made::{completed, draft, outcome};
use std::sync::Arc;

/// Inputs after which an execution that does not end is a finding.
const INPUTS_MAX: usize = 5_000;

const ACCEPTED: Moment = Moment {
    monotonic_ms: 7_000,
    unix_ms: seeds::UNIX_MS,
};

/// First the plan, then what happens to it.
pub(crate) fn run(input: &[u8]) {
    let mut source = Source::new(input);
    let draft = draft(&mut source);
    let deadline_ms = seeds::UNIX_MS
        + match source.byte() {
            byte @ 0..=63 => i64::from(byte) - 8,
            _ => 600_000,
        };
    let Ok(request) = validate_request(draft.clone(), 256) else {
        panic!("the plan is valid by construction: {draft:?}")
    };
    let mut run = Run::new(Arc::new(request), &draft, deadline_ms);
    while !source.is_empty() && run.core.phase() != Phase::Settled {
        run.pass_time(&mut source);
        if let Some(input) = run.next_input(&mut source) {
            run.feed(input);
        }
    }
    run.end();
    run.check_end();
    run.check_repetition(deadline_ms);
    run.check_replay();
}

struct Run {
    request: Arc<Request>,
    core: Execution,
    reference: Interpreter,
    now: Moment,
    fed: Vec<(Moment, Input)>,
    n_persisted: u32,
    n_entries_seen: usize,
}

impl Run {
    fn new(request: Arc<Request>, draft: &RequestDraft, deadline_ms: i64) -> Self {
        let run = Self {
            core: accept(&request, deadline_ms),
            reference: Interpreter::accept(border::rules(draft, deadline_ms), border::moment(ACCEPTED)),
            request,
            now: ACCEPTED,
            fed: Vec::new(),
            n_persisted: 0,
            n_entries_seen: 0,
        };
        let order = run.request.plan().canonical_order().iter();
        assert!(
            order
                .map(|step| step.as_usize())
                .eq(run.reference.order.iter().copied())
        );
        run
    }

    fn pass_time(&mut self, source: &mut Source<'_>) {
        let due = self.core.next_due_ms();
        let target = match source.byte() {
            0..=127 => None,
            byte @ 128..=191 => Some(self.now.monotonic_ms + u64::from(byte - 128)),
            192..=215 => due,
            216..=223 => due.map(|due| due.saturating_sub(1)),
            224..=231 => due.map(|due| due + 1),
            232..=239 => Some(self.now.monotonic_ms + u64::from(source.word())),
            // The wall clock jumps.
            byte => {
                self.now.unix_ms += (i64::from(byte) - 247) * 1_000;
                None
            }
        };
        if let Some(target) = target {
            self.advance_to(target);
        }
    }

    fn advance_to(&mut self, monotonic_ms: u64) {
        let ms = monotonic_ms.saturating_sub(self.now.monotonic_ms);
        self.now.monotonic_ms += ms;
        self.now.unix_ms += i64::try_from(ms).expect("limits of the plans are small");
    }

    fn under_way(&self, pick: u8) -> Option<(StepIndex, StepState)> {
        let order = self.request.plan().canonical_order().iter();
        let under_way: Vec<(StepIndex, StepState)> = order
            .map(|step| (*step, self.core.step_state(*step)))
            .filter(|(_, state)| attempt_of(*state).is_some())
            .collect();
        under_way.get(usize::from(pick) % under_way.len().max(1)).copied()
    }

    fn next_input(&self, source: &mut Source<'_>) -> Option<Input> {
        let kind = source.byte();
        let pick = source.byte();
        match kind {
            0..=175 => self.expected(source, kind, pick),
            176..=191 => {
                let (step, state) = self.under_way(pick)?;
                let attempt = attempt_of(state)?;
                let evidence = Evidence::ALL[usize::from(kind) % Evidence::ALL.len()];
                Some(Input::AttemptReturned {
                    step,
                    attempt,
                    evidence,
                })
            }
            192..=199 => {
                let (step, state) = self.under_way(pick)?;
                let attempt = attempt_of(state)?;
                Some(Input::ActionNotFound { step, attempt })
            }
            200..=207 => Some(Input::Tick),
            208..=219 => self.fed.last().map(|(_, input)| input.clone()),
            _ => Some(self.stray(source, kind, pick)),
        }
    }

    /// What comes next where nothing goes wrong.
    fn expected(&self, source: &mut Source<'_>, kind: u8, pick: u8) -> Option<Input> {
        match self.core.phase() {
            Phase::Queued => Some(Input::Start),
            Phase::Starting => Some(Input::StartPersisted),
            Phase::Settling => Some(Input::SettlePersisted),
            Phase::Settled => None,
            Phase::Running => {
                let (step, state) = self.under_way(pick)?;
                match state {
                    StepState::Waiting { attempt } => {
                        let worker = "worker-1".into();
                        Some(Input::Assigned {
                            step,
                            attempt,
                            worker,
                        })
                    }
                    StepState::Assigned { attempt } if kind < 100 => {
                        Some(Input::AttemptStarted { step, attempt })
                    }
                    StepState::Assigned { attempt } => {
                        let outcome = match outcome(source) {
                            // Only what has started can be lost.
                            Outcome::Lost => completed(),
                            other => other,
                        };
                        Some(Input::AttemptEnded {
                            step,
                            attempt,
                            outcome,
                        })
                    }
                    StepState::Started { attempt } => Some(Input::AttemptEnded {
                        step,
                        attempt,
                        outcome: outcome(source),
                    }),
                    _ => None,
                }
            }
        }
    }

    /// Something that fits by chance at best.
    fn stray(&self, source: &mut Source<'_>, kind: u8, pick: u8) -> Input {
        let steps = self.request.plan().canonical_order();
        let step = steps[usize::from(pick) % steps.len()];
        let attempt = u32::from(pick % 5);
        match kind % 8 {
            0 => Input::Start,
            1 => Input::StartPersisted,
            2 => Input::SettlePersisted,
            3 => {
                let worker = "worker-2".into();
                Input::Assigned {
                    step,
                    attempt,
                    worker,
                }
            }
            4 => Input::AttemptStarted { step, attempt },
            5 => {
                let evidence = Evidence::Goodbye;
                Input::AttemptReturned {
                    step,
                    attempt,
                    evidence,
                }
            }
            6 => match outcome(source) {
                Outcome::Lost => Input::ActionNotFound { step, attempt },
                outcome => Input::AttemptEnded {
                    step,
                    attempt,
                    outcome,
                },
            },
            _ => Input::ActionNotFound { step, attempt },
        }
    }

    /// Gives one input to both, and compares what can be seen.
    fn feed(&mut self, input: Input) {
        let now = self.now;
        let is_late = self.core.next_due_ms().is_some_and(|due| due <= now.monotonic_ms);
        let before = (!is_late).then(|| self.visible());
        let answer = self.core.handle(now, input.clone());
        let is_accepted = self.reference.handle(border::moment(now), &border::input(&input));
        assert_eq!(answer.is_ok(), is_accepted, "{input:?} was {answer:?}");
        if answer.is_err() && before.is_some() {
            //
            assert_eq!(
                before,
                Some(self.visible()),
                "{input:?} was refused and changes nothing"
            );
        }
        self.fed.push((now, input));
        assert!(self.fed.len() < INPUTS_MAX, "the execution does not end");
        self.compare();
        self.check_invariants();
    }

    fn visible(&self) -> (Phase, Option<u64>, usize, escapement_contract::Progress) {
        let core = &self.core;
        (
            core.phase(),
            core.next_due_ms(),
            core.audit().len(),
            core.progress(),
        )
    }

    fn compare(&mut self) {
        let mut commands = Vec::new();
        while let Some(effect) = self.core.poll_effect() {
            commands.push(self.command(&effect));
        }
        let expected = std::mem::take(&mut self.reference.commands);
        assert_eq!(commands, expected, "what must be done");
        assert_eq!(
            border::phase(self.core.phase()),
            self.reference.phase,
            "the phase"
        );
        for step in self.request.plan().canonical_order() {
            let expected = self.reference.states[step.as_usize()];
            assert_eq!(border::state(self.core.step_state(*step)), expected, "{step}");
        }
        assert_eq!(
            self.core.next_due_ms(),
            self.reference.next_due_ms(),
            "the next timer"
        );
    }

    fn command(&mut self, effect: &Effect) -> Command {
        match effect {
            Effect::PersistStart { started_at_unix_ms } => Command::PersistStart(*started_at_unix_ms),
            Effect::Dispatch { step, attempt } => {
                assert_eq!(self.n_persisted, 0, "nothing is dispatched after the end");
                for other in self.request.plan().step(*step).depends_on() {
                    assert_eq!(
                        self.core.step_state(*other),
                        StepState::Completed,
                        "{step} needs {other}"
                    );
                }
                Command::Dispatch(step.as_usize(), *attempt)
            }
            Effect::Withdraw {
                step,
                attempt,
                reason,
            } => Command::Withdraw(step.as_usize(), *attempt, border::withdraw_reason(*reason)),
            Effect::PersistResult(_) => {
                self.n_persisted += 1;
                assert_eq!(self.n_persisted, 1, "an execution ends once");
                Command::PersistResult
            }
            Effect::Deliver(Delivery::EmitEvent(_)) => Command::EmitEvent,
            Effect::Deliver(Delivery::UpdatePlanRegistry(_)) => Command::UpdatePlanRegistry,
            Effect::Deliver(Delivery::ReleaseResources(_)) => Command::ReleaseResources,
            Effect::Deliver(Delivery::NotifyErrorHandler(_)) => Command::NotifyErrorHandler,
            Effect::Deliver(Delivery::ReturnResult(_)) => Command::ReturnResult,
        }
    }

    fn check_invariants(&mut self) {
        let progress = self.core.progress();
        let under_way = progress.steps_waiting + progress.steps_running + progress.steps_backing_off;
        let ended = progress.steps_completed + progress.steps_not_completed;
        assert_eq!(progress.steps_pending + under_way + ended, progress.steps_total);
        assert!(
            under_way <= self.request.max_concurrent_steps(),
            "{under_way} steps hold a slot"
        );
        let audit = self.core.audit();
        assert!(audit.len() >= self.n_entries_seen, "the record never shrinks");
        for (n, entry) in audit.iter().enumerate().skip(self.n_entries_seen) {
            assert_eq!(entry.sequence, n as u64 + 1, "the record has no gap");
        }
        self.n_entries_seen = audit.len();
        assert_eq!(self.core.result().is_some(), self.core.phase() == Phase::Settled);
        let is_bounded = self.core.next_due_ms().is_some();
        assert_eq!(
            is_bounded,
            self.core.phase() < Phase::Settling,
            "bounded until it ends"
        );
    }

    /// Writes are answered and time passes; nothing else is needed for an end.
    fn end(&mut self) {
        while self.core.phase() != Phase::Settled {
            match (self.core.phase(), self.core.next_due_ms()) {
                (Phase::Settling, _) => self.feed(Input::SettlePersisted),
                (_, Some(due)) => {
                    self.advance_to(due);
                    self.feed(Input::Tick);
                }
                (phase, None) => panic!("nothing would ever happen in {phase:?}"),
            }
        }
    }

    fn check_end(&self) {
        let settlement = self.core.settlement().expect("it has ended");
        let result = &settlement.result;
        let ended = self.reference.ended.as_ref().expect("both have ended");
        assert_eq!(border::status(result.status), ended.status);
        assert_eq!(result.completed_at, ended.completed_at);
        assert_eq!(settlement.started_at_unix_ms, ended.started_at);
        assert_eq!(result.duration_ms, ended.completed_at - ended.started_at);
        assert_eq!(result.steps_executed as usize, self.reference.outputs.len());
        let keys = result
            .result_payload
            .entries()
            .map(|entry| entry.expect("it is ours").0.to_owned());
        let order = self.reference.order.iter();
        let completed = order
            .filter(|step| self.reference.outputs.contains_key(step))
            .map(|step| self.request.plan().steps()[*step].id().to_string());
        assert!(keys.eq(completed), "an output for each completed step");
        let mut error = result.error.as_ref();
        let mut expected = ended.error.iter().flat_map(|error| error.chain());
        while let Some(current) = error {
            let expected = expected.next().expect("both chains have the same length");
            assert_eq!(
                (&current.code, current.severity),
                (&expected.code, expected.severity)
            );
            error = current.cause.as_deref();
        }
        assert!(expected.next().is_none(), "both chains have the same length");
        check_result(result);
    }

    /// the same inputs lead to the same bytes; and the bytes can be read.
    fn check_repetition(&self, deadline_ms: i64) {
        let mut again = accept(&self.request, deadline_ms);
        for (now, input) in &self.fed {
            let _ = again.handle(*now, input.clone());
        }
        let (before, after) = (self.core.settlement(), again.settlement());
        let (before, after) = (
            before.expect("it has ended"),
            after.expect("the replay ends as well"),
        );
        let result = encode_result(&before.result);
        assert_eq!(result, encode_result(&after.result), "the same result");
        let audit = encode_audit(&before.audit);
        assert_eq!(audit, encode_audit(&after.audit), "the same record");
        decode_result(&result).expect("a result can be read");
        assert_eq!(
            decode_audit(&audit).expect("a record can be read").len(),
            before.audit.len()
        );
    }

    /// told what was logged, the core ends in the same way.: its entries are chained.
    fn check_replay(&self) {
        let settlement = self.core.settlement().expect("it has ended");
        let (request, id) = (Arc::clone(&self.request), self.core.execution_id());
        let (accepted_at, deadline) = (self.core.accepted_at(), self.core.deadline());
        let replayed = replay(request, id, accepted_at, deadline, &settlement.inputs);
        let replayed = replayed.expect("the core takes what it took before");
        assert!(settlement.inputs.is_complete, "no run here is so long");
        assert_eq!(replayed.settlement(), Some(settlement));
        let mut head = chain_seed(id, self.request.digest());
        for entry in &settlement.audit {
            head = entry.link(&head);
            assert_eq!(entry.hash, head, "entry {}", entry.sequence);
        }
    }
}

/// The invariants that hold for every result, whatever happened.
pub(crate) fn check_result(result: &PlanResult) {
    assert_eq!(result.error.is_none(), result.status == Status::Success);
    assert!(result.duration_ms >= 0);
    let is_fatal = result.error.as_ref().map(|error| error.severity) == Some(Severity::Fatal);
    match result.status {
        Status::Success => assert_eq!(result.steps_executed, result.steps_total),
        Status::Partial => assert!((1..result.steps_total).contains(&result.steps_executed) && !is_fatal),
        Status::Failure => assert!(result.steps_executed < result.steps_total && is_fatal),
    }
    let mut error = result.error.as_ref();
    let mut n_errors = 0;
    while let Some(current) = error {
        n_errors += 1;
        assert!((1..=50).contains(&current.code.chars().count()));
        assert!(current.message.chars().count() <= 1_000);
        assert_eq!(current.recoverable(), current.severity != Severity::Fatal);
        assert!(current.context.check().is_ok(), "a context can be read");
        error = current.cause.as_deref();
    }
    assert!(n_errors <= 4, "a chain of {n_errors} errors");
}

fn accept(request: &Arc<Request>, deadline_ms: i64) -> Execution {
    let execution_id = seeds::id(3, 1).parse().expect("it is one");
    Execution::accept(
        Arc::clone(request),
        execution_id,
        ACCEPTED.unix_ms,
        deadline_ms,
        ACCEPTED,
    )
}

fn attempt_of(state: StepState) -> Option<u32> {
    match state {
        StepState::Waiting { attempt } | StepState::Assigned { attempt } | StepState::Started { attempt } => {
            Some(attempt)
        }
        _ => None,
    }
}

pub(crate) use made::seeds;
