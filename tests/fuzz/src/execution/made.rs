//! Plans and outcomes made of the bytes of an input. Small numbers, so that instants often coincide.

use crate::seeds;
use crate::source::Source;
use bytes::Bytes;
use escapement_contract::{Outcome, PlanDraft, Reported, RequestDraft, RetryPolicyDraft, StepDraft};
use escapement_model::opaque::StructBuilder;
use escapement_model::{Opaque, Severity};
use std::sync::OnceLock;

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
        100..=209 => Outcome::Failed(reported(source)),
        210..=219 => Outcome::Lost,
        220..=223 => Outcome::Undecodable {
            detail: source.text(),
        },
        224..=227 => Outcome::Completed {
            output: too_large(),
            warnings: Vec::new(),
        },
        _ => Outcome::Completed {
            output: if source.once_in(8) {
                Opaque::from_encoded(Bytes::copy_from_slice(source.chunk()))
            } else {
                seeds::environment()
            },
            warnings: (0..source.below(3)).map(|_| reported(source)).collect(),
        },
    }
}

/// Returns an output that is larger than any may be.
fn too_large() -> Opaque {
    static OUTPUT: OnceLock<Opaque> = OnceLock::new();
    let make = || StructBuilder::new().text("fill", &"x".repeat(1 << 20)).build();
    OUTPUT.get_or_init(make).clone()
}

fn reported(source: &mut Source<'_>) -> Reported {
    let code = match source.byte() {
        byte @ 0..=231 => CODES[usize::from(byte) % CODES.len()].to_owned(),
        byte @ 232..=243 => RESERVED[usize::from(byte) % RESERVED.len()].to_owned(),
        byte @ 244..=249 => "X".repeat(usize::from(byte) - 196),
        _ => source.text(),
    };
    let (error, warn) = (Some(Severity::Error), Some(Severity::Warn));
    let severity = [None, error, None, error, None, error, warn, Some(Severity::Fatal)];
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

/// Returns a valid request of few steps with small limits.
pub(super) fn draft(source: &mut Source<'_>) -> RequestDraft {
    let n_steps = 1 + source.byte() % STEPS_MAX;
    let is_cascade = source.once_in(8);
    let mut steps: Vec<StepDraft> = Vec::new();
    for n in 0..n_steps {
        let depends_on = match source.byte() & source.byte() {
            // One after another, so that a failure is passed on far.
            _ if is_cascade => 1 << n >> 1,
            bits => bits,
        };
        let on_failure = source.pick(&[1, 2, 0, 1, 2, 1, 2, 1, 2, 1, 2, 2]);
        steps.push(StepDraft {
            id: seeds::id(2, n),
            action: "work".to_owned(),
            payload: Some(Opaque::default()),
            depends_on: (0..n)
                .filter(|other| depends_on >> other & 1 == 1)
                .map(|other| seeds::id(2, other))
                .collect(),
            on_failure: if is_cascade { 1 } else { on_failure },
            timeout_ms: match source.byte() {
                byte @ 192.. => Some(1 + i64::from(byte % 30)),
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
        backoff_ms: Some([0, 5, 0, 10, 20, 1][source.below(6)]),
        backoff_multiplier: Some([1.0, 2.0, 1.5, 10.0][source.below(4)]),
        max_backoff_ms: Some([60_000, 15, 0, 60_000][source.below(4)]),
        retryable_error_codes: RETRYABLE[source.below(8)]
            .iter()
            .map(|code| (*code).to_owned())
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
            byte @ 192.. => Some(1 + i64::from(byte - 192) * 4),
            _ => None,
        },
        retry_policy: (!source.once_in(8)).then_some(policy),
        ..PlanDraft::default()
    };
    RequestDraft {
        plan: Some(plan),
        environment: (!source.once_in(32)).then(seeds::environment),
        max_concurrent_steps: Some(1 + i32::from(source.byte() % 4)),
        ..RequestDraft::default()
    }
}

/// Codes that say nothing by themselves, and those of errors that others make.
const CODES: [&str; 6] = [
    "BUSY",
    "FLAKY",
    "EXECUTION_HALTED",
    "STEP_SKIPPED",
    "WORKER_LOST",
    "*",
];

const RESERVED: [&str; 9] = [
    "STEP_TIMEOUT",
    "PLAN_TIMEOUT",
    "DEADLINE_EXCEEDED",
    "UNKNOWN_ERROR",
    "INVALID_PAYLOAD",
    "RESOURCE_EXHAUSTED",
    "ACTION_NOT_FOUND",
    "DEPENDENCY_UNRESOLVED",
    "CONTEXT_MISSING",
];

const RETRYABLE: [&[&str]; 8] = [
    &["*"],
    &["STEP_TIMEOUT", "*"],
    &["BUSY"],
    &["BUSY", "STEP_TIMEOUT"],
    &["FLAKY", "STEP_TIMEOUT", "BUSY"],
    &["WORKER_LOST", "STEP_TIMEOUT"],
    &["UNKNOWN_ERROR", "STEP_SKIPPED", "EXECUTION_HALTED"],
    &[],
];

/// Plans of some shapes, each with some courses of events.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for n_steps in [0, 2, 6] {
        for (dependencies, on_failure) in [(0, 2), (1, 0), (2, 1), (255, 1), (3, 0)] {
            let steps: Vec<u8> = (0..=n_steps)
                .flat_map(|_| [dependencies, dependencies, on_failure, 0])
                .collect();
            for events in [
                [0, 0, 0, 0],
                [0, 120, 1, 100],
                [130, 0, 2, 150],
                [192, 100, 3, 185],
            ] {
                let policy = [0, 2, 1, 1, 0, 0];
                let plan = [vec![n_steps, 0], steps.clone(), policy.to_vec(), vec![0; 6]];
                all.push([plan.concat(), events.repeat(24)].concat());
            }
        }
    }
    all
}
