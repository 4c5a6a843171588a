//! A start on a large store after a kill: how long until the first call is answered, from a warm and from a cold cache.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use escapement_tests::{Binaries, Fault, OrchestratorSettings, PrivateDirectory};
use escapement_wire::v1::ListExecutionsRequest;

use super::pairs::Pairs;
use crate::load::client;
use crate::process::read_bytes;
use crate::report::{Aim, Bar};
use crate::rounds::Extent;

/// With a million settled and a hundred thousand queued, each time after the process was killed.
pub(crate) async fn restart(extent: &Extent) -> Result<Vec<Bar>, Fault> {
    let (full, empty) = (PrivateDirectory::new("bars")?, PrivateDirectory::new("bars")?);
    let (n_settled, n_queued) = (extent.settled, extent.queued);
    fill(&store_of(full.path()), n_settled, n_queued)?;
    // The first start on it warms the cache, and its kill makes every later one a start after a kill.
    start(full.path(), n_queued).await?;
    let (mut warm, mut cold) = (Pairs::default(), Pairs::default());
    for _ in 0..extent.rounds {
        let on_empty = start(empty.path(), 0).await?;
        for (durations, is_cold) in [(&mut warm, false), (&mut cold, true)] {
            if is_cold {
                forget_pages(&store_of(full.path()))?;
            }
            let on_full = start(full.path(), n_queued).await?;
            if is_cold && on_full.read_bytes < COLD_BYTES_MIN {
                return Err(format!("the cache was not cold: {} bytes were read", on_full.read_bytes).into());
            }
            durations.value.push(on_full.took.as_secs_f64());
            durations.baseline.push(on_empty.took.as_secs_f64());
        }
    }
    let bar = |name, cache: &str, durations: &Pairs, aim| {
        let what = format!(
            "start after a kill with {n_settled} settled and {n_queued} queued, to the first answer, {cache}"
        );
        let baseline = durations.baseline("start on an empty store");
        Bar::new(name, what, "s", durations.value(), aim).beside(baseline)
    };
    Ok(vec![
        bar(
            "restart_warm",
            "the store in the page cache",
            &warm,
            Aim::Under(1.0),
        ),
        bar(
            "restart_cold",
            "the store on the disk alone",
            &cold,
            Aim::Under(2.0),
        ),
    ])
}

struct Started {
    took: Duration,
    /// What had to come from the disk until then.
    read_bytes: u64,
}

/// Starts, asks for the newest execution, and kills the process.
async fn start(directory: &Path, n_queued: usize) -> Result<Started, Fault> {
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
    let took = began.elapsed();
    if newest.executions.is_empty() != (n_queued == 0) {
        return Err("the store should list what was filled in".into());
    }
    let read_bytes = read_bytes(orchestrator.process.id())?;
    orchestrator.process.kill()?;
    Ok(Started { took, read_bytes })
}

/// Makes the kernel forget the pages of a store, which needs no right but to read its files.
/// Pages that are not on the disk yet would stay, so they go there first.
fn forget_pages(store: &Path) -> Result<(), Fault> {
    for file in std::fs::read_dir(store)? {
        let file = file?.path();
        let of = format!("if={}", file.display());
        for command in [
            Command::new("sync").arg(&file),
            Command::new("dd").args([of.as_str(), "iflag=nocache", "count=0", "status=none"]),
        ] {
            if !command.status()?.success() {
                return Err(format!("{command:?} failed").into());
            }
        }
    }
    Ok(())
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
fn store_of(directory: &Path) -> std::path::PathBuf {
    directory.join("store")
}

/// Far less than a start on a full store reads, and far more than one whose pages are all there.
const COLD_BYTES_MIN: u64 = 1 << 20;
