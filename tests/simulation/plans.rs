//! Random plans, all of them valid and all of them bounded in time. Submits nothing.

use crate::dice::Dice;
use crate::scenario::{ACTIONS, Scenario};
use escapement_codec::provenance::Provenance;
use escapement_contract::{PlanDraft, Request, RequestDraft, RetryPolicyDraft, StepDraft, validate_request};
use escapement_model::opaque::StructBuilder;
use escapement_model::{ExecutionId, Namespace, Opaque};
use std::sync::Arc;

/// Ids that somebody else uses; others are fresh.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    pub(crate) execution: Option<String>,
    pub(crate) plan: Option<String>,
    /// Where two ask for one execution, the checker of the order cannot know which of both runs.
    pub(crate) priority: Option<i32>,
    /// The place of its namespace; the same holds.
    pub(crate) namespace: Option<usize>,
}

/// Returns a request that names its execution.
pub(crate) fn request(
    dice: &mut Dice,
    unix_ms: i64,
    scenario: &Scenario,
    parent: Option<ExecutionId>,
    ids: &Ids,
    namespace: Namespace,
) -> Arc<Request> {
    let n_steps = dice.between(1, scenario.n_steps_max);
    let large = scenario.large_payloads && dice.percent(20);
    let mut steps: Vec<StepDraft> = Vec::new();
    for _ in 0..n_steps {
        let step = step(dice, &steps, large);
        steps.push(step);
    }
    let retryable: &[&[&str]] = &[
        &[],
        &["WORKER_LOST"],
        &["WORKER_LOST", "STEP_TIMEOUT", "FLAKY"],
        &["*"],
    ];
    let codes = *dice.pick(retryable);
    let priority = i32::try_from(dice.roll(3)).expect("it is small");
    let plan = PlanDraft {
        id: ids.plan.clone().unwrap_or_else(|| uuid(dice)),
        version: 1,
        created_at: unix_ms,
        steps,
        name: "simulated".to_owned(),
        context_requirements: vec!["region".to_owned()],
        priority: Some(ids.priority.unwrap_or(priority)),
        timeout_ms: Some(*dice.pick(&[4_000, 15_000, 40_000, 40_000])),
        retry_policy: Some(RetryPolicyDraft {
            max_attempts: Some(i32::try_from(dice.between(1, 4)).expect("it is small")),
            backoff_ms: Some(*dice.pick(&[0, 0, 300])),
            backoff_multiplier: None,
            max_backoff_ms: None,
            retryable_error_codes: codes.iter().map(|code| (*code).to_owned()).collect(),
        }),
        metadata: None,
        tags: Vec::new(),
        estimated_duration_ms: None,
    };
    let draft = RequestDraft {
        plan: Some(plan),
        environment: Some(environment(large)),
        execution_id: Some(ids.execution.clone().unwrap_or_else(|| uuid(dice))),
        deadline_ms: dice
            .percent(12)
            .then(|| unix_ms + i64::try_from(dice.between(500, 60_000)).expect("small")),
        parent_execution_id: parent.map(|id| id.to_string()),
        max_concurrent_steps: Some(i32::try_from(dice.between(1, 8)).expect("it is small")),
        ..RequestDraft::default()
    };
    let provenance = Provenance {
        namespace,
        ..Provenance::default()
    };
    let request = validate_request(draft, 1_024).expect("simulated requests are valid");
    Arc::new(request.with_provenance(provenance.encode()))
}

fn step(dice: &mut Dice, before: &[StepDraft], large: bool) -> StepDraft {
    let action = match dice.roll(100) {
        0..=64 => ACTIONS[0],
        65..=84 => ACTIONS[1],
        85..=90 => ACTIONS[2],
        _ => ACTIONS[3],
    };
    let depends_on = before
        .iter()
        .filter(|_| dice.percent(20))
        .map(|step| step.id.clone())
        .collect();
    StepDraft {
        id: uuid(dice),
        action: action.to_owned(),
        payload: Some(if large { filled(300_000) } else { Opaque::default() }),
        depends_on,
        on_failure: *dice.pick(&[0, 1, 2, 2, 2]),
        timeout_ms: dice
            .percent(40)
            .then(|| i64::try_from(dice.between(100, 9_000)).expect("it is small")),
    }
}

fn environment(large: bool) -> Opaque {
    if large {
        StructBuilder::new().text("region", &"e".repeat(500_000)).build()
    } else {
        StructBuilder::new().text("region", "eu").build()
    }
}

fn filled(n_bytes: usize) -> Opaque {
    StructBuilder::new().text("filling", &"f".repeat(n_bytes)).build()
}

fn uuid(dice: &mut Dice) -> String {
    ExecutionId::from_random(dice.bytes()).to_string()
}
