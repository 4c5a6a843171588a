//! Fills a store with settled and with queued executions, as an orchestrator would have written them. Measures nothing
//! but itself; what a start on such a store takes is measured from the outside.
//!
//! `fill_store --path P --settled N --queued N [--steps N] [--payload-bytes N] [--leave-log]`: each plan has so many
//! steps (1) with payloads of so many bytes (100). With `--leave-log` the process ends without closing the store, so
//! that its write-ahead log is left as a crash would leave it.
#![allow(clippy::print_stdout, reason = "its answer is its output")]

use escapement_codec::store_write::encode;
use escapement_contract::{
    Effect, Execution, Input, Moment, Outcome, PlanDraft, Request, RequestDraft, Settlement, StepDraft,
    StepIndex, validate_request,
};
use escapement_engine::StoreWrite;
use escapement_model::ExecutionId;
use escapement_model::opaque::StructBuilder;
use escapement_store::{Embedded, EmbeddedOptions, Outcome as Written, Store, Write};
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

type Fault = Box<dyn Error + Send + Sync>;

/// Executions of one commit.
const BATCH: u64 = 16_384;
/// Threads that make records; one more commits them.
const N_MAKERS: u64 = 2;

/// What to fill in.
#[derive(Clone, Debug, Default)]
struct Fill {
    path: PathBuf,
    n_settled: u64,
    n_queued: u64,
    n_steps: u64,
    payload_bytes: u64,
    leave_log: bool,
}

fn main() -> Result<(), Fault> {
    let fill = arguments(std::env::args().skip(1))?;
    let mut store = Embedded::open(&fill.path, EmbeddedOptions::default())?;
    let first = store.reader()?.counts()?.accepted();
    let begun = Instant::now();
    let now = now()?;
    std::thread::scope(|scope| {
        let makers = (0..N_MAKERS).map(|maker| {
            let (batches, made) = sync_channel(1);
            let fill = &fill;
            scope.spawn(move || make(fill, first, maker, now, &batches));
            made
        });
        commit(&mut store, &makers.collect::<Vec<_>>())
    })?;
    println!("filled in {:?}: {:?}", begun.elapsed(), store.reader()?.counts()?);
    if fill.leave_log {
        std::process::exit(0);
    }
    Ok(())
}

fn arguments(mut given: impl Iterator<Item = String>) -> Result<Fill, Fault> {
    let mut fill = Fill {
        n_steps: 1,
        payload_bytes: 100,
        ..Fill::default()
    };
    while let Some(name) = given.next() {
        if name == "--leave-log" {
            fill.leave_log = true;
            continue;
        }
        let value = given.next().ok_or_else(|| format!("{name} wants a value"))?;
        match name.as_str() {
            "--path" => fill.path = value.into(),
            "--settled" => fill.n_settled = value.parse()?,
            "--queued" => fill.n_queued = value.parse()?,
            "--steps" => fill.n_steps = value.parse()?,
            "--payload-bytes" => fill.payload_bytes = value.parse()?,
            _ => return Err(format!("{name} is not known").into()),
        }
    }
    if fill.path.as_os_str().is_empty() {
        return Err("--path is missing".into());
    }
    Ok(fill)
}

/// One maker's batches: every so manyth of all.
fn make(fill: &Fill, first: u64, maker: u64, now: Moment, batches: &SyncSender<Result<Vec<Write>, Fault>>) {
    let n_all = fill.n_settled + fill.n_queued;
    for batch in (maker..n_all.div_ceil(BATCH)).step_by(N_MAKERS as usize) {
        let numbers = batch * BATCH..n_all.min((batch + 1) * BATCH);
        let made: Result<Vec<_>, Fault> = numbers
            .map(|number| writes(fill, first + number, number < fill.n_settled, now))
            .collect();
        let made = made.map(|writes| writes.into_iter().flatten().collect());
        if batches.send(made).is_err() {
            // The store has failed, and says so.
            return;
        }
    }
}

/// Commits the batches in the order of their numbers.
fn commit(store: &mut Embedded, makers: &[Receiver<Result<Vec<Write>, Fault>>]) -> Result<(), Fault> {
    for maker in makers.iter().cycle() {
        // The makers take turns: if one has nothing more, none has.
        let Ok(batch) = maker.recv() else { break };
        let outcomes = store.commit(&batch?)?;
        if outcomes
            .iter()
            .any(|outcome| matches!(outcome, Written::Conflict(_)))
        {
            return Err("a write was refused".into());
        }
    }
    Ok(())
}

/// What the orchestrator writes of one execution.
fn writes(fill: &Fill, number: u64, is_settled: bool, now: Moment) -> Result<Vec<Write>, Fault> {
    let (execution_id, request) = request(fill, number)?;
    let deadline_ms = now.unix_ms + 86_400_000;
    let mut writes = vec![encode(&StoreWrite::Accept {
        execution_id,
        request: Arc::clone(&request),
        accepted_at: now.unix_ms,
        deadline_ms,
        started_at: is_settled.then_some(now.unix_ms),
    })];
    if is_settled {
        let settlement = settle(Arc::clone(&request), execution_id, deadline_ms, now)?;
        writes.push(encode(&StoreWrite::Settle { settlement, request }));
    }
    Ok(writes)
}

fn now() -> Result<Moment, Fault> {
    let unix_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    Ok(Moment {
        monotonic_ms: 0,
        unix_ms: i64::try_from(unix_ms)?,
    })
}

/// Spread as random ids are, and ascending within a batch, so that a commit touches each page of an index once.
fn id(kind: u8, number: u64) -> ExecutionId {
    let (batch, place) = (number / BATCH, number % BATCH);
    let jitter = (batch * 256 + u64::from(kind)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ mixed(number);
    let ascending = place * (u64::MAX / BATCH) + jitter % (u64::MAX / BATCH);
    let mut bytes = (u128::from(ascending) << 64 | u128::from(number)).to_be_bytes();
    bytes[8] = kind;
    ExecutionId::from_random(bytes)
}

/// SplitMix64's last step.
fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Returns a chain of steps.
fn request(fill: &Fill, number: u64) -> Result<(ExecutionId, Arc<Request>), Fault> {
    let execution_id = id(1, number);
    let text = "x".repeat(usize::try_from(fill.payload_bytes)?);
    let step_id = |step: u64| id(3, number * fill.n_steps + step).to_string();
    let steps = (0..fill.n_steps).map(|step| StepDraft {
        id: step_id(step),
        action: "echo".to_owned(),
        payload: Some(StructBuilder::new().text("text", &text).build()),
        depends_on: step.checked_sub(1).map(step_id).into_iter().collect(),
        ..StepDraft::default()
    });
    let plan = PlanDraft {
        id: id(2, number).to_string(),
        version: 1,
        created_at: 1,
        steps: steps.collect(),
        name: "filled".to_owned(),
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

/// Returns every step completes at its first attempt.
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
        output: StructBuilder::new().text("done", "yes").build(),
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
