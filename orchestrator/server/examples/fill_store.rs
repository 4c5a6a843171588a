//! Fills a store with settled and with queued executions, as an orchestrator would have written them. Measures nothing
//! but itself; what a start on such a store takes is measured from the outside.
//!
//! `fill_store DIRECTORY SETTLED QUEUED`
#![allow(clippy::print_stdout, reason = "its answer is its output")]

use escapement_contract::{
    Effect, Execution, Input, Moment, Outcome, PlanDraft, Request, RequestDraft, Settlement, StepDraft,
    StepIndex, validate_request,
};
use escapement_engine::{StoreWrite, WriteId, WriteOutcome};
use escapement_model::opaque::StructBuilder;
use escapement_model::{ExecutionId, Opaque};
use escapement_orchestrator::writer::{Committer, Job};
use escapement_store::{Embedded, EmbeddedOptions, Store};
use std::error::Error;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

type Fault = Box<dyn Error>;

fn main() -> Result<(), Fault> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, n_settled, n_queued] = arguments.as_slice() else {
        return Err("fill_store DIRECTORY SETTLED QUEUED".into());
    };
    let (n_settled, n_queued): (u64, u64) = (n_settled.parse()?, n_queued.parse()?);
    let store = Embedded::open(directory.as_ref(), EmbeddedOptions::default())?;
    let first = store.reader()?.counts()?.accepted();
    let mut committer = Committer::new(store);
    let begun = Instant::now();
    let now = now()?;
    let mut jobs = Vec::new();
    for number in first..first + n_settled + n_queued {
        let (execution_id, request) = request(number)?;
        let is_settled = number - first < n_settled;
        let deadline_ms = now.unix_ms + 86_400_000;
        let accept = StoreWrite::Accept {
            execution_id,
            request: Arc::clone(&request),
            accepted_at: now.unix_ms,
            deadline_ms,
            started_at: is_settled.then_some(now.unix_ms),
        };
        jobs.push(job(accept));
        if is_settled {
            let settlement = settle(request, execution_id, deadline_ms, now)?;
            jobs.push(job(StoreWrite::Settle { settlement }));
        }
        if jobs.len() >= 1_024 || number + 1 == first + n_settled + n_queued {
            let outcomes = committer.commit(&std::mem::take(&mut jobs))?;
            if outcomes
                .iter()
                .any(|(_, outcome)| *outcome != WriteOutcome::Durable)
            {
                return Err("a write was refused".into());
            }
        }
    }
    let elapsed = begun.elapsed();
    let counts = committer.into_store().reader()?.counts()?;
    println!("filled in {elapsed:?}: {counts:?}");
    Ok(())
}

fn job(content: StoreWrite) -> Job {
    Job {
        write: WriteId(1),
        content,
    }
}

fn now() -> Result<Moment, Fault> {
    let unix_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    Ok(Moment {
        monotonic_ms: 0,
        unix_ms: i64::try_from(unix_ms)?,
    })
}

/// Spread as random ids are.
fn id(kind: u8, number: u64) -> ExecutionId {
    let mut bytes =
        (u128::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 64 | u128::from(number)).to_be_bytes();
    bytes[8] = kind;
    ExecutionId::from_random(bytes)
}

fn request(number: u64) -> Result<(ExecutionId, Arc<Request>), Fault> {
    let execution_id = id(1, number);
    let steps = (0..3).map(|step| StepDraft {
        id: id(3, number * 3 + step).to_string(),
        action: "echo".to_owned(),
        payload: Some(
            StructBuilder::new()
                .text("text", "some words for this step")
                .build(),
        ),
        ..StepDraft::default()
    });
    let plan = PlanDraft {
        id: id(2, number).to_string(),
        version: 1,
        created_at: 1,
        steps: steps.collect(),
        name: format!("plan {number}"),
        context_requirements: vec!["region".to_owned()],
        ..PlanDraft::default()
    };
    let draft = RequestDraft {
        plan: Some(plan),
        environment: Some(StructBuilder::new().text("region", "eu").build()),
        execution_id: Some(execution_id.to_string()),
        ..RequestDraft::default()
    };
    let request = validate_request(draft, 1).map_err(|violations| violations.to_string())?;
    Ok((execution_id, Arc::new(request)))
}

/// Every step completes at its first attempt.
fn settle(
    request: Arc<Request>,
    execution_id: ExecutionId,
    deadline_ms: i64,
    now: Moment,
) -> Result<Arc<Settlement>, Fault> {
    let mut execution = Execution::accept(request, execution_id, now.unix_ms, deadline_ms, now);
    let handle = |execution: &mut Execution, input: Input| {
        let handled = execution.handle(now, input);
        handled.map_err(|refused| format!("{refused:?}"))
    };
    handle(&mut execution, Input::Start)?;
    while let Some(effect) = execution.poll_effect() {
        match effect {
            Effect::PersistStart { .. } => handle(&mut execution, Input::StartPersisted)?,
            Effect::Dispatch { step, attempt } => {
                for input in attempt_of(step, attempt) {
                    handle(&mut execution, input)?;
                }
            }
            Effect::PersistResult(settlement) => return Ok(settlement),
            Effect::Withdraw { .. } | Effect::Deliver(_) => {}
        }
    }
    Err("an execution whose steps all completed settles".into())
}

fn attempt_of(step: StepIndex, attempt: u32) -> [Input; 3] {
    let outcome = Outcome::Completed {
        output: Opaque::default(),
        warnings: Vec::new(),
    };
    [
        Input::Assigned {
            step,
            attempt,
            worker: "filler".into(),
        },
        Input::AttemptStarted { step, attempt },
        Input::AttemptEnded {
            step,
            attempt,
            outcome,
        },
    ]
}
