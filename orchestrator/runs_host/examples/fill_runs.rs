//! Fills a store with ended and with live runs, as an orchestrator would have written them. Measures nothing but itself; what a
//! start on such a store takes is measured from the outside.
//!
//! `fill_runs --path P --ended N --waiting N --calling N`: an ended run asked a person and was cancelled, a waiting one asks a
//! person, a calling one has an attempt in flight. The last line on stdout is the id of the live run that a start takes up last.
#![allow(clippy::print_stdout, reason = "its answer is its output")]

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use escapement_model::RunId;
use escapement_model::opaque::{ListBuilder, Opaque, StructBuilder};
use escapement_run::Input;
use escapement_run::plan::{self, Plan};
use escapement_run::presets::Preset;
use escapement_run::spec::{Limits, Spec};
use escapement_runs::{Config, NewRun};
use escapement_runs_host::{Create, RunsHost};
use escapement_store::runs::RunStore;
use escapement_store::{Embedded, EmbeddedOptions};

type Fault = Box<dyn Error + Send + Sync>;

/// Runs of one commit. What goes on by itself in one batch is bounded, too.
const BATCH: u64 = 512;

/// What to fill in.
#[derive(Clone, Debug, Default)]
struct Fill {
    path: PathBuf,
    n_ended: u64,
    n_waiting: u64,
    n_calling: u64,
}

fn main() -> Result<(), Fault> {
    let fill = arguments(std::env::args().skip(1))?;
    let begun = Instant::now();
    let mut filling = Filling::open(&fill)?;
    let (asks, calls) = (Arc::new(asks()?), Arc::new(calls()?));
    for first in (0..fill.n_ended).step_by(BATCH as usize) {
        let ids: Vec<_> = (first..fill.n_ended.min(first + BATCH))
            .map(|n| id(1, n))
            .collect();
        filling.create(&ids, &asks)?;
        filling.cancel(&ids)?;
    }
    let mut last = None;
    for (kind, n_runs, plan) in [(2, fill.n_waiting, &asks), (3, fill.n_calling, &calls)] {
        for first in (0..n_runs).step_by(BATCH as usize) {
            let ids: Vec<_> = (first..n_runs.min(first + BATCH)).map(|n| id(kind, n)).collect();
            filling.create(&ids, plan)?;
            last = last.max(ids.into_iter().max());
        }
    }
    println!(
        "filled in {:?}: {:?}",
        begun.elapsed(),
        filling.store.reader()?.counts()?
    );
    if let Some(last) = last {
        println!("{last}");
    }
    Ok(())
}

fn arguments(mut given: impl Iterator<Item = String>) -> Result<Fill, Fault> {
    let mut fill = Fill::default();
    while let Some(name) = given.next() {
        let value = given.next().ok_or_else(|| format!("{name} wants a value"))?;
        match name.as_str() {
            "--path" => fill.path = value.into(),
            "--ended" => fill.n_ended = value.parse()?,
            "--waiting" => fill.n_waiting = value.parse()?,
            "--calling" => fill.n_calling = value.parse()?,
            _ => return Err(format!("{name} is not known").into()),
        }
    }
    if fill.path.as_os_str().is_empty() {
        return Err("--path is missing".into());
    }
    Ok(fill)
}

/// The host as the orchestrator has it, and its store. Nothing leaves it.
struct Filling {
    host: RunsHost,
    store: Embedded,
    now: i64,
}

impl Filling {
    fn open(fill: &Fill) -> Result<Self, Fault> {
        let store = Embedded::open(&fill.path, EmbeddedOptions::default())?;
        let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;
        let n_runs = usize::try_from(fill.n_waiting + fill.n_calling + BATCH)?;
        let config = Config {
            max_live_runs: n_runs,
            max_runs: n_runs,
        };
        let (host, _damaged) = RunsHost::open(&store, config, now)?;
        Ok(Self { host, store, now })
    }

    fn create(&mut self, run_ids: &[RunId], plan: &Arc<Plan>) -> Result<(), Fault> {
        for run_id in run_ids {
            let run = NewRun {
                run_id: *run_id,
                spec: Spec {
                    limits: patient(),
                    policy: Preset::Standard.policy(),
                    autonomy_level: 4,
                    priority: 5,
                    user_id: "bars".to_owned(),
                    ..Spec::default()
                },
                plan: Arc::clone(plan),
                profiles: Vec::new(),
            };
            let create = Create {
                run,
                request: None,
                saved_plan: None,
            };
            let created = self.host.create(create, self.now);
            created.map_err(|why| format!("a run is not made: {why:?}"))?;
        }
        self.write()
    }

    fn cancel(&mut self, run_ids: &[RunId]) -> Result<(), Fault> {
        for run_id in run_ids {
            let reason = "user".to_owned();
            let handled = self.host.handle(*run_id, Input::Cancel { reason }, self.now);
            handled.map_err(|why| format!("a run is not cancelled: {why:?}"))?;
        }
        self.write()
    }

    /// Writes until all have gone as far as they go by themselves.
    fn write(&mut self) -> Result<(), Fault> {
        loop {
            while let Some(batch) = self.host.poll_batch() {
                let outcome = self.store.commit(&batch)?;
                self.host.handle_committed(outcome);
                self.host.poll_effects();
            }
            if self.host.due_at().is_none_or(|due| due > self.now) {
                return Ok(());
            }
            self.host.time(self.now);
        }
    }
}

/// Limits that outlast the filling and every start that is measured on it: an attempt that times out would be cancelled.
fn patient() -> Limits {
    Limits {
        attempt_ms: HOUR_MS,
        queue_wait_ms: HOUR_MS,
        worker_wait_ms: HOUR_MS,
        run_ms: 24 * HOUR_MS,
        ..Preset::Standard.limits(1)
    }
}

const HOUR_MS: u64 = 3_600_000;

fn asks() -> Result<Plan, Fault> {
    let config = StructBuilder::new()
        .text("question", "Shall it go on?")
        .text("input_type", "text");
    plan_of(&step("user_input", &config.build()))
}

fn calls() -> Result<Plan, Fault> {
    let arguments = StructBuilder::new().text("text", &"x".repeat(100)).build();
    let config = StructBuilder::new()
        .text("tool_name", "echo")
        .object("tool_args", arguments.as_encoded());
    plan_of(&step("tool_call", &config.build()))
}

fn step(step_type: &str, config: &Opaque) -> Opaque {
    StructBuilder::new()
        .text("key", "only")
        .text("type", step_type)
        .object("config", config.as_encoded())
        .build()
}

fn plan_of(step: &Opaque) -> Result<Plan, Fault> {
    let document = StructBuilder::new()
        .text("schema", "escapement.plan/1")
        .text("name", "Filled")
        .list("steps", ListBuilder::new().object(step.as_encoded()))
        .build();
    plan::read(&document).map_err(|why| format!("{why:?}").into())
}

/// Spread as random ids are.
fn id(kind: u64, number: u64) -> RunId {
    let high = mixed(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ kind);
    RunId::from_random((u128::from(high) << 64 | u128::from(number << 4 | kind)).to_be_bytes())
}

/// SplitMix64's last step.
fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
