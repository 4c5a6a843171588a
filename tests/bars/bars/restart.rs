//! A start on a large store: how long until the first call is answered.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use escapement_tests::{Binaries, Fault, OrchestratorSettings, PrivateDirectory};
use escapement_wire::v1::ListExecutionsRequest;

use super::pairs::Pairs;
use crate::load::client;
use crate::report::{Aim, Bar};
use crate::rounds::Extent;

/// With a million settled and a hundred thousand queued, each time after the process was killed.
pub(crate) async fn restart(extent: &Extent) -> Result<Vec<Bar>, Fault> {
    let (full, empty) = (PrivateDirectory::new("bars")?, PrivateDirectory::new("bars")?);
    let (n_settled, n_queued) = (extent.settled, extent.queued);
    fill(&settings_path(full.path()), n_settled, n_queued)?;
    let mut durations = Pairs::default();
    for _ in 0..extent.rounds {
        durations
            .baseline
            .push(start(empty.path(), 0).await?.as_secs_f64());
        durations
            .value
            .push(start(full.path(), n_queued).await?.as_secs_f64());
    }
    Ok(vec![
        Bar::new(
            "restart",
            format!("start with {n_settled} settled and {n_queued} queued, to the first answer"),
            "s",
            durations.value(),
            Aim::Under(2.0),
        )
        .beside(durations.baseline("start on an empty store")),
    ])
}

/// Starts, asks for the newest execution, and kills the process.
async fn start(directory: &Path, n_queued: usize) -> Result<Duration, Fault> {
    let settings = OrchestratorSettings::new(directory)
        .flag("--max-running-executions", 1)
        .flag("--max-queued-executions", n_queued.max(1));
    let began = Instant::now();
    let mut orchestrator = settings.start().await?;
    let request = ListExecutionsRequest {
        page_size: Some(1),
        ..ListExecutionsRequest::default()
    };
    let newest = client(orchestrator.channel())
        .list_executions(request)
        .await?
        .into_inner();
    let elapsed = began.elapsed();
    if newest.executions.is_empty() != (n_queued == 0) {
        return Err("the store should list what was filled in".into());
    }
    orchestrator.process.kill()?;
    Ok(elapsed)
}

/// Fills the store with real records, as an orchestrator would have written them.
fn fill(store: &Path, n_settled: usize, n_queued: usize) -> Result<(), Fault> {
    let orchestrator = Binaries::build()?.orchestrator;
    let program = orchestrator.with_file_name("examples").join("fill_store");
    let output = Command::new(&program)
        .arg("--path")
        .arg(store)
        .args([
            "--settled",
            &n_settled.to_string(),
            "--queued",
            &n_queued.to_string(),
        ])
        .output()
        .map_err(|fault| format!("cannot run {}: {fault}", program.display()))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(format!(
            "the store cannot be filled: {}",
            String::from_utf8_lossy(&output.stderr)
        )
        .into())
    }
}

/// Where the orchestrator of a directory keeps its store.
fn settings_path(directory: &Path) -> std::path::PathBuf {
    directory.join("store")
}
