//! The program `worker`. Reads the configuration, runs the worker, and says how it ended;
//! everything else is the library's.

#![warn(clippy::too_many_lines)]

use escapement_otlp::Export;
use escapement_process::probe::Probe;
use escapement_sdk::{SessionEvent, Worker, WorkerBuilder, WorkerError};
use escapement_worker::config::{self, Config};
use escapement_worker::exports::{self, SERVICE_NAME};
use escapement_worker::figures::Figures;
use escapement_worker::options::{Options, Other};
use escapement_worker::sandbox::Root;
use escapement_worker::{actions, eval};
use serde_json::json;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tracing::{error, info, warn};

fn main() -> ExitCode {
    if let Some(code) = eval::child::exit_code_if_asked() {
        return code;
    }
    let code = run();
    escapement_process::end();
    code
}

fn run() -> ExitCode {
    let options = match Options::read(std::env::args_os()) {
        Ok(options) => options,
        Err(shown) => {
            if shown.use_stderr() {
                escapement_process::say(shown.to_string().trim_end());
                return ExitCode::from(EXIT_USAGE);
            }
            // Help or version; a closed stdout loses it, and nothing else.
            let _closed = shown.print();
            return ExitCode::SUCCESS;
        }
    };
    if let Some(Other::Health(probe)) = &options.command {
        return healthy(probe);
    }
    let (exports, exported) = match exports::start(&options) {
        Ok(started) => started,
        Err(fault) => return usage(&options.given.naming_variable(&fault)),
    };
    if let Err(fault) = options.logging.init_with(exported) {
        return usage(
            &options
                .given
                .naming_variable(&format!("--log is refused: {fault}")),
        );
    }
    options.given.warn_of_unknown();
    for exposed in config::exposed(&options) {
        warn!(flag = exposed.flag, path = %exposed.path.display(), how = exposed.how, "a file is open to other users of this machine");
    }
    let config = match std::env::current_exe() {
        Ok(evaluator) => Config::from_options(&options, evaluator),
        Err(fault) => {
            error!(%fault, "the path of this program is not known");
            return ExitCode::FAILURE;
        }
    };
    let config = match config {
        Ok(config) => Arc::new(config),
        Err(fault) => return usage(&options.given.naming_variable(&fault.to_string())),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(fault) => {
            error!(%fault, "the runtime does not start");
            return ExitCode::FAILURE;
        }
    };
    let figures = match served_figures(&options, &config, exports) {
        Ok(figures) => figures,
        Err(fault) => return usage(&options.given.naming_variable(&fault)),
    };
    let worker = builder(&options, &config, figures.clone()).build();
    info!(
        version = env!("CARGO_PKG_VERSION"),
        orchestrator = options.orchestrator,
        actions = ?config.actions,
        settings = %options.given,
        "starting"
    );
    let ended = worker.and_then(|worker| {
        figures.iter().for_each(|figures| figures.watch(worker.handle()));
        runtime.block_on(worker.run())
    });
    // A file operation that hangs must not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    exit_code(ended)
}

/// Whether a worker on this machine has a session.
fn healthy(probe: &Probe) -> ExitCode {
    match probe.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(not_ready) => {
            escapement_process::say(&format!("the worker at {not_ready}"));
            ExitCode::FAILURE
        }
    }
}

/// Figures that are served or pushed; `None` if neither is wanted.
fn served_figures(
    options: &Options,
    config: &Config,
    exports: Vec<Export>,
) -> Result<Option<Figures>, String> {
    let push = options.otlp.push(SERVICE_NAME, env!("CARGO_PKG_VERSION"));
    let push = push.map_err(|fault| fault.to_string())?;
    let address = options.metrics_listen;
    if address.is_none() && push.is_none() {
        return Ok(None);
    }
    let figures = Figures::new(config.actions.iter().copied(), options.max_in_flight, exports);
    let served = figures.serve(address, push);
    served.map_err(|fault| match address {
        Some(address) => format!("--metrics-listen {address} is not to be had: {fault}"),
        None => format!("no thread for metrics: {fault}"),
    })?;
    Ok(Some(figures))
}

fn builder(options: &Options, config: &Arc<Config>, figures: Option<Figures>) -> WorkerBuilder {
    let worker_id = options
        .worker_id
        .clone()
        .unwrap_or_else(escapement_sdk::host_name);
    let label = worker_id.clone();
    let of_sessions = figures.clone();
    let mut builder = Worker::builder(options.orchestrator.clone())
        .worker_id(worker_id)
        .max_in_flight(options.max_in_flight)
        .drain_grace(Duration::from_millis(options.drain_grace_ms))
        .build_info(concat!("escapement-worker/", env!("CARGO_PKG_VERSION")))
        .credentials(config.credentials.clone())
        .on_session(move |event| {
            announce(event, &label);
            of_sessions.iter().for_each(|figures| figures.session(event));
        });
    // So that an orchestrator can tell whether its workers see the same files.
    if let Some(id) = config.root.as_ref().and_then(Root::id) {
        builder = builder.label("root", id);
    }
    if let Some(figures) = figures {
        builder = builder.on_attempt(move |event| figures.attempt(event));
    }
    actions::add_to(builder, config)
}

/// Tells the program that started the worker that it is ready,
/// one line of JSON each time that a session is established.
fn announce(event: &SessionEvent, worker_id: &str) {
    if let SessionEvent::Connected { orchestrator, .. } = event {
        let line = json!({ "event": "connected", "orchestrator": orchestrator, "worker_id": worker_id });
        escapement_process::announce(&line.to_string());
    }
}

fn exit_code(ended: Result<(), WorkerError>) -> ExitCode {
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault @ WorkerError::InvalidConfiguration(_)) => usage(&fault.to_string()),
        Err(fault @ WorkerError::DrainIncomplete { .. }) => {
            error!(%fault, "stopped");
            ExitCode::from(EXIT_INCOMPLETE)
        }
        Err(fault) => {
            error!(%fault, "stopped");
            ExitCode::FAILURE
        }
    }
}

fn usage(fault: &str) -> ExitCode {
    escapement_process::say(&format!("worker: {fault}"));
    ExitCode::from(EXIT_USAGE)
}

/// The code of `sysexits.h` for a wrong command line.
const EXIT_USAGE: u8 = 64;
/// Its code for a temporary failure.
const EXIT_INCOMPLETE: u8 = 75;
