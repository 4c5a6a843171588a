//! Runs beside the contract: their store, their thread, and the way from there to the contract. Decides nothing about a run.

use crate::config::Config;
use crate::exit::{EXIT_SOFTWARE, EXIT_STORE, Failure, stop_here};
use crate::grpc::{Edge, services};
use crate::limits::{
    CONTRACT_CONNECT_TIMEOUT, CONTRACT_KEEP_ALIVE_INTERVAL, RUN_EXECUTIONS_MAX, RUN_WAITING_BYTES_MAX,
};
use escapement_credentials::Credentials;
use escapement_metrics::Metrics;
use escapement_runs_shell::{
    CaughtUp, EffectsConfig, Ending, Rights, RunsHandle, RunsThread, Setup, perform,
};
use escapement_store::runs::{EmbeddedRuns, RunStore};
use escapement_store::{Embedded, EmbeddedOptions, FeedMark};
use escapement_traces::Traces;
use escapement_transport::AccessRules;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tracing::error;

/// The runs of the process.
#[derive(Debug)]
pub(crate) struct Runs {
    pub(crate) handle: RunsHandle,
    thread: RunsThread<EmbeddedRuns>,
}

/// The store of runs, which is opened while that of the contract still lends its lock.
pub(crate) fn open_store(config: &Config, store: &Embedded) -> Result<Option<EmbeddedRuns>, Failure> {
    if config.no_runs {
        return Ok(None);
    }
    let options = EmbeddedOptions {
        accept_loss: config.accept_loss,
        lock: Some(store.lock()),
        ..EmbeddedOptions::default()
    };
    let runs = EmbeddedRuns::open(&config.store_path, &options).map_err(Failure::Store)?;
    for repaired in &runs.opening().repaired {
        tracing::warn!(repaired, "store of runs repaired with the loss accepted");
    }
    Ok(Some(runs))
}

/// Returns the mark for the retention of the contract. Without runs that read its results the mark is already
/// set.
pub(crate) fn caught_up(config: &Config) -> CaughtUp {
    match config.no_runs || config.contract.contract.is_some() {
        true => CaughtUp::already(),
        false => CaughtUp::default(),
    }
}

impl Runs {
    /// Takes up what the store holds, and lets it go on. The contract is there already.
    pub(crate) fn start(
        config: &Config,
        store: EmbeddedRuns,
        (feed, caught_up): (FeedMark, CaughtUp),
        edge: &Edge,
        threads: &Handle,
        rules: AccessRules,
        traces: Option<Traces>,
    ) -> Result<Self, Failure> {
        let (outgoing, received) = mpsc::unbounded_channel();
        let newest_ms = store.newest_ms();
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
            knows_authors: config.contract.contract.is_none(),
        };
        match &config.contract.contract {
            None => perform(services::contract(edge), &handle, effects, received, threads),
            Some(url) => {
                let service = elsewhere(config, url, threads)?;
                perform(service, &handle, effects, received, threads);
            }
        }
        Ok(Self { handle, thread })
    }

    /// Waits for the end of the thread, which was asked to end before. Returns the store.
    pub(crate) fn join(self) -> Option<EmbeddedRuns> {
        drop(self.handle);
        let ended = self.thread.join();
        ended
            .inspect_err(|_| error!("thread of runs ended with a panic"))
            .ok()
    }
}

/// Returns the way to another orchestrator. It connects when it is used, and again if the connection is lost, with what the files of the
/// configuration hold then.
fn elsewhere(
    config: &Config,
    url: &str,
    threads: &Handle,
) -> Result<InterceptedService<Channel, Credentials>, Failure> {
    let _in_runtime = threads.enter();
    let credentials = config.contract.credentials();
    let settings = |endpoint: Endpoint| {
        endpoint
            .connect_timeout(CONTRACT_CONNECT_TIMEOUT)
            .http2_keep_alive_interval(CONTRACT_KEEP_ALIVE_INTERVAL)
            .keep_alive_while_idle(true)
    };
    let channel = credentials.channel(url, settings);
    let channel = channel.map_err(|problem| Failure::Configuration {
        setting: config.given.naming_variable("--contract"),
        problem: format!("cannot be reached as configured: {problem}"),
    })?;
    Ok(InterceptedService::new(channel, credentials))
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
