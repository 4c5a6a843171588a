//! Runs beside the contract: their store, their thread, and the way from there to the contract. Decides nothing about a run.

use crate::config::Config;
use crate::engine_port::EnginePort;
use crate::exit::{EXIT_SOFTWARE, EXIT_STORE, Failure, stop_here};
use crate::grpc::Edge;
use crate::limits::{RUN_EXECUTIONS_MAX, RUN_WAITING_BYTES_MAX};
use escapement_metrics::Metrics;
use escapement_runs_shell::{
    CaughtUp, EffectsConfig, Ending, Rights, RunsHandle, RunsThread, Setup, StorePort, perform,
};
use escapement_store::FeedMark;
use escapement_store::runs::RunStore;
use escapement_traces::Traces;
use escapement_transport::AccessRules;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tracing::error;

/// The runs of the process.
#[derive(Debug)]
pub(crate) struct Runs {
    pub(crate) handle: RunsHandle,
    thread: RunsThread<StorePort>,
}

impl Runs {
    /// Takes up what the store holds, and lets it go on. The contract is there already.
    pub(crate) fn start(
        config: &Config,
        (store, newest_ms): (StorePort, Option<i64>),
        (feed, caught_up): (FeedMark, CaughtUp),
        edge: &Edge,
        threads: &Handle,
        rules: AccessRules,
        traces: Option<Traces>,
    ) -> Result<Self, Failure> {
        let (outgoing, received) = mpsc::unbounded_channel();
        let reader = store.reader().map_err(Failure::Store)?;
        let traces = traces.map(|traces| traces.of_runs(reader));
        let metrics = edge.metrics.as_ref();
        let setup = Setup {
            store,
            config: config.runs(),
            removal: config.run_removal(),
            feed,
            newest_ms,
            outgoing,
            caught_up,
            tally: metrics.map(Metrics::tally_of_runs).unwrap_or_default(),
            traces,
            cannot_go_on: Box::new(cannot_go_on),
        };
        let (handle, thread) = escapement_runs_shell::start(setup).map_err(Failure::Store)?;
        handle
            .seen()
            .wait_at_most(Duration::from_millis(config.registration_grace_ms));
        handle.judge_by(Rights::by(move || rules.current()));
        let effects = EffectsConfig {
            max_executions: RUN_EXECUTIONS_MAX,
            waiting_bytes: RUN_WAITING_BYTES_MAX,
        };
        perform(EnginePort::new(edge.clone()), &handle, effects, received, threads);
        Ok(Self { handle, thread })
    }

    /// Waits for the end of the thread, which was asked to end before.
    pub(crate) fn join(self) {
        drop(self.handle);
        if self.thread.join().is_err() {
            error!("thread of runs ended with a panic");
        }
    }
}

fn cannot_go_on(why: Ending<'_>) {
    match why {
        Ending::Store(fault) => {
            error!(
                error = fault as &dyn std::error::Error,
                "store of runs failed; nothing more is acknowledged"
            );
            stop_here(EXIT_STORE)
        }
        Ending::Panic => {
            error!(
                thread = "runs",
                "defect: the orchestrator stops; report it with the panic above"
            );
            stop_here(EXIT_SOFTWARE)
        }
    }
}
