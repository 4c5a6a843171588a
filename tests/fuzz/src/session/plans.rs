//! The plans that callers of a run hand in, validated once for each thread.

use crate::seeds;
use escapement_codec::request::request_draft;
use escapement_contract::{Request, validate_request};
use escapement_wire::v1;
use std::sync::Arc;

/// How many there are.
pub(crate) const PLANS: u8 = 10;

/// One of them; the same number, the same request.
pub(crate) fn plan(n: u8) -> Arc<Request> {
    thread_local! {
        static ALL: Vec<Arc<Request>> = (0..PLANS).map(|n| Arc::new(made(n))).collect();
    }
    ALL.with(|all| Arc::clone(&all[usize::from(n % PLANS)]))
}

fn made(n: u8) -> Request {
    let n_steps = 1 + n % 4;
    let step = |index: u8| v1::PlanStep {
        id: seeds::id(2, index),
        action: ["a", "b", "c"][usize::from((n + index) % 3)].to_owned(),
        payload: Some(seeds::environment()),
        depends_on: (0..index)
            .filter(|_| n % 2 == 1)
            .map(|other| seeds::id(2, other))
            .collect(),
        on_failure: i32::from((n + index) % 3),
        timeout_ms: (index % 2 == 1).then_some(700),
    };
    let plan = v1::Plan {
        // The last but one has the plan of the first: an id that is used already.
        id: seeds::id(1, if n == PLANS - 2 { 0 } else { n }),
        version: 1,
        created_at: seeds::UNIX_MS,
        steps: (0..n_steps).map(step).collect(),
        name: "plan".to_owned(),
        context_requirements: vec!["region".to_owned()],
        priority: Some(i32::from(n % 3)),
        timeout_ms: Some(if n.is_multiple_of(4) { 2_000 } else { 60_000 }),
        retry_policy: Some(v1::RetryPolicy {
            max_attempts: Some(3),
            backoff_ms: Some(i64::from(n % 2) * 100),
            retryable_error_codes: vec!["*".to_owned()],
            ..v1::RetryPolicy::default()
        }),
        ..v1::Plan::default()
    };
    let request = v1::SubmitPlanRequest {
        plan: Some(plan),
        environment: Some(seeds::environment()),
        execution_id: (n < 4 || n == PLANS - 1).then(|| seeds::id(3, n % (PLANS - 1))),
        // Nested ones: the second in the first, and so on.
        parent_execution_id: (1..4).contains(&n).then(|| seeds::id(3, n - 1)),
        deadline_ms: (n == 5).then_some(seeds::UNIX_MS + 10_000),
        options: Some(v1::ExecutionOptions {
            max_concurrent_steps: Some(1 + i32::from(n % 3)),
        }),
        ..v1::SubmitPlanRequest::default()
    };
    validate_request(request_draft(request), 256).expect("the plans of the runs are valid")
}
