//! Random executions of the contract core, driven to their ends. Judges nothing.

use bytes::Bytes;
use escapement_codec::archive::Archive;
use escapement_codec::stored;
use escapement_contract::{
    Effect, Evidence, Execution, Input, Moment, Outcome, PlanDraft, Reported, Request, RequestDraft,
    RetryPolicyDraft, Settlement, StepDraft, StepIndex, StepState, default_deadline, validate_request,
};
use escapement_model::opaque::StructBuilder;
use escapement_model::{ExecutionId, Opaque, PlanId, Severity, StepId, limits};
use std::sync::Arc;

/// Random numbers that are the same in every run.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

pub(crate) const CODES: [&str; 6] = [
    "BUSY",
    "STEP_TIMEOUT",
    "EXECUTION_HALTED",
    "WORKER_LOST",
    "",
    "BROKEN",
];
pub(crate) const SEVERITIES: [Option<Severity>; 4] = [
    None,
    Some(Severity::Warn),
    Some(Severity::Error),
    Some(Severity::Fatal),
];

pub(crate) fn execution_id() -> ExecutionId {
    ExecutionId::from_random([9; 16])
}

pub(crate) fn step_id(n: u64) -> String {
    let mut bytes = [0x5a; 16];
    bytes[8..].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    StepId::from_random(bytes).to_string()
}

pub(crate) fn draft(dice: &mut Dice) -> RequestDraft {
    let n_steps = 1 + dice.below(7);
    let steps = (0..n_steps).map(|n| StepDraft {
        id: step_id(n),
        action: format!("act-{}", dice.below(3)),
        payload: Some(StructBuilder::new().number("n", n as f64).build()),
        depends_on: (0..n).filter(|_| dice.one_in(3)).map(step_id).collect(),
        on_failure: dice.pick(&[0, 1, 1, 2, 2]),
        timeout_ms: dice.one_in(2).then(|| 1 + dice.below(60) as i64),
    });
    let steps = steps.collect();
    let plan = PlanDraft {
        id: PlanId::from_random([7; 16]).to_string(),
        version: 1,
        created_at: 1,
        steps,
        name: "random".into(),
        context_requirements: vec![
            dice.pick(&["region", "region", "region", "region", "other"])
                .into(),
        ],
        timeout_ms: Some(50 + dice.below(400) as i64),
        retry_policy: Some(RetryPolicyDraft {
            max_attempts: Some(1 + dice.below(4) as i32),
            backoff_ms: Some(dice.below(20) as i64),
            retryable_error_codes: vec![dice.pick(&["*", "BUSY", "STEP_TIMEOUT"]).into()],
            ..RetryPolicyDraft::default()
        }),
        ..PlanDraft::default()
    };
    RequestDraft {
        plan: Some(plan),
        environment: Some(StructBuilder::new().text("region", "north").build()),
        execution_id: Some(execution_id().to_string()),
        max_concurrent_steps: Some(1 + dice.below(3) as i32),
        ..RequestDraft::default()
    }
}

pub(crate) fn object(dice: &mut Dice) -> Opaque {
    let text = "x".repeat(dice.below(40) as usize);
    StructBuilder::new().text("said", &text).build()
}

pub(crate) fn reported(dice: &mut Dice) -> Reported {
    Reported {
        code: dice.pick(&CODES).into(),
        message: "m".repeat(dice.below(1_200) as usize),
        severity: dice.pick(&SEVERITIES),
        context: match dice.below(8) {
            0 => StructBuilder::new().text("long", &"c".repeat(20_000)).build(),
            1 => Opaque::from_encoded(Bytes::from_static(b"\x0a\xff")),
            2 => Opaque::default(),
            _ => object(dice),
        },
    }
}

pub(crate) fn outcome(dice: &mut Dice) -> Outcome {
    match dice.below(24) {
        0 => Outcome::Lost,
        1 => Outcome::Undecodable {
            detail: "d".repeat(dice.below(2_000) as usize),
        },
        2 if dice.one_in(4) => Outcome::Completed {
            output: StructBuilder::new()
                .text("large", &"o".repeat(limits::OUTPUT_BYTES_MAX))
                .build(),
            warnings: Vec::new(),
        },
        2..12 => Outcome::Failed(reported(dice)),
        _ => Outcome::Completed {
            output: if dice.one_in(4) {
                Opaque::default()
            } else {
                object(dice)
            },
            warnings: (0..dice.below(3)).map(|_| reported(dice)).collect(),
        },
    }
}

