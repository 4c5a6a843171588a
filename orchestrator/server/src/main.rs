//! The binary `orchestrator`: reads its configuration and runs. Does nothing else.

use escapement_orchestrator::Config;
use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(debug_assertions)]
    plant_what_the_test_wants();
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

/// Test builds only: the fault that the suites are to catch.
#[cfg(debug_assertions)]
fn plant_what_the_test_wants() {
    use escapement_model::planted::{Bug, VARIABLE, plant};
    if let Some(bug) = std::env::var(VARIABLE)
        .ok()
        .and_then(|name| Bug::from_name(&name))
    {
        plant(bug);
    }
}
