//! Work for the law of one run whose instructions callgrind counts: `run_instructions NAME` does it, `run_instructions --list`
//! names all. Prints how many operations were counted; measures and judges nothing, `tests/instructions` does.
//!
//! Counted are decisions alone: what a run is handed, what it writes down, and what may leave. Its plan, the store and what
//! becomes of its effects are made outside of that. Draws no random number and reads no clock.
#![allow(clippy::print_stdout, reason = "its answer is its output")]

use std::collections::{BTreeMap, VecDeque};
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;

use bytes::Bytes;
use escapement_model::opaque::{ListBuilder, Opaque, StructBuilder};
use escapement_run::ids::RunId;
use escapement_run::journal::OutcomeClass;
use escapement_run::outcome::AttemptOutcome;
use escapement_run::plan::{self, Plan};
use escapement_run::presets::Preset;
use escapement_run::spec::Spec;
use escapement_run::{Blobs, Commit, Effect, Input, Run};

/// Some work.
struct Workload {
    name: &'static str,
    /// What is done several times.
    operation: &'static str,
    /// The plan of its runs.
    plan: fn() -> Plan,
    /// How many runs of it.
    n_runs: u8,
    /// How many calls they make in all.
    n_calls: u64,
}

const WORKLOADS: [Workload; 5] = [
    workload("run-1", "run", || chain(1), 100, 100),
    workload("run-chain-64", "step", || chain(64), 8, 512),
    workload("run-chain-1024", "step", || chain(1024), 1, 1024),
    workload("run-loop-1000", "iteration", || repeated(1000), 1, 1000),
    workload("run-parallel-256", "item", || parallel(256), 2, 512),
];

const fn workload(
    name: &'static str,
    operation: &'static str,
    plan: fn() -> Plan,
    n_runs: u8,
    n_calls: u64,
) -> Workload {
    Workload {
        name,
        operation,
        plan,
        n_runs,
        n_calls,
    }
}

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    if name == "--list" {
        WORKLOADS
            .iter()
            .for_each(|workload| println!("{}", workload.name));
        return ExitCode::SUCCESS;
    }
    let Some(workload) = WORKLOADS.iter().find(|workload| workload.name == name) else {
        eprintln!("run_instructions NAME | --list: there is no workload \"{name}\"");
        return ExitCode::FAILURE;
    };
    let plan = Arc::new((workload.plan)());
    let n_calls: u64 = (0..workload.n_runs).map(|n| carry_out(n, &plan)).sum();
    assert_eq!(n_calls, workload.n_calls, "every call is made once");
    println!("{n_calls} {}", workload.operation);
    ExitCode::SUCCESS
}

/// Everything that runs in here is counted, and nothing else: callgrind toggles at the name of this function.
#[inline(never)]
fn measured_by_callgrind(work: &mut dyn FnMut()) {
    work();
    // What comes after the call keeps it from becoming a jump, behind which callgrind would go on counting.
    black_box(());
}

/// Runs the plan to its end, every call completed; gives how many there were.
fn carry_out(n: u8, plan: &Arc<Plan>) -> u64 {
    let spec = Spec {
        limits: Preset::Standard.limits(4),
        policy: Preset::Standard.policy(),
        autonomy_level: 4,
        priority: 5,
        user_id: "ada".to_owned(),
        ..Spec::default()
    };
    let (mut disk, mut made) = (Disk::default(), None);
    measured_by_callgrind(&mut || {
        let run_id = RunId::from_random([n; 16]);
        let made_of = (spec.clone(), Arc::clone(plan));
        made = Some(Run::create(run_id, made_of.0, made_of.1, Vec::new(), NOW, &disk));
    });
    let (mut run, commit) = made.expect("a run is made");
    disk.keep(&commit);
    let (mut inputs, mut n_calls) = (VecDeque::from([Input::Admit]), 0);
    while let Some(input) = inputs.pop_front() {
        let (mut input, mut handled) = (Some(input), None);
        measured_by_callgrind(&mut || {
            handled = input.take().map(|input| run.handle(input, NOW, &disk));
        });
        let commit = handled.expect("it was handed in").expect("the input fits");
        disk.keep(&commit);
        for effect in commit.persisted() {
            let Effect::Submit { execution_id, .. } = effect else {
                panic!("a run of calls only calls: {effect:?}");
            };
            n_calls += 1;
            inputs.push_back(Input::Settled {
                execution_id,
                outcome: completed(),
            });
        }
    }
    assert!(run.state().stage().is_end(), "with all calls completed it ends");
    n_calls
}

fn completed() -> AttemptOutcome {
    AttemptOutcome {
        class: OutcomeClass::Completed,
        output: Some(Bytes::from_static(b"\x1a\x04done")),
        ..AttemptOutcome::default()
    }
}

/// What runs refer to by SHA-256.
#[derive(Default)]
struct Disk(BTreeMap<[u8; 32], Bytes>);

impl Disk {
    fn keep(&mut self, commit: &Commit) {
        self.0.extend(commit.blobs.iter().cloned());
    }
}

impl Blobs for Disk {
    fn blob(&self, digest: &[u8; 32]) -> Bytes {
        self.0[digest].clone()
    }
}

/// Calls, each of which depends on the one before and has its result.
fn chain(n_steps: usize) -> Plan {
    let key = |n: usize| format!("call_{n}");
    let steps = (0..n_steps).map(|n| {
        let arguments = match n.checked_sub(1) {
            Some(before) => StructBuilder::new().text("text", &format!("${{{}}}", key(before))),
            None => StructBuilder::new().text("text", "first"),
        };
        let step = StructBuilder::new()
            .text("key", &key(n))
            .text("type", "tool_call")
            .object("config", call(arguments).as_encoded());
        match n.checked_sub(1) {
            Some(before) => step.list("depends_on", ListBuilder::new().text(&key(before))),
            None => step,
        }
    });
    plan_of(steps)
}

/// One call, so many times.
fn repeated(n_iterations: u32) -> Plan {
    let call = call(StructBuilder::new().text("text", "again"));
    let config = StructBuilder::from_opaque(&call).number("max_iterations", f64::from(n_iterations));
    plan_of([only("loop", &config.build())])
}

/// So many calls at once.
fn parallel(n_items: u32) -> Plan {
    let items = (0..n_items).fold(ListBuilder::new(), |items, n| {
        let item = call(StructBuilder::new().number("n", f64::from(n)));
        items.object(item.as_encoded())
    });
    let config = StructBuilder::new()
        .list("steps", items)
        .number("batch_size", f64::from(n_items));
    plan_of([only("parallel", &config.build())])
}

fn call(arguments: StructBuilder) -> Opaque {
    StructBuilder::new()
        .text("tool_name", "echo")
        .object("tool_args", arguments.build().as_encoded())
        .build()
}

fn only(step_type: &str, config: &Opaque) -> StructBuilder {
    StructBuilder::new()
        .text("key", "only")
        .text("type", step_type)
        .object("config", config.as_encoded())
}

fn plan_of(steps: impl IntoIterator<Item = StructBuilder>) -> Plan {
    let steps = steps.into_iter().fold(ListBuilder::new(), |steps, step| {
        steps.object(step.build().as_encoded())
    });
    let document = StructBuilder::new()
        .text("schema", "escapement.plan/1")
        .text("name", "Counted")
        .list("steps", steps)
        .build();
    plan::read(&document).unwrap_or_else(|why| panic!("the plan is right: {why}"))
}

const NOW: i64 = 1_763_700_000_000;
