//! The curves: how cost, throughput, memory and latency change with size. Holds nothing against an aim; that is for the bars.

mod callers;
mod data;
mod latency;
mod machine;
mod memory;
mod sessions;
mod steps;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use escapement_tests::{Fault, checkout};

use crate::options::Options;
use crate::rounds::Extent;
use data::{Curve, Measured, Results};
use machine::Machine;

pub(crate) use data::BarLines;

/// How long and how often.
#[derive(Clone, Copy, Debug)]
struct Size {
    /// Of rates and latencies; in each of them the product and the floor take turns.
    rounds: usize,
    /// Of memory; each of them with an orchestrator of its own.
    memory_rounds: usize,
    /// How long a rate is measured in one round.
    span: Duration,
    /// How long a latency is measured in one round.
    latency_span: Duration,
    /// How long something idle is looked at.
    idle: Duration,
    /// Number of executions that are queued or running.
    executions: &'static [usize],
}

const FULL: Size = Size {
    rounds: 3,
    memory_rounds: 2,
    span: Duration::from_secs(1),
    latency_span: Duration::from_secs(4),
    idle: Duration::from_secs(6),
    executions: &[1_000, 10_000, 50_000, 100_000],
};
const QUICK: Size = Size {
    rounds: 2,
    memory_rounds: 1,
    span: Duration::from_millis(300),
    latency_span: Duration::from_secs(1),
    idle: Duration::from_secs(3),
    executions: &[1_000, 5_000],
};

/// Measures what was asked for, and keeps it after each group, so that a break loses one.
///
/// # Errors
/// Something did not run, or a file cannot be written.
pub(crate) async fn measure(options: &Options) -> Result<ExitCode, Fault> {
    let folder = folder(options)?;
    let size = if is_quick(options) { &QUICK } else { &FULL };
    let mut results = Results::read(&folder)?;
    for group in GROUPS
        .iter()
        .filter(|group| group.iter().any(|name| options.selects(name)))
    {
        eprintln!("measuring {}", group.join(" and "));
        let measured = Measured {
            on: machine::today()?,
            is_quick: is_quick(options),
            machine: Machine::here()?,
        };
        for (name, mut curve) in measure_group(group[0], size).await? {
            curve.measured = measured.clone();
            results.curves.insert(name.to_owned(), curve);
        }
        results.write(&folder)?;
    }
    println!("{}", folder.join(data::FOLDER).display());
    Ok(ExitCode::SUCCESS)
}

/// Keeps the lines of measured bars.
///
/// # Errors
/// A line is no JSON, or a file cannot be read or written.
pub(crate) fn keep_bars(options: &Options, lines: &[String]) -> Result<(), Fault> {
    let folder = folder(options)?;
    let measured = Measured {
        on: machine::today()?,
        is_quick: is_quick(options),
        machine: Machine::here()?,
    };
    // What was asked for alone stands beside what is kept; all together leave nothing that is measured no more.
    let kept = match options.only.is_empty() {
        true => BarLines::default(),
        false => BarLines::read(&folder)?,
    };
    kept.with(lines, &measured)?.write(&folder)
}

async fn measure_group(first: &str, size: &Size) -> Result<Vec<(&'static str, Curve)>, Fault> {
    match first {
        "steps" => steps::one_caller(size).await,
        "chains" => steps::many_callers(size).await,
        "callers" => callers::by_callers(size).await,
        "workers" => callers::by_workers(size).await,
        "queued" => memory::queued(size).await,
        "running" => memory::running(size).await,
        "sessions" => sessions::idle(size).await,
        "latency" => latency::by_load(size).await,
        other => Err(format!("nobody measures `{other}`").into()),
    }
}

/// What one measurement gives.
const GROUPS: [&[&str]; 8] = [
    &["steps"],
    &["chains"],
    &["callers"],
    &["workers"],
    &["queued"],
    &["running"],
    &["sessions", "session_cpu"],
    &["latency"],
];

fn is_quick(options: &Options) -> bool {
    options.extent == Extent::QUICK
}

/// Where figures are kept; a quick look leaves the checkout alone and keeps them beside this program.
fn folder(options: &Options) -> Result<PathBuf, Fault> {
    let folder = if is_quick(options) {
        let program = std::env::current_exe()?;
        program
            .parent()
            .ok_or("a program lies in a folder")?
            .join("bars-quick")
    } else {
        checkout::root().join("tests/bars")
    };
    std::fs::create_dir_all(folder.join(data::FOLDER))?;
    Ok(folder)
}
