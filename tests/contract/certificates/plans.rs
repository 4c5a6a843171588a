//! Random requests of up to twelve steps, many with limits close to their worst case. Valid, all of them.

use crate::documents::{CONCURRENCY_LIMIT, step, step_after};
use escapement_contract::{PlanDraft, Request, RequestDraft, RetryPolicyDraft, StepDraft, validate_request};
use escapement_model::opaque::StructBuilder;
use escapement_tests::Dice;
use std::sync::Arc;

/// Returns a request without a deadline that could bind.
pub(crate) fn request(dice: &mut Dice) -> Arc<Request> {
    let mut draft = RequestDraft {
        plan: Some(plan(dice)),
        environment: Some(StructBuilder::new().text("region", "north").build()),
        deadline_ms: Some(i64::MAX),
        max_concurrent_steps: Some(i32::try_from(dice.between(1, 4)).unwrap()),
        ..RequestDraft::default()
    };
    if dice.percent(30) {
        // The limit of the plan right at what the steps may take, or as near as it can be.
        let request = valid(draft.clone());
        let certificate = request.plan().certificate(request.max_concurrent_steps());
        let worst_ms = i64::try_from(certificate.worst_case_duration_ms).unwrap();
        let around = *dice.pick(&[-1, 0, 1]);
        draft.plan.as_mut().unwrap().timeout_ms = Some((worst_ms + around).max(1));
    }
    Arc::new(valid(draft))
}

fn valid(draft: RequestDraft) -> Request {
    validate_request(draft, CONCURRENCY_LIMIT).unwrap()
}

fn plan(dice: &mut Dice) -> PlanDraft {
    PlanDraft {
        id: crate::documents::PLAN_ID.into(),
        version: 1,
        created_at: 1,
        steps: steps(dice),
        name: "certified".into(),
        context_requirements: vec!["region".into()],
        timeout_ms: Some(match dice.roll(4) {
            0 => i64::try_from(dice.between(1, 300)).unwrap(),
            _ => 10_000_000,
        }),
        retry_policy: Some(retry_policy(dice)),
        ..PlanDraft::default()
    }
}

fn steps(dice: &mut Dice) -> Vec<StepDraft> {
    let n_steps = usize::try_from(dice.between(1, 12)).unwrap();
    // Names in another order than the list: references lead forwards as well.
    let mut names: Vec<usize> = (0..n_steps).collect();
    if dice.percent(30) {
        for n in (1..n_steps).rev() {
            names.swap(n, dice.index(n + 1));
        }
    }
    let density = *dice.pick(&[0, 10, 25, 60, 100]);
    let with_limits = *dice.pick(&[100, 100, 100, 100, 100, 60, 0]);
    let limit_max = *dice.pick(&[3, 40, 1_000]);
    let on_failures = *dice.pick(&ON_FAILURES);
    let steps = (0..n_steps).map(|n| {
        let others: Vec<usize> = (0..n)
            .filter(|_| dice.percent(density))
            .map(|other| names[other])
            .collect();
        let draft = if others.is_empty() {
            step(names[n])
        } else {
            step_after(names[n], &others)
        };
        StepDraft {
            on_failure: *dice.pick(on_failures),
            timeout_ms: dice
                .percent(with_limits)
                .then(|| i64::try_from(dice.between(1, limit_max)).unwrap()),
            ..draft
        }
    });
    let mut steps: Vec<StepDraft> = steps.collect();
    if dice.percent(30) {
        steps.reverse();
    }
    steps
}

fn retry_policy(dice: &mut Dice) -> RetryPolicyDraft {
    let codes = *dice.pick(&CODES);
    RetryPolicyDraft {
        max_attempts: Some(i32::try_from(dice.between(1, 4)).unwrap()),
        backoff_ms: Some(i64::try_from(dice.roll(20)).unwrap() * i64::from(dice.percent(60))),
        backoff_multiplier: Some(*dice.pick(&[1.0, 1.01, 1.5, 2.0, 1e9])),
        max_backoff_ms: Some(i64::try_from(dice.roll(60)).unwrap()),
        retryable_error_codes: codes.iter().map(|code| (*code).into()).collect(),
    }
}

/// What the steps of a plan may ask for: halt, skip, retry.
const ON_FAILURES: [&[i32]; 3] = [&[0, 1, 2], &[2], &[1, 2]];

/// What policies list.
const CODES: [&[&str]; 6] = [
    &["*"],
    &["STEP_TIMEOUT"],
    &["BUSY"],
    &["BUSY", "WORKER_LOST"],
    &["PLAN_TIMEOUT"],
    &[],
];
