//! The way down: no new work, running executions finish within their grace, then everything closes, in order.
//! Settles nothing: what is still open is settled by the next start.

use crate::exit::{EXIT_CUT_SHORT, Failure, stop_here};
use crate::grpc::services::set_health;
use crate::host::handle::{EngineHandle, Lane};
use crate::limits::{DRAIN_MARGIN, HARD_EXIT_MARGIN};
use escapement_engine::Input;
use escapement_metrics::Metrics;
use escapement_runs_shell::RunsHandle;
use escapement_transport::Connections;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use tracing::{info, warn};

/// What blocking reads get to end with the runtime, and sinks before it.
pub(crate) const RUNTIME_END_TIMEOUT: Duration = Duration::from_secs(1);

/// Everything that serves and must come down.
#[derive(Debug)]
pub(crate) struct Serving {
    pub(crate) engine: EngineHandle,
    pub(crate) runs: Option<RunsHandle>,
    pub(crate) health: HealthReporter,
    pub(crate) metrics: Option<Metrics>,
    /// How many executions still run, once the drain is over.
    pub(crate) drained: watch::Receiver<Option<usize>>,
    pub(crate) closing: watch::Sender<bool>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) accept: JoinHandle<()>,
}

/// Comes down. A second signal, or the hard limit, ends the process at once.
///
/// # Errors
/// [`Failure::CutShort`] if something that ran had not ended when its grace was over.
pub(crate) async fn drain(mut serving: Serving, grace_ms: u64) -> Result<(), Failure> {
    info!(grace_ms, "draining");
    let grace = Duration::from_millis(grace_ms);
    end_in_any_case(grace + HARD_EXIT_MARGIN);
    tokio::spawn(end_on(escapement_process::stop_signal()));
    // The engine hears of it first, so that a client that sees the health change is refused already.
    // Its thread ends only below.
    let _never_gone = serving
        .engine
        .tell(Lane::Control, Input::Drain { grace_ms })
        .await;
    // What comes back of what is in flight is recorded still.
    if let Some(runs) = &serving.runs {
        runs.close();
    }
    serving
        .metrics
        .iter()
        .for_each(|metrics| metrics.set_ready(false));
    set_health(&serving.health, ServingStatus::NotServing, serving.runs.is_some()).await;
    let drained = serving.drained.wait_for(Option::is_some);
    let drained = tokio::time::timeout(grace + DRAIN_MARGIN, drained).await;
    // None: the engine itself did not come to the end of its drain.
    let n_unfinished = drained
        .ok()
        .and_then(Result::ok)
        .and_then(|n_unfinished| *n_unfinished);
    let is_drained = n_unfinished == Some(0);
    if !is_drained {
        warn!(
            n_unfinished,
            "executions still run at the end of the drain's grace; the next start settles and names them"
        );
    }
    // First runs, which the next start takes up where they are.
    if let Some(runs) = &serving.runs {
        runs.stop();
        // The last writes of the thread go through the engine.
        runs.ended().await;
    }
    // Then the engine, so that every call that waits gets its answer while connections still stand.
    serving.engine.stop().await;
    serving.closing.send_replace(true);
    if let Err(error) = serving.accept.await {
        warn!(%error, "accept loop ended with a panic");
    }
    if !serving.connections.ended().await {
        warn!("connections did not end in time");
    }
    if is_drained {
        Ok(())
    } else {
        Err(Failure::CutShort)
    }
}

async fn end_on(second_signal: impl Future<Output = ()>) {
    second_signal.await;
    warn!("second signal: exit at once");
    stop_here(EXIT_CUT_SHORT)
}

/// On a thread of its own, because the end outlives the runtime: a disk that hangs must not keep the process.
fn end_in_any_case(limit: Duration) {
    let watchdog = std::thread::Builder::new()
        .name("hard-exit".to_owned())
        .spawn(move || {
            std::thread::sleep(limit);
            warn!("drain took too long: exit at once");
            stop_here(EXIT_CUT_SHORT)
        });
    if let Err(error) = watchdog {
        warn!(%error, "no thread for the hard exit");
    }
}
