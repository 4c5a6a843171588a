//! Measures what records cost: what is stored of an execution, writing it down, checking and replaying it. Judges nothing.
#![allow(clippy::print_stdout, reason = "a measurement on a terminal")]

use escapement_codec::archive::check::verify;
use escapement_codec::archive::{Archive, AuditParts};
use escapement_codec::stored;
use escapement_contract::{
    Effect, Execution, Input, Moment, Outcome, PlanDraft, Reported, Request, RequestDraft, RetryPolicyDraft,
    Settlement, StepDraft, validate_request,
};
use escapement_model::opaque::StructBuilder;
use escapement_model::{ExecutionId, PlanId, StepId};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Why nothing here fails.
const OWN: &str = "the example's own input is valid";

fn main() {
    measure("one step", &draft(1, 1), 1, 20_000);
    measure("chain of 1024 steps", &draft(1024, 1), 1, 50);
    measure("32 steps of 1000 attempts", &draft(32, 1000), 1000, 3);
}

fn execution_id() -> ExecutionId {
    ExecutionId::from_random([2; 16])
}

fn step_id(n: usize) -> String {
    let mut bytes = [0x5a; 16];
    bytes[12..].copy_from_slice(&(n as u32).wrapping_mul(0x9e37_79b9).to_be_bytes());
    StepId::from_random(bytes).to_string()
}

/// A chain of steps that have so many attempts.
fn draft(n_steps: usize, n_attempts: i32) -> RequestDraft {
    let step = |n: usize| StepDraft {
        id: step_id(n),
        action: "render".into(),
        payload: Some(StructBuilder::new().text("file", "report.pdf").build()),
        depends_on: n.checked_sub(1).map(step_id).into_iter().collect(),
        on_failure: 2,
        ..StepDraft::default()
    };
    let plan = PlanDraft {
        id: PlanId::from_random([1; 16]).to_string(),
        version: 1,
        created_at: 1,
        steps: (0..n_steps).map(step).collect(),
        name: "cost".into(),
        context_requirements: vec!["region".into()],
        retry_policy: Some(RetryPolicyDraft {
            max_attempts: Some(n_attempts),
            retryable_error_codes: vec!["*".into()],
            ..RetryPolicyDraft::default()
        }),
        ..PlanDraft::default()
    };
    RequestDraft {
        plan: Some(plan),
        environment: Some(StructBuilder::new().text("region", "north").build()),
        execution_id: Some(execution_id().to_string()),
        ..RequestDraft::default()
    }
}

/// Runs it to its end; each step completes at its last attempt.
fn run(request: &Arc<Request>, n_attempts: u32) -> Arc<Settlement> {
    let mut now = Moment {
        monotonic_ms: 86_400_000,
        unix_ms: 1_766_016_000_000,
    };
    let deadline = now.unix_ms + 10_000_000;
    let mut execution = Execution::accept(Arc::clone(request), execution_id(), now.unix_ms, deadline, now);
    execution.handle(now, Input::Start).expect(OWN);
    loop {
        now.monotonic_ms += 1;
        now.unix_ms += 1;
        let Some(effect) = execution.poll_effect() else {
            execution.handle(now, Input::Tick).expect(OWN);
            continue;
        };
        match effect {
            Effect::PersistStart { .. } => execution.handle(now, Input::StartPersisted).expect(OWN),
            Effect::Dispatch { step, attempt } => {
                let worker = "worker-1".into();
                let assigned = Input::Assigned {
                    step,
                    attempt,
                    worker,
                };
                execution.handle(now, assigned).expect(OWN);
                execution
                    .handle(now, Input::AttemptStarted { step, attempt })
                    .expect(OWN);
                let outcome = if attempt < n_attempts {
                    Outcome::Failed(Reported {
                        code: "BUSY".into(),
                        message: "The service is busy.".into(),
                        ..Reported::default()
                    })
                } else {
                    Outcome::Completed {
                        output: StructBuilder::new().text("done", "yes").build(),
                        warnings: Vec::new(),
                    }
                };
                let ended = Input::AttemptEnded {
                    step,
                    attempt,
                    outcome,
                };
                execution.handle(now, ended).expect(OWN);
            }
            Effect::PersistResult(settlement) => return settlement,
            Effect::Withdraw { .. } | Effect::Deliver(_) => {}
        }
    }
}

fn measure(name: &str, draft: &RequestDraft, n_attempts: u32, n_rounds: u32) {
    let request = Arc::new(validate_request(draft.clone(), 1).expect(OWN));
    let settlement = run(&request, n_attempts);
    let (result, audit) = stored::encode_settlement(&settlement);
    let parts = AuditParts::read(&audit).expect(OWN);
    let (inputs, seal) = (parts.inputs.expect(OWN).len(), parts.seal.expect(OWN).len());
    println!(
        "{name}: {} bytes of result, {} of entries, {inputs} of {} inputs, {seal} of the seal",
        result.len(),
        stored::encode_audit(&settlement.audit).len(),
        settlement.inputs.inputs.len(),
    );
    let without = time(n_rounds, || {
        black_box(stored::encode_result(&settlement.result));
        black_box(stored::encode_audit(&settlement.audit));
    });
    let with = time(n_rounds, || {
        black_box(stored::encode_settlement(&settlement));
    });
    let accepted = stored::encode_accepted(&request, execution_id());
    let record = Archive::of_store(execution_id(), *request.digest(), accepted, result, &audit).expect(OWN);
    let n_inputs = settlement.inputs.inputs.len() as u128;
    let checked = time(n_rounds, || assert!(verify(black_box(&record)).is_good()));
    println!(
        "  written in {without:?} without inputs and seal, in {with:?} with them; checked and replayed in {checked:?}, \
         {} inputs a second",
        n_inputs * 1_000_000_000 / checked.as_nanos().max(1)
    );
}

fn time(n_rounds: u32, mut once: impl FnMut()) -> Duration {
    once();
    let begun = Instant::now();
    for _ in 0..n_rounds {
        once();
    }
    begun.elapsed() / n_rounds
}