/// An execution on clocks of its own.
pub(crate) struct Story {
    pub(crate) request: Arc<Request>,
    pub(crate) execution: Execution,
    pub(crate) now: Moment,
    pub(crate) settlement: Option<Arc<Settlement>>,
}

impl Story {
    pub(crate) fn new(request: RequestDraft, now: Moment) -> Self {
        let request = Arc::new(validate_request(request, 1_000).unwrap());
        let deadline = default_deadline(now.unix_ms, request.plan(), 200);
        // As behind a restart: the deadline was counted from another instant.
        let accepted_at = now.unix_ms - 3;
        let execution = Execution::accept(Arc::clone(&request), execution_id(), accepted_at, deadline, now);
        Self {
            request,
            execution,
            now,
            settlement: None,
        }
    }

    pub(crate) fn feed(&mut self, input: Input) {
        // Random inputs may be refused.
        let _refused = self.execution.handle(self.now, input);
        while let Some(effect) = self.execution.poll_effect() {
            if let Effect::PersistResult(settlement) = effect {
                self.settlement = Some(settlement);
            }
        }
    }

    pub(crate) fn pass(&mut self, ms: u64) {
        self.now.monotonic_ms += ms;
        self.now.unix_ms += ms as i64;
    }

    pub(crate) fn step(&mut self, dice: &mut Dice) {
        match dice.below(12) {
            0 => self.pass(dice.below(60)),
            1 => self.pass(dice.below(5)),
            2 if dice.one_in(4) => self.now.unix_ms -= dice.below(100_000) as i64,
            3 if dice.one_in(4) => self.now.unix_ms += dice.below(100_000) as i64,
            4 => self.feed(Input::Tick),
            5 => self.feed(
                dice.pick(&[Input::Start, Input::StartPersisted].each_ref())
                    .clone(),
            ),
            _ => {
                let steps = self.request.plan().canonical_order();
                let step = dice.pick(steps);
                if let Some(input) = self.likely(dice, step) {
                    self.feed(input);
                }
            }
        }
    }

    pub(crate) fn likely(&self, dice: &mut Dice, step: StepIndex) -> Option<Input> {
        let worker: Arc<str> = dice.pick(&["worker-a", "worker-b", ""]).into();
        Some(match self.execution.step_state(step) {
            StepState::Waiting { attempt } if dice.one_in(60) => Input::ActionNotFound { step, attempt },
            StepState::Waiting { attempt } => Input::Assigned {
                step,
                attempt,
                worker,
            },
            StepState::Assigned { attempt } if dice.one_in(4) => Input::AttemptReturned {
                step,
                attempt,
                evidence: dice.pick(Evidence::ALL),
            },
            StepState::Assigned { attempt } if dice.one_in(2) => Input::AttemptStarted { step, attempt },
            StepState::Assigned { attempt } | StepState::Started { attempt } => Input::AttemptEnded {
                step,
                // Sometimes a stale one.
                attempt: attempt - dice.below(10).saturating_sub(8) as u32,
                outcome: outcome(dice),
            },
            StepState::Pending
            | StepState::BackingOff { .. }
            | StepState::Completed
            | StepState::NotCompleted
            | StepState::Stopped => return None,
        })
    }

    pub(crate) fn record(&self) -> Archive {
        stored(&self.request, self.settlement.as_ref().unwrap())
    }
}

pub(crate) fn stored(request: &Request, settlement: &Settlement) -> Archive {
    let (result, audit) = stored::encode_settlement(settlement);
    let accepted = stored::encode_accepted(request, execution_id());
    Archive::of_store(execution_id(), *request.digest(), accepted, result, &audit).unwrap()
}

pub(crate) fn random_story(seed: u64) -> Story {
    let mut dice = Dice(seed);
    let now = Moment {
        monotonic_ms: dice.pick(&[0, 77, u64::MAX >> 1]),
        unix_ms: 1_700_000_000_000,
    };
    let mut story = Story::new(draft(&mut dice), now);
    while story.settlement.is_none() {
        story.step(&mut dice);
    }
    story
}
