//! The bars of the design, group by group. Each group takes what it needs and gives its bars.

mod hostile;
mod idle;
mod large;
mod pairs;
mod planning;
mod queue;
mod restart;
mod runs;
mod runs_start;
mod secure;
mod small;
mod telemetry;
mod validation;

use std::path::Path;
use std::process::ExitCode;

use escapement_tests::{Fault, PrivateDirectory};

use crate::curves;
use crate::options::Options;
use crate::report::Bar;

/// Measures what was asked for and prints each bar as soon as it stands.
///
/// # Errors
/// Something did not run at all. A bar that is not met is no error: the last line counts it.
pub(crate) async fn measure(options: &Options) -> Result<ExitCode, Fault> {
    let (mut n_bars, mut n_met) = (0, 0);
    let mut lines = Vec::new();
    let mut tell = |bars: Vec<Bar>| {
        for bar in bars {
            println!("{}\n{}", bar.text(), bar.json());
            lines.push(bar.json());
            n_bars += 1;
            n_met += usize::from(bar.is_met());
        }
    };
    let extent = &options.extent;
    if options.in_memory {
        PrivateDirectory::place_in(Path::new(MEMORY))?;
        println!("stores in memory, at {MEMORY}");
    }
    for group in GROUPS.into_iter().filter(|group| options.selects(group)) {
        tell(match group {
            "single" => small::single(extent).await?,
            "three" => small::three(extent).await?,
            "chain" => large::chain(extent).await?,
            "independent" => large::independent(extent).await?,
            "validation" => validation::validation(extent).await?,
            "secure" => secure::secure(extent).await?,
            "telemetry" => telemetry::telemetry(extent).await?,
            "queue" => queue::queue(extent).await?,
            "runs" => runs::runs(extent).await?,
            "runs_planning" => planning::planning(extent).await?,
            "runs_at_rest" => vec![idle::at_rest(extent).await?],
            "runs_start" => runs_start::runs_start(extent).await?,
            "sessions" => idle::sessions(extent).await?,
            "hostile" => hostile::hostile(extent).await?,
            "restart" => restart::restart(extent).await?,
            "idle" => idle::idle(extent).await?,
            other => unreachable!("no group is called {other}"),
        });
    }
    if options.writes {
        curves::keep_bars(options, &lines)?;
    }
    println!(r#"{{"bars":{n_bars},"met":{n_met}}}"#);
    Ok(ExitCode::SUCCESS)
}

/// File system in memory of every Linux.
const MEMORY: &str = "/dev/shm";
/// What can be asked for alone.
const GROUPS: [&str; 16] = [
    "single",
    "three",
    "chain",
    "independent",
    "validation",
    "secure",
    "telemetry",
    "queue",
    "runs",
    "runs_planning",
    "runs_at_rest",
    "runs_start",
    "sessions",
    "hostile",
    "restart",
    "idle",
];
