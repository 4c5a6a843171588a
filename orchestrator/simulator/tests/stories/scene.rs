//! A plan and its stubs in a few lines, and what a simulation comes to as words. Judges nothing.

use escapement_contract::{
    AuditEntry, AuditKind, PlanDraft, Reported, Request, RequestDraft, RetryPolicyDraft, StepDraft,
    chain_seed, default_deadline, replay, validate_request,
};
use escapement_model::opaque::StructBuilder;
use escapement_model::{ExecutionId, Opaque, PlanId, Severity, StepId};
use escapement_simulator::{AttemptStub, End, Simulation, Stubs, TooLong, simulate};
use std::sync::Arc;

/// Time at which the executions of these stories start.
pub(crate) const T0: i64 = 1_000_000;
/// More than any of these stories needs.
pub(crate) const INPUTS_MAX: usize = 1_000_000;

/// A plan that is being written down, and the stubs of its steps.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) draft: RequestDraft,
    pub(crate) stubs: Stubs,
    pub(crate) inputs_max: usize,
}

/// Returns a plan without steps that has a limit of 1000 ms.
pub(crate) fn plan() -> Scene {
    let plan = PlanDraft {
        id: PlanId::from_random([7; 16]).to_string(),
        version: 1,
        created_at: 1,
        name: "simulated".into(),
        context_requirements: vec!["region".into()],
        timeout_ms: Some(1000),
        ..PlanDraft::default()
    };
    let environment = StructBuilder::new().text("region", "north").build();
    Scene {
        draft: RequestDraft {
            plan: Some(plan),
            environment: Some(environment),
            ..RequestDraft::default()
        },
        stubs: Stubs::default(),
        inputs_max: INPUTS_MAX,
    }
}

impl Scene {
    pub(crate) fn plan(&mut self) -> &mut PlanDraft {
        self.draft.plan.as_mut().unwrap()
    }

    /// Adds a step, as `a retry limit=100 after=b`, with the action `do_NAME`. Names have at most six letters.
    pub(crate) fn step(mut self, text: &str) -> Self {
        let mut words = text.split(' ');
        let name = words.next().unwrap();
        self.plan().steps.push(StepDraft {
            id: step_id(name).to_string(),
            action: format!("do_{name}"),
            payload: Some(Opaque::default()),
            ..StepDraft::default()
        });
        words.fold(self, |scene, word| match word.split_once('=') {
            None if word == "skip" => scene.on_failure(1),
            None if word == "retry" => scene.on_failure(2),
            Some(("limit", ms)) => scene.limit(ms.parse().unwrap()),
            Some(("after", name)) => scene.after(name),
            _ => panic!("{word} is no word of a step"),
        })
    }

    fn last(&mut self) -> &mut StepDraft {
        self.plan().steps.last_mut().unwrap()
    }

    pub(crate) fn after(mut self, name: &str) -> Self {
        self.last().depends_on.push(step_id(name).to_string());
        self
    }

    pub(crate) fn on_failure(mut self, on_failure: i32) -> Self {
        self.last().on_failure = on_failure;
        self
    }

    pub(crate) fn limit(mut self, timeout_ms: i64) -> Self {
        self.last().timeout_ms = Some(timeout_ms);
        self
    }

    pub(crate) fn plan_limit(mut self, timeout_ms: i64) -> Self {
        self.plan().timeout_ms = Some(timeout_ms);
        self
    }

    pub(crate) fn attempts(mut self, max_attempts: i32, backoff_ms: i64, codes: &[&str]) -> Self {
        self.plan().retry_policy = Some(RetryPolicyDraft {
            max_attempts: Some(max_attempts),
            backoff_ms: Some(backoff_ms),
            max_backoff_ms: Some(i64::MAX),
            retryable_error_codes: codes.iter().map(|code| (*code).into()).collect(),
            ..RetryPolicyDraft::default()
        });
        self
    }

    pub(crate) fn at_a_time(mut self, n_steps: i32) -> Self {
        self.draft.max_concurrent_steps = Some(n_steps);
        self
    }

    /// What happens to the attempts of the last step.
    pub(crate) fn stub(mut self, attempts: impl IntoIterator<Item = AttemptStub>) -> Self {
        let step_id = self.last().id.parse().unwrap();
        self.stubs = self.stubs.step(step_id, attempts.into_iter().collect());
        self
    }

    pub(crate) fn stubs(mut self, change: impl FnOnce(Stubs) -> Stubs) -> Self {
        self.stubs = change(self.stubs);
        self
    }

    pub(crate) fn inputs_max(mut self, inputs_max: usize) -> Self {
        self.inputs_max = inputs_max;
        self
    }

    pub(crate) fn request(&self) -> Arc<Request> {
        Arc::new(validate_request(self.draft.clone(), 1024).unwrap())
    }

    pub(crate) fn deadline(&self, request: &Request) -> i64 {
        let chosen = default_deadline(T0, request.plan(), 500);
        request.deadline_ms().unwrap_or(chosen)
    }

    /// Simulates twice and replays: every simulation must be the same again, and must be what its inputs lead to.
    pub(crate) fn try_play(&self) -> Result<Simulation, TooLong> {
        let request = self.request();
        let deadline = self.deadline(&request);
        let play = || {
            simulate(
                Arc::clone(&request),
                execution_id(),
                T0,
                deadline,
                &self.stubs,
                self.inputs_max,
            )
        };
        let simulation = play()?;
        let again = play()?;
        assert_eq!(simulation.settlement, again.settlement);
        assert_eq!(simulation.timeline, again.timeline);
        assert_eq!(simulation.n_inputs, again.n_inputs);
        assert_replays(&request, deadline, &simulation);
        Ok(simulation)
    }

