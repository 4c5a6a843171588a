//! What simulations cost: a large plan, thirty days, inputs per second, and the dearest inputs that there are.
//! Judges nothing: `cargo run --release -p escapement-simulator --example speed`.
#![allow(clippy::print_stdout, reason = "prints figures")]

use escapement_contract::{
    PlanDraft, Reported, Request, RequestDraft, RetryPolicyDraft, StepDraft, default_deadline,
    validate_request,
};
use escapement_model::opaque::StructBuilder;
use escapement_model::{ExecutionId, Opaque, PlanId, StepId};
use escapement_simulator::{AttemptStub, End, Stubs, simulate};
use std::sync::Arc;
use std::time::Instant;

const DAY_MS: i64 = 86_400_000;
const INPUTS_MAX: usize = 1_000_000;

fn main() {
    let chain = plan(1_024, 1, true);
    play("1024 steps one after another", &chain, Stubs::default());
    play("1024 steps at a time", &plan(1_024, 1, false), Stubs::default());
    let polls = std::iter::repeat_n(fails(Opaque::default()), 600).chain([AttemptStub::default()]);
    play(
        "thirty days of hourly polls",
        &plan(1, 720, true),
        Stubs::default().otherwise(polls.collect()),
    );
    let endless = plan(1, i32::MAX, true);
    let at_once = |context| Stubs::default().otherwise(vec![fails(context)]);
    play("endless failures", &endless, at_once(Opaque::default()));
    let returned = AttemptStub {
        end: End::Returned,
        ..AttemptStub::default()
    };
    play(
        "endless returns",
        &endless,
        Stubs::default().otherwise(vec![returned]),
    );
    let text = StructBuilder::new().text("x", &"x".repeat(16_300)).build();
    play("endless failures with a text of 16 KiB", &endless, at_once(text));
    play(
        "endless failures with an object of 16 KiB",
        &endless,
        at_once(crumbs(16_300)),
    );
    play(
        "endless failures with an object of 1 KiB",
        &endless,
        at_once(crumbs(1_024)),
    );
    play(
        "endless failures with a dropped context",
        &endless,
        at_once(crumbs(1 << 20)),
    );
}

fn play(name: &str, request: &Arc<Request>, stubs: Stubs) {
    let started_at = 1_000_000;
    let deadline = default_deadline(started_at, request.plan(), 0);
    let execution_id = ExecutionId::from_random([1; 16]);
    let once = || {
        let before = Instant::now();
        let simulation = simulate(
            Arc::clone(request),
            execution_id,
            started_at,
            deadline,
            &stubs,
            INPUTS_MAX,
        );
        (before.elapsed(), simulation)
    };
    // Others use this machine as well.
    let fastest = (0..5).map(|_| once()).min_by_key(|(took, _)| *took);
    let (took, simulation) = fastest.expect("it was simulated");
    let n_inputs = simulation
        .as_ref()
        .map_or(INPUTS_MAX, |simulation| simulation.n_inputs);
    let ended = simulation.map_or_else(
        |_too_long| "given up".to_owned(),
        |simulation| simulation.settlement.result.status.as_str().to_owned(),
    );
    let per_second = n_inputs as f64 / took.as_secs_f64();
    println!("{name}: {took:.1?}, {n_inputs} inputs, {per_second:.0} inputs/s, {ended}");
}

fn fails(context: Opaque) -> AttemptStub {
    AttemptStub {
        end: End::Failed(Reported {
            code: "BUSY".into(),
            message: "\u{1f552}".repeat(1_000),
            severity: None,
            context,
        }),
        ..AttemptStub::default()
    }
}

/// An object of so many bytes with as many keys as fit.
fn crumbs(bytes: usize) -> Opaque {
    // An empty map entry: an empty key, no value.
    Opaque::from_encoded([10, 0].repeat(bytes / 2).into())
}

fn plan(n_steps: u32, max_attempts: i32, chained: bool) -> Arc<Request> {
    let id = |number: u32| {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        StepId::from_random(bytes).to_string()
    };
    let steps = (0..n_steps).map(|number| StepDraft {
        id: id(number),
        action: "work".into(),
        payload: Some(Opaque::default()),
        depends_on: (chained && number > 0)
            .then(|| id(number - 1))
            .into_iter()
            .collect(),
        on_failure: 2,
        timeout_ms: None,
    });
    let plan = PlanDraft {
        id: PlanId::from_random([1; 16]).to_string(),
        version: 1,
        created_at: 1,
        steps: steps.collect(),
        name: "speed".into(),
        context_requirements: vec!["region".into()],
        timeout_ms: Some(31 * DAY_MS),
        retry_policy: Some(RetryPolicyDraft {
            max_attempts: Some(max_attempts),
            backoff_ms: Some(if max_attempts == i32::MAX { 0 } else { 3_600_000 }),
            max_backoff_ms: Some(DAY_MS),
            // The dearest list to look through: the one that counts comes last.
            retryable_error_codes: (0..255).map(|n| format!("B{n:03}")).chain(["*".into()]).collect(),
            ..RetryPolicyDraft::default()
        }),
        ..PlanDraft::default()
    };
    let draft = RequestDraft {
        plan: Some(plan),
        environment: Some(StructBuilder::new().text("region", "north").build()),
        max_concurrent_steps: Some(if chained { 1 } else { 1_024 }),
        ..RequestDraft::default()
    };
    Arc::new(validate_request(draft, 1_024).expect("it breaks no rule"))
}
