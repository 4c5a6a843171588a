//! The binary `orchestrator`: reads its configuration and runs. Does nothing else.

use escapement_orchestrator::Config;
use std::process::ExitCode;

fn main() -> ExitCode {
    let config = match Config::from_arguments() {
        Ok(config) => config,
        Err(no_config) => return no_config.report(),
    };
    // Open the store, recover, start the engine, serve, drain: see `run`.
    match escapement_orchestrator::run(&config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
