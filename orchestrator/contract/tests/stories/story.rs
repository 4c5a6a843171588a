//! A plan in a few lines, an execution on a virtual clock, and its effects as words.

use escapement_contract::{
    Delivery, Effect, Evidence, Execution, ExecutionError, Input, Moment, Outcome, Phase, PlanDraft,
    PlanResult, Refused, Reported, RequestDraft, RetryPolicyDraft, Settlement, StepDraft, StepIndex,
    StepState, WithdrawReason, chain_seed, default_deadline, replay, validate_request,
};
use escapement_model::opaque::{StructBuilder, ValueView, entries, items};
use escapement_model::{ExecutionId, Opaque, PlanId, Severity, StepId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The wall clock when a story begins; the monotonic clock is at 0.
pub const T0: i64 = 1_000_000;
/// What the server allows for queueing.
pub const ALLOWANCE: u64 = 500;
/// The server's limit of concurrent steps.
pub const CONCURRENCY_MAX: u32 = 256;

/// A plan that is being written down.
#[derive(Clone, Debug)]
pub struct Spec(pub RequestDraft);

/// Returns a plan without steps; it has a limit of 1000 ms and requires the key `region`, which the environment has.
pub fn plan() -> Spec {
    let plan = PlanDraft {
        id: PlanId::from_random([7; 16]).to_string(),
        version: 1,
        created_at: 1,
        name: "story".into(),
        context_requirements: vec!["region".into()],
        timeout_ms: Some(1000),
        ..PlanDraft::default()
    };
    let environment = StructBuilder::new().text("region", "north").build();
    Spec(RequestDraft {
        plan: Some(plan),
        environment: Some(environment),
        ..RequestDraft::default()
    })
}

/// The same with these steps, as `a; b skip after=a; c retry limit=100 after=a,b`.
pub fn steps(text: &str) -> Spec {
    text.split("; ").fold(plan(), |spec, step| {
        let mut words = step.split(' ');
        let spec = spec.step(words.next().unwrap());
        words.fold(spec, |spec, word| match word.split_once('=') {
            None if word == "skip" => spec.skip(),
            None if word == "retry" => spec.retry(),
            Some(("limit", ms)) => spec.limit(ms.parse().unwrap()),
            Some(("after", names)) => spec.after(&names.split(',').collect::<Vec<_>>()),
            _ => panic!("{word} is no word of a step"),
        })
    })
}

impl Spec {
    pub fn plan(&mut self) -> &mut PlanDraft {
        self.0.plan.as_mut().unwrap()
    }

    /// Adds a step with `on_failure = halt`. Names have at most six letters.
    pub fn step(mut self, name: &str) -> Self {
        let payload = Some(StructBuilder::new().text("for", name).build());
        self.plan().steps.push(StepDraft {
            id: step_id(name).to_string(),
            action: format!("do_{name}"),
            payload,
            ..StepDraft::default()
        });
        self
    }

    fn last(&mut self) -> &mut StepDraft {
        self.plan().steps.last_mut().unwrap()
    }

    pub fn after(mut self, names: &[&str]) -> Self {
        self.last()
            .depends_on
            .extend(names.iter().map(|name| step_id(name).to_string()));
        self
    }

    pub fn skip(mut self) -> Self {
        self.last().on_failure = 1;
        self
    }

    pub fn retry(mut self) -> Self {
        self.last().on_failure = 2;
        self
    }

    pub fn limit(mut self, timeout_ms: i64) -> Self {
        self.last().timeout_ms = Some(timeout_ms);
        self
    }

    pub fn attempts(mut self, max_attempts: i32, backoff_ms: i64, codes: &[&str]) -> Self {
        self.plan().retry_policy = Some(RetryPolicyDraft {
            max_attempts: Some(max_attempts),
            backoff_ms: Some(backoff_ms),
            retryable_error_codes: codes.iter().map(|code| (*code).into()).collect(),
            ..RetryPolicyDraft::default()
        });
        self
    }

    pub fn at_a_time(mut self, n_steps: i32) -> Self {
        self.0.max_concurrent_steps = Some(n_steps);
        self
    }

    pub fn deadline(mut self, unix_ms: i64) -> Self {
        self.0.deadline_ms = Some(unix_ms);
        self
    }

    pub fn requires(mut self, keys: &[&str]) -> Self {
        self.plan().context_requirements = keys.iter().map(|key| (*key).into()).collect();
        self
    }

    pub fn environment(mut self, environment: Opaque) -> Self {
        self.0.environment = Some(environment);
        self
    }

    /// Returns an execution of it that is queued.
    pub fn queued(self) -> Story {
        let request = Arc::new(validate_request(self.0, CONCURRENCY_MAX).unwrap());
        let deadline = request
            .deadline_ms()
            .unwrap_or(default_deadline(T0, request.plan(), ALLOWANCE));
        let now = moment(0, T0);
        let execution = Execution::accept(request, execution_id(), T0, deadline, now);
        Story {
            execution,
            now,
            said: Vec::new(),
            persisted: None,
        }
    }

    /// Returns an execution of it whose start is durable; what it says first is kept for `says`.
    pub fn running(self) -> Story {
        let mut story = self.queued();
        story.ok(Input::Start);
        story.ok(Input::StartPersisted);
        assert_eq!(story.said.remove(0), "persist_start 1000000");
        story
    }
}

/// An execution on a virtual clock.
#[derive(Clone, Debug)]
pub struct Story {
    pub execution: Execution,
    pub now: Moment,
    pub said: Vec<String>,
    pub persisted: Option<Arc<Settlement>>,
}

impl Story {
    /// Sets both clocks, counted from the beginning.
    pub fn at(&mut self, ms: u64) -> &mut Self {
        self.now = moment(ms, T0 + i64::try_from(ms).unwrap());
        self
    }

    /// Feeds an input and keeps what follows.
    pub fn feed(&mut self, input: Input) -> Result<(), Refused> {
        let answer = self.execution.handle(self.now, input);
        while let Some(effect) = self.execution.poll_effect() {
            if let Effect::PersistResult(settlement) = &effect {
                self.persisted = Some(Arc::clone(settlement));
                self.assert_replays(settlement);
            }
            self.said.push(self.words(&effect));
        }
        answer
    }

    /// every story that ends is told to the core again.: its entries are chained.
    fn assert_replays(&self, settlement: &Settlement) {
        let execution = &self.execution;
        let replayed = replay(
            Arc::clone(execution.request()),
            execution.execution_id(),
            execution.accepted_at(),
            execution.deadline(),
            &settlement.inputs,
        );
        let replayed = replayed.expect("the core takes what it took before");
        if settlement.inputs.is_complete {
            let same = replayed.settlement().map(Arc::as_ref) == Some(settlement);
            assert!(same, "a replay ends in another way");
        } else {
            assert_eq!(*replayed.decisions(), settlement.inputs.decisions);
            assert!(settlement.audit.starts_with(replayed.audit()));
        }
        let mut head = chain_seed(execution.execution_id(), execution.request().digest());
        for entry in &settlement.audit {
            head = entry.link(&head);
            assert_eq!(entry.hash, head, "entry {}", entry.sequence);
        }
    }

    pub fn ok(&mut self, input: Input) -> &mut Self {
        self.feed(input).unwrap();
        self
    }

    /// Feeds an input that must be refused and must say nothing.
    #[track_caller]
    pub fn refused(&mut self, input: Input) -> Refused {
        let before = format!("{:?}", self.execution);
        let n_said = self.said.len();
        let refused = self.feed(input).unwrap_err();
        assert_eq!(self.said.len(), n_said, "a refused input has no effect");
        assert_eq!(
            format!("{:?}", self.execution),
            before,
            "a refused input changes nothing"
        );
        refused
    }

    /// Judges what was said since the last time, with commas between.
    #[track_caller]
    pub fn says(&mut self, expected: &str) -> &mut Self {
        assert_eq!(std::mem::take(&mut self.said).join(", "), expected);
        self
    }

    pub fn tick(&mut self) -> &mut Self {
        self.ok(Input::Tick)
    }

    pub fn index(&self, name: &str) -> StepIndex {
        let plan = self.execution.request().plan();
        *plan
            .canonical_order()
            .iter()
            .find(|index| plan.step(**index).id() == step_id(name))
            .unwrap()
    }

    pub fn state(&self, name: &str) -> StepState {
        self.execution.step_state(self.index(name))
    }

    /// Returns the attempt that is under way.
    fn attempt(&self, name: &str) -> u32 {
        match self.state(name) {
            StepState::Waiting { attempt }
            | StepState::Assigned { attempt }
            | StepState::Started { attempt } => attempt,
            state => panic!("{name} has no attempt under way: {state:?}"),
        }
    }

    pub fn assign(&mut self, name: &str) -> &mut Self {
        let (step, attempt) = (self.index(name), self.attempt(name));
        self.ok(Input::Assigned {
            step,
            attempt,
            worker: "worker-1".into(),
        })
    }

    /// Hands the attempt to a worker, which starts it.
    pub fn hand(&mut self, name: &str) -> &mut Self {
        self.assign(name);
        let (step, attempt) = (self.index(name), self.attempt(name));
        self.ok(Input::AttemptStarted { step, attempt })
    }

    pub fn ended(&self, name: &str, attempt: u32, outcome: Outcome) -> Input {
        Input::AttemptEnded {
            step: self.index(name),
            attempt,
            outcome,
        }
    }

    /// Hands the attempt out if that has not happened, and ends it.
    pub fn end(&mut self, name: &str, outcome: Outcome) -> &mut Self {
        if matches!(self.state(name), StepState::Waiting { .. }) {
            self.hand(name);
        }
        let input = self.ended(name, self.attempt(name), outcome);
        self.ok(input)
    }

    pub fn complete(&mut self, name: &str) -> &mut Self {
        self.end(name, completed(name))
    }

    pub fn fail(&mut self, name: &str, code: &str) -> &mut Self {
        self.end(name, failed(code, Some(Severity::Error)))
    }

    pub fn give_back(&mut self, name: &str, evidence: Evidence) -> &mut Self {
        let (step, attempt) = (self.index(name), self.attempt(name));
        self.ok(returned(step, attempt, evidence))
    }

    /// Makes the settlement durable.
    pub fn settle(&mut self) -> PlanResult {
        self.ok(Input::SettlePersisted);
        assert_eq!(self.execution.phase(), Phase::Settled);
        self.execution.result().unwrap().clone()
    }

    /// Returns the error of the settlement.
    pub fn error(&self) -> ExecutionError {
        self.persisted.as_ref().unwrap().result.error.clone().unwrap()
    }

    /// Returns the errors of the run, as `code@step#attempt`.
    pub fn trace(&self) -> Vec<String> {
        let context = self.error().context;
        let Some(ValueView::List(list)) = value(&context, "errors") else {
            panic!("a result with an error has errors");
        };
        let words = items(list).map(|item| {
            let ValueView::Struct(error) = item.unwrap() else {
                panic!("errors are objects")
            };
            let mut line = String::new();
            for entry in entries(error) {
                match entry.unwrap() {
                    ("error_code", ValueView::Text(code)) => line.push_str(code),
                    ("step_id", ValueView::Text(id)) => {
                        line.push_str(&format!("@{}", name_of(id.parse().unwrap())))
                    }
                    ("attempt", ValueView::Number(attempt)) => line.push_str(&format!("#{attempt}")),
                    _ => {}
                }
            }
            line
        });
        words.collect()
    }

    fn words(&self, effect: &Effect) -> String {
        let name = |step: &StepIndex| name_of(self.execution.request().plan().step(*step).id());
        match effect {
            Effect::PersistStart { started_at_unix_ms } => format!("persist_start {started_at_unix_ms}"),
            Effect::Dispatch { step, attempt } => format!("dispatch {}#{attempt}", name(step)),
            Effect::Withdraw {
                step,
                attempt,
                reason,
            } => {
                let reason = match reason {
                    WithdrawReason::StepTimeout => "step_timeout",
                    WithdrawReason::ExecutionEnded => "execution_ended",
                };
                format!("withdraw {}#{attempt} {reason}", name(step))
            }
            Effect::PersistResult(settlement) => {
                let result = &settlement.result;
                let count = format!("{}/{}", result.steps_executed, result.steps_total);
                let error = result
                    .error
                    .as_ref()
                    .map_or(String::new(), |error| format!(" {}", brief(error)));
                format!("persist_result {} {count}{error}", result.status.as_str())
            }
            Effect::Deliver(delivery) => match delivery {
                Delivery::EmitEvent(settled) => format!("emit {}", settled.result.status.event_type()),
                Delivery::UpdatePlanRegistry(_) => "update_registry".into(),
                Delivery::ReleaseResources(_) => "release".into(),
                Delivery::NotifyErrorHandler(_) => "notify".into(),
                Delivery::ReturnResult(settled) => format!("return {}", settled.result.status.as_str()),
            },
        }
    }
}

/// Returns an error and its causes, as `severity CODE@step < cause`.
pub fn brief(error: &ExecutionError) -> String {
    let step = error
        .step_id
        .map_or(String::new(), |id| format!("@{}", name_of(id)));
    let cause = error
        .cause
        .as_ref()
        .map_or(String::new(), |cause| format!(" < {}", brief(cause)));
    format!("{} {}{step}{cause}", error.severity, error.code)
}

pub fn execution_id() -> ExecutionId {
    ExecutionId::from_random([9; 16])
}

pub fn step_id(name: &str) -> StepId {
    assert!(name.len() <= 6, "the rest of the id is not free");
    let mut bytes = [0; 16];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    StepId::from_random(bytes)
}

pub fn name_of(id: StepId) -> String {
    let letters = id.as_bytes().iter().take(6).take_while(|byte| **byte != 0);
    letters.map(|byte| char::from(*byte)).collect()
}

/// Returns the output of a step in these stories: `{"from": name}`.
pub fn output(name: &str) -> Opaque {
    StructBuilder::new().text("from", name).build()
}

pub fn completed(name: &str) -> Outcome {
    Outcome::completed(output(name))
}

pub fn failed(code: &str, severity: Option<Severity>) -> Outcome {
    Outcome::Failed(reported(code, severity))
}

/// Returns a failure with diagnostic data.
pub fn failure(code: &str, context: Opaque) -> Outcome {
    Outcome::Failed(Reported {
        context,
        ..reported(code, None)
    })
}

/// Returns both clocks.
pub fn moment(monotonic_ms: u64, unix_ms: i64) -> Moment {
    Moment {
        monotonic_ms,
        unix_ms,
    }
}

pub fn assigned(step: StepIndex, attempt: u32) -> Input {
    Input::Assigned {
        step,
        attempt,
        worker: "w".into(),
    }
}

pub fn returned(step: StepIndex, attempt: u32, evidence: Evidence) -> Input {
    Input::AttemptReturned {
        step,
        attempt,
        evidence,
    }
}

pub fn reported(code: &str, severity: Option<Severity>) -> Reported {
    Reported {
        code: code.into(),
        message: format!("{code} happened"),
        severity,
        context: Opaque::default(),
    }
}

/// Returns the last value of a top-level key.
pub fn value<'a>(object: &'a Opaque, key: &str) -> Option<ValueView<'a>> {
    let all: BTreeMap<&str, ValueView<'_>> = object.entries().map(|entry| entry.unwrap()).collect();
    all.get(key).copied()
}

pub fn text(object: &Opaque, key: &str) -> String {
    match value(object, key) {
        Some(ValueView::Text(text)) => text.into(),
        other => panic!("{key} is {other:?}"),
    }
}

pub fn number(object: &Opaque, key: &str) -> f64 {
    match value(object, key) {
        Some(ValueView::Number(number)) => number,
        other => panic!("{key} is {other:?}"),
    }
}

/// Returns the texts of a list.
pub fn texts(object: &Opaque, key: &str) -> Vec<String> {
    let Some(ValueView::List(list)) = value(object, key) else {
        panic!("{key} is no list")
    };
    let texts = items(list).map(|item| match item.unwrap() {
        ValueView::Text(text) => text.to_owned(),
        other => panic!("{other:?} is no text"),
    });
    texts.collect()
}
