//! A start with very many runs after a kill: how long until every live run has been told of it, and every attempt that was
//! written down has reached a worker.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use escapement_tests::usage::peak_bytes;
use escapement_tests::{Binaries, Fault, OrchestratorSettings, PrivateDirectory};
use escapement_wire::runs::v1::WatchRunRequest;
use escapement_wire::runs::v1::run_service_client::RunServiceClient;
use escapement_wire::runs::v1::watch_run_response::Told;
use tonic::transport::Channel;

use crate::hoard::{Hoard, all_hold};
use crate::plans::ACTION;
use crate::report::{Aim, Bar};
use crate::rounds::Extent;
use crate::statistics::Figure;

/// With ten thousand live runs and a million ended ones. Each round has the store as a kill left it before any attempt was
/// submitted: that is the start with the most to do.
pub(crate) async fn runs_start(extent: &Extent) -> Result<Vec<Bar>, Fault> {
    let template = PrivateDirectory::new("bars")?;
    let last = fill(&template.path().join("store"), extent.settled)?;
    let (mut took, mut memory) = (Vec::new(), Vec::new());
    for _ in 0..extent.rounds.min(ROUNDS) {
        let started = start(template.path(), &last).await?;
        took.push(started.took.as_secs_f64());
        memory.push(started.peak_bytes as f64 / 1_048_576.0);
    }
    let what = format!(
        "start after a kill with {} live and {} ended runs",
        N_WAITING + N_CALLING,
        extent.settled
    );
    Ok(vec![
        Bar::new(
            "runs_start",
            format!("{what}: all told of it, and {N_CALLING} attempts with a worker"),
            "s",
            Figure::of(took),
            Aim::Under(3.0),
        ),
        Bar::new(
            "runs_start_memory",
            format!("{what}: the most memory that it takes"),
            "MiB",
            Figure::of(memory),
            Aim::Under(256.0),
        ),
    ])
}

struct Started {
    took: Duration,
    peak_bytes: u64,
}

async fn start(template: &Path, last: &str) -> Result<Started, Fault> {
    let directory = PrivateDirectory::new("bars")?;
    let copied = Command::new("cp")
        .args(["-r", "--sparse=never"])
        .args([template.join("store"), directory.path().join("store")])
        .status()?;
    if !copied.success() {
        return Err("the filled store cannot be copied".into());
    }
    // By default 1,024 executions run at once, and the other attempts would wait in the queue for a worker that never ends.
    let settings = OrchestratorSettings::new(directory.path()).flag("--max-running-executions", N_CALLING);
    // What was copied is on the disk before: a start does not pay for that.
    Command::new("sync").status()?;
    let began = Instant::now();
    let mut orchestrator = settings.start().await?;
    let mut hoards = Vec::new();
    for share in [0.0, 0.5] {
        let half = u32::try_from(N_CALLING / 2)?;
        hoards.push(Hoard::open(orchestrator.address(), ACTION, half, share).await?);
    }
    recovered(orchestrator.channel(), last).await?;
    all_hold(&hoards, N_CALLING).await?;
    let took = began.elapsed();
    let started = Started {
        took,
        peak_bytes: peak_bytes(orchestrator.process.id())?,
    };
    orchestrator.process.kill()?;
    Ok(started)
}

/// Waits until the run has been told of the start. Runs are told in the order of their ids, so that the last one is.
async fn recovered(channel: Channel, run_id: &str) -> Result<(), Fault> {
    let watch = WatchRunRequest {
        run_id: run_id.to_owned(),
        from_sequence: 1,
    };
    let mut events = RunServiceClient::new(channel)
        .watch_run(watch)
        .await?
        .into_inner();
    while let Some(told) = events.message().await? {
        if matches!(told.told, Some(Told::Event(event)) if event.event_type == "run_recovered") {
            return Ok(());
        }
    }
    Err("the watch of a live run ended".into())
}

/// Fills the store with real runs, as an orchestrator would have written them; gives the live run with the highest id.
fn fill(store: &Path, n_ended: usize) -> Result<String, Fault> {
    let orchestrator = Binaries::build()?.orchestrator;
    let program = orchestrator.with_file_name("examples").join("fill_runs");
    let counts = [n_ended, N_WAITING, N_CALLING].map(|count| count.to_string());
    let output = Command::new(&program)
        .arg("--path")
        .arg(store)
        .args([
            "--ended",
            &counts[0],
            "--waiting",
            &counts[1],
            "--calling",
            &counts[2],
        ])
        .output()
        .map_err(|fault| format!("cannot run {}: {fault}", program.display()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    match said.lines().last() {
        Some(last) if output.status.success() => Ok(last.to_owned()),
        _ => Err(format!(
            "the store cannot be filled: {}",
            String::from_utf8_lossy(&output.stderr)
        )
        .into()),
    }
}

/// Live runs that ask a person.
const N_WAITING: usize = 6_000;
/// Live runs with an attempt that was written down; as many as leave at a time, about.
const N_CALLING: usize = 4_000;
/// Copying the store takes longer than the start.
const ROUNDS: usize = 3;