    pub(crate) fn play(&self) -> Played {
        Played(self.try_play().unwrap())
    }
}

/// the simulation is what its own inputs lead to, and its entries are chained.
fn assert_replays(request: &Arc<Request>, deadline: i64, simulation: &Simulation) {
    let settlement = &simulation.settlement;
    let replayed = replay(
        Arc::clone(request),
        execution_id(),
        T0,
        deadline,
        &settlement.inputs,
    );
    let replayed = replayed.unwrap();
    if settlement.inputs.is_complete {
        assert_eq!(replayed.settlement(), Some(settlement));
    } else {
        assert_eq!(*replayed.decisions(), settlement.inputs.decisions);
        assert!(settlement.audit.starts_with(replayed.audit()));
    }
    let mut head = chain_seed(execution_id(), request.digest());
    for entry in &settlement.audit {
        head = entry.link(&head);
        assert_eq!(entry.hash, head, "entry {}", entry.sequence);
    }
}

/// A simulation that ended.
#[derive(Clone, Debug)]
pub(crate) struct Played(pub(crate) Simulation);

impl Played {
    /// Returns the result, as `failure 1/3 PLAN_TIMEOUT at 1000`.
    pub(crate) fn result(&self) -> String {
        let result = &self.0.settlement.result;
        let error = result
            .error
            .as_ref()
            .map_or(String::new(), |error| format!(" {}", error.code));
        assert_eq!(self.0.settlement.started_at_unix_ms, T0);
        assert_eq!(result.completed_at, T0 + result.duration_ms);
        format!(
            "{} {}/{}{error} at {}",
            result.status.as_str(),
            result.steps_executed,
            result.steps_total,
            result.duration_ms,
        )
    }

    /// Returns the spans, as `a#1 running 5..12 completed`.
    pub(crate) fn spans(&self, scene: &Scene) -> Vec<String> {
        let request = scene.request();
        let spans = self.0.timeline.spans.iter();
        spans
            .map(|span| {
                let name = name_of(request.plan().step(span.step).id());
                let activity = format!("{:?}", span.activity).to_lowercase();
                let ended = span.ended.as_ref().map_or("", |ended| ended.as_str());
                let (attempt, from, to) = (span.attempt, span.from_ms, span.to_ms);
                format!("{name}#{attempt} {activity} {from}..{to} {ended}")
                    .trim_end()
                    .to_owned()
            })
            .collect()
    }

    /// What the record says about single steps, as `3 attempt_started a#1`, the time counted from the start.
    pub(crate) fn record(&self) -> Vec<String> {
        self.0.settlement.audit.iter().filter_map(words).collect()
    }

    /// Judges the record against `0 a#1 step_waiting attempt_assigned, 5 a#1 attempt_returned`.
    #[track_caller]
    pub(crate) fn says(&self, expected: &str) {
        let groups = expected.split(", ").flat_map(|group| {
            let mut parts = group.split(' ');
            let (at, name) = (parts.next().unwrap(), parts.next().unwrap());
            parts.map(move |kind| format!("{at} {kind} {name}"))
        });
        assert_eq!(self.record(), groups.collect::<Vec<_>>());
    }
}

fn words(entry: &AuditEntry) -> Option<String> {
    let (step_id, attempt) = match &entry.kind {
        AuditKind::StepWaiting { step_id, attempt }
        | AuditKind::AttemptAssigned { step_id, attempt, .. }
        | AuditKind::AttemptStarted { step_id, attempt }
        | AuditKind::AttemptReturned { step_id, attempt, .. }
        | AuditKind::AttemptFailed { step_id, attempt, .. } => (step_id, *attempt),
        AuditKind::RetryScheduled {
            step_id,
            next_attempt,
            ..
        } => (step_id, *next_attempt),
        AuditKind::StepCompleted {
            step_id, attempts, ..
        }
        | AuditKind::StepNotCompleted {
            step_id, attempts, ..
        } => (step_id, *attempts),
        AuditKind::Accepted { .. }
        | AuditKind::Started { .. }
        | AuditKind::MandatoryAction { .. }
        | AuditKind::StepsIncomplete { .. }
        | AuditKind::Settled { .. } => return None,
    };
    let (at, kind, name) = (entry.at_unix_ms - T0, entry.kind.name(), name_of(*step_id));
    Some(format!("{at} {kind} {name}#{attempt}"))
}

/// An attempt that waits and takes so long, and completes.
pub(crate) fn takes(waits_ms: u64, takes_ms: u64) -> AttemptStub {
    ends(waits_ms, takes_ms, End::default())
}

pub(crate) fn ends(waits_ms: u64, takes_ms: u64, end: End) -> AttemptStub {
    AttemptStub {
        waits_ms,
        takes_ms,
        end,
    }
}

/// Returns a failure with severity `error`.
pub(crate) fn failed(code: &str) -> End {
    End::Failed(Reported {
        code: code.into(),
        message: format!("{code} happened"),
        severity: Some(Severity::Error),
        context: Opaque::default(),
    })
}

pub(crate) fn execution_id() -> ExecutionId {
    ExecutionId::from_random([7; 16])
}

pub(crate) fn step_id(name: &str) -> StepId {
    assert!(name.len() <= 6, "the rest of the id is not free");
    let mut bytes = [0; 16];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    StepId::from_random(bytes)
}

pub(crate) fn name_of(id: StepId) -> String {
    let letters = id.as_bytes().iter().take(6).take_while(|byte| **byte != 0);
    letters.map(|byte| char::from(*byte)).collect()
}
