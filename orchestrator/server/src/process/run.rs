//! From a configuration to a process that serves, and back down. Decides nothing about an execution.

use super::drain;
use super::drain::Serving;
use super::figures;
use super::runs::Runs;
use super::security::{self, Entrance, Security, few_files};
use super::stores::{close_acts, open_store, start_scrub};
use crate::clock::Clock;
use crate::config::Config;
use crate::exit::{Failure, no_thread};
use crate::grpc::services::RunsSetup;
use crate::grpc::{Edge, services};
use crate::host::effects::EffectRunner;
use crate::host::engine_loop;
use crate::host::engine_loop::EngineStart;
use crate::host::handle;
use crate::limits::{BLOCKING_THREADS_KEPT, BLOCKING_THREADS_MAX};
use crate::storage::readers::Readers;
use crate::storage::retention::Maintenance;
use crate::storage::writer::ToWriter;
use crate::storage::{loader, writer};
use escapement_codec::session_out::WelcomeDefaults;
use escapement_engine::EngineConfig;
use escapement_host::recovery::{self, RecoveryFault, Unsettled};
use escapement_model::{AttemptSeal, BootId};
use escapement_operators::{AccessEdge, Operators};
use escapement_otlp::Export;
use escapement_process::telemetry::InitError;
use escapement_process::{files, priority, service};
use escapement_runs_api::webhooks;
use escapement_runs_shell::{CaughtUp, RunsHandle, StorePort};
use escapement_sinks::{CannotStart, Deliveries, SessionJournal, Sinks};
use escapement_store::{Embedded, Reader, Store};
use escapement_traces::{Flush, SERVICE_NAME, Traces};
use escapement_transport::reload::Looks;
use escapement_transport::{CallerThreads, connections_for};
use std::net::SocketAddr;
use std::num::NonZero;
use std::pin::Pin;
use std::sync::{Arc, mpsc as std_mpsc};
use std::thread::JoinHandle;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::task;
use tokio::time::timeout;
use tracing::info;

