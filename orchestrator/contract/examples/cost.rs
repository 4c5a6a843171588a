//! Measures what the core costs: validation, certificates and whole executions of plans with 1024 steps. Judges nothing.
//!
//! `cost validate 1024 200` does one thing alone to a chain of so many steps, so many times, for a profiler.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement on a terminal"
)]

use escapement_contract::{
    Effect, Execution, Input, Moment, Outcome, PlanDraft, Request, RequestDraft, Settlement, StepDraft,
    replay, validate_request,
};
use escapement_model::opaque::StructBuilder;
use escapement_model::{ExecutionId, PlanId, StepId};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

const STEPS: usize = 1024;
const ROUNDS: u32 = 200;

fn step_id(n: usize) -> String {
    let mut bytes = [0x5a; 16];
    bytes[12..].copy_from_slice(&(n as u32).wrapping_mul(0x9e37_79b9).to_be_bytes());
    StepId::from_random(bytes).to_string()
}

/// A request whose step `n` depends on what `depends_on` names.
fn draft(n_steps: usize, at_a_time: i32, depends_on: impl Fn(usize) -> Vec<usize>) -> RequestDraft {
    let payload = StructBuilder::new()
        .text("file", "report.pdf")
        .number("page", 12.0)
        .build();
    let step = |n: usize| StepDraft {
        id: step_id(n),
        action: "render".into(),
        payload: Some(payload.clone()),
        depends_on: depends_on(n).into_iter().map(step_id).collect(),
        ..StepDraft::default()
    };
    let plan = PlanDraft {
        id: PlanId::from_random([1; 16]).to_string(),
        version: 1,
        created_at: 1,
        steps: (0..n_steps).map(step).collect(),
        name: "cost".into(),
        context_requirements: vec!["region".into()],
        ..PlanDraft::default()
    };
    RequestDraft {
        plan: Some(plan),
        environment: Some(StructBuilder::new().text("region", "north").build()),
        max_concurrent_steps: Some(at_a_time),
        ..RequestDraft::default()
    }
}

/// Runs one execution to its end, every step handed out, started and completed.
fn run(request: &Arc<Request>) -> Arc<Settlement> {
    let now = Moment {
        monotonic_ms: 0,
        unix_ms: 1_000,
    };
    let id = ExecutionId::from_random([2; 16]);
    let mut execution = Execution::accept(Arc::clone(request), id, 1_000, 1_000_000, now);
    let worker: Arc<str> = "worker".into();
    let output = StructBuilder::new().text("done", "yes").build();
    execution
        .handle(now, Input::Start)
        .expect("the example's own input is valid");
    while let Some(effect) = execution.poll_effect() {
        match effect {
            Effect::PersistStart { .. } => execution
                .handle(now, Input::StartPersisted)
                .expect("the example's own input is valid"),
            Effect::Dispatch { step, attempt } => {
                let worker = Arc::clone(&worker);
                execution
                    .handle(
                        now,
                        Input::Assigned {
                            step,
                            attempt,
                            worker,
                        },
                    )
                    .expect("the example's own input is valid");
                execution
                    .handle(now, Input::AttemptStarted { step, attempt })
                    .expect("the example's own input is valid");
                let outcome = Outcome::Completed {
                    output: output.clone(),
                    warnings: Vec::new(),
                };
                execution
                    .handle(
                        now,
                        Input::AttemptEnded {
                            step,
                            attempt,
                            outcome,
                        },
                    )
                    .expect("the example's own input is valid");
            }
            Effect::PersistResult(_) => execution
                .handle(now, Input::SettlePersisted)
                .expect("the example's own input is valid"),
            Effect::Withdraw { .. } | Effect::Deliver(_) => {}
        }
    }
    Arc::clone(execution.settlement().expect("the example's own input is valid"))
}

fn validated(draft: RequestDraft) -> Arc<Request> {
    Arc::new(validate_request(draft, 256).expect("the example's own input is valid"))
}

fn measure(name: &str, draft: RequestDraft) {
    let plan = draft.plan.as_ref().expect("the example's own input is valid");
    let n_steps = plan.steps.len();
    let mut best = [Duration::MAX; 5];
    let mut n_inputs = 0;
    for _ in 0..ROUNDS {
        let draft = draft.clone();
        let begun = Instant::now();
        let request = validated(draft);
        best[0] = best[0].min(begun.elapsed());
        let begun = Instant::now();
        let certificate = black_box(request.plan()).certificate(request.max_concurrent_steps());
        best[1] = best[1].min(begun.elapsed());
        let begun = Instant::now();
        assert_eq!(
            black_box(request.plan()).content_digest(),
            certificate.content_digest
        );
        best[2] = best[2].min(begun.elapsed());
        let begun = Instant::now();
        let settlement = run(&request);
        best[3] = best[3].min(begun.elapsed());
        assert_eq!(settlement.result.steps_executed as usize, n_steps);
        let id = settlement.result.execution_id;
        let begun = Instant::now();
        let replayed = replay(Arc::clone(&request), id, 1_000, 1_000_000, &settlement.inputs)
            .expect("the example's own input is valid");
        best[4] = best[4].min(begun.elapsed());
        assert_eq!(replayed.settlement(), Some(&settlement));
        n_inputs = replayed.n_inputs as u128;
    }
    let [validating, certifying, digesting, running, replaying] = best;
    let inputs_a_second = n_inputs * 1_000_000_000 / replaying.as_nanos().max(1);
    let per_step = running.as_nanos() / n_steps as u128;
    println!(
        "{name}: at best validated in {validating:?}, certified in {certifying:?} ({digesting:?} of it the digest), \
         {per_step} ns for each step, {inputs_a_second} inputs a second replayed",
    );
}

/// The same again and again, for a profiler.
fn repeat(what: &str, n_steps: usize, rounds: usize) {
    let draft = chain(n_steps);
    let request = validated(draft.clone());
    for _ in 0..rounds {
        match what {
            // As often as it is validated; what it costs is to be taken off.
            "clone" => drop(black_box(draft.clone())),
            "validate" => drop(black_box(validated(draft.clone()))),
            "certify" => drop(black_box(request.plan().certificate(1))),
            "run" => drop(black_box(run(&request))),
            _ => unreachable!("clone, validate, certify or run, not {what}"),
        }
    }
}

fn chain(n_steps: usize) -> RequestDraft {
    draft(n_steps, 1, |n| n.checked_sub(1).into_iter().collect())
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [what, n_steps, rounds] = &arguments[..] {
        let number = |text: &String| text.parse().expect("steps and rounds are numbers");
        return repeat(what, number(n_steps), number(rounds));
    }
    measure("one step", draft(1, 1, |_| Vec::new()));
    measure("chain of 64", chain(64));
    measure("chain of 1024", chain(STEPS));
    measure(
        "1024 independent, 256 at a time",
        draft(STEPS, 256, |_| Vec::new()),
    );
    measure(
        "1024 with 16 dependencies each",
        draft(STEPS, 256, |n| (n.saturating_sub(16)..n).collect()),
    );
    // As many references as a plan of 4 MiB has room for.
    measure(
        "1024 with 96 dependencies each",
        draft(STEPS, 256, |n| (n.saturating_sub(96)..n).collect()),
    );
    println!(
        "a queued execution takes {} bytes beside its request",
        size_of::<Execution>()
    );
}
