//! All plans of a size, as numbers, and the requests that they are. Runs nothing.

use escapement_contract::{
    Moment, PlanDraft, RequestDraft, RetryPolicyDraft, StepDraft, StepIndex, validate_request,
};
use escapement_fuzz::lockstep::{Lockstep, border};
use escapement_model::Opaque;
use escapement_model::opaque::StructBuilder;
use std::sync::Arc;

/// The most steps of a plan that is explored.
pub(crate) const STEPS_MAX: usize = 4;
/// Far from everything that a step's timer can do.
pub(crate) const PLAN_LIMIT_MS: u64 = 1_000;
/// How long an execution may be queued and still have time for its plan.
pub(crate) const QUEUE_ALLOWANCE_MS: u64 = 1;
/// The instant of acceptance.
pub(crate) const ACCEPTED: Moment = Moment {
    monotonic_ms: 7_000,
    unix_ms: 1_766_016_000_000,
};
const EXECUTION_ID: &str = "22222222-2222-4222-8222-222222222222";

/// Steps by their places: what each waits for, as a set of bits, and its `on_failure`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    pub(crate) n_steps: usize,
    pub(crate) depends_on: [u8; STEPS_MAX],
    /// 0 halt, 1 skip, 2 retry.
    pub(crate) on_failure: [u8; STEPS_MAX],
}

/// When a step is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Policy {
    /// The plan has none.
    Off,
    /// `BUSY` alone, at once, two attempts.
    Listed,
    /// Whatever has severity `error`, after 1 and then 2 ms (the longest delay binds), so many attempts.
    Everything(u32),
}

/// What a plan says beside its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Options {
    pub(crate) policy: Policy,
    pub(crate) n_slots: u32,
    /// Whether steps have a limit of their own.
    pub(crate) has_step_limits: bool,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Case {
    pub(crate) shape: Shape,
    pub(crate) options: Options,
    pub(crate) context_is_missing: bool,
}

/// The limit of a step where it has one.
const STEP_LIMIT_MS: i64 = 2;

impl Shape {
    /// Returns every shape whose steps wait for earlier ones only: the list is the canonical order. `relabel` shows
    /// that these stand for all others. Neighbours have different graphs.
    pub(crate) fn all_of(n_steps: usize) -> impl Iterator<Item = Self> {
        (0..3_u32.pow(n_steps as u32)).flat_map(move |number| {
            Self::graphs_of(n_steps).map(move |depends_on| Self {
                n_steps,
                depends_on,
                on_failure: std::array::from_fn(|step| (number / 3_u32.pow(step as u32) % 3) as u8),
            })
        })
    }

    /// Returns every graph in which steps wait for earlier ones only.
    fn graphs_of(n_steps: usize) -> impl Iterator<Item = [u8; STEPS_MAX]> {
        (0..1_u32 << (n_steps * (n_steps - 1) / 2)).map(move |number| {
            let earlier = |step: usize| number >> (step * step.saturating_sub(1) / 2) & ((1 << step) - 1);
            std::array::from_fn(|step| if step < n_steps { earlier(step) as u8 } else { 0 })
        })
    }
}

impl Options {
    /// Returns all of them.
    pub(crate) fn all(attempts_max: u32) -> Vec<Self> {
        let mut all = Vec::new();
        for policy in [Policy::Off, Policy::Listed, Policy::Everything(attempts_max)] {
            for n_slots in [1, 2] {
                for has_step_limits in [false, true] {
                    all.push(Self {
                        policy,
                        n_slots,
                        has_step_limits,
                    });
                }
            }
        }
        all
    }

    pub(crate) fn attempts_max(&self) -> u32 {
        match self.policy {
            Policy::Off => 1,
            Policy::Listed => 2,
            Policy::Everything(attempts) => attempts,
        }
    }
}

impl Case {
    pub(crate) fn depends_on(&self, step: usize, other: usize) -> bool {
        self.shape.depends_on[step] >> other & 1 == 1
    }

    /// Returns the caller's absolute limit.
    pub(crate) fn deadline_ms(&self) -> i64 {
        ACCEPTED.unix_ms + (PLAN_LIMIT_MS + QUEUE_ALLOWANCE_MS) as i64
    }

    /// Returns an execution of it in both machines.
    pub(crate) fn accept(&self) -> Lockstep {
        let draft = self.draft();
        let rules = border::rules(&draft, self.deadline_ms());
        let request = Arc::new(validate_request(draft, 2).unwrap());
        let id = EXECUTION_ID.parse().unwrap();
        Lockstep::accept(request, rules, id, self.deadline_ms(), ACCEPTED)
    }

    fn draft(&self) -> RequestDraft {
        let step = |step: usize| StepDraft {
            id: step_id(step),
            action: "work".into(),
            payload: Some(Opaque::default()),
            depends_on: (0..STEPS_MAX)
                .filter(|other| self.depends_on(step, *other))
                .map(step_id)
                .collect(),
            on_failure: i32::from(self.shape.on_failure[step]),
            timeout_ms: self.options.has_step_limits.then_some(STEP_LIMIT_MS),
        };
        let policy = |attempts: u32, backoff_ms, code: &str| RetryPolicyDraft {
            max_attempts: Some(i32::try_from(attempts).unwrap()),
            backoff_ms: Some(backoff_ms),
            backoff_multiplier: Some(4.0),
            max_backoff_ms: Some(2),
            retryable_error_codes: vec![code.into()],
        };
        let plan = PlanDraft {
            id: "11111111-1111-4111-8111-111111111111".into(),
            version: 1,
            created_at: ACCEPTED.unix_ms,
            steps: (0..self.shape.n_steps).map(step).collect(),
            name: "explored".into(),
            context_requirements: vec!["region".into()],
            timeout_ms: Some(PLAN_LIMIT_MS as i64),
            retry_policy: match self.options.policy {
                Policy::Off => None,
                Policy::Listed => Some(policy(2, 0, "BUSY")),
                Policy::Everything(attempts) => Some(policy(attempts, 1, "*")),
            },
            ..PlanDraft::default()
        };
        let environment = match self.context_is_missing {
            true => StructBuilder::new(),
            false => StructBuilder::new().text("region", "eu"),
        };
        RequestDraft {
            plan: Some(plan),
            environment: Some(environment.build()),
            execution_id: Some(EXECUTION_ID.into()),
            deadline_ms: Some(self.deadline_ms()),
            max_concurrent_steps: Some(i32::try_from(self.options.n_slots).unwrap()),
            ..RequestDraft::default()
        }
    }
}

/// Indices of the steps of a plan, by place, and one that no explored plan has.
pub(crate) fn step_indices() -> Vec<StepIndex> {
    let shape = Shape {
        n_steps: STEPS_MAX,
        depends_on: [0; STEPS_MAX],
        on_failure: [0; STEPS_MAX],
    };
    let case = Case {
        shape,
        options: Options::all(1)[0],
        context_is_missing: false,
    };
    let mut draft = case.draft();
    let steps = &mut draft.plan.as_mut().unwrap().steps;
    steps.push(StepDraft {
        id: step_id(STEPS_MAX),
        ..steps[0].clone()
    });
    let request = validate_request(draft, 2).unwrap();
    let mut indices = request.plan().canonical_order().to_vec();
    indices.sort();
    indices
}

fn step_id(step: usize) -> String {
    format!("{step:08x}-aaaa-4bbb-8ccc-0123456789ab")
}