/// Serves until a signal asks for the end.
///
/// # Errors
/// [`Failure`]: why it does not start, or that its end was cut short.
pub fn run(config: &Config) -> Result<(), Failure> {
    let logs = start_logging(config)?;
    let (boot_id, token_key) = (BootId::new(draw()?), draw()?);
    let security = Security::load(config)?.of_attempts(AttemptSeal::new(token_key));
    let connections_max = connections_for(config.max_connections, files::raise_limit()).map_err(few_files)?;
    let (clock, mut store) = (Clock::start(), open_store(config)?);
    let reader = Store::reader(&store).map_err(Failure::Store)?;
    let recovered = unsettled(config, reader.as_ref())?;
    let (mut runtimes, readers) = (Runtimes::start()?, Readers::open(&store).map_err(Failure::Store)?);
    let listener = runtimes.edge.block_on(listen(config.listen))?;
    let figures = figures::listen(config)?;
    let metrics = figures.as_ref().map(|figures| figures.metrics.clone());
    let (sinks, deliveries) = start_sinks(config, &security, &runtimes.edge)?;
    let events = sinks.subscribers();
    let engine_config = config.engine(boot_id, token_key);
    let greeting = greeting(config, &engine_config);
    let journal = start_journal(config, boot_id, clock)?;
    log_start(config, boot_id, &recovered);
    let scribe = close_acts(config, boot_id, &mut store, clock)?;

    let (to_writer, asked) = std_mpsc::channel();
    let operators = operators(to_writer.clone());
    let ((stored, stored_rx), (loaded, loaded_rx)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
    let (wanted, wanted_rx) = std_mpsc::channel();
    let ((drained, drained_rx), (closing, closing_rx)) = (watch::channel(None), watch::channel(false));
    let (engine, inbox) = handle::link();
    let loader = loader::spawn(reader, wanted_rx, loaded).map_err(no_thread)?;
    let scrub = start_scrub(config, &store, metrics.clone())?;
    let (maintenance, caught_up) = maintenance(config, clock, store.newest_ms(), &deliveries);
    let access = AccessEdge::new(operators.clone(), Store::reader(&store).map_err(Failure::Store)?);
    let of_runs = (!config.no_runs).then(|| (port_of_runs(to_writer.clone()), store.newest_of_runs_ms()));
    let (traces, flush) = security::start_traces(config)?.unzip();
    let counted = (metrics.clone(), traces.clone());
    let writer = writer::spawn(store, asked, stored, scribe, maintenance, counted).map_err(no_thread)?;
    let start = EngineStart {
        config: engine_config,
        clock,
        access: security.rules.changes(),
        recovered,
        inbox,
        stored: stored_rx,
        loaded: loaded_rx,
        effects: EffectRunner::new(to_writer, wanted, sinks, drained, metrics.clone()),
        journal,
    };
    let engine_thread = engine_loop::spawn(start).map_err(no_thread)?;
    let exported = traces.iter().map(Traces::export).chain(logs).collect();
    figures::serve(figures, &engine, config, exported, &security, &deliveries).map_err(no_thread)?;
    let mut edge = Edge::new(
        engine,
        readers.clone(),
        events,
        greeting,
        config.max_concurrent_steps,
        config.queue_allowance_ms,
        access,
        closing_rx.clone(),
    );
    edge.metrics = metrics.clone();
    let (feed, callers) = (deliveries.mark_of_runs(), runtimes.caller_threads());
    let (small, rules) = (callers.small.clone(), security.rules());
    let start_runs = |store| Runs::start(config, store, (feed, caught_up), &edge, &small, rules, traces);
    let runs = of_runs.map(start_runs).transpose()?;
    let entrance = security.open(connections_max, callers, &operators, metrics.as_ref())?;
    let handle = runs.as_ref().map(|runs| runs.handle.clone());
    runtimes.deliver(deliveries, readers, handle.clone(), closing_rx);
    let serving = serve(config, listener, edge, handle, drained_rx, closing, entrance);
    let ended = runtimes.edge.block_on(serving);
    // Calls that are still open hold readers and links; they end with the runtime.
    runtimes.shut_down();
    // The writer ends once nobody can tell it anything any more.
    drop((scrub, operators));
    join_all(runs, engine_thread, loader, writer, flush);
    ended
}

/// The removal of what is not kept, and the mark by which it waits for runs.
fn maintenance(
    config: &Config,
    clock: Clock,
    newest_ms: Option<i64>,
    deliveries: &Deliveries,
) -> (Maintenance, CaughtUp) {
    // Without runs nothing reads the results of before the start.
    let caught_up = match config.no_runs {
        true => CaughtUp::already(),
        false => CaughtUp::default(),
    };
    let maintenance = Maintenance::new(config.removal(), clock, newest_ms, deliveries.mark());
    (maintenance.once(caught_up.clone()), caught_up)
}

/// What records the acts of operators, by the thread that writes the store.
fn operators(to_writer: std_mpsc::Sender<ToWriter>) -> Operators {
    Operators::new(move |recording| to_writer.send(ToWriter::Record(recording)).is_ok())
}

/// Returns the way of the thread of runs to the thread that writes the store.
fn port_of_runs(to_writer: std_mpsc::Sender<ToWriter>) -> StorePort {
    StorePort::new(move |request| to_writer.send(ToWriter::Runs(request)).is_ok())
}

/// Waits for the threads. Each ends once nobody can tell it anything any more.
fn join_all(
    runs: Option<Runs>,
    engine: JoinHandle<()>,
    loader: JoinHandle<()>,
    writer: JoinHandle<Embedded>,
    flush: Option<Flush>,
) {
    // Before the writer, which writes for them.
    runs.into_iter().for_each(Runs::join);
    join("engine", engine);
    join("loader", loader);
    let store = join("writer", writer);
    if let Some(flush) = flush {
        flush.wait();
    }
    // Closed last, when no reader is left: then they leave nothing for the next start to copy.
    drop(store);
    info!("stopped");
}

/// Begins to log. Returns what exports the log, if anything does.
fn start_logging(config: &Config) -> Result<Option<Export>, Failure> {
    let started = config.traces.otlp.log(SERVICE_NAME, env!("CARGO_PKG_VERSION"));
    let (logs, exported) = started.map_err(|fault| security::cannot_export(config, fault))?;
    config.logging.init_with(exported).map_err(|error| match error {
        InitError::NoThread(source) => Failure::System {
            what: "thread for the log",
            source,
        },
        error => Failure::Configuration {
            setting: config.given.naming_variable("--log"),
            problem: format!("is refused: {error}"),
        },
    })?;
    config.given.warn_of_unknown();
    Ok(logs)
}

fn unsettled(config: &Config, reader: &dyn Reader) -> Result<Unsettled, Failure> {
    let in_memory_max = config.max_queued_in_memory as usize;
    recovery::unsettled(reader, config.accept_loss, in_memory_max).map_err(|fault| match fault {
        RecoveryFault::Store(fault) => Failure::Store(fault),
        RecoveryFault::Unrecoverable { number, source } => Failure::Unrecoverable { number, source },
    })
}

fn log_start(config: &Config, boot_id: BootId, recovered: &Unsettled) {
    info!(
        version = env!("CARGO_PKG_VERSION"),
        %boot_id,
        store_path = %std::path::absolute(&config.store_path).unwrap_or_default().display(),
        unsettled = recovered.len(),
        settings = %config.given,
        "starting"
    );
    for interrupted in recovered.interrupted() {
        info!(execution_id = %interrupted, "execution was interrupted by a restart or a restore; it is settled as failed");
    }
}

async fn serve(
    config: &Config,
    listener: TcpListener,
    mut edge: Edge,
    runs: Option<RunsHandle>,
    drained: watch::Receiver<Option<usize>>,
    closing: watch::Sender<bool>,
    entrance: Entrance,
) -> Result<(), Failure> {
    let Entrance { connections, reloads } = entrance;
    edge.access = edge.access.with_looks(reloads.clone());
    let stop = stop_signal(reloads);
    let address = listener.local_addr().map_err(|source| Failure::Listen {
        address: config.listen,
        source,
    })?;
    let setup = runs
        .clone()
        .map(|handle| RunsSetup::new(handle, config, edge.answers.clone()));
    if let Some(RunsSetup { triggers, .. }) = &setup {
        tokio::spawn(triggers.clone().serve());
        if let Some(address) = config.webhook_listen {
            let listener = listen(address).await?;
            let address = listener.local_addr().unwrap_or(address);
            let proxies = config.webhook_trusted_proxy.clone();
            let closing = edge.closing.clone();
            tokio::spawn(webhooks::serve(listener, triggers.clone(), proxies, closing));
            info!(%address, "webhooks served");
        }
    }
    let (routes, health) = services::build(&edge, setup).await;
    let accepting = Arc::clone(&connections);
    let accept_closing = edge.closing.clone();
    let accept = tokio::spawn(async move { accepting.accept(listener, routes, accept_closing).await });
    // The one line on stdout, for the program that started this one. An address needs no escapes.
    escapement_process::announce(&format!(r#"{{"event":"serving","address":"{address}"}}"#));
    info!(%address, "serving");
    edge.metrics.iter().for_each(|metrics| metrics.set_ready(true));
    service::ready();
    let engine = edge.engine.clone();
    let lives = move || {
        let engine = engine.clone();
        async move { figures::turns(&engine).await }
    };
    tokio::spawn(service::feed_watchdog(lives));
    stop.await;
    service::stopping();
    let serving = Serving {
        engine: edge.engine,
        runs,
        health,
        metrics: edge.metrics,
        drained,
        closing,
        connections,
        accept,
    };
    drain::drain(serving, config.drain_grace_ms).await
}

/// What asks for the end. A hangup does only where there is nothing to read again.
fn stop_signal(reloads: Option<Looks>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    match reloads {
        None => Box::pin(escapement_process::stop_signal()),
        Some(reloads) => {
            tokio::spawn(escapement_process::signal::hangups(move || reloads.hangup()));
            Box::pin(escapement_process::signal::stop_signal_but_hangup())
        }
    }
}

fn start_journal(config: &Config, boot_id: BootId, clock: Clock) -> Result<SessionJournal, Failure> {
    let started = SessionJournal::start(config.session_journal.as_deref(), boot_id, clock.now());
    started.map_err(|fault| cannot_start("--session-journal", fault))
}

/// Returns the reason why a file that a flag names is not appended to.
fn cannot_start(setting: &'static str, fault: CannotStart) -> Failure {
    match fault {
        CannotStart::Append { path, source } => Failure::Append {
            setting,
            path,
            source,
        },
        CannotStart::Thread(source) => no_thread(source),
    }
}

/// Call it inside of the edge's runtime.
fn start_sinks(config: &Config, security: &Security, edge: &Runtime) -> Result<(Sinks, Deliveries), Failure> {
    let _entered = edge.enter();
    let error_handler = config.error_handler_path.as_deref();
    let sinks = Sinks::start(&config.events, error_handler);
    let sinks = sinks.map_err(|fault| cannot_start("--error-handler-path", fault))?;
    let (file, events) = (security.sinks.clone(), sinks.subscribers());
    let deliveries = Deliveries::open(file, &config.store_path, &config.events, &events);
    Ok((sinks, deliveries))
}

/// The runtimes of the process.
struct Runtimes {
    edge: Runtime,
    callers: Runtime,
    large: Runtime,
    /// What serves sinks, which save how far they are before all else ends.
    delivering: Option<task::JoinHandle<()>>,
}

impl Runtimes {
    fn start() -> Result<Self, Failure> {
        Ok(Self {
            edge: start_runtime("edge", 0)?,
            callers: start_runtime("callers", 0)?,
            large: start_runtime("large", 5)?,
            delivering: None,
        })
    }

    fn caller_threads(&self) -> CallerThreads {
        CallerThreads {
            small: self.callers.handle().clone(),
            large: self.large.handle().clone(),
        }
    }

    fn deliver(
        &mut self,
        deliveries: Deliveries,
        readers: Readers,
        runs: Option<RunsHandle>,
        closing: watch::Receiver<bool>,
    ) {
        let serving = deliveries.serve(readers, runs, closing);
        self.delivering = Some(self.callers.spawn(serving));
    }

    fn shut_down(self) {
        if let Some(delivering) = self.delivering {
            let ended = async { timeout(drain::RUNTIME_END_TIMEOUT, delivering).await };
            let _not_in_time = self.edge.block_on(ended);
        }
        for runtime in [self.edge, self.callers, self.large] {
            runtime.shutdown_timeout(drain::RUNTIME_END_TIMEOUT);
        }
    }
}

/// One of the runtimes: for connections and workers, for callers, and with a lower priority for callers with large requests.
/// Each has half as many threads as there are processors, and one at least. More threads only hand work to each other.
fn start_runtime(threads: &str, niceness: i32) -> Result<Runtime, Failure> {
    let n_processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name(threads)
        .worker_threads((n_processors / THREADS_SHARE).max(1))
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .thread_keep_alive(BLOCKING_THREADS_KEPT)
        .on_thread_start(move || drop(priority::yield_to_others(niceness)))
        .enable_all()
        .build()
        .map_err(|source| Failure::System {
            what: "runtime",
            source,
        })?;
    // A worker has its thread before the first thread for what blocks is there, as a look at the threads expects.
    runtime
        .block_on(runtime.spawn(async {}))
        .expect("nothing in it panics");
    // With one there, what finds no other thread waits for it; without one it would panic.
    drop(runtime.spawn_blocking(|| ()));
    Ok(runtime)
}

async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address)
        .await
        .map_err(|source| Failure::Listen { address, source })
}

/// Random bytes that name one process lifetime, or that only it knows.
fn draw<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    let drawn = getrandom::fill(&mut bytes).map_err(|error| Failure::System {
        what: "randomness",
        source: std::io::Error::other(error.to_string()),
    });
    drawn.map(|()| bytes)
}

fn greeting(config: &Config, engine: &EngineConfig) -> WelcomeDefaults {
    WelcomeDefaults {
        boot_id: engine.boot_id,
        heartbeat_interval_ms: engine.heartbeat_interval_ms,
        lease_ms: engine.lease_ms,
        peers: config.peers.as_slice().into(),
        traces: config.traces.sampling(),
    }
}

/// A thread that panics ends the process, so what comes here is always a result.
fn join<T>(thread: &'static str, handle: JoinHandle<T>) -> Option<T> {
    handle
        .join()
        .inspect_err(|_| tracing::error!(thread, "thread ended with a panic"))
        .ok()
}

/// Each runtime has a thread for so many processors.
const THREADS_SHARE: usize = 2;
