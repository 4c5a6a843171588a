//! The contract crate alone: validation, certificates, whole executions and their replay.

use crate::measured_by_callgrind;
use crate::plans::{Shape, execution_id, validated};
use escapement_contract::{Effect, Execution, Input, Moment, Outcome, Request, Settlement, replay};
use escapement_model::Opaque;
use escapement_model::opaque::StructBuilder;
use std::hint::black_box;
use std::sync::Arc;

workloads! {
    "validate-1" request => validate(Shape::chain(1), 200);
    "validate-chain-64" step => validate(Shape::chain(64), 16);
    "validate-chain-1024" step => validate(Shape::chain(1024), 2);
    "validate-independent-1024" step => validate(Shape::independent(1024), 2);
    "validate-dense-1024" step => validate(DENSE, 1);
    "certify-1" plan => certify(Shape::chain(1), 200);
    "certify-chain-1024" step => certify(Shape::chain(1024), 2);
    "certify-dense-1024" step => certify(DENSE, 1);
    "execute-1" execution => execute(Shape::chain(1), 200);
    "execute-chain-64" step => execute(Shape::chain(64), 16);
    "execute-chain-1024" step => execute(Shape::chain(1024), 2);
    "execute-independent-1024" step => execute(Shape::independent(1024), 2);
    "execute-dense-1024" step => execute(DENSE, 1);
    "replay-chain-1024" input => replay_of(Shape::chain(1024));
    "replay-independent-1024" input => replay_of(Shape::independent(1024));
}

fn validate(shape: Shape, n_requests: u64) -> u64 {
    let drafts: Vec<_> = (0..n_requests).map(|n| shape.draft(n)).collect();
    let mut drafts = drafts.into_iter();
    // Kept, because whoever validates a request does not drop it at once.
    let mut requests = Vec::with_capacity(drafts.len());
    measured_by_callgrind(&mut || {
        requests.extend(drafts.by_ref().map(validated));
        requests.len() as u64
    });
    let steps: usize = requests.iter().map(|request| request.plan().steps().len()).sum();
    steps as u64
}

fn certify(shape: Shape, n_plans: u64) -> u64 {
    let requests: Vec<_> = (0..n_plans).map(|n| shape.request(n)).collect();
    let mut certificates = Vec::with_capacity(requests.len());
    measured_by_callgrind(&mut || {
        let certified = requests.iter().map(|request| {
            let plan = black_box(request.plan());
            plan.certificate(request.max_concurrent_steps())
        });
        certificates.extend(certified);
        certificates.len() as u64
    });
    n_plans * shape.steps as u64
}

fn execute(shape: Shape, n_executions: u64) -> u64 {
    let requests: Vec<_> = (0..n_executions).map(|n| shape.request(n)).collect();
    let output = output();
    let mut settlements = Vec::with_capacity(requests.len());
    measured_by_callgrind(&mut || {
        let settled = (0..).zip(&requests).map(|(n, request)| run(n, request, &output));
        settlements.extend(settled);
        settlements.len() as u64
    });
    let steps: u32 = settlements
        .iter()
        .map(|settled| settled.result.steps_executed)
        .sum();
    assert_eq!(
        u64::from(steps),
        n_executions * shape.steps as u64,
        "every step completes"
    );
    u64::from(steps)
}

fn replay_of(shape: Shape) -> u64 {
    let request = shape.request(0);
    let settlement = run(0, &request, &output());
    let mut replayed = None;
    measured_by_callgrind(&mut || {
        let request = Arc::clone(&request);
        replayed = replay(
            request,
            execution_id(0),
            ACCEPTED_AT,
            DEADLINE_MS,
            &settlement.inputs,
        )
        .ok();
        u64::from(replayed.is_some())
    });
    let replayed = replayed.expect("the core takes its own record");
    assert_eq!(replayed.settlement(), Some(&settlement), "a replay ends the same");
    replayed.n_inputs as u64
}

/// Runs one execution to its end, every step handed out, started and completed.
fn run(n: u64, request: &Arc<Request>, output: &Opaque) -> Arc<Settlement> {
    let worker: Arc<str> = "worker".into();
    let mut execution = Execution::accept(
        Arc::clone(request),
        execution_id(n),
        ACCEPTED_AT,
        DEADLINE_MS,
        NOW,
    );
    let tell = |execution: &mut Execution, input| {
        execution.handle(NOW, input).expect("the input fits");
    };
    tell(&mut execution, Input::Start);
    while let Some(effect) = execution.poll_effect() {
        match effect {
            Effect::PersistStart { .. } => tell(&mut execution, Input::StartPersisted),
            Effect::Dispatch { step, attempt } => {
                let worker = Arc::clone(&worker);
                tell(
                    &mut execution,
                    Input::Assigned {
                        step,
                        attempt,
                        worker,
                    },
                );
                tell(&mut execution, Input::AttemptStarted { step, attempt });
                let outcome = Outcome::completed(output.clone());
                tell(
                    &mut execution,
                    Input::AttemptEnded {
                        step,
                        attempt,
                        outcome,
                    },
                );
            }
            Effect::PersistResult(_) => tell(&mut execution, Input::SettlePersisted),
            Effect::Withdraw { .. } | Effect::Deliver(_) => {}
        }
    }
    Arc::clone(execution.settlement().expect("a step at a time, it ends"))
}

fn output() -> Opaque {
    StructBuilder::new().text("done", "yes").build()
}

/// About as many references as a plan of 4 MiB has room for.
const DENSE: Shape = Shape {
    dependencies: 96,
    ..Shape::independent(1024)
};
const ACCEPTED_AT: i64 = 1_000;
const DEADLINE_MS: i64 = 1_000_000;
const NOW: Moment = Moment {
    monotonic_ms: 0,
    unix_ms: ACCEPTED_AT,
};
