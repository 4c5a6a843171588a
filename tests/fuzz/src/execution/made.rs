//! Plans and outcomes made of the bytes of an input. Small numbers, so that instants often coincide.

use crate::seeds;
use crate::source::Source;
use bytes::Bytes;
use escapement_contract::{Outcome, PlanDraft, Reported, RequestDraft, RetryPolicyDraft, StepDraft};
use escapement_model::{Opaque, Severity};

/// Steps of a plan, at most.
const STEPS_MAX: u8 = 7;

pub(super) fn completed() -> Outcome {
    Outcome::Completed {
        output: Opaque::default(),
        warnings: Vec::new(),
    }
}

pub(super) fn outcome(source: &mut Source<'_>) -> Outcome {
    match source.byte() {
        0..=99 => completed(),
        100..=179 => Outcome::Failed(reported(source)),
        180..=189 => Outcome::Lost,
        190..=199 => Outcome::Undecodable {
            detail: source.text(),
        },
        _ => Outcome::Completed {
            output: if source.once_in(2) {
                Opaque::from_encoded(Bytes::copy_from_slice(source.chunk()))
            } else {
                seeds::environment()
            },
            warnings: (0..source.below(3)).map(|_| reported(source)).collect(),
        },
    }
}

fn reported(source: &mut Source<'_>) -> Reported {
    let code = match source.byte() {
        byte @ 0..=199 => CODES[usize::from(byte) % CODES.len()].to_owned(),
        byte @ 200..=209 => "X".repeat(usize::from(byte) - 155),
        _ => source.text(),
    };
    let severity = [
        None,
        Some(Severity::Warn),
        Some(Severity::Error),
        Some(Severity::Fatal),
    ];
    Reported {
        code,
        message: match source.byte() {
            0..=239 => String::new(),
            byte => "m".repeat(999 + usize::from(byte % 3)),
        },
        severity: source.pick(&severity),
        context: match source.byte() {
            0..=199 => Opaque::default(),
            200..=229 => seeds::environment(),
            _ => Opaque::from_encoded(Bytes::copy_from_slice(source.chunk())),
        },
    }
}

/// A valid plan of few steps with small limits.
pub(super) fn draft(source: &mut Source<'_>) -> RequestDraft {
    let n_steps = 1 + source.byte() % STEPS_MAX;
    let mut steps: Vec<StepDraft> = Vec::new();
    for n in 0..n_steps {
        let depends_on = source.byte();
        steps.push(StepDraft {
            id: seeds::id(2, n),
            action: "work".to_owned(),
            payload: Some(Opaque::default()),
            depends_on: (0..n)
                .filter(|other| depends_on >> other & 1 == 1)
                .map(|other| seeds::id(2, other))
                .collect(),
            on_failure: i32::from(source.byte() % 3),
            timeout_ms: match source.byte() {
                byte @ 0..=99 => Some(1 + i64::from(byte % 30)),
                _ => None,
            },
        });
    }
    // Forward references are legal: the list may stand on its head.
    if source.once_in(4) {
        steps.reverse();
    }
    let policy = RetryPolicyDraft {
        max_attempts: Some(1 + i32::from(source.byte() % 4)),
        backoff_ms: Some(i64::from(source.byte() % 20)),
        backoff_multiplier: Some([1.0, 2.0, 1.5, 10.0][source.below(4)]),
        max_backoff_ms: Some(i64::from(source.byte() % 40)),
        retryable_error_codes: (0..source.below(3))
            .map(|_| source.pick(&CODES).to_owned())
            .collect(),
    };
    let plan = PlanDraft {
        id: seeds::id(1, 1),
        version: 1,
        created_at: seeds::UNIX_MS,
        steps,
        name: "plan".to_owned(),
        context_requirements: vec!["region".to_owned()],
        timeout_ms: match source.byte() {
            byte @ 0..=99 => Some(1 + i64::from(byte)),
            _ => None,
        },
        retry_policy: source.once_in(2).then_some(policy),
        ..PlanDraft::default()
    };
    RequestDraft {
        plan: Some(plan),
        environment: (!source.once_in(32)).then(seeds::environment),
        max_concurrent_steps: Some(1 + i32::from(source.byte() % 4)),
        ..RequestDraft::default()
    }
}

const CODES: [&str; 12] = [
    "*",
    "BUSY",
    "STEP_TIMEOUT",
    "PLAN_TIMEOUT",
    "DEADLINE_EXCEEDED",
    "UNKNOWN_ERROR",
    "WORKER_LOST",
    "RESOURCE_EXHAUSTED",
    "STEP_SKIPPED",
    "ACTION_NOT_FOUND",
    "DEPENDENCY_UNRESOLVED",
    "CONTEXT_MISSING",
];

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for n_steps in [0, 2, 6] {
        for (dependencies, on_failure) in [(0, 0), (1, 1), (2, 2), (255, 2), (3, 1)] {
            let steps: Vec<u8> = (0..=n_steps)
                .flat_map(|_| [dependencies, on_failure, 200])
                .collect();
            let policy = [0, 2, 5, 1, 20, 1, 1, 1];
            for events in [
                [0, 0, 0, 0],
                [0, 120, 1, 100],
                [130, 0, 2, 150],
                [192, 100, 3, 185],
            ] {
                let plan = [
                    vec![n_steps],
                    steps.clone(),
                    policy.to_vec(),
                    vec![200, 1, 0, 1, 100],
                ];
                all.push([plan.concat(), events.repeat(24)].concat());
            }
        }
    }
    all
}
